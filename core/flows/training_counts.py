"""Counting: pairs and what was judged of them → the rows of a training file, and all that its manifest counts.

Numbers of rows are kept in arrays, a few bytes a row; of texts nothing is kept.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import numpy as np

from core.columns import Floats, Ints
from core.evaluate import grade, grader_kind
from core.formats.kairos import Reward, TrainingRow
from core.records.evaluation import BLOCKERS, LABELS, Blocker, EvaluationOutcome, Grade, Thresholds
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
from core.secrecy import secrets_in
from core.statistics.agreement import Agreement, Metric, against_rest, agreement
from core.statistics.clusters import falls_aside
from core.store.evaluations import given_name
from core.store.reads.training import Told
from core.store.rubrics import rubric_of
from core.store.transaction import Snapshot

Kept = TrainingRow
TEST_SHARE: Final = 0.1
MOST_LISTED: Final = 1_000
MOST_RATERS: Final = 50
"""Raters who are told a weight: those who judged most."""
_GRADES_KNOWN: Final = 65_536
_NAMES_KNOWN: Final = 4_096
_LAYER_BITS: Final = 32
_WORDS: Final = {label: place for place, label in enumerate(LABELS)}
_REJECTED: Final = _WORDS["rejected"]
_FEWEST_SHARED: Final = 2


class _Pick(NamedTuple):
    """The best of its group so far, without its texts."""

    stated: float
    told: Told


@dataclass
class _Group:
    """Of one instruction, or of one layer."""

    success: _Pick | None = None
    failure: _Pick | None = None


class Counting:
    """One export; what it has come to is `told` when all rows were read."""

    def __init__(self, query: TrainingQuery, thresholds: Thresholds) -> None:
        self._query = query
        self._graded = lru_cache(maxsize=_GRADES_KNOWN)(_grader(thresholds))
        self._n_rows = 0
        self._first_line = 2 if query.format == "reward_csv" else 1
        self._left_out: Counter[str] = Counter()
        self._blockers: Counter[tuple[tuple[Blocker, ...], tuple[Blocker, ...]]] = Counter()
        self._rubrics: Counter[str] = Counter()
        self._raters: dict[tuple[str, str], int] = {}
        self._judged = array("q")  # pair, rater and label of each evaluation
        self._scores = array("d")
        self._links = array("q")  # session and instruction of each row
        self._line_of_link = array("q")
        self._texts = array("q")
        self._seen: set[int] = set()
        self._suspicions: list[Suspicion] = []
        self._n_suspicions = 0

    # Rows

    def rows(
        self, judged: Iterable[Told], wanted: Callable[[Grade], bool], *, once: bool = False
    ) -> Iterator[Kept]:
        """Rows that are kept, each of which becomes a line; ``once``: one for each pair."""
        for told in judged:
            if not wanted(self._judge(told)):
                self._left_out["not_eligible"] += 1
                continue
            row = self._row(told, once=once)
            if row is not None:
                self._write(told, row)
                yield row

    def unjudged(self, pairs: Iterable[Told]) -> Iterator[Kept]:
        """Rows of pairs of which no evaluation was read."""
        for told in pairs:
            if _pair(told) not in self._seen:
                row = self._row(told)
                if row is not None:
                    self._write(told, row)
                    yield row

    def best(self, judged: Iterable[Told], with_texts: Callable[[Told], Told]) -> Iterator[tuple[Kept, Kept]]:
        """Of each group with an eligible success and an eligible failure the best of both: each the one with the
        highest score that was given, of equals the first.
        """
        groups: dict[str, _Group] = {}
        for told in judged:
            graded = self._judge(told)
            if not graded.exportable_for_preference:
                self._left_out["not_eligible"] += 1
            elif self._row(told) is not None:
                self._compare(groups.setdefault(self._group(told), _Group()), told)
        for group in groups.values():
            if group.success is None or group.failure is None:
                self._left_out["no_other"] += 1
                continue
            chosen, rejected = with_texts(group.success.told), with_texts(group.failure.told)
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

    def _judge(self, told: Told) -> Grade:
        """Count what an evaluation says, whether or not it becomes a row."""
        graded = self._graded(told.outcome, told.score, told.rater, told.model, told.rubric)
        self._blockers[graded.sft_blockers, graded.preference_blockers] += 1
        self._rubrics[told.rubric] += 1
        who = self._raters.setdefault((told.rater, told.model), len(self._raters))
        self._judged.extend((_pair(told), who, _WORDS[graded.label]))
        self._scores.append(graded.signed_score)
        if self._query.format == "trace_jsonl":
            self._seen.add(_pair(told))
        return graded

    def _row(self, told: Told, *, once: bool = False) -> Kept | None:
        """The row of a pair; None where it can't be one, which is counted."""
        if told.instruction is None or told.response is None:
            self._left_out["no_text"] += 1
            return None
        if once and _pair(told) in self._seen:
            self._left_out["second_opinion"] += 1
            return None
        if told.instruction.lstrip()[:1] != "{" or told.response.lstrip()[:1] != "{":
            self._left_out["other_shape"] += 1
            return None
        kinds = secrets_in(f"{told.instruction}\n{told.response}")
        if self._says_feedback and told.feedback is not None:
            kinds = tuple(dict.fromkeys((*kinds, *secrets_in(told.feedback))))
        if kinds:
            self._suspect(told, kinds)
            if not self._query.with_secrets:
                self._left_out["secret"] += 1
                return None
        if once:
            self._seen.add(_pair(told))
        return _training_row(told)

    @property
    def _says_feedback(self) -> bool:
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

    def _write(self, told: Told, row: Kept) -> None:
        self._link(told)
        self._texts.append(_digest_of(f"{row.instruction}\n{row.response}"))
        self._n_rows += 1

    def _write_both(self, chosen: Told, rejected: Told, pair: tuple[Kept, Kept]) -> None:
        self._link(chosen)
        self._link(rejected)
        self._link(chosen._replace(digest=rejected.digest))
        self._texts.append(_digest_of("\n".join([pair[0].instruction, pair[0].response, pair[1].response])))
        self._n_rows += 1

    def _link(self, told: Told) -> None:
        session = told.session if told.session else f"execution {told.execution}"
        self._links.extend((_name_of(session), _signed(told.digest)))
        self._line_of_link.append(self._n_rows)

    # What is said of them

    def told(self, snapshot: Snapshot) -> dict[str, Any]:
        """What the manifest says that is counted, by name."""
        numbers = np.frombuffer(self._judged, dtype=np.int64).reshape(-1, 3)
        item = np.unique(numbers[:, 0], return_inverse=True)[1].astype(np.int64)
        opinions = _Opinions(item, numbers[:, 1], numbers[:, 2], np.frombuffer(self._scores)).latest(
            self._nobody()
        )
        return {
            "rows": self._n_rows,
            "evaluations": len(numbers),
            "left_out": LeftOut(**self._left_out),
            "sft_blockers": self._blocked(0),
            "preference_blockers": self._blocked(1),
            "rubrics": self._versions(snapshot),
            "duplicates": self._n_rows - len(np.unique(np.frombuffer(self._texts, dtype=np.int64))),
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
        found: Counter[Blocker] = Counter()
        for blockers, times in self._blockers.items():
            found.update(dict.fromkeys(blockers[which], times))
        return {name: found[name] for name in BLOCKERS if found[name]}

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
        links = np.frombuffer(self._links, dtype=np.int64).reshape(-1, 2)
        aside = falls_aside(links[:, 0], links[:, 1], TEST_SHARE)
        lines = np.unique(np.frombuffer(self._line_of_link, dtype=np.int64)[aside])
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


def _grader(
    thresholds: Thresholds,
) -> Callable[[EvaluationOutcome, float | None, str, str, str], Grade]:
    def graded(outcome: EvaluationOutcome, score: float | None, rater: str, model: str, rubric: str) -> Grade:
        return grade(outcome, score, rater=rater, model=model, rubric=rubric, thresholds=thresholds)

    return graded


def _training_row(told: Told) -> TrainingRow:
    reward = None
    if told.evaluation_no:
        reward = Reward(
            outcome=told.outcome,
            score=told.score,
            feedback=told.feedback,
            rater=given_name(told.rater, told.blank, 0),
            llm_model_id=given_name(told.model, told.blank, 1),
            rubric_version=given_name(told.rubric, told.blank, 2),
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


def _pair(told: Told) -> int:
    return told.execution_no << _LAYER_BITS | told.layer_no


def _digest_of(text: str) -> int:
    return int.from_bytes(
        blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "big", signed=True
    )


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
