"""OpenTelemetry's protocol (OTLP): an ``ExportTraceServiceRequest``, as protobuf or JSON → spans; spans → a run.

Files of OTLP's JSON hold one request ``{resourceSpans}``, or one a line as a collector writes them; a run per trace.
The spans of a trace may lie on many lines and in several files of an import, in any order, so the first such file
reads all of them. A span that comes twice counts once. The runs are those of the same bytes sent to ``/v1/traces``.

The stored part of a span is what `core.formats.spans` reads. Unused attributes, and the input and output of steps
other than replies are dropped at once. Results of tools are dropped too, unless the learner keeps texts. OTLP's JSON
is not protobuf's: its ids are hexadecimal.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeGuard

import msgspec

from core.errors import InvalidInput, UnreadableSource
from core.formats.entries import MIB, Entry, Progress, Rejected
from core.formats.heads import head_of
from core.formats.prompts import is_part
from core.formats.reading import Format, Head, Reading, SubAgentFiles
from core.formats.spans import READ, RESULT_KEYS, SKILL_EVENTS, Span, as_text, skill_activated
from core.formats.split import SLICE_BYTES, Split, slices
from core.formats.strict import UNDECODABLE, Flaw, check, reason, uncollected
from core.formats.traced import Step, Tokens, Traced, apart
from core.formats.unknown import Unknown
from core.records.run import Inventory, Run

NAME: Final = "otlp"
Encoding = Literal["protobuf", "json"]
MAX_SPAN_BYTES: Final = 4 << 20
MAX_SPANS: Final = 300_000
_LARGE: Final = f"A span must be at most {MAX_SPAN_BYTES >> 20} MiB."
_BYTES: Final = 2
_FIXED: Final = {1: 8, 5: 4}
"""Bytes of the wire types of protobuf with a fixed length."""
_ATTRIBUTES: Final = 9
_SPAN_FIELDS: Final = frozenset((1, 2, 4, 5, 7, 8, _ATTRIBUTES, 15))
"""Fields of a span that are read."""
_LISTED: Final = "spans"
_DEPTH: Final = 5
"""Brackets around a list of spans in OTLP's JSON."""
_ALL: Final = "\0otlp"
"""Key of all files of an import, which no session has as its id."""
_MAX_DEPTH: Final = 128
_MS: Final = 1_000_000
_FAILED: Final = 2
_NO_ID: Final = frozenset("0")
_HEX: Final = frozenset("0123456789abcdef")
_DIGITS: Final = re.compile("-?[0-9]{1,20}")
_SIZE: Final[Mapping[str, int]] = {"trace_id": 32, "span_id": 16}

_INPUT_KEYS: Final = (
    "input.value",
    "gen_ai.tool.call.arguments",
    "tool_arguments",
    "ai.toolCall.args",
    "traceloop.entity.input",
)
_CAME: Final = ("output.value", "gen_ai.output.messages", "ai.response.text", "traceloop.entity.output")
_RESULTS: Final = (*RESULT_KEYS, "output.value", "traceloop.entity.output")
"""Attributes of a tool's span with the result of its call, which only transcripts hold."""
_ANSWERED: Final = (*_CAME, *RESULT_KEYS, "gen_ai.input.messages", "gen_ai.system_instructions")
_MODELS: Final = (
    "gen_ai.response.model",
    "ai.response.model",
    "gen_ai.request.model",
    "llm.model_name",
    "llm.request.model",
    "ai.model.id",
)
_USED: Final = (
    (
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.prompt_tokens",
        "llm.token_count.prompt",
        "ai.usage.promptTokens",
    ),
    (
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.completion_tokens",
        "llm.token_count.completion",
        "ai.usage.completionTokens",
    ),
    (
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "llm.token_count.prompt_details.cache_read",
    ),
    (
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
        "llm.token_count.prompt_details.cache_write",
    ),
    ("gen_ai.usage.total_tokens", "llm.token_count.total", "llm.usage.total_tokens"),
)
"""Attributes of frameworks for tokens read, written, read from a cache, written to one, and in total."""


_PACK: Final = msgspec.msgpack.Encoder().encode


