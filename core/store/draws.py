"""Draws replayed: from the seed of a selection, and from beliefs that are rebuilt from the facts.

A draw is the same only with the same NumPy and the same beliefs. A selection names the version and a digest of its
beliefs. The beliefs are the fold of the facts up to its revision. Where an undo or an import has changed an earlier
fact since, that fold differs, and the draw is not replayed. Compacted runs count from the latest revision of their
compaction on, so a draw from some of them is not replayed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

import msgspec
import numpy as np

from core.maths.packing import belief_digest, coin_and_draws
from core.records.evidence import INCLUDED, OBSERVATION
from core.records.verification import Difference
from core.store.caches import CHUNK, automatic
from core.store.compacted import compacted_observations
from core.store.engine.dialect import ACTIVE
from core.store.reads import numbered_runs, taken_back
from core.store.transaction import Snapshot, base_of
from core.store.version import Choice

_CHOICE: Final = msgspec.json.Decoder(Choice)
_MOST_EVENTS: Final = 5_000_000
"""Observations that are kept in memory; a learner with more has its draws not replayed."""


@dataclass
class Draws:
    """Numbers of selections whose draw was replayed, and of those whose draw could not be."""

    replayed: int = 0
    not_replayed: int = 0


class _Chosen(NamedTuple):
    run_no: int
    run_class: str
    choice: Choice


class _Sums(NamedTuple):
    """Sums of an arm's epoch: revisions, and successes and failures up to each."""

    revisions: Sequence[int]
    success: Sequence[int]
    failure: Sequence[int]

    def until(self, revision: int) -> tuple[int, int]:
        at = bisect_right(self.revisions, revision)
        return (self.success[at - 1], self.failure[at - 1]) if at else (0, 0)


def unlike_draws(snapshot: Snapshot, counts: Draws) -> Iterator[Difference]:
    """Check that coins and draws of selections are those of their seeds; ``counts`` gets how many were replayed."""
    beliefs: _Beliefs | None = None
    for run_nos in numbered_runs(snapshot, CHUNK):
        rows = snapshot.connection.rows_in(
            "SELECT run_no, class, choice FROM run WHERE learner_id = ? AND revision <= ? AND choice IS NOT NULL"
            " AND class IN ('baseline', 'selected') AND run_no IN ({}) ORDER BY run_no",
            [snapshot.learner_id, snapshot.revision],
            run_nos,
        )
        chosen = [_Chosen(run_no, run_class, _CHOICE.decode(choice)) for run_no, run_class, choice in rows]
        counts.not_replayed += len(chosen)
        ours = [one for one in chosen if one.choice.numpy == np.__version__]
        usual = [one for one in ours if one.choice.later is msgspec.UNSET]
        if not usual:
            continue
        beliefs = beliefs or _Beliefs(snapshot)
        decisions = _decisions(snapshot, [one.run_no for one in usual])
        for one in usual:
            drawn = decisions.get(one.run_no, {})
            alpha, beta = beliefs.of(sorted(drawn), one.choice.revision)
            if belief_digest(sorted(drawn), alpha, beta) != one.choice.beliefs:
                continue
            counts.replayed += 1
            counts.not_replayed -= 1
            yield from _unlike(one, drawn, *([part / 1e6 for part in parts] for parts in (alpha, beta)))


def _decisions(snapshot: Snapshot, run_nos: Sequence[int]) -> dict[int, dict[str, float | None]]:
    found: dict[int, dict[str, float | None]] = defaultdict(dict)
    for run_no, key, draw in snapshot.rows_in(
        "SELECT d.run_no, a.key, d.draw FROM decision d"
        " JOIN arm a ON a.learner_id = d.learner_id AND a.arm_no = d.arm_no"
        " WHERE d.learner_id = ? AND d.run_no IN ({})",
        run_nos,
    ):
        found[run_no][key] = draw
    return found


def _unlike(
    one: _Chosen, drawn: Mapping[str, float | None], alpha: Sequence[float], beta: Sequence[float]
) -> Iterator[Difference]:
    """Yield a coin or draws other than those of the seed."""
    is_baseline, draws = coin_and_draws(
        int(one.choice.seed), one.choice.baseline_prob, np.array(alpha), np.array(beta)
    )
    run_class = "baseline" if is_baseline else "selected"
    if run_class != one.run_class:
        yield Difference("run", str(one.run_no), f"class {one.run_class}", f"class {run_class}, by its seed")
        return
    expected = [None] * len(drawn) if is_baseline else draws.tolist()
    for key, again in zip(sorted(drawn), expected, strict=True):
        if drawn[key] != again:
            yield Difference("decision", f"run {one.run_no}, {key}", f"draw {drawn[key]}", f"draw {again}")


