"""Chat records ``{messages, tools?}`` as OpenAI or Anthropic have them, one a line or in one array.

``tools`` (or the older ``functions``) declares the inventory of its record. ``model`` and ``usage`` are read
if a record has them; OpenAI's ``prompt_tokens`` contains the cached ones, Anthropic's ``input_tokens`` doesn't.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from core.formats.chat import Message, Record, lists_messages, read
from core.formats.entries import Entry, Progress
from core.formats.prompts import Parts, counts_of, summed
from core.formats.reading import Format, Head, Reading
from core.formats.tools import DeclaredLists
from core.records.limits import Label, Tokens

NAME: Final = "openai-chat"


class _PromptDetails(msgspec.Struct):
    cached_tokens: Tokens | None = None


class ChatUsage(msgspec.Struct):
    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None
    total_tokens: Tokens | None = None
    prompt_tokens_details: _PromptDetails | None = None
    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    cache_read_input_tokens: Tokens | None = None
    cache_creation_input_tokens: Tokens | None = None

    @property
    def parts(self) -> Parts:
        details = self.prompt_tokens_details
        cached = 0 if details is None else details.cached_tokens or 0
        return (
            max((self.prompt_tokens or 0) - cached, 0) or self.input_tokens or 0,
            self.completion_tokens or self.output_tokens or 0,
            cached or self.cache_read_input_tokens or 0,
            self.cache_creation_input_tokens or 0,
            self.total_tokens or 0,  # zero everywhere means unknown
        )


class _Chat(msgspec.Struct):
    messages: list[Message]
    tools: msgspec.Raw = msgspec.Raw(b"null")
    functions: msgspec.Raw = msgspec.Raw(b"null")
    model: Label | None = None
    usage: msgspec.Raw = msgspec.Raw(b"null")


CHAT_USAGE: Final = msgspec.json.Decoder(ChatUsage | None)
_CHAT: Final = msgspec.json.Decoder(_Chat)


def _claims(head: Head) -> bool:
    """Return whether this is a chat; other formats have ``messages`` too, but not at the top with a ``role``."""
    if "messages" not in head.keys and not any("messages" in line for line in head.lines):
        return False
    return lists_messages(head, "messages")


def _decoder() -> Callable[[bytes], Record]:
    lists = DeclaredLists()

    def decode(raw: bytes) -> Record:
        chat = _CHAT.decode(raw)
        used, names = counts_of(CHAT_USAGE, chat.usage)
        lists_of_tools = (bytes(chat.tools), bytes(chat.functions))
        declared = next((tools for tools in lists_of_tools if tools != b"null"), None)
        return Record(
            messages=chat.messages,
            declared=None if declared is None else lists.inventory(declared),
            model=chat.model,
            usage=None if used is None else summed([used.parts]),
            unread=names,
        )

    return decode


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    return read(NAME, reading, progress, _decoder())


FORMAT: Final = Format(name=NAME, units=("episode", "turn"), claims=_claims, read=_read)
