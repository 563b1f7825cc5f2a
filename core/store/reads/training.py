"""Training pairs: texts of executions, each with an evaluation that counts for it.

An evaluation counts for a pair if its subject is the pair's layer in its execution, else the full execution, else the
run of the execution. For one rater (person, model, rubric) the nearest subject counts; several raters give several
rows. Left out are pairs of bare executions, of executions without an active source, and of inactive runs.

Evaluations are read first, and their pairs are looked up some hundred at a time. Seeking a pair costs more than
reading one, because its key is stored beside its texts.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from operator import itemgetter
from typing import Any, Final, NamedTuple

from core.records.evaluation import EvaluationOutcome
from core.store.browsers import RATER
from core.store.engine.dialect import ACTIVE, EXECUTIONS_BY_RUN
from core.store.tables import leaving_out
from core.store.transaction import Snapshot

AT_ONCE: Final = 128
"""Pairs that are looked up together; so many texts are held in memory."""
_WORTH_READING: Final = 2
"""Neighbours are read through where at most so many are read for one that is asked for."""
_MOST_KNOWN: Final = 4_096
_Row = tuple[Any, ...]

_VERDICT: Final = (
    f"e.outcome, e.score, e.feedback, {RATER}, e.model, e.rubric, e.blank, e.at_ms, e.claimed_by"
)
_UNSAID: Final[_Row] = ("success", None, None, "", "", "", 0, 0, "")
_PAIR: Final = (
    "SELECT p.execution_no, p.layer_no, x.adapter_no, x.uid, coalesce(x.session, r.session), x.at_ms, p.layer_index,"
    " p.digest, p.instruction, p.response FROM training_pair p"
    " JOIN execution x ON x.learner_id = p.learner_id AND x.execution_no = p.execution_no"
    f" AND x.{ACTIVE} AND x.bare = 0"
    " LEFT JOIN run r ON r.learner_id = x.learner_id AND r.run_no = x.run_no AND x.run_no <> 0"
    " WHERE p.learner_id = ? AND coalesce(r.standing, 1) = 1"
)
_PAIRS_NEAR: Final = f"{_PAIR} AND p.execution_no >= ? AND p.execution_no <= ?"
_PAIRS_OF_LAYER: Final = f"{_PAIR} AND p.execution_no IN ({{}}) AND p.layer_no = ?"
_LAYERS: Final = (
    "SELECT l.layer_no, l.uid, a.uri FROM layer l"
    " LEFT JOIN adapter a ON a.learner_id = l.learner_id AND a.adapter_no = l.adapter_no"
    " WHERE l.learner_id = ? AND l.layer_no IN ({})"
)
_ADAPTERS: Final = "SELECT adapter_no, uri FROM adapter WHERE learner_id = ? AND adapter_no IN ({})"

_OF_ADAPTERS: Final = (
    "SELECT {0} FROM {1} WHERE learner_id = ? AND adapter_no IN"
    " (SELECT adapter_no FROM adapter WHERE learner_id = ? AND (uri IN ({2}) OR name IN ({2})))"
)


def _unless(layer: str, execution: str, run: str) -> str:
    """Return the condition that no evaluation by the same rater counts; it names the columns of the index."""
    return (
        " AND NOT EXISTS (SELECT 1 FROM evaluation n WHERE n.learner_id = ?1"
        f" AND n.layer_no = {layer} AND n.execution_no = {execution} AND n.run_no = {run} AND n.arm_no = 0"
        " AND n.rater = e.rater AND n.model = e.model AND n.rubric = e.rubric AND n.claimed_by = e.claimed_by"
        " AND n.counts = 1"
        " AND (n.execution_no <> 0 OR n.run_no <> 0))"
    )


_NEARER: Final = "".join(_unless("p.layer_no", "p.execution_no", run) for run in ("0", "x.run_no"))
_OF_WHOLE: Final = "".join(_unless("0", "p.execution_no", run) for run in ("0", "x.run_no"))
_OF_LAYER: Final = (
    f" AND (e.layer_no = p.layer_no OR {_unless('p.layer_no', '0', 'e.run_no').removeprefix(' AND ')})"
)


class TrainingFilter(NamedTuple):
    """Filter of pairs; empty = all. Layers and executions by uid in lower case, adapters by URI or name."""

    adapters: Sequence[str] = ()
    layers: Sequence[str] = ()
    executions: Sequence[str] = ()
    raters: Sequence[str] = ()
    rubrics: Sequence[str] = ()
    since_ms: int | None = None
    until_ms: int | None = None


class JudgedPair(NamedTuple):
    """A pair and one evaluation; ``evaluation_no`` 0 = not judged, and the other members of it mean nothing.

    ``digest`` is equal for equal instructions, "" without one. Texts are JSON as stored, None = not stored. Times are
    UTC milliseconds.
    """

    evaluation_no: int
    execution_no: int
    layer_no: int
    outcome: EvaluationOutcome
    score: float | None
    feedback: str | None
    rater: str
    model: str
    rubric: str
    blank: int
    rated_ms: int
    claimed_by: str
    execution: str
    session: str | None
    at_ms: int | None
    layer_index: int
    digest: str
    instruction: str | None
    response: str | None
    layer: str
    adapter: str


_make_judged: Final = partial(tuple.__new__, JudgedPair)
"""Faster ``JudgedPair._make`` for rows that are known to be complete."""


def judged_pairs(snapshot: Snapshot, training_filter: TrainingFilter) -> Iterator[list[JudgedPair]]:
    """Pairs with what was judged of them, in the order in which it was judged, at most `AT_ONCE` at a time."""
    streams = (
        _of_pairs(snapshot, training_filter),
        _of_executions(snapshot, training_filter),
        _of_runs(snapshot, training_filter),
    )
    evaluations, subjects = _in_order(streams), Subjects(snapshot)
    while part := list(islice(evaluations, AT_ONCE)):
        yield subjects.judged(part, subjects.pairs(part))


def all_pairs(snapshot: Snapshot, training_filter: TrainingFilter) -> Iterator[list[JudgedPair]]:
    """Pairs, judged or not, without what was judged, at most `AT_ONCE` at a time."""
    more, values = _conditions(snapshot, training_filter, "p.layer_no", "p.execution_no", is_judged=False)
    rows = snapshot.each(f"{_PAIR}{more} ORDER BY p.execution_no, p.layer_no", values)
    subjects = Subjects(snapshot)
    while part := list(islice(rows, AT_ONCE)):
        yield subjects.judged([(0, *row[:2], *_UNSAID) for row in part], {row[:2]: row for row in part})


def _in_order(streams: Iterable[Iterator[_Row]]) -> Iterator[_Row]:
    """Rows of streams that are each in order, in order; mostly all are of one."""
    begun = ((next(stream, None), stream) for stream in streams)
    rows = [chain([first], stream) for first, stream in begun if first is not None]
    return rows[0] if len(rows) == 1 else heapq.merge(*rows, key=itemgetter(0))


def _of_pairs(snapshot: Snapshot, training_filter: TrainingFilter) -> Iterator[_Row]:
    more, values = _conditions(snapshot, training_filter, "e.layer_no", "e.execution_no", is_judged=True)
    return snapshot.each(
        f"SELECT e.evaluation_no, e.execution_no, e.layer_no, {_VERDICT} FROM evaluation e"
        " WHERE e.learner_id = ? AND e.counts = 1 AND e.arm_no = 0 AND e.execution_no <> 0 AND e.layer_no <> 0"
        f"{more} ORDER BY e.evaluation_no",
        values,
    )


# Evaluations come first and are looked up from, which CROSS JOIN forces in SQLite: starting from the pairs, it would
# ask all evaluations for each.


def _of_executions(snapshot: Snapshot, training_filter: TrainingFilter) -> Iterator[_Row]:
    more, values = _conditions(snapshot, training_filter, "p.layer_no", "p.execution_no", is_judged=True)
    return snapshot.each(
        f"SELECT e.evaluation_no, p.execution_no, p.layer_no, {_VERDICT}"
        " FROM evaluation e CROSS JOIN training_pair p CROSS JOIN execution x"
        " WHERE e.learner_id = ?1 AND e.counts = 1 AND e.arm_no = 0 AND e.execution_no <> 0 AND e.layer_no = 0"
        " AND p.learner_id = e.learner_id AND p.execution_no = e.execution_no"
        f" AND x.learner_id = p.learner_id AND x.execution_no = p.execution_no{_NEARER}{more}"
        " ORDER BY e.evaluation_no, p.layer_no",
        values,
    )


def _of_runs(snapshot: Snapshot, training_filter: TrainingFilter) -> Iterator[_Row]:
    more, values = _conditions(snapshot, training_filter, "p.layer_no", "p.execution_no", is_judged=True)
    return snapshot.each(
        f"SELECT e.evaluation_no, p.execution_no, p.layer_no, {_VERDICT}"
        f" FROM evaluation e CROSS JOIN execution x {EXECUTIONS_BY_RUN} CROSS JOIN training_pair p"
        " WHERE e.learner_id = ?1 AND e.counts = 1 AND e.arm_no = 0 AND e.execution_no = 0 AND e.run_no <> 0"
        " AND x.learner_id = e.learner_id AND x.run_no = e.run_no AND x.run_no <> 0"
        " AND p.learner_id = x.learner_id AND p.execution_no = x.execution_no"
        " AND (e.layer_no = 0 OR e.layer_no = p.layer_no)"
        f"{_NEARER}{_OF_WHOLE}{_OF_LAYER}{more} ORDER BY e.evaluation_no, p.execution_no, p.layer_no",
        values,
    )


class _Named:
    """Rows of few things by their numbers: each asked for once, and all let go when there are many."""

    def __init__(self, snapshot: Snapshot, sql: str) -> None:
        self._snapshot, self._sql = snapshot, sql
        self._known: dict[int, _Row] = {}

    def of(self, numbers: set[int]) -> dict[int, _Row]:
        """Rows without their numbers; there may be more than were asked for."""
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        missing = numbers - self._known.keys()
        if missing:
            self._known.update(
                (row[0], row[1:]) for row in self._snapshot.rows_in(self._sql, sorted(missing))
            )
        return self._known


class Subjects:
    """Subjects of evaluations, looked up some hundred at a time."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._layers, self._adapters = _Named(snapshot, _LAYERS), _Named(snapshot, _ADAPTERS)
        self._is_dense = True

    def judged(self, evaluations: Sequence[_Row], pairs: dict[tuple[int, int], _Row]) -> list[JudgedPair]:
        """Return the evaluations with their pairs, without missing or inactive pairs."""
        layers = self._layers.of({one[2] for one in evaluations})
        adapters = self._adapters.of({pair[2] for pair in pairs.values()} - {0})
        judged = []
        for one in evaluations:
            pair, layer = pairs.get(one[1:3]), layers.get(one[2])
            if pair is not None and layer is not None:
                uid, of_layer = layer
                (adapter,) = adapters.get(pair[2]) or (of_layer or "",)
                judged.append(_make_judged((*one, *pair[3:], uid, adapter)))
        return judged

    def pairs(self, evaluations: Sequence[_Row]) -> dict[tuple[int, int], _Row]:
        """Return active pairs, and maybe more: neighbours are read in one scan, until that reads too much else."""
        numbers = [one[1] for one in evaluations]
        first, last = min(numbers), max(numbers)
        if not self._is_dense or last - first >= _WORTH_READING * len(evaluations):
            return {row[:2]: row for row in self._sought({one[1:3] for one in evaluations})}
        near = self._snapshot.each(_PAIRS_NEAR, [first, last])
        rows = {row[:2]: row for row in islice(near, _WORTH_READING * len(evaluations) + 1)}
        self._is_dense = len(rows) <= _WORTH_READING * len(evaluations)
        return rows if self._is_dense else self.pairs(evaluations)

    def _sought(self, keys: Collection[tuple[int, int]]) -> Iterator[_Row]:
        of_layer: dict[int, list[int]] = {}
        for execution_no, layer_no in sorted(keys):
            of_layer.setdefault(layer_no, []).append(execution_no)
        connection, learner_id = self._snapshot.connection, self._snapshot.learner_id
        for layer_no, numbers in of_layer.items():
            yield from connection.rows_in(_PAIRS_OF_LAYER, [learner_id], numbers, [layer_no])


