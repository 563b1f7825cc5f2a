"""Repairs: automatic observations of some arms in a span, taken back; as rows, and as the lines of an export.

Each row of ``retraction`` names one observation, with the outcome that the repair read. It is taken back while the
run has this outcome for the arm. So a later import of the same run stays taken back, and another outcome counts.
Nothing is deleted. An undo lets all of them count again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from operator import itemgetter
from typing import Any, Final, NamedTuple

from core.errors import UnreadableSource
from core.records.arm import Arm
from core.records.corrections import Repair
from core.records.evidence import OBSERVATION, OBSERVED, REFERENCED, RETRACTED
from core.records.ledger_lines import PlacedLine, RepairLine
from core.store.caches import automatic, shifting
from core.store.compacted import compacted_runs, refuse_compacted_span
from core.store.engine.dialect import ACTIVE, BY_ARM, PRESENT, RUNS_BY_UID
from core.store.provenance import fact_states
from core.store.reads import active_corrections
from core.store.transaction import Byline, Facts, Snapshot, Transaction
from core.store.version import mark_retracted

_NONE: Final = "-"
_COLUMNS: Final = ("run_no", "arm_no", "observation_no", "repair_no", "referenced")
_IN_SPAN: Final = (  # runs first, then the arms in each: the order of the tables says so
    "SELECT r.run_no, o.arm_no, o.flags, r.revision FROM run r CROSS JOIN outcome o"
    " WHERE r.learner_id = ? AND r.at_ms >= ?"
    f" AND r.at_ms < ? AND r.revision <= ? AND r.{ACTIVE} AND r.outcome = 'observed'"
    " AND o.learner_id = r.learner_id AND o.run_no = r.run_no"
    f" AND o.flags & {OBSERVATION} <> 0 AND o.arm_no IN ({{}})"
)
_REPORTS: Final = (
    "SELECT b.observation_no, b.run_no, b.arm_no, b.success_micro, b.failure_micro, b.pulls,"
    f" coalesce(r.revision, b.revision) FROM observation b {BY_ARM} LEFT JOIN run r"
    " ON r.learner_id = b.learner_id AND r.run_no = b.run_no AND b.run_no <> 0"
    " WHERE b.learner_id = ? AND b.at_ms >= ? AND b.at_ms < ? AND b.arm_no IN ({})"
    f" AND b.kind = 'reported' AND b.undone = 0 AND b.{ACTIVE} AND (r.run_no IS NULL OR r.{ACTIVE})"
)

_CHANGED: Final = (
    "SELECT t.repair_no, count(*) FROM retraction t"
    " JOIN repair p ON p.learner_id = t.learner_id AND p.repair_no = t.repair_no"
    " JOIN run r ON r.learner_id = t.learner_id AND r.run_no = t.run_no"
    " JOIN outcome o ON o.learner_id = t.learner_id AND o.run_no = t.run_no AND o.arm_no = t.arm_no"
    f" WHERE t.learner_id = ? AND t.observation_no = 0 AND p.undone = 0 AND p.{ACTIVE} AND r.{ACTIVE}"
    f" AND o.flags & {OBSERVATION} <> 0 AND t.referenced <> (o.flags & {REFERENCED}) / {REFERENCED}"
    " GROUP BY t.repair_no"
)

_NAMED: Final = (
    "SELECT a.key, t.referenced, r.uid, r.revision, b.uid, b.revision, t.observation_no FROM retraction t"
    " JOIN arm a ON a.learner_id = t.learner_id AND a.arm_no = t.arm_no"
    f" LEFT JOIN run r ON r.learner_id = t.learner_id AND r.run_no = t.run_no AND t.run_no <> 0 AND r.{PRESENT}"
    " LEFT JOIN observation b ON b.learner_id = t.learner_id AND b.observation_no = t.observation_no"
    " AND t.observation_no <> 0 WHERE t.learner_id = ? AND t.repair_no = ?"
)


class AutomaticObservation(NamedTuple):
    """An automatic observation that a repair can take back: ``observation_no`` 0 = the run's own.

    ``revision`` decides its epoch. ``counts`` is False where another repair takes it back already, or a correction
    replaced it.
    """

    run_no: int
    arm_no: int
    observation_no: int
    success_micro: int
    failure_micro: int
    pulls: int
    revision: int
    counts: bool


class ObservedSpan(NamedTuple):
    """The automatic observations of some arms in a span, and the number of them that people corrected."""

    observed: tuple[AutomaticObservation, ...]
    n_corrected: int

    @property
    def counted(self) -> list[AutomaticObservation]:
        """Return the observations that count."""
        return [one for one in self.observed if one.counts]


def observed_in(facts: Facts, arm_nos: Sequence[int], since_ms: int, until_ms: int) -> ObservedSpan:
    """Return what runs and agents observed of arms from a time until before another.

    Raises `NotApplicable` where compacted runs observed some of it.
    """
    refuse_compacted_span(facts, {*arm_nos}, since_ms, until_ms)
    outcomes = facts.connection.rows_in(
        _IN_SPAN, [facts.learner_id, since_ms, until_ms, facts.revision], sorted(arm_nos)
    )
    reports = facts.connection.rows_in(_REPORTS, [facts.learner_id, since_ms, until_ms], sorted(arm_nos))
    corrected = active_corrections(facts, {number for number, *_ in outcomes})
    observed = [_outcome(*row, is_corrected=row[:2] in corrected) for row in sorted(outcomes)]
    observed += [
        AutomaticObservation._make((run_no, arm_no, number, *amounts, True))
        for number, run_no, arm_no, *amounts in sorted(reports)
    ]
    return ObservedSpan(tuple(observed), sum(row[:2] in corrected for row in outcomes))


def _outcome(
    run_no: int, arm_no: int, flags: int, revision: int, *, is_corrected: bool
) -> AutomaticObservation:
    counts = flags & OBSERVED != 0 and not is_corrected
    return AutomaticObservation._make((run_no, arm_no, 0, *automatic(flags), 1, revision, counts))


def add_repair(
    txn: Transaction,
    observed: Sequence[AutomaticObservation],
    byline: Byline,
    *,
    since_ms: int,
    until_ms: int,
    n_arms: int,
    n_observations: int,
    reason: str,
) -> int:
    """Take back these observations; return the repair's number. Posteriors follow in the same transaction."""
    number = txn.append_fact(
        "repair",
        byline,
        since_ms=since_ms,
        until_ms=until_ms,
        reason=reason,
        n_arms=n_arms,
        n_observations=n_observations,
    )
    rows = [
        (one.run_no, one.arm_no, one.observation_no, number, int(one.success_micro > 0)) for one in observed
    ]
    with _settling(txn, [(one.run_no, one.observation_no) for one in observed]):
        txn.connection.insert("retraction", _COLUMNS, txn.learner_id, chain.from_iterable(rows))
    return number


