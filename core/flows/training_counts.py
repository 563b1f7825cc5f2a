"""Counting: pairs and what was judged of them → the rows of a training file, and all that its manifest counts.

Numbers of rows are kept in arrays, a few bytes a row; of texts nothing is kept.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np

from core.columns import Floats, Ints
from core.evaluate import grader_kind, known_grade
from core.formats.kairos import Reward, TrainingRow
from core.records.evaluation import BLOCKERS, LABELS, Blocker, Grade, Thresholds
from core.records.javascript import rewritten
from core.records.training import (
    LeftOut,
    RatersAgree,
    RubricRows,
    Split,
    SuggestedWeight,
    Suspicion,
    TrainingQuery,
)
from core.secrecy import SecretKind, secrets_in_all
from core.statistics.agreement import Agreement, Metric, against_rest, agreement
from core.statistics.clusters import held_out
from core.store.evaluations import given_name
from core.store.reads.training import Told
from core.store.rubrics import rubric_of
from core.store.transaction import Snapshot

Kept = TrainingRow
TEST_SHARE: Final = 0.1
MOST_LISTED: Final = 1_000
MOST_RATERS: Final = 50
"""Raters who are told a weight: those who judged most."""
_NAMES_KNOWN: Final = 4_096
_LAYER_BITS: Final = 32
_WORDS: Final = {label: place for place, label in enumerate(LABELS)}
_REJECTED: Final = _WORDS["rejected"]
_FEWEST_SHARED: Final = 2
_BLOCKERS_OF: Final = attrgetter("sft_blockers", "preference_blockers")


class _Pick(NamedTuple):
    """The best of its group so far, without its texts."""

    stated: float
    row: Told


@dataclass
class _Group:
    """Of one instruction, or of one layer."""

    success: _Pick | None = None
    failure: _Pick | None = None


class Counting:
    """One export; what it has come to is `told` when all rows were read."""

    def __init__(self, query: TrainingQuery, thresholds: Thresholds, trusted: Collection[str] = ()) -> None:
        self._query = query
        self._thresholds = thresholds
        self._trusted = frozenset(trusted)
        self._n_evaluations = 0
        self._claimed: Counter[str] = Counter()
        self._n_rows = 0
        self._first_line = 2 if query.format == "reward_csv" else 1
        self._left_out: Counter[str] = Counter()
        self._blockers: Counter[tuple[tuple[Blocker, ...], tuple[Blocker, ...]]] = Counter()
        self._rubrics: Counter[str] = Counter()
        self._raters: dict[tuple[str, str], int] = {}
        self._pairs, self._who = array("q"), array("q")  # of each evaluation
        self._labels, self._scores = array("b"), array("d")
        self._sessions, self._digests = array("q"), array("q")  # of each row
        self._line_of_link = array("q")
        self._texts = array("q")
        self._used_pairs: set[int] = set()
        self._suspicions: list[Suspicion] = []
        self._n_suspicions = 0

    # Rows

    def rows(
        self, judged: Iterable[Sequence[Told]], accepts: Callable[[Grade], bool], *, once: bool = False
    ) -> Iterator[Kept]:
        """Rows that are kept, each of which becomes a line; ``once``: one for each pair."""
        for part in judged:
            yield from self._rows_of(self._eligible(part, accepts), once=once)

    def unjudged(self, pairs: Iterable[Sequence[Told]]) -> Iterator[Kept]:
        """Rows of pairs of which no evaluation was read."""
        for part in pairs:
            yield from self._rows_of(
                [
                    manifest_counts
                    for manifest_counts in part
                    if _pair(manifest_counts) not in self._used_pairs
                ]
            )

    def best(
        self, judged: Iterable[Sequence[Told]], with_texts: Callable[[Told], Told]
    ) -> Iterator[tuple[Kept, Kept]]:
        """Of each group with an eligible success and an eligible failure the best of both: each the one with the
        highest score that was given, of equals the first.
        """
        groups: dict[str, _Group] = {}
        for part in judged:
            eligible = self._eligible(part, attrgetter("exportable_for_preference"))
            for told, kinds in zip(eligible, self._secrets(eligible), strict=True):
                if self._is_row(told, kinds):
                    self._compare(groups.setdefault(self._group(told), _Group()), told)
        for group in groups.values():
            if group.success is None or group.failure is None:
                self._left_out["no_other"] += 1
                continue
            chosen, rejected = with_texts(group.success.row), with_texts(group.failure.row)
            if chosen.response == rejected.response:
                self._left_out["same_answer"] += 2
                continue
            pair = _training_row(chosen), _training_row(rejected)
            self._write_both(chosen, rejected, pair)
            yield pair

    def _group(self, told: Told) -> str:
        return told.digest if self._query.pairing == "prompt" else f"{told.layer}:{told.layer_index}"

    def _compare(self, group: _Group, told: Told) -> None:
        known = getattr(group, told.outcome)
        stated = told.score or 0.0
        if known is not None:
            self._left_out["not_best"] += 1
        if known is None or stated > known.stated:
            setattr(group, told.outcome, _Pick(stated, told._replace(instruction=None, response=None)))

    def _eligible(self, part: Sequence[Told], accepts: Callable[[Grade], bool]) -> list[Told]:
        """Those whose grade is wanted. What an evaluation says is counted, whether or not it becomes a row."""
        thresholds, who = self._thresholds, self._raters
        grades = [
            known_grade(told.outcome, told.score, told.rater, told.model, told.rubric, thresholds=thresholds)
            for told in part
        ]
        self._blockers.update(map(_BLOCKERS_OF, grades))
        self._rubrics.update([told.rubric for told in part])
        self._n_evaluations += len(part)
        self._claimed.update([told.claimed_by for told in part if told.claimed_by])
        words = [both for both in zip(part, grades, strict=True) if not both[0].claimed_by]
        self._pairs.extend([_pair(told) for told, _ in words])
        self._who.extend([who.setdefault((told.rater, told.model), len(who)) for told, _ in words])
        self._labels.extend([_WORDS[graded.label] for _, graded in words])
        self._scores.extend([graded.signed_score for _, graded in words])
        if self._query.format == "trace_jsonl":
            self._used_pairs.update(map(_pair, part))
        eligible = [told for told, graded in zip(part, grades, strict=True) if accepts(graded)]
        if len(eligible) < len(part):
            self._left_out["not_eligible"] += len(part) - len(eligible)
        proven = [told for told in eligible if not self._is_unproven(told)]
        if len(proven) < len(eligible):
            self._left_out["claimed"] += len(eligible) - len(proven)
        return proven

    def _is_unproven(self, told: Told) -> bool:
        """Whether who rated is only claimed, by a token that nobody trusts, and a model is to be tuned by it."""
        tunes = self._query.format in {"sft_jsonl", "preference_jsonl"}
        return tunes and bool(told.claimed_by) and told.claimed_by not in self._trusted

    def _rows_of(self, part: Sequence[Told], *, once: bool = False) -> list[Kept]:
        """Rows of those that can be one; what keeps the others from it is counted."""
        first, rows = self._n_rows, []
        for told, kinds in zip(part, self._secrets(part), strict=True):
            if self._is_row(told, kinds, once=once):
                self._n_rows += 1
                rows.append(told)
        self._sessions.extend([_name_of(_session(told)) for told in rows])
        self._digests.extend([_signed(told.digest) for told in rows])
        self._line_of_link.extend(range(first, self._n_rows))
        training_rows = list(map(_training_row, rows))
        self._texts.extend([hash((row.instruction, row.response)) for row in training_rows])
        return training_rows

    def _is_row(self, told: Told, kinds: tuple[SecretKind, ...], *, once: bool = False) -> bool:
        """Whether a pair may be a row; where it may not, that is counted."""
        reason = self._why_not(told, once=once)
        if reason is None and kinds:
            self._suspect(told, kinds)
            reason = None if self._query.with_secrets else "secret"
        if reason is not None:
            self._left_out[reason] += 1
            return False
        if once:
            self._used_pairs.add(_pair(told))
        return True

    def _why_not(self, told: Told, *, once: bool) -> str | None:
        if told.instruction is None or told.response is None:
            return "no_text"
        if once and _pair(told) in self._used_pairs:
            return "second_opinion"
        is_shaped = _is_object(told.instruction) and _is_object(told.response)
        return None if is_shaped else "other_shape"

    def _secrets(self, part: Sequence[Told]) -> list[tuple[SecretKind, ...]]:
        """What each row would seem to hold, in its texts and then in its feedback."""
        in_texts = secrets_in_all([f"{told.instruction}\n{told.response}" for told in part])
        if self._writes_feedback and any(told.feedback is not None for told in part):
            in_feedback = secrets_in_all([told.feedback or "" for told in part])
            return [
                tuple(dict.fromkeys(one + other)) for one, other in zip(in_texts, in_feedback, strict=True)
            ]
        return in_texts

    @property
    def _writes_feedback(self) -> bool:
        if self._query.format == "preference_jsonl":
            return False
        return self._query.include_reward or self._query.format in {"reward_jsonl", "reward_csv"}

    def _suspect(self, told: Told, kinds: tuple[str, ...]) -> None:
        self._n_suspicions += 1
        if len(self._suspicions) < MOST_LISTED:
            is_written = self._query.with_secrets and self._query.format != "preference_jsonl"
            line = self._n_rows + self._first_line if is_written else None
            self._suspicions.append(
                Suspicion(line=line, execution=told.execution, layer=told.layer, kinds=kinds)
            )

    def _write_both(self, chosen: Told, rejected: Told, pair: tuple[Kept, Kept]) -> None:
        self._link(chosen)
        self._link(rejected)
        self._link(chosen._replace(digest=rejected.digest))
        self._texts.append(hash((pair[0].instruction, pair[0].response, pair[1].response)))
        self._n_rows += 1

    def _link(self, told: Told) -> None:
        self._sessions.append(_name_of(_session(told)))
        self._digests.append(_signed(told.digest))
        self._line_of_link.append(self._n_rows)

    # What is said of them

    def told(self, snapshot: Snapshot) -> dict[str, Any]:
        """What the manifest says that is counted, by name."""
        item = np.unique(_column(self._pairs), return_inverse=True)[1].astype(np.int64)
        labels = np.frombuffer(self._labels, dtype=np.int8).astype(np.int64)
        opinions = _Opinions(item, _column(self._who), labels, np.frombuffer(self._scores)).latest(
            self._nobody()
        )
        return {
            "rows": self._n_rows,
            "evaluations": self._n_evaluations,
            "claimed": dict(self._claimed.most_common()),
            "left_out": LeftOut(**self._left_out, hidden=len(snapshot.hidden)),
            "sft_blockers": self._blocked(0),
            "preference_blockers": self._blocked(1),
            "rubrics": self._versions(snapshot),
            "duplicates": self._n_rows - len(np.unique(_column(self._texts))),
            "disputed": opinions.n_disputed(),
            "agreement": opinions.agreement(snapshot.revision),
            "suggested_weights": opinions.weights(list(self._raters), snapshot.revision),
            "split": self._split(),
            "suspicions": tuple(self._suspicions),
            "suspicions_count": self._n_suspicions,
        }

    def _nobody(self) -> int:
        """The number of whoever named neither a person nor a model; -1 where nobody did so."""
        return self._raters.get(("", ""), -1)

    def _blocked(self, which: int) -> dict[Blocker, int]:
        n_by_blocker: Counter[Blocker] = Counter()
        for blockers, times in self._blockers.items():
            n_by_blocker.update(dict.fromkeys(blockers[which], times))
        return {name: n_by_blocker[name] for name in BLOCKERS if n_by_blocker[name]}

    def _versions(self, snapshot: Snapshot) -> tuple[RubricRows, ...]:
        return tuple(
            RubricRows(
                version=version,
                defined=bool(version) and rubric_of(snapshot, version) is not None,
                evaluations=times,
            )
            for version, times in self._rubrics.most_common()
        )

    def _split(self) -> Split:
        aside = held_out(_column(self._sessions), _column(self._digests), TEST_SHARE)
        lines = np.unique(_column(self._line_of_link)[aside])
        return Split(
            share=TEST_SHARE,
            train=self._n_rows - len(lines),
            test=len(lines),
            test_lines=_ranges(lines + self._first_line),
        )


class _Opinions(NamedTuple):
    """Evaluations as columns: which pair, by whom, label and signed score."""

    item: Ints
    rater: Ints
    label: Ints
    score: Floats

    def latest(self, nobody: int) -> _Opinions:
        """The last of each rater of each pair; what nobody signed is not known to be another's."""
        kept = np.flatnonzero(self.rater != nobody)[::-1]
        places = self.item[kept] * (int(self.rater.max(initial=0)) + 1) + self.rater[kept]
        first = kept[np.unique(places, return_index=True)[1]]
        first.sort()
        return _Opinions(self.item[first], self.rater[first], self.label[first], self.score[first])

    @property
    def outcome(self) -> Ints:
        return np.asarray(self.label != _REJECTED, dtype=np.int64)

    def n_disputed(self) -> int:
        """Pairs that some held to be a success, and some a failure."""
        n = np.bincount(self.item)
        n_successes = np.bincount(self.item, self.outcome)
        return int(((n_successes > 0) & (n_successes < n)).sum())

    def agreement(self, seed: int) -> tuple[RatersAgree, ...]:
        columns: tuple[tuple[str, Ints | Floats, Metric], ...] = (
            ("outcome", self.outcome, "nominal"),
            ("label", self.label, "ordinal"),
            ("signed_score", self.score, "interval"),
        )
        return tuple(
            _said(of, agreement(self.item, value, metric, seed=seed)) for of, value, metric in columns
        )

    def weights(self, raters: Sequence[tuple[str, str]], seed: int) -> tuple[SuggestedWeight, ...]:
        """Of those who judged most, by what share of chance they part from the others in their outcomes."""
        shared = np.bincount(self.item)[self.item] >= _FEWEST_SHARED if len(self.item) else self.item > 0
        busiest = Counter(self.rater.tolist()).most_common(MOST_RATERS)
        of_rest = against_rest(
            self.item[shared], self.rater[shared], self.outcome[shared], "nominal", seed=seed
        )
        beside = {one.rater: one for one in of_rest}
        found = []
        for number, _ in busiest:
            rater, model = raters[number]
            one = beside.get(number)
            found.append(
                SuggestedWeight(
                    rater=model or rater,
                    kind=grader_kind(rater, model),
                    weight=None if one is None else one.weight,
                    alpha=None if one is None else one.agreement.alpha,
                    lower=None if one is None else one.agreement.lower,
                    upper=None if one is None else one.agreement.upper,
                    items=0 if one is None else one.agreement.n_items,
                )
            )
        return tuple(found)


