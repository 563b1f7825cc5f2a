"""Chunks: the parts of an answer that an SDK streams, joined to messages.

It takes chunks of OpenAI's chat completions (litellm has the same), events of OpenAI's Responses and of Anthropic,
chunks of LangChain and of google-genai, and events of pydantic-ai. A stream that its caller left has what came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_ANTHROPIC: Final = (
    *("message_start", "message_delta", "message_stop", "ping"),
    *("content_block_start", "content_block_delta", "content_block_stop"),
)
_REPEATS: Final = frozenset(("text", "input_json", "thinking", "citation", "signature"))
"""Events of Anthropic's own helper, each beside the event that it repeats."""
ENDS: Final = frozenset(("response.completed", "response.incomplete", "response.failed"))
"""Events of OpenAI's Responses that have the whole answer."""
_USAGE: Final = (
    *("input_tokens", "output_tokens", "cache_read_input_tokens"),
    *("cache_creation_input_tokens", "cache_creation"),
)


def member(source: object, *names: str) -> Any:  # noqa: ANN401 - of any SDK
    """Return the first member of an object or a JSON value that is not None."""
    values = (
        source.get(name) if isinstance(source, Mapping) else getattr(source, name, None) for name in names
    )
    return next((value for value in values if value is not None), None)


def items_of(source: object, *names: str) -> list[Any]:
    """Return a member that is a list; [] for any other."""
    value = member(source, *names)
    return list(value) if isinstance(value, list | tuple) else []


@dataclass
class _Answer:
    texts: list[str] = field(default_factory=list)
    calls: dict[object, dict[str, Any]] = field(default_factory=dict)
    latest: dict[object, object] = field(default_factory=dict)
    items: dict[object, object] = field(default_factory=dict)
    usage: Any = None
    model: object = None
    whole: Any = None
    n_joined: int = 0

    def text(self, value: object) -> None:
        if isinstance(value, str):
            self.texts.append(value)

    def call(self, at: object, name: object, identity: object = None, arguments: object = "") -> None:
        """Begin a call, or add a piece of its arguments."""
        one = self.calls.get(self.latest.get(at, at))
        if one is None or (identity and one["id"] and one["id"] != identity):
            key = at
            while key in self.calls:
                key = key, "next"
            one = self.calls[key] = {"id": identity, "name": "", "arguments": ""}
            self.latest[at] = key
        one["id"] = one["id"] or identity
        one["name"] = one["name"] or name
        is_piece = isinstance(arguments, str) and isinstance(one["arguments"], str)
        one["arguments"] = one["arguments"] + arguments if is_piece else arguments or one["arguments"]

    def taken(self, *, is_last: bool = True) -> list[object]:
        """Return the parts so far as messages, and forget them; the last ones have the usage, which comes late."""
        if self.whole is not None:
            whole, self.whole = self.whole, None
            return [whole]
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(self.texts),
            "tool_calls": list(self.calls.values()),
            "model": self.model,
        }
        messages = [message, *self.items.values()]
        if is_last:
            message["usage"], self.usage = self.usage, None
        self.texts, self.calls, self.items, self.latest = [], {}, {}, {}
        return messages


