"""Attributes of traced spans → tools offered, tools called, texts: OpenTelemetry GenAI, OpenInference, and the
keys of some frameworks.

Values come as they were sent or as text that holds JSON; both are read alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import msgspec

from core.formats.chat import argument_text, metadata, output_text
from core.formats.strict import Flaw
from core.records.run import Call

_MAX_NAME_CHARS: Final = 512
_MAX_LEVELS: Final = 12
"""Greatest depth of a call in a reply; a message is at most five levels down."""

_SCHEMA: Final = re.compile(r"llm\.tools\.\d+\.tool\.json_schema")
_FUNCTION: Final = re.compile(r"llm\.request\.functions\.\d+\.name")
_TOOL_LISTS: Final = re.compile(
    r"gen_ai\.tool\.definitions|gen_ai\.(request|agent)\.tools|llm\.tools|ai\.prompt\.tools|agno.*\.tools"
    r"|smolagents\.tools_names|function_tools|builtin_tools"
)
_HOLDERS: Final = (
    "model_request_parameters",
    "llm.invocation_parameters",
    "gcp.vertex.agent.llm_request",
)
"""Attributes with a list of tools inside, on top or under ``config``."""
_FLAT_CALL: Final = re.compile(
    r"(?P<place>llm\.output_messages\.\d+\.message\.tool_calls\.\d+)\.tool_call\.(?P<part>.+)"
    r"|(?P<place2>gen_ai\.completion\.\d+\.tool_calls\.\d+)\.(?P<part2>.+)"
)
_FLAT_TEXT: Final = re.compile(
    r"llm\.output_messages\.\d+\.message\.(content|contents\.\d+\.message_content\.text)"
    r"|gen_ai\.completion\.\d+\.content"
)
_FLAT_INPUT: Final = re.compile(
    r"(?:llm\.input_messages|gen_ai\.prompt)\.(?P<place>\d{1,9})\."
    r"(?P<field>(?:message\.)?(?:role|content)|message\.contents\.0\.message_content\.text)"
)
_USERS: Final = frozenset(("user", "human"))
_NAMING: Final = ("name", "function", "tool.name", "tool.json_schema", "json_schema", "toolSpec")
_REPLIES: Final = frozenset(("chat", "generate_content", "text_completion"))
_AGENT: Final = "invoke_agent"
_NOT_REPLIES: Final = frozenset(("user", "human", "system", "developer", "tool", "function"))
_ASKING: Final = frozenset(("tool_calls", "tool_call", "tool_use", "function_call"))
_RESULT_TYPES: Final = frozenset(("tool_result", "tool_call_response"))
RESULT_KEYS: Final = ("gen_ai.tool.call.result", "ai.toolCall.result", "tool_response")
"""Attributes of frameworks for the result of a tool's call."""
READ: Final = re.compile(
    r"gen_ai\.|llm\.|skill\.|ai\.(prompt\.tools|toolCall\.(name|id|args|result)|model\.id|response\.(model|text)|usage\.)|agno|"
    r"(smolagents\.tools_names|function_tools|builtin_tools|model_request_parameters|tool_arguments|tool_response|"
    r"gcp\.vertex\.agent\.llm_request|(in|out)put\.value|tool\.name|tool_call\.id|openinference\.span\.kind|"
    r"skills_available|invocation_trigger|trigger|session\.id|langfuse\.session\.id|langfuse\.observation\.type|traceloop\.(span\.kind|entity\.\w+))$"
)
"""Attributes that are read, here or for the usage, the session and the values of a span."""
_COPIES: Final = ("input.value", "output.value")
SKILL_EVENTS: Final = "skill.events"
"""Attribute with the names and triggers of the skills that a span's events activated."""
_TRIGGERS: Final = ("invocation_trigger", "skill.invocation_trigger", "skill.trigger", "trigger")
_BY_PERSON: Final = re.compile(r"user|human|person|slash", re.IGNORECASE)
_MERGED: Final = "(merged tools)"
"""One framework's name of a span that wraps the results of parallel calls."""
_PHASE: Final = re.compile(r"\.(success|finish|error|retry)(-\d+)?$")


