"""Langfuse exports ``{trace, observations}`` or ``{traces, observations}``, one run per trace.

What an observation means is in the attributes that frameworks send, OpenTelemetry's ``gen_ai.*`` or
OpenInference's, and every framework has its own way:

- *Offered tools* stand in one of many places (`core.formats.spans`); all that are found are taken together. A
  trace that lists none takes ``--tools``, else what it calls.
- *Calls* are the spans of tools, and what the model's replies ask for; a call that shows in both, or in spans
  inside each other, counts once.
- *Usage* is that of the innermost observations that have one: those around them repeat it.

- *Tools* are what the model could choose from: one that a framework makes for the final answer (``final_result``)
  is a tool where it is listed among the others, and none where it is listed apart.

A trace whose tools or calls can't be told is refused with the reason: a guess would count for or against arms. So
is one that names a tool in nothing but the name of a span (``tool.search.wikipedia.start``), for what of it is the
tool's own name it doesn't say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from core.formats.entries import Entry, Progress, Rejected
from core.formats.identity import plain
from core.formats.moments import moment
from core.formats.reading import Format, Head, Reading
from core.formats.spans import Span, asked_for, attributes_of, offered, texts, tool_called
from core.formats.strict import UNDECODABLE, Flaw
from core.formats.tools import inferred, inventory_of
from core.records.limits import Label
from core.records.run import Call, Inventory, Run, Usage

NAME: Final = "langfuse"

_MAX_LEVELS: Final = 64

_Tokens = dict[str, float | None]


class _Trace(msgspec.Struct, rename="camel"):
    id: str
    session_id: str | None = None


class _Observation(msgspec.Struct, rename="camel"):
    id: str
    type: str = ""
    name: str | None = None
    trace_id: str | None = None
    parent_observation_id: str | None = None
    start_time: str | None = None
    end_time: str | None = None
    level: str | None = None
    model: Label | None = None
    metadata: object = None
    input: object = None
    output: object = None
    model_parameters: object = None
    tool_definitions: object = None
    usage_details: _Tokens | None = None
    input_usage: float | None = None
    output_usage: float | None = None
    total_usage: float | None = None

    @property
    def usage(self) -> _Tokens:
        """Tokens by kind; the older fields hold the same sums, and zero where there are none."""
        older = {"input": self.input_usage, "output": self.output_usage, "total": self.total_usage}
        return self.usage_details or older


class _Export(msgspec.Struct, rename="camel"):
    """One trace, or several with all their observations; without either the trace's own fields stand beside its
    observations.
    """

    observations: list[_Observation]
    trace: _Trace | None = None
    traces: list[_Trace] | None = None
    id: str | None = None
    session_id: str | None = None

    def parts(self) -> Iterator[tuple[_Trace, list[_Observation]]]:
        """Every trace with its observations."""
        if self.traces is None:
            yield self.trace or _Trace(id=self.id or "", session_id=self.session_id), self.observations
            return
        by_trace: dict[str | None, list[_Observation]] = {}
        for one in self.observations:
            by_trace.setdefault(one.trace_id, []).append(one)
        for trace in self.traces:
            yield trace, by_trace.get(trace.id, [])


_EXPORT: Final = msgspec.json.Decoder(_Export)


def _claims(head: Head) -> bool:
    """What the trace itself says comes first and may fill the head."""
    if "observations" in head.keys:
        return "trace" in head.keys or "traces" in head.keys or {"id", "projectId"} <= head.keys
    return head.keys == {"trace"} and b'"projectId"' in head.start


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    for number, raw, export in reading.records(_EXPORT.decode, progress):
        if isinstance(export, Rejected):
            yield export
            continue
        for trace, observations in export.parts():
            try:
                yield _Told.of(trace, observations).run(reading)
            except UNDECODABLE as error:
                yield reading.rejected(number, error, raw)


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """An observation and what its attributes say."""

    observation: _Observation
    span: Span


@dataclass(frozen=True, kw_only=True)
class _Told:
    """All that a trace tells, in the order of its observations' starts."""

    id: str
    session: str | None
    seen: Sequence[_Seen]
    parents: dict[str, str | None]

    @classmethod
    def of(cls, trace: _Trace, observations: Sequence[_Observation]) -> _Told:
        identity = plain(trace.id)
        if identity is None:
            raise Flaw("has no id of its trace")
        distinct = {one.id: one for one in observations}  # what is told again was updated
        ordered = sorted(distinct.values(), key=lambda one: one.start_time or "")
        parents = {one.id: one.parent_observation_id for one in ordered}
        seen = [_Seen(observation=one, span=_span(one)) for one in ordered]
        return cls(id=identity, session=plain(trace.session_id), seen=seen, parents=parents)

    def run(self, reading: Reading) -> Run:
        calls = self.calls()
        ended_at_ms, is_naive = moment(max((one.observation.end_time or "" for one in self.seen), default=""))
        return Run(
            uid=f"{NAME}/prompt/{self.id}",
            inventory=self.offered() or reading.supplied or inferred({call.name for call in calls}),
            format=NAME,
            unit="prompt",
            source=self.id,
            rank=len(self.seen),
            session=self.session or self.id,
            ended_at_ms=ended_at_ms,
            naive_time=is_naive,
            model=self.model(),
            status="error" if self._failed() else "completed",
            usage=self.usage(),
            duration_ms=self.duration_ms(ended_at_ms),
            calls=tuple(calls),
            texts=tuple(text for one in self._replies() for text in texts(one.span)),
            empty=not calls and not self._replies(),
            prompt=self._prompt(),
            reply=next((text for one in reversed(self._replies()) for text in texts(one.span)), None),
        )

    def _prompt(self) -> str | None:
        """What the user said last before the first reply: what came before is history."""
        asked = (asked_for(one.span) for one in self._replies())
        return next((text for text in asked if text is not None), None)

    def offered(self) -> Inventory | None:
        """Every tool that any part of the trace lists; with its schema, if one of them has it."""
        found: dict[str, object] = {}
        for one in self.seen:
            for name, tool in offered(one.span):
                if isinstance(found.get(name, ""), str):
                    found[name] = tool
        return inventory_of(msgspec.json.encode(list(found.values())), "declared") if found else None

    def calls(self) -> list[Call]:
        made = self._made()
        asked = self._asked()
        n_made = Counter(call.name for call in made)
        n_asked: Counter[str] = Counter()
        calls = list(made)
        for call in asked:
            n_asked[call.name] += 1
            if n_asked[call.name] > n_made[call.name]:
                calls.append(call)
        if not calls:
            self._check_no_calls()
        return calls

    def _made(self) -> list[Call]:
        """Spans of tools; one inside another of the same tool, or of the same call, is not another call."""
        told = ((one.observation.id, tool_called(one.span)) for one in self.seen)
        spans = {identity: call for identity, call in told if call is not None}
        names = {identity: call.name for identity, call in spans.items()}
        ids: set[str] = set()
        made: list[Call] = []
        for identity, call in spans.items():
            if call.id in ids or any(names.get(around) == call.name for around in self._around(identity)):
                continue
            if call.id is not None:
                ids.add(call.id)
            made.append(call.call)
        return made

    def _asked(self) -> list[Call]:
        """What the model asked for; of replies around each other the innermost that asks for anything."""
        asking = {one.observation.id: one.span.asked for one in self._replies() if one.span.asked}
        outer = self._outer(asking)
        not_tools = {name for one in self.seen for name in one.span.output_tools}
        ids: set[str] = set()
        found: list[Call] = []
        for identity, calls in asking.items():
            for call in calls:
                is_known = identity in outer if call.id is None else call.id in ids
                if call.id is not None:
                    ids.add(call.id)
                if not is_known and call.name not in not_tools:
                    found.append(call.call)
        return found

    def _check_no_calls(self) -> None:
        """No call was found; if the trace says that there was one, it can't be told."""
        if any(one.span.asks_for_tools for one in self.seen):
            raise Flaw("says that the model asked for tools, but not for which")
        if any(one.span.mentions_tool for one in self.seen):
            raise Flaw("names tools that the agent went for, but no call of them")

    def _replies(self) -> list[_Seen]:
        return [one for one in self.seen if one.span.is_reply]

    def _failed(self) -> bool:
        """Whether the outermost observation did; failures inside were perhaps made up for."""
        return any(
            one.observation.level == "ERROR" and one.observation.parent_observation_id not in self.parents
            for one in self.seen
        )

    def _around(self, identity: str) -> Iterator[str]:
        """The observations around one, from the nearest; a circle, which only a broken file has, ends too."""
        parent = self.parents.get(identity)
        for _ in range(_MAX_LEVELS):
            if parent is None or parent not in self.parents:
                return
            yield parent
            parent = self.parents[parent]

    def _outer(self, identities: Iterable[str]) -> set[str]:
        """All observations around any of these; each is visited once, however deep they lie."""
        outer: set[str] = set()
        for identity in identities:
            parent = self.parents.get(identity)
            while parent is not None and parent in self.parents and parent not in outer:
                outer.add(parent)
                parent = self.parents[parent]
        return outer

    def model(self) -> str | None:
        models = [one.observation.model for one in self._replies() if one.observation.model is not None]
        return models[-1] if models else None

    def usage(self) -> Usage | None:
        told = {one.observation.id: one for one in self.seen if _sum(one.observation, _is_counted) > 0}
        outer = self._outer(told)
        innermost = [one.observation for identity, one in told.items() if identity not in outer]
        found = Usage(
            input=sum(_sum(one, "input".__eq__) for one in innermost),
            output=sum(_sum(one, "output".__eq__) for one in innermost),
            cache_read=sum(_sum(one, _is_cache_read) for one in innermost),
            cache_write=sum(_sum(one, _is_cache_write) for one in innermost),
            total=sum(_total(one) for one in innermost) or None,
        )
        return None if found.tokens is None else found

    def duration_ms(self, ended_at_ms: int | None) -> int | None:
        starts = [moment(one.observation.start_time)[0] for one in self.seen]
        known = [start for start in starts if start is not None]
        if ended_at_ms is None or not known or ended_at_ms < min(known):
            return None
        return ended_at_ms - min(known)


def _span(one: _Observation) -> Span:
    return Span(
        type=one.type,
        name=one.name or "",
        attributes=attributes_of(one.metadata),
        input=one.input,
        output=one.output,
        parameters=one.model_parameters,
        definitions=one.tool_definitions,
    )


# --- usage ------------------------------------------------------------------------------------------------


def _sum(one: _Observation, is_wanted: Callable[[str], bool]) -> int:
    return sum(round(tokens or 0) for name, tokens in one.usage.items() if is_wanted(name))


def _total(one: _Observation) -> int:
    return _sum(one, "total".__eq__) or _sum(one, {"input", "output"}.__contains__)


def _is_counted(name: str) -> bool:
    return name in {"input", "output", "total"}


def _is_cache_read(name: str) -> bool:
    return "cache_read" in name or "cached" in name


def _is_cache_write(name: str) -> bool:
    return "cache_creation" in name or "cache_write" in name


FORMAT: Final = Format(name=NAME, units=("prompt",), claims=_claims, read=_read)