def _said(of: str, found: Agreement) -> RatersAgree:
    return RatersAgree(
        of=of,
        alpha=found.alpha,
        lower=found.lower,
        upper=found.upper,
        missing=found.missing,
        raw=found.raw,
        items=found.n_items,
    )


def _column(numbers: array[int]) -> Ints:
    return np.frombuffer(numbers, dtype=np.int64)


def _training_row(told: Told) -> TrainingRow:
    reward = None
    if told.evaluation_no:
        blank = told.blank
        reward = Reward(
            outcome=told.outcome,
            score=told.score,
            feedback=told.feedback,
            rater=told.rater or given_name("", blank, 0),
            llm_model_id=told.model or given_name("", blank, 1),
            rubric_version=told.rubric or given_name("", blank, 2),
            rated_at_ms=told.rated_ms,
        )
    return TrainingRow(
        execution=told.execution,
        adapter_uri=told.adapter,
        layer_uri=f"kairos://layer/{told.layer}",
        layer_index=told.layer_index,
        at_ms=told.at_ms,
        instruction=_on_one_line(told.instruction or "{}"),
        response=_on_one_line(told.response or "{}"),
        reward=reward,
    )


def _on_one_line(text: str) -> str:
    """A JSON text as it was kept, numbers as they were written, unless it would end its line."""
    return rewritten(text) if "\n" in text or "\r" in text else text


