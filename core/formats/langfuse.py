"""Langfuse exports ``{trace, observations}`` or ``{traces, observations}``, one run per trace
(`core.formats.traced`).

What an observation means is in the attributes that frameworks send, OpenTelemetry's ``gen_ai.*`` or
OpenInference's, and every framework has its own way. A trace that lists no tools takes ``--tools``, else what it
calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Annotated, Final

import msgspec

from core.formats.entries import Entry, Progress, Rejected
from core.formats.prompts import is_part, readable
from core.formats.reading import Format, Head, Reading
from core.formats.spans import Span, attributes_of
from core.formats.strict import UNDECODABLE, utc_ms_of
from core.formats.traced import Step, Tokens, Traced, apart
from core.formats.unknown import Unknown
from core.records.limits import MAX_TOKENS, Label

NAME: Final = "langfuse"

_Counts = dict[str, Annotated[float, msgspec.Meta(ge=0, le=MAX_TOKENS)] | None]
_COUNTS: Final = msgspec.json.Decoder(_Counts)


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
    usage_details: object = None
    input_usage: object = None
    output_usage: object = None
    total_usage: object = None

    def __post_init__(self) -> None:
        """Keep only what is read, as a trace is held as a whole."""
        self.metadata = attributes_of(self.metadata)

    @property
    def usage(self) -> tuple[_Counts, list[str]]:
        """Tokens by kind, and the kinds of another shape. The older fields hold the same sums, or zeros."""
        older = {"input": self.input_usage, "output": self.output_usage, "total": self.total_usage}
        return readable(_COUNTS, msgspec.json.encode(self.usage_details or older))


class _Export(msgspec.Struct, rename="camel"):
    """One trace, or several with all observations; without either, its fields are the trace's."""

    observations: list[_Observation]
    trace: _Trace | None = None
    traces: list[_Trace] | None = None
    id: str | None = None
    session_id: str | None = None

    def parts(self) -> Iterator[tuple[_Trace, list[_Observation]]]:
        """Yield each trace with its observations."""
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
    """Return whether this is a trace; the trace's own fields come first and may fill the head."""
    if "observations" in head.keys:
        return "trace" in head.keys or "traces" in head.keys or {"id", "projectId"} <= head.keys
    return head.keys == {"trace"} and b'"projectId"' in head.start


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    unknown = Unknown()
    document = reading.document("observations", progress) if reading.shape == "object" else None
    is_large, pieces = (False, None) if document is None else (document.is_large, document.parts())
    whole: _Export | None = None
    for number, raw, export in reading.records(_EXPORT.decode, progress, pieces):
        if isinstance(export, Rejected):
            yield export
        elif not is_large:
            yield from _runs(reading, unknown, export, number, raw)
        elif whole is None:
            whole = export
        else:
            whole.observations += export.observations
    if whole is not None:
        yield from _runs(reading, unknown, whole, 1, b"")
    yield from unknown.remarks(reading.file)


def _runs(reading: Reading, unknown: Unknown, export: _Export, number: int, raw: bytes) -> Iterator[Entry]:
    for trace, observations in export.parts():
        distinct = _distinct(observations)
        unknown.n_shared += len(distinct) - len({one.id for one in distinct})
        try:
            steps = apart(map(_step, sorted(distinct, key=lambda one: one.start_time or "")))
            traced = Traced(id=trace.id, session=trace.session_id, steps=steps)
            yield traced.run(NAME, unknown, reading.supplied, keeps_texts=reading.keeps_texts)
        except UNDECODABLE as error:
            yield reading.rejected(number, error, raw)


def _distinct(observations: Sequence[_Observation]) -> Collection[_Observation]:
    """Return the last state of each observation; one of another start or name is another one, at any id."""
    return {(one.id, one.start_time, one.type, one.name): one for one in observations}.values()


def _step(one: _Observation) -> Step:
    ended_ms, is_naive = utc_ms_of(one.end_time)
    return Step(
        id=one.id,
        parent=one.parent_observation_id,
        span=Span(
            type=one.type,
            name=one.name or "",
            attributes=attributes_of(one.metadata),
            input=one.input,
            output=one.output,
            parameters=one.model_parameters,
            definitions=one.tool_definitions,
        ),
        started_ms=utc_ms_of(one.start_time)[0],
        ended_ms=ended_ms,
        naive_time=is_naive,
        failed=one.level == "ERROR",
        model=one.model,
        usage=_usage(one),
    )


# --- usage ------------------------------------------------------------------------------------------------


def _usage(one: _Observation) -> Tokens | None:
    counts, wrong = one.usage
    if _sum(counts, {"input", "output", "total"}.__contains__) <= 0 and not wrong:
        return None
    return Tokens(
        input=_sum(counts, "input".__eq__),
        output=_sum(counts, "output".__eq__),
        cache_read=_sum(counts, lambda name: "cache_read" in name or "cached" in name),
        cache_write=_sum(counts, lambda name: "cache_creation" in name or "cache_write" in name),
        total=_sum(counts, "total".__eq__) or _sum(counts, {"input", "output"}.__contains__),
        thoughts=_sum(counts, lambda name: name.startswith("output_")),
        unread=(*wrong, *(name for name, n in counts.items() if n and not is_part(name))),
    )


def _sum(counts: _Counts, is_meant: Callable[[str], bool]) -> int:
    return sum(round(tokens or 0) for name, tokens in counts.items() if is_meant(name))


FORMAT: Final = Format(
    name=NAME, units=("prompt",), claims=_claims, read=_read, may_be_document="observations"
)