@dataclass(frozen=True)
class SpanCall:
    """A call in a reply or span; ``id`` None = it has none."""

    name: str
    id: str | None
    arguments: object

    @property
    def text(self) -> str:
        """The arguments as text, as far as a transcript reads them."""
        return "" if self.arguments is None else argument_text(msgspec.json.encode(self.arguments))

    @property
    def call(self) -> Call:
        arguments = self.arguments
        if arguments is None:
            return Call(name=self.name)
        return Call(name=self.name, metadata=metadata(msgspec.json.encode(arguments)))


@dataclass(frozen=True, kw_only=True)
class Span:
    """One traced step of any tracer."""

    type: str
    name: str
    attributes: dict[str, object]
    input: object = None
    output: object = None
    parameters: object = None
    definitions: object = None

    @cached_property
    def kind(self) -> str:
        return _text(self.attributes.get("openinference.span.kind")).upper()

    @cached_property
    def is_reply(self) -> bool:
        return (
            self.type == "GENERATION"
            or self.kind == "LLM"
            or _text(self.attributes.get("gen_ai.operation.name")) in _REPLIES
        )

    @property
    def is_agent(self) -> bool:
        """Return whether the span is the work of an agent."""
        return "AGENT" in {self.type, self.kind} or self.attributes.get("gen_ai.operation.name") == _AGENT

    @cached_property
    def calls_requested(self) -> list[SpanCall]:
        """Calls that a reply asks for, from the first place that has any."""
        if not self.is_reply:
            return []
        places = (
            _flat_calls(self.attributes),
            _calls_in(opened(self.attributes.get("gen_ai.output.messages"))),
            _calls_in(opened(self.output)),
        )
        return next((calls for candidate in places if (calls := list(candidate))), [])

    @property
    def asks_for_tools(self) -> bool:
        reasons = opened(self.attributes.get("gen_ai.response.finish_reasons"))
        return isinstance(reasons, list) and any(reason in _ASKING for reason in reasons)

    @property
    def mentions_tool(self) -> bool:
        return bool(_text(self.attributes.get("tool.name")))

    @property
    def output_tools(self) -> Iterator[str]:
        """Names by which the model hands in its answer: schemas, not tools."""
        parameters = opened(self.attributes.get("model_request_parameters"))
        if isinstance(parameters, dict):
            for _, tool in _listed(parameters.get("output_tools")):
                yield _named(tool)[0]


def opened(value: object) -> object:
    """A value, or what a text of JSON says."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return value
    return value


def attributes_of(metadata: object) -> dict[str, object]:
    """Attributes of an observation that are read: those that were sent, beside those the exporter made of them."""
    document = opened(metadata)
    if not isinstance(document, dict):
        return {}
    attributes = opened(document.get("attributes"))
    held = {**document, **attributes} if isinstance(attributes, dict) else document
    return {name: one for name, one in held.items() if READ.match(name) and name not in _COPIES}


def offered(span: Span) -> Iterator[tuple[str, object]]:
    """Name and schema of every tool that a span lists; the name itself where there is no schema."""
    for name, value in span.attributes.items():
        if _SCHEMA.fullmatch(name) or _FUNCTION.fullmatch(name):
            yield _named(opened(value))
        elif _TOOL_LISTS.fullmatch(name):
            yield from _tools(value)
        elif name in _HOLDERS:
            yield from _held(opened(value))
    yield from _held(opened(span.parameters))
    yield from _tools(span.definitions)
    if span.is_reply:
        yield from _held(opened(span.input))
        yield from _as_messages(opened(span.input))


def skill_activated(attributes: Mapping[str, object]) -> list[str]:
    """Return the skill that the attributes of a span or event name, and its trigger; [] without one."""
    trigger = next((text for key in _TRIGGERS if (text := _text(attributes.get(key)))), "")
    name = _text(attributes.get("skill.name"))
    return [name, trigger] if name else []


def skills_loaded(span: Span, *, failed: bool) -> Iterator[tuple[str, bool]]:
    """Yield each skill that a span, unless it failed, or its events load, and whether a person asked for it."""
    events = span.attributes.get(SKILL_EVENTS)
    own = [] if failed else skill_activated(span.attributes)
    for one in (own, *(events if isinstance(events, list) else ())):
        if isinstance(one, list) and len(one) == 2:
            yield str(one[0]), _BY_PERSON.search(str(one[1])) is not None


def skills_listed(span: Span) -> Iterator[str]:
    """Yield the names of the skills that a span lists as available."""
    for key in ("skills_available", "skill.available"):
        listed = opened(span.attributes.get(key))
        for one in listed if isinstance(listed, list) else ():
            name = one.get("name") if isinstance(one, dict) else one
            if isinstance(name, str) and name:
                yield name


def tool_called(span: Span) -> SpanCall | None:
    """The call that a tool's span is, else None; raises `Flaw` where it doesn't say whose."""
    attributes = span.attributes
    is_tool = span.kind == "TOOL" or (span.type == "TOOL" and not span.kind)
    name = _text(_either(attributes, "gen_ai.tool.name", "ai.toolCall.name"))
    if not name and is_tool:
        name = _text(attributes.get("tool.name"))
    if not name and is_tool:
        if span.kind:
            raise Flaw("holds a span of a tool that doesn't name the tool")
        name = span.name
    if not name or name == _MERGED or _PHASE.search(span.name):
        return None
    identity = _either(attributes, "gen_ai.tool.call.id", "tool_call.id", "ai.toolCall.id")
    return SpanCall(_checked(name), _identity(identity), span.input)


def texts(span: Span) -> Iterator[str]:
    """Return the texts of a reply."""
    flat = [value for name, value in span.attributes.items() if _FLAT_TEXT.fullmatch(name)]
    words = [value for value in flat if isinstance(value, str) and value]
    yield from words or _words_in(opened(span.output), _MAX_LEVELS)


def result_of(span: Span) -> str | None:
    """Return what the call of a tool's span gave, None = unknown."""
    value = _either(span.attributes, *RESULT_KEYS)
    value = span.output if value is None else value
    return None if value is None else as_text(value)


