"""Messages: the calls, texts and usage in the messages and answers of a model.

It reads chat completions and Responses of OpenAI, Anthropic's messages, and those of LangChain and pydantic-ai, as
objects or as JSON values. It passes over all others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from msgspec.structs import replace

from core.errors import InvalidInput
from core.records.bill import Spent, disjoint
from core.records.run import METADATA_CHARS, Call, Usage

_ROLES: Final = {"ai": "assistant", "AIMessageChunk": "assistant", "human": "user"}
"""Roles that LangChain names by the type of a message."""
_CALL_BLOCKS: Final = frozenset(("tool_use", "server_tool_use", "mcp_tool_use"))
_TEXT_BLOCKS: Final = frozenset(("text", "input_text", "output_text"))
_CALL_PARTS: Final = frozenset(("tool-call", "builtin-tool-call", "native-tool-call"))
_CALL_ITEM: Final = "_call"
_OUTPUT_ITEM: Final = "_call_output"
_RESULT_BLOCK: Final = "tool_result"
_DETAILS: Final = ("prompt_tokens_details", "input_tokens_details", "input_token_details")
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "input": ("input", "input_tokens", "prompt_tokens"),
    "output": ("output", "output_tokens", "completion_tokens"),
    "cache_read": ("cache_read", "cache_read_input_tokens", "cache_read_tokens"),
    "cache_write": ("cache_write", "cache_creation_input_tokens", "cache_write_tokens"),
    "cache_write_1h": ("cache_write_1h", "cache_write_1h_tokens"),
    "total": ("total", "total_tokens"),
}
"""Names that SDKs use for the parts of a usage."""


class MessagePart(NamedTuple):
    """A part of messages; ``owner`` is the message that it is a part of, ``identity`` the id of a call."""

    kind: Literal["request", "text", "call", "result", "usage", "unreadable"]
    owner: object
    text: str = ""
    call: Call | None = None
    identity: str = ""
    arguments: str = ""
    usage: object = None
    model: str | None = None
    problem: Exception | None = None


def parts_of(messages: object) -> list[MessagePart]:
    """Return the parts of messages since the last text of the user.

    >>> question = {"role": "user", "content": "2 + 2?"}
    >>> call = {"function": {"name": "add", "arguments": '{"a": 2}'}}
    >>> parts = parts_of([question, {"role": "assistant", "content": "Let me see", "tool_calls": [call]}])
    >>> [(part.kind, part.text, part.call and part.call.name) for part in parts]
    [('request', '2 + 2?', None), ('text', 'Let me see', None), ('call', '', 'add')]
    """
    several = messages if isinstance(messages, list | tuple) else [messages]
    parts = [part for message in several for part in _readable_parts(message)]
    starts = [number for number, part in enumerate(parts) if part.kind == "request"]
    return parts[starts[-1] :] if starts else parts


def call_of(name: str, arguments: object) -> Call:
    """Return a call with the first characters of its arguments."""
    return Call(name=name, metadata=text_of(arguments)[:METADATA_CHARS])


def text_of(arguments: object) -> str:
    """Return arguments or a result as text; "" where JSON has no form of them.

    >>> text_of({"a": 2}), text_of({(1, 2): 3})
    ('{"a": 2}', '')
    """
    if isinstance(arguments, str):
        return arguments
    try:
        return json.dumps(arguments, default=str)
    except Exception:  # an object's own text may fail with any; its call counts all the same
        return ""


def _readable_parts(message: object) -> Iterator[MessagePart]:
    """Parts of a message up to the first that can't be read; an SDK's object may raise anything."""
    try:
        yield from _parts(message)
    except Exception as problem:
        yield MessagePart("unreadable", message, problem=problem)


def _parts(message: object) -> Iterator[MessagePart]:
    """Parts of a message or an answer; a plain text is the user's."""
    if isinstance(message, str):
        yield MessagePart("request", message, text=message)
    elif choices := _several(message, "choices"):
        yield from _parts(_of(choices[0], "message"))
    elif output := _several(message, "output"):
        for item in output:
            yield from _parts(item)
    elif _text(_of(message, "kind")) in {"request", "response"}:
        yield from _pydantic_parts(message)
    elif (role := _of(message, "role") or _ROLES.get(_text(_of(message, "type")), "")) == "assistant":
        yield from _reply(message)
    elif role == "tool" or _text(_of(message, "type")) == "tool":
        yield _result(message, _of(message, "tool_call_id"), _of(message, "content"))
    elif role == "user":
        yield from _request(message)
    else:
        yield from _item(message)
    usage = _of(message, "usage") or _of(message, "usage_metadata")
    if usage is not None and _counts(usage):
        about = _of(message, "response_metadata")
        named = (
            _of(message, "model"),
            _of(message, "model_name"),
            _of(about, "model_name"),
            _of(about, "model"),
        )
        model = next((one for one in named if isinstance(one, str) and one), None)
        yield MessagePart("usage", message, usage=usage, model=model)