class _Beliefs:
    """The beliefs of a learner at any revision, as its facts of today say."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._settings = snapshot.settings
        self._epochs = snapshot.epochs
        self._arms: dict[str, tuple[int, int | None, int | None]] = {
            key: (arm_no, alpha, beta)
            for arm_no, key, alpha, beta in snapshot.rows(
                "SELECT arm_no, key, prior_alpha_micro, prior_beta_micro FROM arm WHERE learner_id = ?"
            )
        }
        self._epochs.load(arm_no for arm_no, _, _ in self._arms.values())
        self._targets: dict[int, str] = dict(
            snapshot.rows("SELECT revision, target FROM reset WHERE learner_id = ?")
        )
        events: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
        self._is_whole = True
        for n_events, (arm_no, epoch, *event) in enumerate(self._events(snapshot)):
            events[arm_no, epoch].append((event[0], event[1], event[2]))
            if n_events > _MOST_EVENTS:
                self._is_whole = False
                break
        self._sums = {key: _summed(one) for key, one in events.items()} if self._is_whole else {}

    def of(self, keys: Sequence[str], revision: int) -> tuple[list[int], list[int]]:
        """Alpha and beta of arms after a revision, in millionths."""
        pairs = [self._of(key, revision) for key in keys]
        return [alpha for alpha, _ in pairs], [beta for _, beta in pairs]

    def _of(self, key: str, revision: int) -> tuple[int, int]:
        arm_no, alpha, beta = self._arms[key]
        epoch = self._epochs.of(arm_no, revision + 1)
        base = base_of(self._settings, key, alpha, beta, self._targets.get(epoch))
        sums = self._sums.get((arm_no, epoch))
        success, failure = sums.until(revision) if sums else (0, 0)
        return base.alpha_micro + success, base.beta_micro + failure

    def _events(self, snapshot: Snapshot) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield arm, epoch, revision, and the success and failure that were added then."""
        for run_nos in numbered_runs(snapshot, CHUNK):
            yield from self._of_runs(snapshot, run_nos)
        for arm_no, revision, success, failure in snapshot.each(
            "SELECT arm_no, revision, success_micro, failure_micro FROM observation WHERE learner_id = ?"
            f" AND run_no = 0 AND undone = 0 AND {ACTIVE}"
        ):
            yield arm_no, self._epochs.of(arm_no, revision), revision, success, failure
        for arm_no, segment, revision, success, failure in compacted_observations(snapshot):
            yield arm_no, self._epochs.of(arm_no, segment + 1), revision, success, failure

    def _of_runs(
        self, snapshot: Snapshot, run_nos: Sequence[int]
    ) -> Iterable[tuple[int, int, int, int, int]]:
        flags_of: dict[tuple[int, int], tuple[int, int]] = {}
        for run_no, revision, arm_no, flags in snapshot.connection.rows_in(
            "SELECT r.run_no, r.revision, o.arm_no, o.flags FROM run r"
            " JOIN outcome o ON o.learner_id = r.learner_id AND o.run_no = r.run_no"
            f" WHERE r.learner_id = ? AND r.revision <= ? AND r.{ACTIVE} AND o.flags & {INCLUDED} <> 0"
            " AND r.run_no IN ({})",
            [snapshot.learner_id, snapshot.revision],
            run_nos,
        ):
            flags_of[run_no, arm_no] = revision, flags
            if flags & OBSERVATION:
                yield arm_no, self._epochs.of(arm_no, revision), revision, *automatic(flags)
        retracted = {at: revision for at, (_, revision) in taken_back(snapshot, run_nos).items()}
        corrected: dict[tuple[int, int], tuple[int, int]] = {}
        for run_no, arm_no, kind, success, failure, revision in snapshot.rows_in(
            "SELECT run_no, arm_no, kind, success_micro, failure_micro, revision FROM observation"
            f" WHERE learner_id = ? AND undone = 0 AND {ACTIVE} AND run_no <> 0 AND run_no IN ({{}})"
            " ORDER BY observation_no",
            run_nos,
        ):
            of_run, flags = flags_of.get((run_no, arm_no), (0, 0))
            if not flags or (kind == "correction" and not flags & OBSERVATION):
                continue
            before = (0, 0)
            if kind == "correction":
                if (
                    retracted.get((run_no, arm_no), revision) >= revision
                ):  # a repair after it takes back nothing
                    retracted.pop((run_no, arm_no), None)
                    before = automatic(flags)
                before = corrected.get((run_no, arm_no), before)
                corrected[run_no, arm_no] = success, failure
            epoch = self._epochs.of(arm_no, of_run)
            yield arm_no, epoch, max(revision, of_run), success - before[0], failure - before[1]
        for (run_no, arm_no), revision in retracted.items():
            of_run, flags = flags_of[run_no, arm_no]
            success, failure = automatic(flags)
            epoch = self._epochs.of(arm_no, of_run)
            yield arm_no, epoch, max(revision, of_run), -success, -failure


def _summed(events: list[tuple[int, int, int]]) -> _Sums:
    events.sort()
    return _Sums(
        [revision for revision, _, _ in events],
        list(accumulate(success for _, success, _ in events)),
        list(accumulate(failure for _, _, failure in events)),
    )
