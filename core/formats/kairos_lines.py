"""Training rows, ``reward_jsonl`` and ``trace_jsonl`` of KAIROS or of ours → layers, executions, evaluations.

Rows are pairs, and an execution may have several, which are passed on together. A first pass counts the rows of each
execution, so that the second pass knows its last row and holds only open ones. An evaluation is identified by its
content, so that a repeated row counts once, also from another file. Consequences of a reward (labels, flags,
blockers) are not read but computed again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from core.errors import InvalidEvaluation
from core.formats.entries import Entry, Progress, Rejected
from core.formats.kairos import Reward, read_rewarded, read_trace
from core.formats.reading import Format, Head, Reading
from core.formats.strict import Flaw, digest_of
from core.records.evaluation_lines import (
    CONTENT_PREFIX,
    EvaluationLine,
    ExecutionLine,
    LayerLine,
    PairLine,
)
from core.records.layer import LayerUri

NAME: Final = "kairos"
_PARTS: Final = frozenset({"instruction", "response"})
_OF_TRACE: Final = frozenset({"execution_id", "layer_uri", "layer_index"})


class _Of(msgspec.Struct, gc=False):
    """The execution of a row, in any of its fields."""

    execution_id: str = ""
    metadata: _Of | None = None


_OF: Final = msgspec.json.Decoder(_Of)


def _claims(head: Head) -> bool:
    return any(_is_row(line) for line in head.lines) or head.keys >= (_PARTS | _OF_TRACE)


def _is_row(line: dict[str, msgspec.Raw]) -> bool:
    if not line.keys() >= _PARTS:
        return False
    return line.keys() >= _OF_TRACE or (
        line.keys() >= {"reward", "metadata"} and b'"execution_id"' in bytes(line["metadata"])
    )


class _Row(NamedTuple):
    """The content of a row, each part checked."""

    layer: LayerLine
    execution: ExecutionLine
    evaluation: EvaluationLine | None


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    reader = _RowReader(reading.file, Counter(_execution(of) for _, _, of in reading.records(_OF.decode)))
    for number, _, row in reading.records(_row, progress):
        yield from (row,) if isinstance(row, Rejected) else reader.row(number, row)
    yield from reader.rest()


def _execution(of: _Of | Rejected) -> str:
    if isinstance(of, Rejected):
        return ""
    return (of.execution_id or ("" if of.metadata is None else of.metadata.execution_id)).lower()


def _row(raw: bytes) -> _Row:
    """A row of either kind; what is a reward's has its place below ``metadata``."""
    row = read_rewarded(raw) if _OF.decode(raw).metadata is not None else read_trace(raw)
    if not row.execution:
        raise Flaw("names no execution")
    try:
        layer = LayerUri.parse(row.layer_uri).key
    except InvalidEvaluation as problem:
        raise Flaw(f"names no layer: {problem.problem}") from None
    pair = PairLine(layer=layer, index=row.layer_index, instruction=row.instruction, response=row.response)
    execution = ExecutionLine(
        uid=row.execution.lower(), adapter=row.adapter_uri, at_ms=row.at_ms, pairs=(pair,)
    )
    return _Row(
        LayerLine(uid=layer, adapter=row.adapter_uri, index=row.layer_index),
        execution,
        None if row.reward is None else _evaluation(execution.uid, layer, row.reward),
    )


def _evaluation(execution: str, layer: str, reward: Reward) -> EvaluationLine:
    identity = (execution, layer, *msgspec.structs.astuple(reward))
    return EvaluationLine(
        id=CONTENT_PREFIX + digest_of(msgspec.json.encode(identity)),
        layer=layer,
        execution=execution,
        outcome=reward.outcome,
        score=reward.score,
        feedback=reward.feedback or None,
        rater=reward.rater,
        model=reward.llm_model_id,
        rubric=reward.rubric_version,
        at_ms=reward.rated_at_ms,
    )


@dataclass
class _RowReader:
    """Rows, as they come; ``left`` counts those of each execution that are still to come."""

    file: str
    left: Counter[str]
    open: dict[str, ExecutionLine] = field(default_factory=dict)
    layers: set[str] = field(default_factory=set)

    def row(self, number: int, row: _Row) -> Iterator[Entry]:
        """Yield the content of a row, and its execution after the last of its rows."""
        if row.layer.uid not in self.layers:
            self.layers.add(row.layer.uid)
            yield row.layer
        uid = row.execution.uid
        if not self._take(row.execution):
            reason = f"Execution {uid[:60]!r} has another text for the same layer in an earlier line."
            yield Rejected(file=self.file, line=number, reason=reason)
        elif row.evaluation is not None:
            yield row.evaluation
        self.left[uid] -= 1
        if not self.left[uid]:
            del self.left[uid]
            yield self.open.pop(uid)

    def rest(self) -> Iterator[Entry]:
        """Executions some of whose rows could not be read."""
        yield from self.open.values()

    def _take(self, execution: ExecutionLine) -> bool:
        """Put a row's pair to those of its execution; whether it is one, or is there already, word for word."""
        known, (pair,) = self.open.get(execution.uid), execution.pairs
        if known is None:
            self.open[execution.uid] = execution
            return True
        same = next((one for one in known.pairs if one.layer == pair.layer), None)
        if same is None:
            self.open[execution.uid] = msgspec.structs.replace(known, pairs=(*known.pairs, pair))
        return same is None or same == pair


FORMAT: Final = Format(name=NAME, units=(), claims=_claims, read=_read, takes_tools=False, takes_nan=True)
