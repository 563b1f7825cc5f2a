"""Training exports: instructions, answers and evaluations, written to a training file with a manifest.

Eligibility is computed from the record and the active thresholds during the export. Rows are streamed in the order of
their evaluations. Memory is only needed for the manifest's counts: a few hundred bytes per row, without texts.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache
from hashlib import blake2b, sha256
from operator import attrgetter
from pathlib import Path
from typing import IO, Annotated, Any, Final, NamedTuple, Unpack

import msgspec
import numpy as np
from msgspec import Meta

from core.columns import Floats, Ints
from core.flows.context import Context
from core.flows.new_file import new_file
from core.formats.kairos import (
    Reward,
    TrainingRow,
    preference_jsonl,
    reward_csv,
    reward_jsonl,
    sft_jsonl,
    trace_jsonl,
)
from core.maths.evaluate import grader_kind, known_grade
from core.maths.statistics.agreement import Metric, against_rest, agreement
from core.maths.statistics.clusters import held_out
from core.records.alike import alike
from core.records.evaluation import (
    BLOCKERS,
    EVALUATION_OUTCOMES,
    LABELS,
    Blocker,
    EvaluationOutcome,
    Grade,
    Thresholds,
)
from core.records.javascript import rewritten
from core.records.layer import LayerUri
from core.records.parameters import completed
from core.records.times import iso
from core.records.training import (
    MANIFEST_END,
    LeftOut,
    Pairing,
    RatersAgree,
    RubricRows,
    Split,
    SuggestedWeight,
    Suspicion,
    TrainingAnswer,
    TrainingFormat,
    TrainingManifest,
    TrainingOptions,
    TrainingQuery,
)
from core.secrecy import SecretKind, secrets_in_all
from core.store.evaluations import stored_name
from core.store.notes import rubric_of
from core.store.reads.training import JudgedPair, TrainingFilter, all_pairs, judged_pairs, texts_of_pair
from core.store.transaction import Snapshot
from core.version import __version__

TEST_SHARE: Final = 0.1
MOST_LISTED: Final = 1_000
MOST_RATERS: Final = 50
"""Maximum number of raters with a suggested weight, the busiest first."""
_LAYER_BITS: Final = 32
_LABEL_CODES: Final = {label: code for code, label in enumerate(LABELS)}
_REJECTED: Final = _LABEL_CODES["rejected"]
_FEWEST_SHARED: Final = 2
_BLOCKERS_OF: Final = attrgetter("sft_blockers", "preference_blockers")

_BLOCK_BYTES: Final = 1 << 16


class _Candidate(NamedTuple):
    """Best row of a group so far, without its texts."""

    stated: float
    row: JudgedPair


_Best = dict[EvaluationOutcome, _Candidate]
"""Best success and failure of one instruction or layer."""


class TrainingCounts:
    """Counts of one export; `manifest_counts` is complete when all rows were read."""

    def __init__(
        self,
        query: TrainingQuery,
        thresholds: Thresholds,
        trusted: Collection[str] = (),
        *,
        personal: bool = False,
    ) -> None:
        self._query = query
        self._thresholds = thresholds
        self._trusted = frozenset(trusted)
        self._personal = personal
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
        self, judged: Iterable[Sequence[JudgedPair]], accepts: Callable[[Grade], bool], *, once: bool = False
    ) -> Iterator[TrainingRow]:
        """Yield the accepted rows, each one line; ``once``: one per pair."""
        for part in judged:
            yield from self._rows_of(self._eligible(part, accepts), once=once)

    def unjudged(self, pairs: Iterable[Sequence[JudgedPair]]) -> Iterator[TrainingRow]:
        """Yield the rows of pairs without an evaluation so far."""
        for part in pairs:
            yield from self._rows_of([row for row in part if _pair(row) not in self._used_pairs])

    def best(
        self, judged: Iterable[Sequence[JudgedPair]], with_texts: Callable[[JudgedPair], JudgedPair]
    ) -> Iterator[tuple[TrainingRow, TrainingRow]]:
        """Yield each group's eligible success and failure with the highest stated scores, of equal ones the first."""
        groups: dict[str, _Best] = {}
        for part in judged:
            eligible = self._eligible(part, attrgetter("exportable_for_preference"))
            for row, kinds in zip(eligible, self._secrets(eligible), strict=True):
                if self._is_row(row, kinds):
                    self._compare(groups.setdefault(self._group(row), {}), row)
        for group in groups.values():
            if len(group) < len(EVALUATION_OUTCOMES):
                self._left_out["no_other"] += 1
                continue
            chosen, rejected = with_texts(group["success"].row), with_texts(group["failure"].row)
            if chosen.response == rejected.response:
                self._left_out["same_answer"] += 2
                continue
            pair = _training_row(chosen), _training_row(rejected)
            self._link(chosen)
            self._link(rejected)
            self._link(chosen._replace(digest=rejected.digest))
            self._texts.append(hash((pair[0].instruction, pair[0].response, pair[1].response)))
            self._n_rows += 1
            yield pair

    def _group(self, row: JudgedPair) -> str:
        return row.digest if self._query.pairing == "prompt" else f"{row.layer}:{row.layer_index}"

    def _compare(self, group: _Best, row: JudgedPair) -> None:
        known = group.get(row.outcome)
        stated = row.score or 0.0
        if known is not None:
            self._left_out["not_best"] += 1
        if known is None or stated > known.stated:
            group[row.outcome] = _Candidate(stated, row._replace(instruction=None, response=None))

    def _eligible(self, part: Sequence[JudgedPair], accepts: Callable[[Grade], bool]) -> list[JudgedPair]:
        """Return the rows with an accepted grade. Every evaluation is counted, even if it becomes no row."""
        thresholds, who = self._thresholds, self._raters
        grades = [
            known_grade(row.outcome, row.score, row.rater, row.model, row.rubric, thresholds=thresholds)
            for row in part
        ]
        self._blockers.update(map(_BLOCKERS_OF, grades))
        self._rubrics.update([row.rubric for row in part])
        self._n_evaluations += len(part)
        self._claimed.update([row.claimed_by for row in part if row.claimed_by])
        words = [both for both in zip(part, grades, strict=True) if not both[0].claimed_by]
        self._pairs.extend([_pair(row) for row, _ in words])
        self._who.extend([who.setdefault((row.rater, row.model), len(who)) for row, _ in words])
        self._labels.extend([_LABEL_CODES[graded.label] for _, graded in words])
        self._scores.extend([graded.signed_score for _, graded in words])
        if self._query.format == "trace_jsonl":
            self._used_pairs.update(map(_pair, part))
        eligible = [row for row, graded in zip(part, grades, strict=True) if accepts(graded)]
        if len(eligible) < len(part):
            self._left_out["not_eligible"] += len(part) - len(eligible)
        proven = [row for row in eligible if not self._is_unproven(row)]
        if len(proven) < len(eligible):
            self._left_out["claimed"] += len(eligible) - len(proven)
        return proven

    def _is_unproven(self, row: JudgedPair) -> bool:
        """Return whether only an untrusted token claims the rater, and the format is for tuning a model."""
        tunes = self._query.format in {"sft_jsonl", "preference_jsonl"}
        return tunes and bool(row.claimed_by) and row.claimed_by not in self._trusted

    def _rows_of(self, part: Sequence[JudgedPair], *, once: bool = False) -> list[TrainingRow]:
        """Return the rows that pass all checks, and count why others do not."""
        first, rows = self._n_rows, []
        for row, kinds in zip(part, self._secrets(part), strict=True):
            if self._is_row(row, kinds, once=once):
                self._n_rows += 1
                rows.append(row)
        self._sessions.extend([_name_of(_session(row)) for row in rows])
        self._digests.extend([_signed(row.digest) for row in rows])
        self._line_of_link.extend(range(first, self._n_rows))
        training_rows = list(map(_training_row, rows))
        self._texts.extend([hash((row.instruction, row.response)) for row in training_rows])
        return training_rows

    def _is_row(self, row: JudgedPair, kinds: tuple[SecretKind, ...], *, once: bool = False) -> bool:
        """Return whether a pair may be a row; count the reason if not."""
        reason = self._reason_against(row, once=once)
        if reason is None and kinds:
            self._n_suspicions += 1
            if len(self._suspicions) < MOST_LISTED:
                is_written = self._query.with_secrets and self._query.format != "preference_jsonl"
                line = self._n_rows + self._first_line if is_written else None
                self._suspicions.append(
                    Suspicion(line=line, execution=row.execution, layer=row.layer, kinds=kinds)
                )
            reason = None if self._query.with_secrets else "secret"
        if reason is not None:
            self._left_out[reason] += 1
            return False
        if once:
            self._used_pairs.add(_pair(row))
        return True

    def _reason_against(self, row: JudgedPair, *, once: bool) -> str | None:
        if row.instruction is None or row.response is None:
            return "no_text"
        if once and _pair(row) in self._used_pairs:
            return "second_opinion"
        is_shaped = _is_object(row.instruction) and _is_object(row.response)
        return None if is_shaped else "other_shape"

    def _secrets(self, part: Sequence[JudgedPair]) -> list[tuple[SecretKind, ...]]:
        """Return the kinds of secrets that each row may hold, in its texts and its feedback."""
        in_texts = secrets_in_all(
            [f"{row.instruction}\n{row.response}" for row in part], personal=self._personal
        )
        if self._writes_feedback and any(row.feedback is not None for row in part):
            in_feedback = secrets_in_all([row.feedback or "" for row in part], personal=self._personal)
            return [
                tuple(dict.fromkeys(one + other)) for one, other in zip(in_texts, in_feedback, strict=True)
            ]
        return in_texts

    @property
    def _writes_feedback(self) -> bool:
        if self._query.format == "preference_jsonl":
            return False
        return self._query.include_reward or self._query.format in {"reward_jsonl", "reward_csv"}

    def _link(self, row: JudgedPair) -> None:
        self._sessions.append(_name_of(_session(row)))
        self._digests.append(_signed(row.digest))
        self._line_of_link.append(self._n_rows)

    # The manifest

    def manifest_counts(self, snapshot: Snapshot) -> dict[str, Any]:
        """Return the counted members of the manifest by name."""
        item = np.unique(_column(self._pairs), return_inverse=True)[1].astype(np.int64)
        labels = np.frombuffer(self._labels, dtype=np.int8).astype(np.int64)
        every = _Opinions(item, _column(self._who), labels, np.frombuffer(self._scores))
        opinions = every.latest(unsigned=self._raters.get(("", ""), -1))
        n = np.bincount(opinions.item)
        n_successes = np.bincount(opinions.item, opinions.outcome)
        return {
            "rows": self._n_rows,
            "evaluations": self._n_evaluations,
            "claimed": dict(self._claimed.most_common()),
            "left_out": LeftOut(**self._left_out, hidden=len(snapshot.hidden)),
            "sft_blockers": self._blocked(0),
            "preference_blockers": self._blocked(1),
            "rubrics": self._versions(snapshot),
            "duplicates": self._n_rows - len(np.unique(_column(self._texts))),
            "disputed": int(((n_successes > 0) & (n_successes < n)).sum()),
            "agreement": opinions.agreement(snapshot.revision),
            "suggested_weights": opinions.weights(list(self._raters), snapshot.revision),
            "split": self._split(),
            "suspicions": tuple(self._suspicions),
            "suspicions_count": self._n_suspicions,
        }

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
        is_test = held_out(_column(self._sessions), _column(self._digests), TEST_SHARE)
        lines = np.unique(_column(self._line_of_link)[is_test])
        return Split(
            share=TEST_SHARE,
            train=self._n_rows - len(lines),
            test=len(lines),
            test_lines=_ranges(lines + self._first_line),
        )


