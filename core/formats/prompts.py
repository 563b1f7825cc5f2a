"""Runs of a session while its lines are read, with the token counts of their replies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from zlib import crc32

import msgspec

from core.errors import InvalidInput
from core.formats.by_name import Offer
from core.formats.strict import UNDECODABLE, decoded
from core.formats.unknown import Unknown
from core.records.bill import Owner, Spent, containing, merged
from core.records.limits import MAX_TOKENS, Tokens
from core.records.run import MARKED_BYTES, MESSAGES, Call, Status, Usage
from core.records.transcript import Talk

T = TypeVar("T")
Parts = tuple[int, int, int, int, int]
"""Input, output, cache read, cache write, and the total; 0 = not in the file."""

_MEMBERS: Final = msgspec.json.Decoder(dict[str, Any])
_PARTS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KNOWN_NAME: Final = re.compile(
    r"(?:(?:1h|5m|api|cached?|calls|candidates|completion|content|cost|count|creation|deleted|details|duration|ephemeral"
    r"|hit|input|instance|latency|miss|ms|output|pi|prompt|queue|read|reasoning|received|sdk|sent|text|thoughts?|time"
    r"|tokens?|tool|total|usd|use|write|written)[_.]?)+",
    re.IGNORECASE,
)
"""Name of a known count of tokens or of a part of one, or of an amount that is no tokens."""
_SPENT_TOKENS: Final = re.compile(
    rb'"(?!\w*(?:max|limit|budget|before|left|remain|window|threshold))\w*(?:usage|tokens?(?:_?count)?)"'
    rb"\s*:\s*(?:[1-9]|\{[^{}]*:\s*[1-9])",
    re.IGNORECASE,
)
"""A count of tokens that is no limit."""


class Reported(Protocol):
    """The usage of one reply, as its file has it."""

    @property
    def parts(self) -> Parts: ...
    def billed(self, model: str | None, owner: Owner, unknown: Unknown) -> Iterable[Spent]:
        """Return the disjoint counts, a row for each request and model. ``unknown`` counts the unread names."""
        ...


class Beside(NamedTuple):
    """A usage with the names of its amounts that no reader knows."""

    usage: Reported
    names: Collection[str]

    @property
    def parts(self) -> Parts:
        return self.usage.parts

    def billed(self, model: str | None, owner: Owner, unknown: Unknown) -> Iterable[Spent]:
        yield from self.usage.billed(model, owner, unknown)
        if self.names:
            yield Spent(model=model, owner=owner, unread=unknown.spend(self.names))


class Counts(msgspec.Struct):
    """A usage whose input contains the cached tokens, in the words of Gemini's API."""

    input: Tokens | None = None
    output: Tokens | None = None
    cached: Tokens | None = None
    thoughts: Tokens | None = None
    tool: Tokens | None = None
    total: Tokens | None = None

    @property
    def parts(self) -> Parts:
        """The counts. Without a total in the file, it is the sum of the others except ``cached``."""
        total = self.total or sum(one or 0 for one in (self.input, self.output, self.thoughts, self.tool))
        return self.input or 0, self.output or 0, self.cached or 0, 0, total

    def billed(self, model: str | None, owner: Owner, unknown: Unknown) -> Iterable[Spent]:  # noqa: ARG002
        """Return the disjoint counts: results of tools are input, thoughts are output."""
        row = containing(
            model=model,
            owner=owner,
            input=(self.input or 0) + (self.tool or 0),
            cached=self.cached or 0,
            output=(self.output or 0) + (self.thoughts or 0),
            total=self.total or 0,
        )
        return (row.as_request,)


@dataclass(slots=True)
class Prompt:
    """A run whose lines are still being read.

    ``n_foreign`` counts calls of an unknown kind, ``n_unread`` records of an unknown kind that count tokens.
    ``request`` is the person's text. ``key`` and ``marks`` are the digests of its `History`. ``used`` has each
    reply's usage and model, ``rows`` has counts that are disjoint already. ``offer`` lists the tools and skills that
    it had by name, if the format has them. ``loaded`` counts the agent's loads of skills, a person typed the skills
    ``typed``.
    """

    identity: str
    request: str | None = None
    status: Status = "completed"
    provider: str | None = None
    model: str | None = None
    n_replies: int = 0
    n_foreign: int = 0
    n_unread: int = 0
    began: str | float | None = None
    last_time: str | float | None = None
    last_text: str | None = None
    duration_ms: int | None = None
    calls: list[Call] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    used: dict[str, tuple[str | None, Reported]] = field(default_factory=dict)
    rows: list[Spent] = field(default_factory=list)
    by_sub_agents: list[Callable[[Unknown], Iterable[Spent]]] = field(default_factory=list)
    offer: Offer | None = None
    loaded: Counter[str] = field(default_factory=Counter)
    typed: set[str] = field(default_factory=set)
    talk: Talk = field(default_factory=Talk)
    key: int = 0
    marks: bytearray = field(default_factory=partial(bytearray, MESSAGES))  # its first byte names its form
    _checksum: int = 0

    def mark(self, at: str | float | None, content: bytes) -> None:
        """Add the checksum of all messages and their times up to this one."""
        if len(self.marks) < MARKED_BYTES:
            self._checksum = crc32(content, crc32(f"{at}\n".encode(errors="replace"), self._checksum))
            self.marks += self._checksum.to_bytes(4, "big")

    @property
    def reply(self) -> str | None:
        """The agent's last message. It is all that a format without texts keeps."""
        return self.last_text or (self.texts[-1] if self.texts else None)

    @property
    def usage(self) -> Usage | None:
        """The usage of its replies, if they report it."""
        return usage_of(self.rows) if self.rows else summed(one.parts for _, one in self.used.values())

    def spent(self, unknown: Unknown) -> tuple[Spent, ...]:
        """Return the counts by model, then the sub-agents', as the limit of a bill where they exceed it."""
        used = self.used.values()
        rows = (row for model, one in used for row in one.billed(model, "agent", unknown))
        own = merged((*self.rows, *rows, Spent(unread=self.n_unread)))
        try:
            return own + merged(row for make in self.by_sub_agents for row in make(unknown))
        except InvalidInput:
            return (*own, Spent(owner="sub-agent", total=MAX_TOKENS))


