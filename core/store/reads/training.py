"""Training: what executions leave for training: pairs of texts, each with an evaluation that counts for it.

An evaluation counts for a pair where it is of the pair's layer in its execution, else where it is of the execution as
a whole, else where it is of the run that the execution is of. Of what one rater (person, model, rubric) said, what is
nearest to the pair counts; what several raters said are several. Pairs of executions that are bare, that nobody who
stands names, or whose run does not stand, are left out.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from core.records.evaluation import EvaluationOutcome
from core.store.engine.words import EXECUTIONS_BY_RUN
from core.store.transaction import Snapshot

_PAIR: Final = (
    "x.uid, coalesce(x.session, r.session), x.at_ms, coalesce(xa.uri, la.uri, ''), l.uid, p.layer_index, p.digest,"
    " p.instruction, p.response"
)
_AROUND: Final = (
    " JOIN layer l ON l.learner_id = p.learner_id AND l.layer_no = p.layer_no"
    " LEFT JOIN run r ON r.learner_id = x.learner_id AND r.run_no = x.run_no AND x.run_no <> 0"
    " LEFT JOIN adapter xa ON xa.learner_id = x.learner_id AND xa.adapter_no = x.adapter_no"
    " LEFT JOIN adapter la ON la.learner_id = l.learner_id AND la.adapter_no = l.adapter_no"
)
_STANDS: Final = " AND x.standing = 1 AND x.bare = 0 AND coalesce(r.standing, 1) = 1"
_SAID: Final = (
    "e.evaluation_no, p.execution_no, p.layer_no, e.outcome, e.score, e.feedback, e.rater, e.model, e.rubric,"
    " e.blank, e.at_ms"
)


def _unless(layer: str, execution: str, run: str) -> str:
    """No evaluation of this place by the same rater counts; all columns of the index of keys are named."""
    return (
        " AND NOT EXISTS (SELECT 1 FROM evaluation n WHERE n.learner_id = p.learner_id"
        f" AND n.layer_no = {layer} AND n.execution_no = {execution} AND n.run_no = {run} AND n.arm_no = 0"
        " AND n.rater = e.rater AND n.model = e.model AND n.rubric = e.rubric AND n.counts = 1"
        " AND (n.execution_no <> 0 OR n.run_no <> 0))"
    )


_NEARER: Final = "".join(_unless("p.layer_no", "p.execution_no", run) for run in ("0", "x.run_no"))
_OF_WHOLE: Final = "".join(_unless("0", "p.execution_no", run) for run in ("0", "x.run_no"))
_OF_LAYER: Final = (
    f" AND (e.layer_no = p.layer_no OR {_unless('p.layer_no', '0', 'e.run_no').removeprefix(' AND ')})"
)


class TrainingFilter(NamedTuple):
    """Which pairs are meant; nothing = all. Layers and executions by uid in lower case, adapters by URI or name."""

    adapters: Sequence[str] = ()
    layers: Sequence[str] = ()
    executions: Sequence[str] = ()
    raters: Sequence[str] = ()
    rubrics: Sequence[str] = ()
    since_ms: int | None = None
    until_ms: int | None = None


class Told(NamedTuple):
    """A pair, and what one evaluation says of it; ``evaluation_no`` 0 = nobody has judged it, and the rest means
    nothing.

    ``digest`` is equal for equal instructions, "" without one; texts are JSON as they were kept, None = they weren't.
    Times are UTC milliseconds.
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
    execution: str
    session: str | None
    at_ms: int | None
    adapter: str
    layer: str
    layer_index: int
    digest: str
    instruction: str | None
    response: str | None


# Evaluations come first and are looked up from, which SQLite is told by CROSS JOIN: starting from the pairs, it would
# ask all evaluations for each.


def judged_pairs(snapshot: Snapshot, wanted: TrainingFilter) -> Iterator[Told]:
    """Pairs with what was judged of them, in the order in which it was judged."""
    streams = (_of_pairs(snapshot, wanted), _of_executions(snapshot, wanted), _of_runs(snapshot, wanted))
    yield from heapq.merge(*streams, key=attrgetter("evaluation_no"))


def _of_pairs(snapshot: Snapshot, wanted: TrainingFilter) -> Iterator[Told]:
    more, values = _conditions(wanted, is_judged=True)
    rows = snapshot.connection.each(
        f"SELECT {_SAID}, {_PAIR} FROM evaluation e CROSS JOIN training_pair p CROSS JOIN execution x{_AROUND}"
        " WHERE e.learner_id = ? AND e.counts = 1 AND e.arm_no = 0 AND e.execution_no <> 0 AND e.layer_no <> 0"
        " AND p.learner_id = e.learner_id AND p.execution_no = e.execution_no AND p.layer_no = e.layer_no"
        f" AND x.learner_id = p.learner_id AND x.execution_no = p.execution_no{_STANDS}{more}"
        " ORDER BY e.evaluation_no",
        [snapshot.learner_id, *values],
    )
    return map(Told._make, rows)