@contextmanager
def moving_repair(txn: Transaction, number: int, since: int) -> Iterator[None]:  # noqa: ARG001 - in any epoch
    """Update the caches around a change of a repair's state."""
    rows = txn.rows(
        "SELECT run_no, observation_no FROM retraction WHERE learner_id = ? AND repair_no = ?", [number]
    )
    with _settling(txn, rows):
        yield


@contextmanager
def _settling(txn: Transaction, about: Sequence[Sequence[int]]) -> Iterator[None]:
    """Mark what active repairs take back of runs and reports, by number, after the block; 0 = none."""
    run_nos = sorted({run_no for run_no, _ in about if run_no})
    reports = sorted(observation_no for _, observation_no in about if observation_no)
    with shifting(txn, run_nos, reports):
        yield
        mark_retracted(txn, run_nos)
        own = txn.rows_in(
            "SELECT observation_no, import_no, revision FROM observation"
            " WHERE learner_id = ? AND observation_no IN ({})",
            reports,
        )
        states = fact_states(txn, "observation", {number: (of, since) for number, of, since in own})
        rows = [(int(is_active), txn.learner_id, number) for number, (is_active, _) in states.items()]
        txn.connection.amend("observation", {"standing": "?"}, ("observation_no",), rows)


# Reading


def repairs(snapshot: Snapshot) -> tuple[Repair, ...]:
    """Return all repairs, newest first."""
    arms: dict[int, list[str]] = defaultdict(list)
    for number, key in snapshot.rows(
        "SELECT DISTINCT t.repair_no, a.key FROM retraction t"
        " JOIN arm a ON a.learner_id = t.learner_id AND a.arm_no = t.arm_no WHERE t.learner_id = ?"
        " ORDER BY a.key"
    ):
        arms[number].append(key)
    changed = changed_outcomes(snapshot)
    return tuple(
        Repair(
            id=f"repair-{number}",
            since_ms=since_ms,
            until_ms=until_ms,
            at_ms=at_ms,
            actor=actor,
            reason=(reason or None) if snapshot.shows_words else None,
            arms=tuple(arms[number]),
            n_observations=n_observations,
            n_changed=changed.get(number, 0),
            undone=bool(undone) or not is_active,
        )
        for number, since_ms, until_ms, at_ms, actor, reason, n_observations, undone, is_active in (
            snapshot.rows(
                f"SELECT repair_no, since_ms, until_ms, at_ms, actor, reason, n_observations, undone, {ACTIVE}"
                " FROM repair WHERE learner_id = ? ORDER BY repair_no DESC"
            )
        )
    )


