"""Messages: the calls, texts and usage in the messages and answers of a model.

It reads chat completions and Responses of OpenAI, Anthropic's messages, and those of LangChain, pydantic-ai,
google-genai, ADK and the Claude Agent SDK, as objects or as JSON values, whole or in chunks. Others are unreadable.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, cast

from msgspec.structs import replace

from core.doors.chunks import Chunks, items_of, member
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
_PYDANTIC: Final = frozenset(("request", "response"))
_SILENT: Final = frozenset(
    (
        *("reasoning", "compaction", "item_reference", "message"),
        *("mcp_list_tools", "mcp_approval_request", "mcp_approval_response"),
    )
)
"""Types of items of a Response without a call."""
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


def parts_of(messages: object, chunks: Chunks | None = None) -> list[MessagePart]:
    """Return the parts of messages since the last text of the user.

    A chunk is joined with those before it in ``chunks``. A list ends all answers that came in chunks.

    >>> question = {"role": "user", "content": "2 + 2?"}
    >>> call = {"function": {"name": "add", "arguments": '{"a": 2}'}}
    >>> parts = parts_of([question, {"role": "assistant", "content": "Let me see", "tool_calls": [call]}])
    >>> [(part.kind, part.text, part.call and part.call.name) for part in parts]
    [('request', '2 + 2?', None), ('text', 'Let me see', None), ('call', '', 'add')]
    """
    several = messages if isinstance(messages, list | tuple) else [messages]
    is_open, chunks = chunks is not None and several is not messages, chunks or Chunks()
    parts = [part for message in several for one in _joined(message, chunks) for part in _readable_parts(one)]
    parts += [] if is_open else [part for one in chunks.rest() for part in _readable_parts(one)]
    starts = [number for number, part in enumerate(parts) if part.kind == "request"]
    return parts[starts[-1] :] if starts else parts


def _joined(message: object, chunks: Chunks) -> list[object]:
    """Return a message with what is left of chunks before it; of a chunk the messages that it completes."""
    try:
        whole = chunks.take(message)
    except Exception:  # an SDK's object may raise anything; the same is raised where it is read
        whole = None
    return [*chunks.rest(), message] if whole is None else whole


def text_of(arguments: object) -> str:
    """Return arguments or a result as text; "" where JSON has no form of them."""
    if isinstance(arguments, str):
        return arguments
    try:
        return json.dumps(arguments, default=str)
    except Exception:  # an object's own text may fail with any; its call counts all the same
        return ""


def _readable_parts(message: object) -> Iterator[MessagePart]:
    """Parts of a message up to the first that can't be read; an SDK's object may raise anything."""
    is_read, problem = False, cast("Exception | None", None)
    try:
        for part in _parts(message):
            is_read = True
            yield part
        problem = None if is_read else _unknown(message)
    except Exception as raised:
        problem = raised
    if problem is not None:
        yield MessagePart("unreadable", message, problem=problem)


def _unknown(message: object) -> InvalidInput | None:
    """Return the problem of a message without any part; None where its form is known."""
    if _is_known(message):
        return None
    return InvalidInput(
        f"A message must be one of a model's SDK that armscope reads, got {type(message).__name__}.",
        next_step="Record its calls with run.called(name, arguments).",
    )


def _is_known(message: object) -> bool:
    """Return whether a message has a form that is read, though it holds neither call nor text nor usage."""
    kind = _text(member(message, "type"))
    if message is None or isinstance(member(message, "role"), str) or member(message, "author") is not None:
        return True
    if any(isinstance(member(message, name), list) for name in ("choices", "output", "candidates")):
        return True
    if (
        kind in _SILENT
        or kind.endswith((_CALL_ITEM, _OUTPUT_ITEM))
        or _text(member(message, "kind")) in _PYDANTIC
    ):
        return True
    has_content = bool(kind) and member(message, "content") is not None
    return has_content or type(message).__module__.startswith("claude_agent_sdk")


def _parts(message: object) -> Iterator[MessagePart]:
    """Parts of a message or an answer; a plain text is the user's."""
    if isinstance(message, str):
        yield MessagePart("request", message, text=message)
    elif hasattr(message, "parent_tool_use_id"):
        yield from _claude_parts(message)
    elif content := _google_content(message):
        yield from _google_parts(message, content)
    elif choices := items_of(message, "choices"):
        yield from _parts(member(choices[0], "message"))
    elif output := items_of(message, "output"):
        for item in output:
            yield from _parts(item)
    elif _text(member(message, "kind")) in _PYDANTIC:
        yield from _pydantic_parts(message)
    elif (role := member(message, "role") or _ROLES.get(_text(member(message, "type")), "")) == "assistant":
        yield from _reply(message)
    elif role == "tool" or _text(member(message, "type")) == "tool":
        yield _result(message, member(message, "tool_call_id"), member(message, "content"))
    elif role == "user":
        yield from _request(message)
    else:
        yield from _item(message)
    usage = _usage_of(message)
    if usage is not None and _counts(usage):
        about = member(message, "response_metadata")
        named = (
            *(member(message, name) for name in ("model", "model_name", "model_version", "modelVersion")),
            *(member(about, name) for name in ("model_name", "model")),
        )
        by_model = member(message, "model_usage")
        named += tuple(by_model) if isinstance(by_model, Mapping) and len(by_model) == 1 else ()
        model = next((one for one in named if isinstance(one, str) and one), None)
        yield MessagePart("usage", message, usage=usage, model=model)