def _of_executions(snapshot: Snapshot, wanted: TrainingFilter) -> Iterator[Told]:
    more, values = _conditions(wanted, is_judged=True)
    rows = snapshot.connection.each(
        f"SELECT {_SAID}, {_PAIR} FROM evaluation e CROSS JOIN training_pair p CROSS JOIN execution x{_AROUND}"
        " WHERE e.learner_id = ? AND e.counts = 1 AND e.arm_no = 0 AND e.execution_no <> 0 AND e.layer_no = 0"
        " AND p.learner_id = e.learner_id AND p.execution_no = e.execution_no"
        f" AND x.learner_id = p.learner_id AND x.execution_no = p.execution_no{_STANDS}{_NEARER}{more}"
        " ORDER BY e.evaluation_no, p.layer_no",
        [snapshot.learner_id, *values],
    )
    return map(Told._make, rows)


def _of_runs(snapshot: Snapshot, wanted: TrainingFilter) -> Iterator[Told]:
    more, values = _conditions(wanted, is_judged=True)
    rows = snapshot.connection.each(
        f"SELECT {_SAID}, {_PAIR} FROM evaluation e CROSS JOIN execution x {EXECUTIONS_BY_RUN}"
        f" CROSS JOIN training_pair p{_AROUND}"
        " WHERE e.learner_id = ? AND e.counts = 1 AND e.arm_no = 0 AND e.execution_no = 0 AND e.run_no <> 0"
        " AND x.learner_id = e.learner_id AND x.run_no = e.run_no AND x.run_no <> 0"
        " AND p.learner_id = x.learner_id AND p.execution_no = x.execution_no"
        " AND (e.layer_no = 0 OR e.layer_no = p.layer_no)"
        f"{_STANDS}{_NEARER}{_OF_WHOLE}{_OF_LAYER}{more} ORDER BY e.evaluation_no, p.execution_no, p.layer_no",
        [snapshot.learner_id, *values],
    )
    return map(Told._make, rows)


def all_pairs(snapshot: Snapshot, wanted: TrainingFilter) -> Iterator[Told]:
    """Pairs, judged or not, without what was judged."""
    more, values = _conditions(wanted, is_judged=False)
    rows = snapshot.connection.each(
        "SELECT 0, p.execution_no, p.layer_no, 'success', NULL, NULL, '', '', '', 0, 0,"
        f" {_PAIR} FROM training_pair p"
        " JOIN execution x ON x.learner_id = p.learner_id AND x.execution_no = p.execution_no"
        f"{_AROUND} WHERE p.learner_id = ?{_STANDS}{more} ORDER BY p.execution_no, p.layer_no",
        [snapshot.learner_id, *values],
    )
    return map(Told._make, rows)


def texts_of_pair(snapshot: Snapshot, execution_no: int, layer_no: int) -> tuple[str | None, str | None]:
    """Instruction and response of a pair."""
    row = snapshot.connection.row(
        "SELECT instruction, response FROM training_pair"
        " WHERE learner_id = ? AND execution_no = ? AND layer_no = ?",
        [snapshot.learner_id, execution_no, layer_no],
    )
    return (None, None) if row is None else (row[0], row[1])


def _conditions(wanted: TrainingFilter, *, is_judged: bool) -> tuple[str, list[str | int]]:
    """What a filter adds to a statement, and its values."""
    asked = [
        ("(xa.uri IN ({0}) OR la.uri IN ({0}) OR xa.name IN ({0}) OR la.name IN ({0}))", wanted.adapters, 4),
        ("l.uid IN ({0})", wanted.layers, 1),
        ("x.uid IN ({0})", wanted.executions, 1),
        *([("e.rater IN ({0})", wanted.raters, 1), ("e.rubric IN ({0})", wanted.rubrics, 1)] * is_judged),
    ]
    said: list[str] = []
    values: list[str | int] = []
    for text, names, times in asked:
        if names:
            said.append(text.format(", ".join("?" * len(names))))
            values += [*names] * times
    for text, at_ms in (("e.at_ms >= ?", wanted.since_ms), ("e.at_ms < ?", wanted.until_ms)):
        if is_judged and at_ms is not None:
            said.append(text)
            values.append(at_ms)
    return "".join(f" AND {one}" for one in said), values