class TracedSpan(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One span, ids in small hexadecimal digits; ``parent`` '': it is the root. Times are nanoseconds since 1970."""

    trace: str
    id: str
    parent: str
    name: str
    started_ns: int
    ended_ns: int
    failed: bool
    attributes: dict[str, Any]

    @property
    def session(self) -> str | None:
        """The session or conversation that it says it is of."""
        return _text(_first(self.attributes, ("session.id", "langfuse.session.id", "gen_ai.conversation.id")))

    def packed(self) -> bytes:
        """All of it, small."""
        return zlib.compress(_PACK(self), 1)


_UNPACK: Final = msgspec.msgpack.Decoder(TracedSpan).decode


def unpacked(content: bytes) -> TracedSpan:
    """The span that was `packed`."""
    return _UNPACK(zlib.decompress(content))


class RequestSpans(NamedTuple):
    """Content of a request: spans, and the reasons against its refused ones."""

    spans: list[TracedSpan]
    refused: list[str]


def read_spans(
    body: bytes, encoding: Encoding, *, keeps_texts: bool = False, max_spans: int = MAX_SPANS
) -> RequestSpans:
    """The spans of a request; with ``keeps_texts`` they have the results of tools.

    Raises `InvalidInput`, which never repeats what was sent, for what is no such request at all; a span that has no
    sound ids, or is larger than 4 MiB, is refused by itself.
    """
    raw_spans = _of_protobuf(body) if encoding == "protobuf" else _of_json(body)
    spans: list[TracedSpan] = []
    refused: list[str] = []
    words: dict[str, str] = {}
    for number, one in enumerate(raw_spans, start=1):
        if number > max_spans:
            raise InvalidInput(
                f"A request must have at most {max_spans:,} spans, got more.",
                next_step="Export fewer at a time; nothing was kept.",
            )
        try:
            if isinstance(one, Flaw):
                raise one
            spans.append(_checked(one, keeps_texts=keeps_texts))
        except Flaw as flaw:
            refused.append(words.setdefault(str(flaw), str(flaw)))
    return RequestSpans(spans, refused)


def run_or_reason(
    spans: Iterable[TracedSpan],
    supplied: Inventory | None = None,
    *,
    keeps_texts: bool = False,
    unknown: Unknown | None = None,
) -> Run | str:
    """Return the run of one trace's spans, or why there is none."""
    ordered = sorted(spans, key=lambda one: (one.started_ns, one.id))
    sessions = (one.session for one in sorted(ordered, key=lambda one: one.parent != ""))
    session = next((session for session in sessions if session), None)
    try:
        traced = Traced(id=ordered[0].trace, session=session, steps=apart(map(_step, ordered)))
        return traced.run(NAME, Unknown() if unknown is None else unknown, supplied, keeps_texts=keeps_texts)
    except UNDECODABLE as problem:
        words = reason(problem, b"")
        return words if words.endswith(".") else f"It {words}."


# Spans → steps


def _step(one: TracedSpan) -> Step:
    return Step(
        id=one.id,
        parent=one.parent or None,
        span=_span(one),
        started_ms=one.started_ns // _MS or None,
        ended_ms=one.ended_ns // _MS or None,
        failed=one.failed,
        model=_text(_first(one.attributes, _MODELS)),
        usage=_usage(one.attributes),
    )


def _span(one: TracedSpan) -> Span:
    attributes = one.attributes
    return Span(
        type=_type(attributes),
        name=_text(attributes.get("traceloop.entity.name")) or one.name,
        attributes=attributes,
        input=_first(attributes, _INPUT_KEYS),
        output=_first(attributes, _CAME),
    )


def _type(attributes: Mapping[str, object]) -> str:
    """TOOL or GENERATION where something else than the usual attributes says so."""
    kind = _text(attributes.get("langfuse.observation.type")) or ""
    if kind or attributes.get("traceloop.span.kind") == "tool":
        return kind.upper() or "TOOL"
    has_kind = "openinference.span.kind" in attributes or "gen_ai.operation.name" in attributes
    return "GENERATION" if not has_kind and _first(attributes, _MODELS) is not None else ""


def _usage(attributes: Mapping[str, object]) -> Tokens | None:
    read, written, cache_read, cache_write, total = (_count(_first(attributes, names)) for names in _USED)
    wrong = [
        name for name in chain.from_iterable(_USED) if name in attributes and not _is_count(attributes[name])
    ]
    if not (read or written or total or wrong):
        return None
    names = tuple(
        name.removeprefix(prefix)
        for prefix in ("gen_ai.usage.", "llm.token_count.", "llm.usage.", "ai.usage.")
        for name, value in attributes.items()
        if name.startswith(prefix) and _count(value) and not is_part(name.removeprefix(prefix))
    )
    return Tokens(read, written, cache_read, cache_write, total or read + written, unread=(*wrong, *names))


def _count(value: object) -> int:
    return round(value) if _is_count(value) else 0


def _is_count(value: object) -> TypeGuard[float]:
    return not isinstance(value, bool) and isinstance(value, int | float) and 0 <= value < 1 << 62


def _first(attributes: Mapping[str, object], names: Iterable[str]) -> object:
    values = (attributes.get(name) for name in names)
    return next((one for one in values if one is not None and one != ""), None)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


# A request → spans


def _checked(one: TracedSpan, *, keeps_texts: bool) -> TracedSpan:
    """A span with sound ids, and of its attributes those that are read."""
    for name, identifier in (("trace_id", one.trace), ("span_id", one.id), ("span_id", one.parent or one.id)):
        if len(identifier) != _SIZE[name] or not set(identifier) <= _HEX or set(identifier) == _NO_ID:
            raise Flaw(f"A span's {name} must be {_SIZE[name]} hexadecimal digits, not all 0.")
    checked = msgspec.structs.replace(one, attributes=_read_attributes(one, keeps_texts=keeps_texts))
    try:
        n_bytes = len(_PACK(checked))
    except (OverflowError, msgspec.MsgspecError, UnicodeEncodeError):
        raise Flaw("A span's values must be text in UTF-8 and numbers of 64 bits.") from None
    if n_bytes > MAX_SPAN_BYTES:
        raise Flaw(_LARGE)
    return checked


def _read_attributes(one: TracedSpan, *, keeps_texts: bool) -> dict[str, Any]:
    attributes = {name: value for name, value in one.attributes.items() if READ.match(name)}
    span = _span(msgspec.structs.replace(one, attributes=attributes))
    if not span.is_reply:
        is_tool = span.type == "TOOL" or span.kind == "TOOL" or "gen_ai.tool.name" in attributes
        is_tool = is_tool or "ai.toolCall.name" in attributes
        unread = _ANSWERED if is_tool else (*_ANSWERED, *_INPUT_KEYS)
        results = {
            name: as_text(attributes[name])
            for name in _RESULTS
            if keeps_texts and is_tool and name in attributes
        }
        attributes = {name: value for name, value in attributes.items() if name not in unread} | results
    return attributes


def _of_protobuf(body: bytes) -> Iterator[TracedSpan | Flaw]:
    """Yield the spans one by one: a list of all would take a hundred times the bytes of empty ones."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    try:
        for resource in _messages(memoryview(body), 1):
            for scope in _messages(resource, 2):
                for raw in _messages(scope, 2):
                    content = bytes(raw) if len(raw) <= MAX_SPAN_BYTES else b"".join(_own_fields(raw))
                    if len(content) > MAX_SPAN_BYTES:
                        yield Flaw(_LARGE)
                        continue
                    span = Span.FromString(content)
                    yield TracedSpan(
                        trace=span.trace_id.hex(),
                        id=span.span_id.hex(),
                        parent=span.parent_span_id.hex(),
                        name=span.name,
                        started_ns=span.start_time_unix_nano,
                        ended_ns=span.end_time_unix_nano,
                        failed=span.status.code == _FAILED,
                        attributes=_with_skills(
                            _message_values(span.attributes),
                            (_message_values(event.attributes) for event in span.events),
                        ),
                    )
    except (DecodeError, IndexError, Flaw):
        raise _no_request("can't be decoded") from None


def _messages(message: memoryview, number: int) -> Iterator[memoryview]:
    """Yield the messages in a field of a message of protobuf."""
    return (content for _, field, content in _wire_fields(message) if field == number and content is not None)


def _own_fields(span: memoryview) -> Iterator[memoryview]:
    """Yield the fields of a span that are read, as they are."""
    for whole, field, content in _wire_fields(span):
        if field == _ATTRIBUTES and content is not None:
            key = next(_messages(content, 1), b"")
            if not READ.match(bytes(key).decode(errors="replace")):
                continue
        if field in _SPAN_FIELDS:
            yield whole


def _wire_fields(message: memoryview) -> Iterator[tuple[memoryview, int, memoryview | None]]:
    """Yield each field with its tag, its number and its content, None for a number's."""
    at = 0
    while at < len(message):
        start = at
        tag, at = _varint(message, at)
        content = None
        if tag & 7 == _BYTES:
            n_bytes, at = _varint(message, at)
            content = message[at : at + n_bytes]
            at += n_bytes
        elif tag & 7 == 0:
            _, at = _varint(message, at)
        elif tag & 7 in _FIXED:
            at += _FIXED[tag & 7]
        else:
            raise Flaw("is of an unknown wire type")
        if at > len(message) or not tag >> 3:
            raise Flaw("is cut off")
        yield message[start:at], tag >> 3, content


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = message[at + shift // 7]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at + shift // 7 + 1
    raise Flaw("has a number of more than 64 bits")


def _with_skills(attributes: dict[str, object], events: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """Return a span's attributes with the skills that its events activated."""
    skills = [activated for event in events if (activated := skill_activated(event))]
    return {**attributes, SKILL_EVENTS: skills} if skills else attributes


def _message_values(pairs: Any) -> dict[str, object]:  # noqa: ANN401 - generated classes
    return {one.key: _message_value(one.value) for one in pairs}


def _message_value(value: Any) -> object:  # noqa: ANN401 - a generated class
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_message_value(one) for one in value.array_value.values]
    if kind == "kvlist_value":
        return {one.key: _message_value(one.value) for one in value.kvlist_value.values}
    return None if kind in {None, "bytes_value"} else getattr(value, kind)


class _Value(msgspec.Struct, rename="camel"):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None
    array_value: _Values | None = None
    kvlist_value: _Pairs | None = None

    @property
    def plain(self) -> object:
        if self.array_value is not None:
            return [one.plain for one in self.array_value.values]
        if self.kvlist_value is not None:
            return {one.key: one.value.plain for one in self.kvlist_value.values}
        if self.int_value is not None:
            return _number(self.int_value)
        if self.double_value is not None:
            return float(self.double_value) if isinstance(self.double_value, float) else None
        return self.string_value if self.bool_value is None else self.bool_value


class _Values(msgspec.Struct):
    values: list[_Value] = []


class _Pair(msgspec.Struct):
    key: str = ""
    value: _Value = msgspec.field(default_factory=_Value)


class _Pairs(msgspec.Struct):
    values: list[_Pair] = []


class _Status(msgspec.Struct):
    code: int | str = 0


class _Event(msgspec.Struct):
    attributes: list[_Pair] = []


class _FlatSpan(msgspec.Struct, rename="camel"):
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    name: str = ""
    start_time_unix_nano: int | str = 0
    end_time_unix_nano: int | str = 0
    attributes: list[_Pair] = []
    events: list[_Event] = []
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def span(self) -> TracedSpan:
        return TracedSpan(
            trace=self.trace_id.lower(),
            id=self.span_id.lower(),
            parent=self.parent_span_id.lower(),
            name=self.name,
            started_ns=_number(self.start_time_unix_nano),
            ended_ns=_number(self.end_time_unix_nano),
            failed=self.status.code in {_FAILED, "STATUS_CODE_ERROR"},
            attributes=_with_skills(
                {one.key: one.value.plain for one in self.attributes},
                ({one.key: one.value.plain for one in event.attributes} for event in self.events),
            ),
        )


class _Scope(msgspec.Struct):
    spans: list[_FlatSpan] = []


class _Resource(msgspec.Struct, rename="camel"):
    scope_spans: list[_Scope] = []


class _Request(msgspec.Struct, rename="camel"):
    resource_spans: list[_Resource] = []


_REQUEST: Final = msgspec.json.Decoder(_Request)
_SPAN: Final = msgspec.json.Decoder(_FlatSpan)


def _of_json(body: bytes) -> Iterator[TracedSpan]:
    """Yield the spans, those of a large body one by one."""
    try:
        rest = body
        if len(body) > SLICE_BYTES:
            apart = Split(slices(body), _LISTED, _DEPTH, b"".join)
            for _, raw in apart.elements():
                check(raw, _MAX_DEPTH)
                yield uncollected(_SPAN.decode, raw).span
            rest = apart.rest
        check(rest, _MAX_DEPTH)
        for resource in _REQUEST.decode(rest).resource_spans:
            for scope in resource.scope_spans:
                for one in scope.spans:
                    yield one.span
    except UNDECODABLE as problem:
        raise _no_request(reason(problem, body)) from None


def _number(value: int | str) -> int:
    """An integer of 64 bits, which JSON may have as a text."""
    if isinstance(value, str) and not _DIGITS.fullmatch(value):
        raise Flaw("holds a number that is none")
    number = int(value)
    if not -(1 << 63) <= number < 1 << 64:
        raise Flaw("holds an integer of more than 64 bits")
    return number


def _no_request(why: str) -> InvalidInput:
    return InvalidInput(
        f"The body must be an OTLP ExportTraceServiceRequest, got one that {why}.",
        next_step="Send what an OTLP/HTTP exporter of traces sends; nothing was kept.",
    )


# What is answered


def answer_to(encoding: Encoding, n_refused: int, words: str) -> bytes:
    """An ``ExportTraceServiceResponse``: so many spans were refused; ``words`` say why, or warn.

    >>> answer_to("json", 1, "A span must be at most 4 MiB.")
    b'{"partialSuccess":{"rejectedSpans":"1","errorMessage":"A span must be at most 4 MiB."}}'
    >>> answer_to("protobuf", 0, "")
    b''
    """
    if encoding == "json":
        rejected = {"rejectedSpans": str(n_refused), "errorMessage": words}
        return msgspec.json.encode({"partialSuccess": rejected} if n_refused or words else {})
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service

    if not (n_refused or words):
        return b""
    partial = service.ExportTracePartialSuccess(rejected_spans=n_refused, error_message=words)
    return bytes(service.ExportTraceServiceResponse(partial_success=partial).SerializeToString())


def problem_of(encoding: Encoding, words: str) -> bytes:
    r"""A ``google.rpc.Status`` that says what was wrong with a request.

    >>> problem_of("json", "No."), problem_of("protobuf", "No.")
    (b'{"message":"No."}', b'\x12\x03No.')
    """
    if encoding == "json":
        return msgspec.json.encode({"message": words})
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service

    # A text in field 2 of both, and nothing else: the same bytes.
    return bytes(service.ExportTracePartialSuccess(error_message=words).SerializeToString())


# Files


def _claims(head: Head) -> bool:
    return ("resourceSpans" in head.keys or any("resourceSpans" in line for line in head.lines)) and (
        b'"scopeSpans"' in head.start
    )


def _sort(_head: Head, path: Path, file: str, files: SubAgentFiles) -> None:
    files.add(path, file, _ALL)


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    files = dict(reading.sub_agents.of(_ALL)) or {reading.path: reading.file}
    if reading.path != next(iter(files)):
        return
    decode = partial(read_spans, encoding="json", keeps_texts=reading.keeps_texts)
    traces: dict[str, dict[bytes, str]] = {}
    n_bytes = 0
    for path, file in files.items():
        head = head_of(path, file, reading.limits)
        shape = "object" if head.is_long else head.shape
        own = replace(reading, path=path, file=file, shape=shape)
        follow = progress if path == reading.path else None
        pieces = own.document(_LISTED, follow, _DEPTH).parts() if shape == "object" else None
        for number, _, line in own.records(decode, follow, pieces):
            if isinstance(line, Rejected):
                yield line
                continue
            for why in line.refused:
                yield Rejected(file=file, line=number, reason=why)
            for span in line.spans:
                packed = span.packed()
                n_bytes += len(packed)
                traces.setdefault(span.trace, {})[packed] = span.id
            if n_bytes > reading.limits.document_bytes:
                most = reading.limits.document_bytes // MIB
                raise UnreadableSource(
                    f"The spans of an import must fit into {most} MiB, got more ({file}).",
                    next_step="Import fewer files at a time; a trace must not be divided.",
                )
    unknown = Unknown()
    for trace in sorted(traces):
        packed_spans = traces.pop(trace)
        unknown.n_shared += len(packed_spans) - len({*packed_spans.values()})
        spans = map(unpacked, packed_spans)
        run = run_or_reason(spans, reading.supplied, keeps_texts=reading.keeps_texts, unknown=unknown)
        if isinstance(run, str) or run.empty:
            why = run if isinstance(run, str) else "No span of it is a reply of a model or a call of a tool."
            yield Rejected(file=reading.file, line=None, reason=f"No run can be made of trace {trace}: {why}")
        else:
            yield run
    yield from unknown.remarks(reading.file)


FORMAT: Final = Format(
    name=NAME, units=("prompt",), claims=_claims, read=_read, sort=_sort, may_be_document="resourceSpans"
)
