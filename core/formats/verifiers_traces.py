"""Traces of verifiers 1: a line of ``traces.jsonl`` is an episode ``{id, env, task, traces}``, or one trace of it.

A trace is a graph of messages. Its calls are those of the nodes that a model wrote (``sampled``), each node once,
though branches share it. Its tokens are those of its model calls; ``prompt_tokens`` excludes cached ones. Other
usage, as of judges, is a measure. Its reward is the sum of score × weight; without a score it has none. ``ok`` false
breaks it. Without ``ok``, an error or ``is_completed`` false does. An episode that failed before any trace is broken
and has no replies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from core.formats.chat import Message, Record
from core.formats.entries import Progress
from core.formats.prompts import counts_of, readable, usage_of
from core.formats.reading import Piece, Reading
from core.formats.stream import Damage
from core.formats.strict import decoded, named, plain, with_nulls
from core.formats.tools import DeclaredLists
from core.records.bill import Spent, heaviest, merged
from core.records.episode import Part
from core.records.limits import MAX_LABEL_CHARS, Label, Tokens

_START: Final = b'{"trace":'
_ONE_AGENT: Final = "agent"


class _Task(msgspec.Struct):
    key: msgspec.Raw = msgspec.Raw(b"null")
    hash: msgspec.Raw = msgspec.Raw(b"null")


class _Error(msgspec.Struct):
    type: str = "error"


class _Env(msgspec.Struct):
    id: str = ""


class _Node(msgspec.Struct):
    message: Message
    sampled: bool = False


class _Usage(msgspec.Struct):
    prompt_tokens: Tokens = 0
    completion_tokens: Tokens = 0
    cached_input_tokens: Tokens | None = None

    def row(self, model: str | None) -> Spent:
        cached = self.cached_input_tokens or 0
        return Spent(model=model, input=self.prompt_tokens, cache_read=cached, output=self.completion_tokens)


class _ModelCall(msgspec.Struct):
    model: Label | None = None
    usage: msgspec.Raw = msgspec.Raw(b"")


class _Reward(msgspec.Struct):
    score: float | None
    weight: float | None = 1.0

    @property
    def paid(self) -> float | None:
        """Score × weight; None where one of them is none."""
        return None if self.score is None or self.weight is None else self.score * self.weight


class _Span(msgspec.Struct):
    start: float = 0.0
    end: float = 0.0


class _Timing(msgspec.Struct):
    agent: _Span = msgspec.field(default_factory=_Span)


class _AgentInfo(msgspec.Struct):
    name: str = _ONE_AGENT


class _Trace(msgspec.Struct):
    id: str | None = None
    task: _Task = msgspec.field(default_factory=_Task)
    agent: _AgentInfo = msgspec.field(default_factory=_AgentInfo)
    tools: msgspec.Raw = msgspec.Raw(b"[]")
    nodes: list[_Node] = []
    calls: list[_ModelCall] = []
    rewards: dict[str, _Reward | None] = {}
    metrics: dict[str, float | None] = {}
    extra_usage: list[msgspec.Raw] = []
    errors: list[_Error] = []
    ok: bool | None = None
    is_completed: bool | None = None
    stop_condition: str | None = None
    timing: _Timing = msgspec.field(default_factory=_Timing)

    @property
    def broken(self) -> str | None:
        is_whole = self.ok if self.ok is not None else not self.errors and self.is_completed is not False
        return (
            None
            if is_whole
            else self.errors[-1].type
            if self.errors
            else self.stop_condition or "not completed"
        )

    def spent(self) -> Iterator[tuple[Spent, list[str]]]:
        """Yield the counts of each call, and the names of those that are not understood."""
        for call in self.calls:
            used, names = counts_of(_USAGE, call.usage)
            if used is not None:
                yield used.row(call.model), names

    def parts(self) -> Iterator[Part]:
        """Yield the named rewards with their weights, then the measures."""
        for name, reward in self.rewards.items():
            if reward is not None and reward.paid is not None and 1 <= len(name) <= MAX_LABEL_CHARS:
                yield Part(name=name, value=reward.paid)
        measures = dict(self.metrics)
        if self.extra_usage:
            extra = [readable(_USAGE, one)[0] for one in self.extra_usage]
            measures["extra_tokens"] = sum(one.prompt_tokens + one.completion_tokens for one in extra if one)
        for name, value in measures.items():
            if value is not None and name not in self.rewards and 1 <= len(name) <= MAX_LABEL_CHARS:
                yield Part(name=name, value=value, kind="measure")


class _Line(msgspec.Struct):
    """An episode with its traces, or a trace alone."""

    env: _Env = msgspec.field(default_factory=_Env)
    traces: list[msgspec.Raw] | None = None
    nodes: msgspec.Raw = msgspec.Raw(b"")


class _Wrapped(msgspec.Struct):
    trace: _Trace
    env: str


_USAGE: Final = msgspec.json.Decoder(_Usage | None)
_LINE: Final = msgspec.json.Decoder(_Line)
_WRAPPED: Final = msgspec.json.Decoder(_Wrapped)


def is_trace(keys: set[str]) -> bool:
    """Return whether these are the members of an episode with traces, or of a trace."""
    return {"traces", "task", "id"} <= keys or {"nodes", "task", "agent", "id"} <= keys


def separated(reading: Reading, progress: Progress | None) -> Iterator[Piece]:
    """Yield the lines of a file, and each trace of a line by itself, in an envelope with its environment."""
    for number, piece in reading.pieces(progress):
        if isinstance(piece, Damage) or (b'"nodes"' not in piece and b'"traces"' not in piece):
            yield number, piece
            continue
        piece = with_nulls(piece)  # noqa: PLW2901
        line = decoded(_LINE, piece)
        if line is None or (line.traces is None and not line.nodes):
            yield number, piece  # what may be wrong with it is named where it is read
        else:
            for trace in line.traces or [msgspec.Raw(piece)]:
                yield number, msgspec.json.encode({"trace": trace, "env": line.env.id})


def record(name: str, lists: DeclaredLists, raw: bytes) -> Record | None:
    """Return the record of a trace in its envelope; None for another line."""
    if not raw.startswith(_START):
        return None
    wrapped = _WRAPPED.decode(raw)
    trace, agent = wrapped.trace, wrapped.trace.agent.name
    spent = [*trace.spent()]
    rows = merged(row for row, _ in spent)
    scores = [one.paid for one in trace.rewards.values() if one is not None and one.paid is not None]
    span, tools, broken = trace.timing.agent, bytes(trace.tools), trace.broken
    where = [name, named(wrapped.env), None if agent == _ONE_AGENT else named(agent)]
    return Record(
        messages=[node.message for node in trace.nodes if node.sampled or node.message.role != "assistant"],
        declared=None if tools in {b"[]", b"null"} else lists.inventory(tools),
        identity=plain(trace.id),
        model=heaviest(rows),
        reward=sum(scores) if scores else None,
        environment="/".join([part for part in where if part]),
        task=named(trace.task.key) or named(trace.task.hash),
        broken=broken,
        status="completed" if broken is None else "error",
        state=1 if broken else 2,
        parts=tuple(trace.parts()),
        usage=usage_of(rows),
        spent=rows,
        unread=[name for _, names in spent for name in names],
        duration_ms=round((span.end - span.start) * 1000) if span.end > span.start > 0 else None,
        ended_at=span.end * 1000 or None,
    )