def _request(message: object) -> Iterator[MessagePart]:
    """Parts of a message of the user, which may hold results of calls."""
    for block in _several(message, "content"):
        if _text(_of(block, "type")) == _RESULT_BLOCK:
            yield _result(message, _of(block, "tool_use_id"), _of(block, "content"))
    text = _content(message, blocks=_TEXT_BLOCKS)
    if text.strip():
        yield MessagePart("request", message, text=text)


def _reply(message: object) -> Iterator[MessagePart]:
    """Parts of a message of the model."""
    if text := _content(message, blocks=_TEXT_BLOCKS):
        yield MessagePart("text", message, text=text)
    calls = _several(message, "tool_calls")
    if not calls and (single := _of(message, "function_call")) is not None:
        calls = [single]
    if not calls:
        content = _of(message, "content")
        blocks = content if isinstance(content, list | tuple) else ()
        calls = [block for block in blocks if _text(_of(block, "type")) in _CALL_BLOCKS]
    for call in calls:
        yield from _call(
            message, _of(call, "function") or _of(call, "custom") or call, identity=_text(_of(call, "id"))
        )


def _item(item: object) -> Iterator[MessagePart]:
    """Parts of an item of a Response that is no message; a tool of the provider has no name but its type."""
    kind = _text(_of(item, "type"))
    if kind.endswith(_CALL_ITEM):
        name = _text(_of(item, "name"))
        about = item if name else {"name": kind.removesuffix(_CALL_ITEM)}
        yield from _call(item, about, identity=_text(_of(item, "call_id")))
    elif kind.endswith(_OUTPUT_ITEM):
        yield _result(item, _of(item, "call_id"), _of(item, "output"))


def _pydantic_parts(message: object) -> Iterator[MessagePart]:
    for part in _several(message, "parts"):
        kind, content = _text(_of(part, "part_kind")), _of(part, "content")
        if kind == "user-prompt":
            texts = content if isinstance(content, list | tuple) else [content]
            yield MessagePart(
                "request", message, text="\n".join(one for one in texts if isinstance(one, str))
            )
        elif kind == "text" and content:
            yield MessagePart("text", message, text=_text(content))
        elif kind in _CALL_PARTS:
            about = {"name": _of(part, "tool_name"), "args": _of(part, "args")}
            yield from _call(message, about, identity=_text(_of(part, "tool_call_id")))
        elif kind == "tool-return":
            yield _result(message, _of(part, "tool_call_id"), content)


def _call(message: object, call: object, *, identity: str = "") -> Iterator[MessagePart]:
    name = _text(_of(call, "name"))
    values = (_of(call, one) for one in ("arguments", "args", "input"))
    arguments = next((value for value in values if value is not None), "")
    if name:
        of_call = call_of(name, arguments)
        yield MessagePart("call", message, call=of_call, identity=identity, arguments=text_of(arguments))