def _is_object(text: str) -> bool:
    return text[:1] == "{" or text.lstrip()[:1] == "{"


def _pair(told: Told) -> int:
    return told.execution_no << _LAYER_BITS | told.layer_no


def _digest_of(text: str) -> int:
    return int.from_bytes(
        blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "big", signed=True
    )


def _session(told: Told) -> str:
    return told.session or f"execution {told.execution}"


@lru_cache(maxsize=_NAMES_KNOWN)
def _name_of(session: str) -> int:
    return _digest_of(f"session {session}")


def _signed(digest: str) -> int:
    """The first 64 bits of a digest, as an array holds them."""
    found = int(digest[:16] or "0", 16)
    return found - (1 << 64) if found >> 63 else found


def _ranges(lines: Ints) -> tuple[tuple[int, int], ...]:
    """Numbers in order → ranges, both ends included.

    >>> _ranges(np.array([1, 2, 3, 7]))
    ((1, 3), (7, 7))
    """
    if not len(lines):
        return ()
    breaks = np.flatnonzero(np.diff(lines) > 1)
    starts = lines[np.concatenate(([0], breaks + 1))]
    ends = lines[np.concatenate((breaks, [len(lines) - 1]))]
    return tuple(zip(starts.tolist(), ends.tolist(), strict=True))