def results_before(span: Span) -> Iterator[tuple[str, str]]:
    """Return results of earlier calls that the messages before a reply hold, each after its call's id."""
    messages = _messages_before(span)
    for message in messages if isinstance(messages, list) else ():
        content = opened(_either(message, "content", "parts"))
        identity = _identity(_either(message, "tool_call_id"))
        if identity is not None:
            yield identity, as_text(content)
        for part in content if isinstance(content, list) else ():
            identity = _identity(_either(part, "tool_use_id", "id"))
            if _either(part, "type") in _RESULT_TYPES and identity is not None:
                yield identity, as_text(_either(part, "content", "response", "result"))


def as_text(value: object) -> str:
    """Return a value as text, as far as a transcript reads it."""
    return "" if value is None else output_text(msgspec.json.encode(value))


def user_text(span: Span) -> str | None:
    """Return the user's last text before a reply; None if its input has none."""
    messages = _flat_messages(span.attributes) or _messages_before(span)
    if isinstance(messages, str):
        return messages or None
    for message in reversed(messages) if isinstance(messages, list) else ():
        if _either(message, "role") in _USERS:
            words = "\n".join(_words_of(message))
            if words.strip():
                return words
    return None


def _messages_before(span: Span) -> object:
    """Return the messages that a reply answers, as one value."""
    messages = opened(_either(span.attributes, "gen_ai.input.messages", "gen_ai.prompt")) or opened(
        span.input
    )
    return _either(messages, "messages") or messages


def _flat_messages(attributes: dict[str, object]) -> object:
    """Return messages that have one attribute per field, in their order; empty without any."""
    messages: dict[int, dict[str, object]] = {}
    for key, value in attributes.items():
        part = _FLAT_INPUT.fullmatch(key)
        if part is not None:
            name = "role" if part["field"].endswith("role") else "content"
            messages.setdefault(int(part["place"]), {})[name] = value
    return [message for _, message in sorted(messages.items())]


def _words_of(message: object) -> Iterator[str]:
    for key in ("content", "parts", "text"):
        yield from _words_in(opened(_either(message, key)), _MAX_LEVELS)


# --- tools ------------------------------------------------------------------------------------------------


def _tools(value: object) -> Iterator[tuple[str, object]]:
    for key, tool in _listed(value):
        shape = opened(tool)
        declared = _either(shape, "function_declarations", "functionDeclarations")
        if declared is not None:
            yield from _tools(declared)
        elif key is not None and isinstance(shape, dict) and not any(one in shape for one in _NAMING):
            yield _named({"name": key, **shape})  # named by its key
        else:
            yield _named(shape)


def _held(value: object) -> Iterator[tuple[str, object]]:
    for holder in (value, _either(value, "config")):
        for key in ("tools", "function_tools"):
            yield from _tools(_either(holder, key))