def unread(raw: bytes | msgspec.Raw, known: Collection[str] = ()) -> list[str]:
    """Return the members of a usage that hold an amount under an unknown name.

    >>> unread(b'{"inputTokens": 1, "prompt_tokens_details": {"audio": 7}, "seats": 2, "fee": 0, "tier": "a"}')
    ['seats']
    """
    members = (decoded(_MEMBERS, raw) if raw else None) or {}
    names = _beyond_parts(tuple(members))
    return [name for name in names if name not in known and _is_amount(members[name])]


@lru_cache(maxsize=1_024)
def _beyond_parts(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if not is_part(name)]


@lru_cache(maxsize=1_024)
def is_part(name: str) -> bool:
    """Return whether an amount's name has only the words of known ones."""
    return _KNOWN_NAME.fullmatch(name) is not None


def counts_of(
    decoder: msgspec.json.Decoder[T], raw: bytes | msgspec.Raw, known: Collection[str] = ()
) -> tuple[T, list[str]]:
    """Return a usage, and the names of its amounts of another shape and of unknown ones."""
    counts, wrong = readable(decoder, raw)
    return counts, wrong + unread(raw, known)


def readable(decoder: msgspec.json.Decoder[T], raw: bytes | msgspec.Raw) -> tuple[T, list[str]]:
    """Return a usage without its members of another shape, which spoil nothing else, and their names."""
    try:
        return decoder.decode(raw or b"null"), []
    except UNDECODABLE:
        members = decoded(_PARTS, raw)
    if members is None:
        return decoder.decode(b"{}"), ["usage"]
    encode = msgspec.json.encode
    wrong = [name for name, value in members.items() if decoded(decoder, encode({name: value})) is None]
    right = {name: value for name, value in members.items() if name not in wrong}
    return decoder.decode(encode(right)), wrong


def counts_tokens(raw: bytes | msgspec.Raw) -> bool:
    """Return whether a record of an unknown kind counts tokens that were spent.

    >>> counts_tokens(b'{"data": [{"inputTokens": 7}]}'), counts_tokens(b'{"n": 7, "maxTokens": 7}')
    (True, False)
    """
    return _SPENT_TOKENS.search(raw) is not None


def _is_amount(value: object) -> bool:
    """Return whether a JSON value contains a number other than 0."""
    if isinstance(value, (Mapping, list)):
        return any(map(_is_amount, value.values() if isinstance(value, Mapping) else value))
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value != 0


def summed(parts: Iterable[Parts]) -> Usage | None:
    """Return the sum of these counts, or None for nothing."""
    read, written, cached, stored, total = map(sum, zip((0, 0, 0, 0, 0), *parts, strict=True))
    usage = Usage(input=read, output=written, cache_read=cached, cache_write=stored, total=total or None)
    return None if usage.tokens is None else usage


def usage_of(rows: Iterable[Spent]) -> Usage | None:
    """Return the sum of disjoint counts, or None for nothing."""
    return summed(
        (row.input, row.output, row.cache_read, row.cache_write_5m, row.tokens + row.total) for row in rows
    )


def split(model: str | None, owner: Owner, counts: tuple[int, int, int, int]) -> Spent:
    """Return the disjoint counts of a usage whose input contains the cached tokens, both read and written.

    ``counts`` are the input, the tokens read from a cache and those written to one, and the output.

    >>> split("m", "agent", (100, 70, 10, 5)).input, split(None, "agent", (1, 2, 0, 5)).total
    (20, 6)
    """
    read, cached, written, output = counts
    if cached + written > read:
        return Spent(model=model, owner=owner, total=min(read + output, MAX_TOKENS))
    return Spent(
        model=model,
        owner=owner,
        input=read - cached - written,
        cache_read=cached,
        cache_write_5m=written,
        output=output,
        assumed=written > 0,  # five minutes, because no lifetime is named
    )