def _result(message: object, identity: object, content: object) -> MessagePart:
    """Return the result of a call; of parts only texts are read."""
    several = content if isinstance(content, list | tuple) else None
    texts = [_text(_of(part, "text")) for part in several or () if not isinstance(part, str)]
    text = text_of(content) if several is None else "\n".join(one for one in texts if one)
    return MessagePart("result", message, text=text, identity=_text(identity))


def _content(message: object, *, blocks: frozenset[str]) -> str:
    """Return the text of a message, without its other blocks."""
    content = _of(message, "content")
    if isinstance(content, str):
        return content
    several = content if isinstance(content, list | tuple) else ()
    texts = (
        block if isinstance(block, str) else _text(_of(block, "text"))
        for block in several
        if isinstance(block, str) or _text(_of(block, "type")) in blocks
    )
    return "\n".join(text for text in texts if text)


# Usage


def spent_of(usage: object, model: str | None = None) -> tuple[Usage, Spent]:
    """Return a usage and its disjoint counts; raises `InvalidInput` where it names no tokens.

    A provider that lists details of its input counts cached tokens as input, too.

    >>> counted = {"prompt_tokens": 110, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 100}}
    >>> spent_of(counted)[1] == Spent(input=10, cache_read=100, output=5)
    True
    >>> spent_of({"input_tokens": 10, "cache_read_input_tokens": 100, "output_tokens": 5})[0].tokens
    115
    """
    counts = _counts(usage)
    if not counts:
        raise InvalidInput(
            f"A usage must name its tokens (input, output, cache_read, cache_write, total), got {str(usage)[:80]!r}.",
            next_step="Write it like run.used(input=900, output=120).",
        )
    hour = counts.pop("cache_write_1h", None)
    named = Usage(**counts)
    parts = (named.input, named.output, named.cache_read, named.cache_write)
    if all(_of(usage, name) is None for name in _DETAILS):
        row, rest = disjoint(*parts, named.total), 0
    else:
        row = disjoint(*parts, named.input + named.output)
        rest = max((named.total or 0) - named.input - named.output, 0)
    if row is None:
        return named, Spent(model=model, total=named.total or 0)
    hours = min(hour or 0, row.cache_write_5m)
    row = replace(
        row,
        model=model,
        cache_write_5m=row.cache_write_5m - hours,
        cache_write_1h=hours,
        assumed=row.assumed and hour is None,
        total=rest,
    )
    return replace(named, input=row.input), row


def _counts(usage: object) -> dict[str, Any]:
    """Return the counts that a usage names, by our names; details come first."""
    details = next((one for one in (_of(usage, name) for name in _DETAILS) if one is not None), None)
    lifetimes = _of(usage, "cache_creation") or details
    five, hour = (_of(lifetimes, f"ephemeral_{span}_input_tokens") for span in ("5m", "1h"))
    written = _first(details, ("cache_write_tokens", "cache_creation"))
    if five is not None or hour is not None:
        written = max(written or 0, (five or 0) + (hour or 0))
    detailed = {
        "cache_read": _first(details, ("cached_tokens", "cache_read")),
        "cache_write": written,
        "cache_write_1h": hour if hour is not None or five is None else 0,
    }
    plain = {name: _first(usage, names) for name, names in _NAMES.items()}
    return {
        name: value
        for name, count in plain.items()
        if (value := count if detailed.get(name) is None else detailed[name]) is not None
    }


def _first(source: object, names: Iterable[str]) -> Any:  # noqa: ANN401 - checked as a usage
    return next((value for value in (_of(source, name) for name in names) if value is not None), None)


def _of(source: object, name: str) -> Any:  # noqa: ANN401 - of any SDK
    """Return a member of an object or a JSON value; None if it has none."""
    return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)


def _several(source: object, name: str) -> list[Any]:
    value = _of(source, name)
    return list(value) if isinstance(value, list | tuple) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