def _as_messages(value: object) -> Iterator[tuple[str, object]]:
    """One framework hands the schemas of its tools to the exporter as messages of a tool."""
    for message in value if isinstance(value, list) else ():
        content = opened(_either(message, "content"))
        if _either(message, "role") == "tool" and isinstance(_either(content, "function"), dict):
            yield _named(content)


def _named(tool: object) -> tuple[str, object]:
    if isinstance(tool, str):
        return _checked(tool), tool
    schema = opened(_either(tool, "tool.json_schema", "json_schema", "toolSpec"))
    if isinstance(schema, dict):
        return _named(schema)
    function = _either(tool, "function")
    name = _either(function if isinstance(function, dict) else tool, "name", "tool.name")
    if isinstance(name, str) and name:
        is_whole = isinstance(function, dict) or _either(tool, "name") is not None
        return _checked(name), tool if is_whole else name
    kind = _either(tool, "type")
    if isinstance(kind, str) and kind and kind != "function":
        return _checked(kind), kind  # a provider's own tool is named by its type
    raise Flaw("lists a tool without a name")


def _listed(value: object) -> list[tuple[str | None, object]]:
    """The parts of a list, or of an object with the names they have there."""
    opened_value = opened(value)
    if isinstance(opened_value, dict):
        return list(opened_value.items())
    return [(None, part) for part in opened_value] if isinstance(opened_value, list) else []


# --- calls ------------------------------------------------------------------------------------------------


def _flat_calls(attributes: dict[str, object]) -> Iterator[SpanCall]:
    parts: dict[str, dict[str, object]] = {}
    for key, value in attributes.items():
        match = _FLAT_CALL.fullmatch(key)
        if match is not None:
            index, part = match["place"] or match["place2"], match["part"] or match["part2"]
            parts.setdefault(index, {})[part.removeprefix("function.")] = value
    for _, call in sorted(parts.items()):
        name = _text(call.get("name"))
        if name:
            yield SpanCall(_checked(name), _identity(call.get("id")), opened(call.get("arguments")))


def _calls_in(value: object, levels: int = _MAX_LEVELS) -> Iterator[SpanCall]:
    """Calls in a reply of any of the usual shapes."""
    if levels == 0:
        return
    if isinstance(value, list):
        for part in value:
            yield from _calls_in(part, levels - 1)
    elif isinstance(value, dict) and value.get("role") not in _NOT_REPLIES:
        call = _call(value)
        if call is not None:
            yield call
            return
        # One framework repeats the calls of a message, another has them only among unknown parts.
        calls = "tool_calls" if value.get("tool_calls") else "additional_kwargs"
        for key in ("choices", "message", calls, "parts", "content", "output"):
            yield from _calls_in(opened(value.get(key)), levels - 1)


def _call(part: dict[str, object]) -> SpanCall | None:
    """The call that this very part of a reply is."""
    kind = part.get("type")
    named = next((part[key] for key in ("function", "function_call", "functionCall") if key in part), None)
    is_bare = "name" in part and "args" in part and "role" not in part
    if named is None and (is_bare or kind in {"tool_call", "tool_use", "function_call"}):
        named = part
    name = _either(named, "name")
    if not isinstance(name, str) or not name:
        return None
    arguments = opened(_either(named, "arguments", "args", "input"))
    return SpanCall(_checked(name), _identity(_either(part, "id", "call_id")), arguments)


def _words_in(value: object, levels: int) -> Iterator[str]:
    if levels == 0:
        return
    if isinstance(value, str):
        if value:
            yield value
    elif isinstance(value, list):
        for part in value:
            yield from _words_in(part, levels - 1)
    elif isinstance(value, dict) and value.get("role") not in _NOT_REPLIES and _call(value) is None:
        for key in ("choices", "message", "parts", "content", "text", "output"):
            yield from _words_in(value.get(key), levels - 1)


# --- values -----------------------------------------------------------------------------------------------


def _either(value: object, *keys: str) -> object:
    """The first of these fields that an object has, None if it is none."""
    if not isinstance(value, dict):
        return None
    return next((value[key] for key in keys if value.get(key) is not None), None)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _identity(value: object) -> str | None:
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _checked(name: str) -> str:
    if len(name) > _MAX_NAME_CHARS:
        raise Flaw(f"names a tool with {len(name)} characters")
    return name