class Chunks:
    """Answers that arrive in chunks, by stream."""

    def __init__(self) -> None:
        self._open: dict[str, _Answer] = {}
        self._taken: dict[int, object] = {}
        self._identities: set[object] = set()
        self._joined: dict[int, object] = {}

    def take(self, chunk: object) -> list[object] | None:
        """Return the messages that a chunk completes; None for what is no chunk. A chunk counts once."""
        if id(chunk) in self._taken:
            return []
        if (messages := self._messages(chunk)) is not None:
            self._taken[id(chunk)] = chunk
            self._joined |= {id(message): message for message in messages}
        return messages

    def is_joined(self, message: object) -> bool:
        return id(message) in self._joined

    def _messages(self, chunk: object) -> list[object] | None:
        named, event = member(chunk, "type"), member(chunk, "event_kind")
        kind = named if isinstance(named, str) else ""
        choices = items_of(chunk, "choices")
        messages: list[object] | None = None
        if member(chunk, "object") == "chat.completion.chunk" or (
            choices and member(choices[0], "delta") is not None
        ):
            messages = self._chat(chunk, choices)
        elif kind.startswith("response."):
            messages = self._response(chunk, kind)
        elif kind in _ANTHROPIC:
            messages = self._anthropic(chunk, kind)
        elif kind in _REPEATS and member(chunk, "snapshot", "signature", "citation") is not None:
            messages = []
        elif kind in {"ai", "AIMessageChunk"} and not isinstance(chunk, Mapping):
            messages = self._langchain(chunk, is_whole=kind == "ai")
        elif items_of(chunk, "candidates") or member(chunk, "prompt_feedback") is not None:
            messages = self._google(chunk)
        elif isinstance(event, str):
            messages = self._pydantic(chunk, event)
        return messages

    def rest(self) -> list[object]:
        answers, self._open = list(self._open.values()), {}
        messages = [message for answer in answers for message in answer.taken()]
        self._joined |= {id(message): message for message in messages}
        return messages

    def _of(self, kind: str, identity: object = "") -> tuple[_Answer, list[object]]:
        """Return the answer of a stream, and what is left of one before it."""
        key = f"{kind}:{identity}"
        before = [one for one in self._open if one.startswith(f"{kind}:") and one != key]
        left = [message for one in before for message in self._open.pop(one).taken()]
        return self._open.setdefault(key, _Answer()), left

    def _chat(self, chunk: object, choices: list[Any]) -> list[object]:
        answer, left = self._of("chat", member(chunk, "id"))
        answer.model = member(chunk, "model") or answer.model
        if (usage := member(chunk, "usage")) is not None:
            answer.usage = usage
        for choice in choices[:1]:
            delta = member(choice, "delta")
            answer.text(member(delta, "content"))
            single = member(delta, "function_call")
            for call in [*items_of(delta, "tool_calls"), *([] if single is None else [{"function": single}])]:
                about = member(call, "function") or call
                identity = member(call, "id")
                at = member(call, "index")
                arguments = member(about, "arguments") or ""
                answer.call(at if at is not None else identity, member(about, "name"), identity, arguments)
            if member(choice, "finish_reason"):
                left += answer.taken(is_last=False)
        return left if choices or usage is None else left + answer.taken()

    def _response(self, chunk: object, kind: str) -> list[object]:
        answer, left = self._of("response")
        if kind in ENDS:
            self._open.clear()
            return [*left, member(chunk, "response")]
        if (item := member(chunk, "item")) is not None:
            answer.items[member(chunk, "output_index")] = item
        answer.model = member(member(chunk, "response"), "model") or answer.model
        return left

    def _anthropic(self, chunk: object, kind: str) -> list[object]:
        left = self.rest() if kind == "message_start" else []
        answer, _ = self._of("anthropic")
        message, block, delta = (member(chunk, name) for name in ("message", "content_block", "delta"))
        answer.model = member(message, "model") or answer.model
        if (
            usage := member(chunk, "usage") or member(message, "usage")
        ) is not None and kind != "message_stop":
            counts = {name: member(usage, name) for name in _USAGE}
            answer.usage = (answer.usage or {}) | {
                name: one for name, one in counts.items() if one is not None
            }
        at = member(chunk, "index")
        if kind == "content_block_start":
            answer.text(member(block, "text"))
            if str(member(block, "type")).endswith("tool_use"):
                answer.call(at, member(block, "name"), member(block, "id"), member(block, "input") or "")
        elif kind == "content_block_delta":
            answer.text(member(delta, "text"))
            if at in answer.calls:
                answer.call(at, "", None, member(delta, "partial_json") or "")
        return left + answer.taken() if kind == "message_stop" else left

    def _langchain(self, chunk: Any, *, is_whole: bool) -> list[object] | None:  # noqa: ANN401 - of LangChain
        """Join chunks as LangChain does; a message with the id of joined ones repeats them."""
        is_open = f"langchain:{chunk.id}" in self._open
        if chunk.id in self._identities and (is_whole or not is_open):
            return self.rest()
        if is_whole:
            return None
        answer, left = self._of("langchain", chunk.id)
        if answer.whole is not None and answer.n_joined > 1 and answer.whole == chunk:
            return left + self._open.pop(f"langchain:{chunk.id}").taken()
        answer.whole = chunk if answer.whole is None else answer.whole + chunk
        answer.n_joined += 1
        if chunk.id:
            self._identities.add(chunk.id)
        if member(chunk, "chunk_position") != "last":
            return left
        return left + self._open.pop(f"langchain:{chunk.id}").taken()

    def _google(self, chunk: object) -> list[object]:
        answer, left = self._of("google", member(chunk, "response_id", "responseId"))
        answer.model = member(chunk, "model_version", "modelVersion") or answer.model
        answer.usage = member(chunk, "usage_metadata", "usageMetadata") or answer.usage
        for candidate in items_of(chunk, "candidates")[:1]:
            for part in items_of(member(candidate, "content"), "parts"):
                if (call := member(part, "function_call", "functionCall")) is not None:
                    identity = member(call, "id")
                    # A call comes whole, so its key is a new object.
                    answer.call(object(), member(call, "name"), identity, member(call, "args"))
                elif not member(part, "thought"):
                    answer.text(member(part, "text"))
            if member(candidate, "finish_reason", "finishReason") is not None:
                return left + answer.taken()
        return left + answer.taken(is_last=False) if answer.calls else left

    def _pydantic(self, chunk: object, event: str) -> list[object]:
        part, delta, at = (member(chunk, name) for name in ("part", "delta", "index"))
        left = self.rest() if event == "part_start" and at == 0 else []
        answer, _ = self._of("pydantic")
        if event == "part_start" and member(part, "tool_name"):
            identity = member(part, "tool_call_id")
            answer.call(at, member(part, "tool_name"), identity, member(part, "args") or "")
        elif event == "part_start" and member(part, "part_kind") == "text":
            answer.text(member(part, "content"))
        elif event == "part_delta":
            if member(delta, "part_delta_kind") == "text":
                answer.text(member(delta, "content_delta"))
            elif at in answer.calls:
                answer.call(at, "", None, member(delta, "args_delta") or "")
        elif not event.startswith("part_"):  # its tools run, or it is over
            left += answer.taken()
        return left
