"""Results of verifiers, one evaluated rollout a line, ``{example_id, task, prompt, completion, reward, info, …}``.

Beside ``NAME.results.jsonl`` lies ``NAME.metadata.json``, which names the environment and the model: they are part of
an identity. Both may have no ``NAME``. Every other
number of a line is a part of its reward or a measure (counts of calls, tokens, times). Calls are in the messages of
``completion``, each a JSON text; offered are the tools of ``info.oai_tools``. Lines of one ``example_id`` are
rollouts of the same task. A rollout without a reward is unpaid. One with an ``error``, or with ``is_completed``
false, is broken with any reward. Where measures count calls and the completion shows none, the called tools are
known, but not their steps, and the answer says so.

Version 1 writes traces: a line of ``traces.jsonl`` is an episode ``{id, env, task, traces}``, or one trace of it.
A trace is a graph of messages. Its calls are those of the nodes that a model wrote (``sampled``), each node once,
though branches share it. Its tokens are those of its model calls; ``prompt_tokens`` excludes cached ones. Other
usage, as of judges, is a measure. Its reward is the sum of score × weight; without a score it has none. ``ok`` false
breaks it. Without ``ok``, an error or ``is_completed`` false does. An episode that failed before any trace is broken
and has no replies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from core.errors import UnreadableSource
from core.formats.chat import Message, Record, Requested, ToolCall, read
from core.formats.entries import Entry, Limits, Progress, Remark
from core.formats.prompts import counts_of, readable, usage_of
from core.formats.reading import Format, Head, Piece, Reading
from core.formats.stream import Bytes, Damage
from core.formats.strict import UNDECODABLE, check, decoded, digest_of, named, plain, with_nulls
from core.formats.tools import DeclaredLists
from core.records.bill import Spent, heaviest, merged
from core.records.counts import number_of
from core.records.episode import Episode, Part
from core.records.limits import MAX_LABEL_CHARS, Label, Tokens
from core.records.run import Inventory

NAME: Final = "verifiers"

_RESULTS: Final = "results.jsonl"
_METADATA: Final = "metadata.json"
_ENDS: Final = ("", ".")
"""What a name before these two ends with: both are whole names, too."""
_PACKED: Final = ("", ".gz", ".bz2", ".xz")
_MARKS: Final = frozenset(("prompt", "completion", "reward"))
_OWN: Final = frozenset(("reward", "example_id", "id"))
_MEASURE: Final = re.compile(r"_calls$|_ms$|_tokens$|^num_|_turns$|_count$")
_CALLS: Final = re.compile(r"_calls$")

_ANY: Final = msgspec.json.Decoder()
_TEXT: Final = msgspec.json.Decoder(str)
_LISTED: Final = msgspec.json.Decoder(list[msgspec.Raw] | None)
_CALL: Final = msgspec.json.Decoder(ToolCall)

_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])

_NUMBER: Final = msgspec.json.Decoder(float)

_DIGITS: Final = frozenset(bytes([digit]) for digit in b"-0123456789")

_ONE_AGENT: Final = "agent"


class _Message(Message):
    """A message whose calls are objects, texts that hold one each, or one text that holds all."""

    tool_calls: msgspec.Raw = msgspec.Raw(b"null")  # type: ignore[assignment]  # only `requested` reads it

    @property
    def requested(self) -> list[Requested]:
        calls = [_CALL.decode(_opened(bytes(one))).requested for one in self._listed]
        return [call for call in calls if call is not None]

    @property
    def _listed(self) -> list[msgspec.Raw]:
        return _LISTED.decode(_opened(bytes(self.tool_calls))) or []


def _opened(raw: bytes) -> bytes:
    """Return the JSON that a text holds, else the JSON itself."""
    return _TEXT.decode(raw).encode() if raw.startswith(b'"') else raw


class _Info(msgspec.Struct):
    oai_tools: msgspec.Raw = msgspec.Raw(b"null")


class _Line(msgspec.Struct):
    """Members that are read by name; numbers are read from all members."""

    completion: msgspec.Raw
    reward: float | None = None
    prompt: msgspec.Raw = msgspec.Raw(b"null")
    example_id: msgspec.Raw = msgspec.Raw(b"null")
    id: msgspec.Raw = msgspec.Raw(b"null")
    info: msgspec.Raw = msgspec.Raw(b"null")
    error: msgspec.Raw = msgspec.Raw(b"null")
    is_completed: bool | None = None
    total_ms: float | None = None

    @property
    def broken(self) -> str | None:
        """The type of the error that ended the rollout, None for one that came to its end."""
        error = bytes(self.error)
        if error not in (b"null", b'""', b"false", b"{}"):
            return _type_of(error)
        return "not completed" if self.is_completed is False else None


class _Metadata(msgspec.Struct):
    env_id: str | None = None
    env: str | None = None
    model: str | None = None

    @property
    def about(self) -> str:
        """Part of each identity: equal lines of two environments or models are two rollouts."""
        names = [self.env_id or self.env, self.model]
        return f"-{digest_of(msgspec.json.encode(names))[:8]}" if any(names) else ""


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


class _TraceLine(msgspec.Struct):
    """An episode with its traces, or a trace alone."""

    env: _Env = msgspec.field(default_factory=_Env)
    traces: list[msgspec.Raw] | None = None
    nodes: msgspec.Raw = msgspec.Raw(b"")


class _Wrapped(msgspec.Struct):
    trace: _Trace
    env: str


_LINE: Final = msgspec.json.Decoder(_Line)
_MESSAGES: Final = msgspec.json.Decoder(list[_Message] | str | None)
_INFO: Final = msgspec.json.Decoder(_Info | str | None)
_METADATA_OF: Final = msgspec.json.Decoder(_Metadata)
_USAGE: Final = msgspec.json.Decoder(_Usage | None)
_TRACE_LINE: Final = msgspec.json.Decoder(_TraceLine)
_WRAPPED: Final = msgspec.json.Decoder(_Wrapped)


def _type_of(error: bytes) -> str:
    """Return the type of an error: of an object its name, of a text the part before the colon.

    >>> _type_of(b'{"error": "ModelError", "error_chain_str": "ModelError"}'), _type_of(b'"Timeout: 30 s"')
    ('ModelError', 'Timeout')
    """
    content = _ANY.decode(error)
    if isinstance(content, dict):
        content = next((content[key] for key in ("error", "type", "name") if content.get(key)), "error")
    text = str(content).partition(":")[0].partition("(")[0].strip()
    return text[:80] or "error"


def results_of(path: Path) -> Path | None:
    """The results that metadata belong to, None if the path names none, or there are none beside it."""
    stem = path.name.removesuffix(_METADATA)
    if stem == path.name or stem[-1:] not in _ENDS:
        return None
    paths = (path.with_name(f"{stem}{_RESULTS}{packed}") for packed in _PACKED)
    return next((one for one in paths if one.is_file()), None)


def _metadata(path: Path, limits: Limits) -> _Metadata:
    """Return the metadata beside results; empty where unreadable."""
    endings = (_RESULTS + packed for packed in _PACKED)
    stem = next((path.name.removesuffix(end) for end in endings if path.name.endswith(end)), None)
    beside = None if stem is None or stem[-1:] not in _ENDS else path.with_name(stem + _METADATA)
    if beside is None or not beside.is_file():
        return _Metadata()
    try:
        with Bytes(beside, beside.name, limits) as content:
            document = with_nulls(content.document())
        check(document, limits.depth)
        return _METADATA_OF.decode(document)
    except (*UNDECODABLE, OSError) as error:
        raise UnreadableSource(
            f"What lies beside results must be their metadata, but {beside.name} can't be read ({path.name}).",
            next_step="Copy both files again; without the metadata the environment has no name.",
        ) from error


@dataclass
class _Results:
    """Lines of one file → records."""

    metadata: _Metadata
    lists: DeclaredLists = field(default_factory=DeclaredLists)

    def record(self, raw: bytes) -> Record:
        trace = _trace_record(self.lists, raw)
        return self._record(raw) if trace is None else trace

    def _record(self, raw: bytes) -> Record:
        line = _LINE.decode(raw)
        prompt, completion = (_messages(one) for one in (line.prompt, line.completion))
        for message in completion:
            _ = message.requested  # which are read here, where a line that can't be is left out
        environment = named(self.metadata.env_id) or named(self.metadata.env)
        return Record(
            messages=[*(one for one in prompt if one.role == "user"), *completion],
            declared=self._offered(line.info),
            model=named(self.metadata.model),
            reward=line.reward,
            environment=NAME if environment is None else f"{NAME}/{environment}",
            task=named(line.example_id) or named(line.id),
            broken=line.broken,
            status="completed" if line.broken is None else "error",
            state=1 if line.broken else 2,
            parts=_parts(_MEMBERS.decode(raw)),
            duration_ms=round(line.total_ms) if line.total_ms and line.total_ms > 0 else None,
        )

    def _offered(self, raw: msgspec.Raw) -> Inventory | None:
        info = _INFO.decode(raw)
        if isinstance(info, str):
            info = _INFO.decode(info) if info.strip() else None
        if not isinstance(info, _Info) or bytes(info.oai_tools) == b"null":
            return None
        return self.lists.inventory(bytes(info.oai_tools))


def _messages(raw: msgspec.Raw) -> list[_Message]:
    messages = _MESSAGES.decode(raw)
    if isinstance(messages, str):
        return [_Message(role="assistant", content=messages)] if messages else []
    return messages or []


def _parts(members: dict[str, msgspec.Raw]) -> tuple[Part, ...]:
    """Return the numbers beside the reward, as parts of it or measures."""
    parts = []
    for name, value in members.items():
        raw = bytes(value)
        if name in _OWN or raw[:1] not in _DIGITS or not 1 <= len(name) <= MAX_LABEL_CHARS:
            continue
        parts.append(
            Part(name=name, value=_NUMBER.decode(raw), kind="measure" if _MEASURE.search(name) else "reward")
        )
    return tuple(parts)


def _is_trace(keys: set[str]) -> bool:
    """Return whether these are the members of an episode with traces, or of a trace."""
    return {"traces", "task", "id"} <= keys or {"nodes", "task", "agent", "id"} <= keys


def _separated(reading: Reading, progress: Progress | None) -> Iterator[Piece]:
    """Yield the lines of a file, and each trace of a line by itself, in an envelope with its environment."""
    for number, piece in reading.pieces(progress):
        if isinstance(piece, Damage) or (b'"nodes"' not in piece and b'"traces"' not in piece):
            yield number, piece
            continue
        piece = with_nulls(piece)  # noqa: PLW2901
        line = decoded(_TRACE_LINE, piece)
        if line is None or (line.traces is None and not line.nodes):
            yield number, piece  # what may be wrong with it is named where it is read
        else:
            for trace in line.traces or [msgspec.Raw(piece)]:
                yield number, msgspec.json.encode({"trace": trace, "env": line.env.id})


def _trace_record(lists: DeclaredLists, raw: bytes) -> Record | None:
    """Return the record of a trace in its envelope; None for another line."""
    if not raw.startswith(b'{"trace":'):
        return None
    wrapped = _WRAPPED.decode(raw)
    trace, agent = wrapped.trace, wrapped.trace.agent.name
    spent = [*trace.spent()]
    rows = merged(row for row, _ in spent)
    scores = [one.paid for one in trace.rewards.values() if one is not None and one.paid is not None]
    span, tools, broken = trace.timing.agent, bytes(trace.tools), trace.broken
    where = [NAME, named(wrapped.env), None if agent == _ONE_AGENT else named(agent)]
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


def _claims(head: Head) -> bool:
    return any(line.keys() >= _MARKS or _is_trace({*line}) for line in head.lines) or (
        (head.keys >= _MARKS and b'"role"' in head.start) or _is_trace({*head.keys})
    )


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    metadata = _metadata(reading.path, reading.limits)
    results = _Results(metadata)
    pieces = partial(_separated, reading)
    n_hidden = 0
    for entry in read(
        NAME, reading, progress, results.record, pieces=pieces, about=metadata.about, resumes=True
    ):
        if isinstance(entry, Episode) and len(entry.steps) == 1:
            n_hidden += any(_CALLS.search(part.name) and part.value > 0 for part in entry.parts)
        yield entry
    if n_hidden:
        episodes = number_of(n_hidden, "episode")
        yield Remark(
            file=reading.file,
            text=f"{episodes} in {reading.file} report calls and show none: the called tools are known, "
            "in which step is not.",
        )


FORMAT: Final = Format(name=NAME, units=("episode",), claims=_claims, read=_read, takes_nan=True)