def _usage_of(message: object) -> Any:  # noqa: ANN401 - of any SDK
    """Return the usage of a message; in the Claude Agent SDK only the last one has all of it."""
    if hasattr(message, "parent_tool_use_id") or member(message, "partial"):
        return None
    return member(message, "usage", "usage_metadata", "usageMetadata")


def _google_content(message: object) -> object:
    """Return the content of google-genai that a message is or has; of ADK a partial one comes whole later."""
    if _text(member(message, "kind")) in _PYDANTIC or member(message, "partial"):
        return None
    return next((one for one in (member(message, "content"), message) if items_of(one, "parts")), None)


def _google_parts(message: object, content: object) -> Iterator[MessagePart]:
    """Parts of a content of google-genai, or of the event of ADK around it."""
    is_users = "user" in (member(content, "role"), member(message, "author"))
    for part in items_of(content, "parts"):
        call = member(part, "function_call", "functionCall")
        result = member(part, "function_response", "functionResponse")
        text = _text(member(part, "text"))
        if call is not None:
            yield from _call(message, call, identity=_text(member(call, "id")))
        elif result is not None:
            yield _result(message, member(result, "id"), member(result, "response"))
        elif text and not member(part, "thought"):
            yield MessagePart("request" if is_users else "text", message, text=text)


def _claude_parts(message: object) -> Iterator[MessagePart]:
    """Parts of a message of the Claude Agent SDK; those of a sub-agent are not the agent's."""
    content = [] if member(message, "parent_tool_use_id") else member(message, "content")
    is_users = not hasattr(message, "model")
    for block in [content] if isinstance(content, str) else content or ():
        text = block if isinstance(block, str) else _text(member(block, "text"))
        if (identity := member(block, "tool_use_id")) is not None:
            yield _result(message, identity, member(block, "content"))
        elif text:
            yield MessagePart("request" if is_users else "text", message, text=text)
        else:
            yield from _call(message, block, identity=_text(member(block, "id")))


def _request(message: object) -> Iterator[MessagePart]:
    """Parts of a message of the user, which may hold results of calls."""
    for block in items_of(message, "content"):
        if _text(member(block, "type")) == "tool_result":
            yield _result(message, member(block, "tool_use_id"), member(block, "content"))
    text = _content(message)
    if text.strip():
        yield MessagePart("request", message, text=text)


def _reply(message: object) -> Iterator[MessagePart]:
    if text := _content(message):
        yield MessagePart("text", message, text=text)
    calls = items_of(message, "tool_calls") + items_of(message, "invalid_tool_calls")
    if not calls and (single := member(message, "function_call")) is not None:
        calls = [single]
    if not calls:
        blocks = items_of(message, "content")
        calls = [block for block in blocks if _text(member(block, "type")) in _CALL_BLOCKS]
    for call in calls:
        yield from _call(
            message,
            member(call, "function") or member(call, "custom") or call,
            identity=_text(member(call, "id")),
        )


def _item(item: object) -> Iterator[MessagePart]:
    """Parts of an item of a Response that is no message; a tool of the provider has no name but its type."""
    kind = _text(member(item, "type"))
    if kind.endswith(_CALL_ITEM):
        name = _text(member(item, "name"))
        about = item if name else {"name": kind.removesuffix(_CALL_ITEM)}
        yield from _call(item, about, identity=_text(member(item, "call_id")))
    elif kind.endswith(_OUTPUT_ITEM):
        yield _result(item, member(item, "call_id"), member(item, "output"))