def texts_of_pair(snapshot: Snapshot, execution_no: int, layer_no: int) -> tuple[str | None, str | None]:
    """Instruction and response of a pair."""
    instruction, response = snapshot.row(
        "SELECT instruction, response FROM training_pair"
        " WHERE learner_id = ? AND execution_no = ? AND layer_no = ?",
        [execution_no, layer_no],
    ) or (None, None)
    return instruction, response


def _conditions(
    snapshot: Snapshot, training_filter: TrainingFilter, layer: str, execution: str, *, is_judged: bool
) -> tuple[str, list[str | int]]:
    """Return a filter's SQL for these aliases of layer and execution, and its values."""
    conditions: list[str] = []
    values: list[str | int] = []
    if training_filter.adapters:
        of = [
            f"{name} IN ({_OF_ADAPTERS.format(f'{table}_no', table, _marks(training_filter.adapters))})"
            for name, table in ((execution, "execution"), (layer, "layer"))
        ]
        conditions.append(f"({' OR '.join(of)})")
        values += [*[snapshot.learner_id] * 2, *training_filter.adapters, *training_filter.adapters] * 2
    for name, table, uids in (
        (layer, "layer", training_filter.layers),
        (execution, "execution", training_filter.executions),
    ):
        if uids:
            conditions.append(
                f"{name} IN (SELECT {table}_no FROM {table} WHERE learner_id = ? AND uid IN ({_marks(uids)}))"
            )
            values += [snapshot.learner_id, *uids]
    if is_judged:
        unless, left_out = leaving_out("e.evaluation_no", snapshot.hidden)
        conditions.append(unless.removeprefix(" AND "))
        values += left_out
    for name, names in ((RATER, training_filter.raters), ("e.rubric", training_filter.rubrics)):
        if is_judged and names:
            conditions.append(f"{name} IN ({_marks(names)})")
            values += names
    for text, at_ms in (
        ("e.at_ms >= ?", training_filter.since_ms),
        ("e.at_ms < ?", training_filter.until_ms),
    ):
        if is_judged and at_ms is not None:
            conditions.append(text)
            values.append(at_ms)
    return "".join(f" AND {one}" for one in conditions if one), values


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))