class _Opinions(NamedTuple):
    """Evaluations as columns: pair, rater, label and signed score."""

    item: Ints
    rater: Ints
    label: Ints
    score: Floats

    def latest(self, unsigned: int) -> _Opinions:
        """Return the last evaluation of each pair by each rater but one without name or model (``unsigned``)."""
        signed = np.flatnonzero(self.rater != unsigned)[::-1]
        keys = self.item[signed] * (int(self.rater.max(initial=0)) + 1) + self.rater[signed]
        first = signed[np.unique(keys, return_index=True)[1]]
        first.sort()
        return _Opinions(self.item[first], self.rater[first], self.label[first], self.score[first])

    @property
    def outcome(self) -> Ints:
        return np.asarray(self.label != _REJECTED, dtype=np.int64)

    def agreement(self, seed: int) -> tuple[RatersAgree, ...]:
        columns: tuple[tuple[str, Ints | Floats, Metric], ...] = (
            ("outcome", self.outcome, "nominal"),
            ("label", self.label, "ordinal"),
            ("signed_score", self.score, "interval"),
        )
        results = ((of, agreement(self.item, value, metric, seed=seed)) for of, value, metric in columns)
        return tuple(alike(RatersAgree, one, of=of, items=one.n_items) for of, one in results)

    def weights(self, raters: Sequence[tuple[str, str]], seed: int) -> tuple[SuggestedWeight, ...]:
        """Return a suggested weight for the busiest raters, from their chance-corrected agreement with the others."""
        shared = np.bincount(self.item)[self.item] >= _FEWEST_SHARED if len(self.item) else self.item > 0
        busiest = Counter(self.rater.tolist()).most_common(MOST_RATERS)
        of_rest = against_rest(
            self.item[shared], self.rater[shared], self.outcome[shared], "nominal", seed=seed
        )
        by_rater = {one.rater: one for one in of_rest}
        weights = []
        for number, _ in busiest:
            rater, model = raters[number]
            one = by_rater.get(number)
            weights.append(
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
        return tuple(weights)


def _column(numbers: array[int]) -> Ints:
    return np.frombuffer(numbers, dtype=np.int64)


def _training_row(row: JudgedPair) -> TrainingRow:
    reward = None
    if row.evaluation_no:
        blank = row.blank
        reward = Reward(
            outcome=row.outcome,
            score=row.score,
            feedback=row.feedback,
            rater=row.rater or stored_name("", blank, 0),
            llm_model_id=row.model or stored_name("", blank, 1),
            rubric_version=row.rubric or stored_name("", blank, 2),
            rated_at_ms=row.rated_ms,
        )
    return TrainingRow(
        execution=row.execution,
        adapter_uri=row.adapter,
        layer_uri=f"kairos://layer/{row.layer}",
        layer_index=row.layer_index,
        at_ms=row.at_ms,
        instruction=_on_one_line(row.instruction or "{}"),
        response=_on_one_line(row.response or "{}"),
        reward=reward,
    )


def _on_one_line(text: str) -> str:
    """Return a stored JSON text unchanged, unless it contains a line end."""
    return rewritten(text) if "\n" in text or "\r" in text else text


def _is_object(text: str) -> bool:
    return text[:1] == "{" or text.lstrip()[:1] == "{"


def _pair(row: JudgedPair) -> int:
    return row.execution_no << _LAYER_BITS | row.layer_no


def _session(row: JudgedPair) -> str:
    return row.session or f"execution {row.execution}"


@lru_cache(maxsize=4_096)
def _name_of(session: str) -> int:
    text = f"session {session}".encode(errors="surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)


def _signed(digest: str) -> int:
    """Return the first 64 bits of a digest as a signed integer."""
    value = int(digest[:16] or "0", 16)
    return value - (1 << 64) if value >> 63 else value


def _ranges(lines: Ints) -> tuple[tuple[int, int], ...]:
    """Return sorted numbers as ranges, both ends included.

    >>> _ranges(np.array([1, 2, 3, 5])), _ranges(np.array([], dtype=np.int64))
    (((1, 3), (5, 5)), ())
    """
    runs = np.split(lines, np.flatnonzero(np.diff(lines) > 1) + 1)
    return tuple((int(one[0]), int(one[-1])) for one in runs if len(one))


def export_training(
    context: Context,
    target: Annotated[Path, Meta(description="A new file.")],
    format: Annotated[TrainingFormat, Meta(description="What becomes a row.")],
    *,
    pairing: Annotated[
        Pairing, Meta(description="What a chosen and a rejected answer have in common: prompt or layer.")
    ] = "prompt",
    manifest: Annotated[bool, Meta(description="Write FILE.manifest.json next to it.")] = True,
    include_reward: Annotated[bool, Meta(description="Write the reward into each row.")] = True,
    with_secrets: Annotated[bool, Meta(description="Write rows that seem to hold a secret, too.")] = False,
    **filters: Unpack[TrainingOptions],
) -> TrainingAnswer:
    """Write evaluations into a new file to train on, with a manifest next to it.

    The manifest is ``NAME.manifest.json``; the answer has it in any case. ``reward_jsonl`` and ``reward_csv`` have a
    row for every evaluation of a pair. ``sft_jsonl`` has one for each pair with an eligible success, by the first of
    them. ``preference_jsonl`` has one for each group with an eligible success and an eligible failure.
    ``trace_jsonl`` has a row for every evaluation and for each pair without one.

    By ``pairing`` a group has the same instruction (equal as JSON), or the same layer. Without ``include_reward``
    ``sft_jsonl`` and ``trace_jsonl`` have the same rows without their rewards. Rows that seem to hold a secret are
    held back and listed, except ``with_secrets``. ``filters`` are adapters by URI or name, layers and executions by
    URI or uid, and times in UTC milliseconds, the end excluded. Raises `Denied` for an actor who may not export for
    training, and `InvalidInput` for an existing file.

    Of one rater's evaluations of a pair, its execution and its run the nearest counts. A tenth of all clusters of
    sessions and instructions is held out for tests (see `core.maths.statistics.clusters`).
    """
    context.permit("export_training")
    only = completed(TrainingOptions, filters)
    query = TrainingQuery(
        format=format,
        pairing=pairing,
        include_reward=include_reward,
        with_secrets=with_secrets,
        adapters=tuple(only["adapters"]),
        layers=tuple(_uid(name) for name in only["layers"]),
        executions=tuple(name.lower() for name in only["executions"]),
        raters=tuple(only["raters"]),
        rubrics=tuple(only["rubrics"]),
        since_ms=only["since_ms"],
        until_ms=only["until_ms"],
    )
    manifest_path = target.with_name(target.name + MANIFEST_END) if manifest else None
    with ExitStack() as files:
        second = None if manifest_path is None else files.enter_context(new_file(manifest_path))
        file = files.enter_context(new_file(target))
        result = training_into(context, file, target.name, query)
        if second is not None:
            second.write(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
    name = None if manifest_path is None else str(manifest_path)
    return TrainingAnswer(file=str(target), rows=result.rows, manifest_file=name, manifest=result)


def training_into(context: Context, file: IO[bytes], name: str, query: TrainingQuery) -> TrainingManifest:
    """Write the rows of one snapshot into an open file called ``name``, and return the manifest."""
    with context.reading_for_export("export_training") as snapshot:
        settings = snapshot.settings
        counts = TrainingCounts(
            query, settings.thresholds, settings.trusted_graders, personal=settings.personal_numbers
        )
        digest, size_bytes = sha256(), 0
        for block in _blocks(_lines(snapshot, query, counts)):
            file.write(block)
            digest.update(block)
            size_bytes += len(block)
        return TrainingManifest(
            armscope=__version__,
            file=name,
            sha256=digest.hexdigest(),
            size_bytes=size_bytes,
            made_at=iso(context.clock()),
            made_by=context.actor.name,
            learner=snapshot.name,
            origin=snapshot.origin,
            revision=snapshot.revision,
            query=query,
            thresholds=snapshot.settings.thresholds,
            **counts.manifest_counts(snapshot),
        )


def _blocks(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines with line ends, in blocks large enough for one system call."""
    block: list[bytes] = []
    n_bytes = 0
    for line in lines:
        block.append(line)
        n_bytes += len(line)
        if n_bytes > _BLOCK_BYTES:
            yield b"\n".join((*block, b""))
            block, n_bytes = [], 0
    if block:
        yield b"\n".join((*block, b""))


def _uid(name: str) -> str:
    """Return the comparable form of a layer's URI or uid."""
    return LayerUri.parse(name).key if name.lower().startswith("kairos:") else name.lower()


def _lines(snapshot: Snapshot, query: TrainingQuery, counts: TrainingCounts) -> Iterator[bytes]:
    """Yield the file's lines without line ends."""
    thresholds, judged = snapshot.settings.thresholds, judged_pairs(snapshot, alike(TrainingFilter, query))
    if query.format == "preference_jsonl":
        return _preferences(snapshot, query, counts, judged)
    if query.format == "sft_jsonl":
        rows = counts.rows(judged, attrgetter("exportable_for_sft"), once=True)
        return sft_jsonl(rows, thresholds, include_reward=query.include_reward)
    rows = counts.rows(judged, lambda _: True)
    if query.format == "reward_jsonl":
        return reward_jsonl(rows, thresholds)
    if query.format == "reward_csv":
        return reward_csv(rows, thresholds)
    return trace_jsonl(
        _and_unjudged(snapshot, query, counts, rows), thresholds, include_reward=query.include_reward
    )


def _and_unjudged(
    snapshot: Snapshot, query: TrainingQuery, counts: TrainingCounts, rows: Iterator[TrainingRow]
) -> Iterator[TrainingRow]:
    """Yield unjudged pairs after the rows, unless the query filters by rater, rubric or time."""
    yield from rows
    is_about_judges = (
        query.raters or query.rubrics or query.since_ms is not None or query.until_ms is not None
    )
    if not is_about_judges:
        yield from counts.unjudged(all_pairs(snapshot, alike(TrainingFilter, query)))


def _preferences(
    snapshot: Snapshot, query: TrainingQuery, counts: TrainingCounts, judged: Iterator[list[JudgedPair]]
) -> Iterator[bytes]:
    """Read the pairs twice: first find the best of each group by numbers alone, then read their texts."""
    thresholds: Thresholds = snapshot.settings.thresholds
    texts: Callable[[JudgedPair], JudgedPair] = lambda row: _with_texts(snapshot, row)  # noqa: E731
    for chosen, rejected in counts.best(judged, texts):
        pair = [chosen, msgspec.structs.replace(rejected, instruction=chosen.instruction)]
        yield from preference_jsonl(pair, thresholds, pairing=query.pairing)


def _with_texts(snapshot: Snapshot, row: JudgedPair) -> JudgedPair:
    instruction, response = texts_of_pair(snapshot, row.execution_no, row.layer_no)
    return row._replace(instruction=instruction, response=response)