def _pydantic_parts(message: object) -> Iterator[MessagePart]:
    for part in items_of(message, "parts"):
        kind, content = _text(member(part, "part_kind")), member(part, "content")
        if kind == "user-prompt":
            texts = content if isinstance(content, list | tuple) else [content]
            yield MessagePart(
                "request", message, text="\n".join(one for one in texts if isinstance(one, str))
            )
        elif kind == "text" and content:
            yield MessagePart("text", message, text=_text(content))
        elif kind in _CALL_PARTS:
            about = {"name": member(part, "tool_name"), "args": member(part, "args")}
            yield from _call(message, about, identity=_text(member(part, "tool_call_id")))
        elif kind == "tool-return":
            yield _result(message, member(part, "tool_call_id"), content)


def _call(message: object, call: object, *, identity: str = "") -> Iterator[MessagePart]:
    name = _text(member(call, "name"))
    arguments = member(call, "arguments", "args", "input")
    if name:
        written = "" if arguments is None else text_of(arguments)
        of_call = Call(name=name, metadata=written[:METADATA_CHARS])
        yield MessagePart("call", message, call=of_call, identity=identity, arguments=written)


def _result(message: object, identity: object, content: object) -> MessagePart:
    """Return the result of a call; of parts only texts are read."""
    several = content if isinstance(content, list | tuple) else None
    texts = [_text(member(part, "text")) for part in several or () if not isinstance(part, str)]
    text = text_of(content) if several is None else "\n".join(one for one in texts if one)
    return MessagePart("result", message, text=text, identity=_text(identity))


def _content(message: object) -> str:
    """Return the text of a message, without its other blocks."""
    content = member(message, "content")
    if isinstance(content, str):
        return content
    texts = (
        block if isinstance(block, str) else _text(member(block, "text"))
        for block in items_of(message, "content")
        if isinstance(block, str) or _text(member(block, "type")) in _TEXT_BLOCKS
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
    usage = _google_usage(usage)
    counts = _counts(usage)
    if not counts:
        raise InvalidInput(
            f"A usage must name its tokens (input, output, cache_read, cache_write, total), got {str(usage)[:80]!r}.",
            next_step="Write it like run.used(input=900, output=120).",
        )
    hour = counts.pop("cache_write_1h", None)
    named = Usage(**counts)
    parts = (named.input, named.output, named.cache_read, named.cache_write)
    if member(usage, *_DETAILS) is None:
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


def _google_usage(usage: object) -> object:
    """Return a usage of google-genai by OpenAI's names; any other as it is."""
    prompt, answer, thoughts, tool, cached, total = (
        member(usage, name, camel)
        for name, camel in (
            ("prompt_token_count", "promptTokenCount"),
            ("candidates_token_count", "candidatesTokenCount"),
            ("thoughts_token_count", "thoughtsTokenCount"),
            ("tool_use_prompt_token_count", "toolUsePromptTokenCount"),
            ("cached_content_token_count", "cachedContentTokenCount"),
            ("total_token_count", "totalTokenCount"),
        )
    )
    if prompt is None:
        return usage
    return {
        "prompt_tokens": prompt + (tool or 0),
        "completion_tokens": (answer or 0) + (thoughts or 0),
        "total_tokens": total,
        "prompt_tokens_details": {"cached_tokens": cached or 0},
    }


def _counts(usage: object) -> dict[str, Any]:
    """Return the counts that a usage names, by our names; details come first."""
    usage = _google_usage(usage)
    details = member(usage, *_DETAILS)
    lifetimes = member(usage, "cache_creation") or details
    five, hour = (member(lifetimes, f"ephemeral_{span}_input_tokens") for span in ("5m", "1h"))
    written = member(details, "cache_write_tokens", "cache_creation")
    if five is not None or hour is not None:
        written = max(written or 0, (five or 0) + (hour or 0))
    detailed = {
        "cache_read": member(details, "cached_tokens", "cache_read"),
        "cache_write": written,
        "cache_write_1h": hour if hour is not None or five is None else 0,
    }
    plain = {name: member(usage, *names) for name, names in _NAMES.items()}
    return {
        name: value
        for name, count in plain.items()
        if (value := count if detailed.get(name) is None else detailed[name]) is not None
    }


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