def changed_outcomes(facts: Facts) -> dict[int, int]:
    """Return how many observations of each active repair count again, as their run has another outcome now."""
    return dict(facts.rows(_CHANGED))


def retracted_arms(facts: Facts) -> dict[str, frozenset[str]]:
    """Return the arms of each active run, by its uid, of which repairs take back what the run observed."""
    arms: dict[str, set[str]] = defaultdict(set)
    for run, key in facts.rows(
        "SELECT r.uid, a.key FROM retraction t"
        " JOIN run r ON r.learner_id = t.learner_id AND r.run_no = t.run_no"
        " JOIN outcome o ON o.learner_id = t.learner_id AND o.run_no = t.run_no AND o.arm_no = t.arm_no"
        " JOIN arm a ON a.learner_id = t.learner_id AND a.arm_no = t.arm_no"
        f" WHERE t.learner_id = ? AND r.{ACTIVE} AND o.flags & {RETRACTED} <> 0"
    ):
        arms[run].add(key)
    return {run: frozenset(keys) for run, keys in arms.items()}


# Lines


def repair_lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Return active and undone repairs as lines, never before the runs and reports that they name."""
    reason = "nullif(t.reason, '')"
    acts = snapshot.acts("repair", "since_ms", "until_ms", observations="t.n_observations", reason=reason)
    yield from sorted((_placed(snapshot, number, one) for number, one in acts), key=itemgetter(0))


def _placed(snapshot: Snapshot, number: int, members: Mapping[str, Any]) -> tuple[int, RepairLine]:
    named = snapshot.rows(_NAMED, [number])
    arms = sorted({key for key, *_ in named})
    runs: dict[str, list[str]] = defaultdict(lambda: [_NONE] * len(arms))
    reports, latest = [], members["revision"]
    for key, referenced, run, run_revision, report, report_revision, report_no in named:
        if report_no:
            reports.append(report or f"{snapshot.origin}/reward-{report_no}")
            latest = max(latest, report_revision)
        elif run is not None:
            runs[run][arms.index(key)] = str(referenced)
            latest = max(latest, run_revision)
    line = RepairLine(
        arms=tuple(arms),
        outcomes={run: "".join(marks) for run, marks in sorted(runs.items())},
        reports=tuple(sorted(reports)),
        **members,
    )
    return latest, line


def read_repair(txn: Transaction, line: RepairLine, import_no: int) -> int:
    """Take back the observations of an imported line that are here; return its number."""
    numbers = txn.ensure_arms([Arm(key=key) for key in line.arms])
    runs: dict[str, int] = dict(
        txn.rows_in(
            f"SELECT uid, run_no FROM run {RUNS_BY_UID} WHERE learner_id = ? AND uid IN ({{}})",
            sorted(line.outcomes),
        )
    )
    if gone := compacted_runs(txn, line.outcomes.keys() - runs.keys()):
        raise UnreadableSource(
            f"Repair {line.id[:60]!r} names run {min(gone)[:60]!r}, which compact has deleted here.",
            next_step="Repair the source before its runs are compacted.",
        )
    observed = [
        AutomaticObservation._make(
            (runs[run], numbers[key], 0, *automatic(REFERENCED * int(mark)), 1, 0, True)
        )
        for run, marks in line.outcomes.items()
        if run in runs
        for key, mark in zip(line.arms, marks, strict=True)
        if mark != _NONE
    ]
    reports = txn.rows_in(
        "SELECT run_no, arm_no, observation_no, success_micro, failure_micro, pulls, revision FROM observation"
        " WHERE learner_id = ? AND uid <> '' AND kind = 'reported' AND uid IN ({})",
        sorted(line.reports),
    )
    return add_repair(
        txn,
        [*observed, *(AutomaticObservation._make((*row, True)) for row in reports)],
        txn.imported(line, import_no),
        since_ms=line.since_ms,
        until_ms=line.until_ms,
        n_arms=len(line.arms),
        n_observations=line.observations,
        reason=line.reason or "",
    )
