"""Transcript: the messages of a run in order, its calls with arguments, and what the calls gave.

A source makes it while it is read, and only where the setting ``keep_texts`` is on. It is stored with a mark in the
place of each secret, and it is bounded: long messages lose their end, and long transcripts their middle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from core.records.bill import Spent
from core.records.limits import keepable

Speaker = Literal["user", "agent", "call", "left out"]
MAX_MESSAGE_CHARS: Final = 8_000
"""Characters that are kept of a message, of a call's arguments, and of its result."""
MAX_TRANSCRIPT_CHARS: Final = 100_000
"""Characters that are kept of a run. A longer one keeps its first and its last messages."""
READ_CHARS: Final = 4 * MAX_MESSAGE_CHARS
"""Characters that are read of a message: more than are kept, so that no secret is cut before it is masked."""
_ROOM_FOR_MARK: Final = 60
_LEAST_CHARS: Final = 40
"""A message counts as this long at least, as its names and marks take room too."""


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A message of a run, or a call.

    ``text`` is what the user or the agent wrote, or the arguments of a call of ``name``. ``result`` is what the call
    gave, None = unknown. Kind ``left out`` marks the middle of a long transcript; its text is the number of messages.
    ``at_ms`` is when it was written. The first step of a response has what it ``spent``, the prompt included.
    """

    kind: Speaker
    text: str = ""
    name: str = ""
    result: str | None = None
    at_ms: int | None = None
    spent: tuple[Spent, ...] = ()

    @property
    def tokens(self) -> int:
        """The tokens of the response; 0 = unknown, or no first step."""
        return sum(one.tokens + one.total for one in self.spent)


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of a run; None where none are kept, or where the caller ``may_read`` none."""

    messages: tuple[Message, ...] | None = None
    may_read: bool = True


class Talk:
    """The messages of a run while its source is read."""

    __slots__ = ("_calls", "_messages", "_responses")

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._calls: dict[str, int] = {}
        self._responses: dict[str, tuple[int, tuple[Spent, ...]]] = {}

    def add(self, kind: Literal["user", "agent"], text: str, at_ms: int | None = None) -> None:
        """Add a message; one of blanks only is none."""
        if text.strip():
            self._messages.append(Message(kind=kind, text=text[:READ_CHARS], at_ms=at_ms))

    def call(self, name: str, arguments: str, identity: object = None, at_ms: int | None = None) -> None:
        """Add a call; ``identity`` is how its result names it."""
        if identity:
            self._calls[str(identity)] = len(self._messages)
        self._messages.append(Message(kind="call", name=name, text=arguments[:READ_CHARS], at_ms=at_ms))

    def use(self, response: str, spent: Iterable[Spent]) -> None:
        """Note what a response spent before its first step; what comes later replaces it."""
        place, _ = self._responses.get(response, (len(self._messages), ()))
        self._responses[response] = place, tuple(spent)

    def rename(self, name: str, identity: object) -> None:
        """Give a call another name, where it is known."""
        place = self._calls.get(str(identity))
        if place is not None:
            self._messages[place] = replace(self._messages[place], name=name)

    def result(self, text: str, identity: object = None) -> None:
        """Add the result of a call; one that names no call is that of the first call without a result.

        >>> talk = Talk()
        >>> talk.call("add", '{"a": 2}', "c1")
        >>> talk.result("4", "c1")
        >>> [(one.name, one.result) for one in talk.messages]
        [('add', '4')]
        """
        place = self._calls.get(str(identity)) if identity else self._first_open()
        if place is not None:
            self._messages[place] = replace(self._messages[place], result=text[:READ_CHARS])

    def _first_open(self) -> int | None:
        open_calls = (
            place for place, one in enumerate(self._messages) if one.kind == "call" and one.result is None
        )
        return next(open_calls, None)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages so far."""
        spent = dict(self._responses.values())
        return tuple(
            replace(one, spent=spent[place]) if place in spent else one
            for place, one in enumerate(self._messages)
        )


def bounded(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return messages as they are kept: each cut, and without the middle of a long transcript.

    >>> long = [Message(kind="agent", text="x" * 50_000)] * 40
    >>> short = bounded(long)
    >>> sum(len(one.text) for one in short) < MAX_TRANSCRIPT_CHARS
    True
    >>> [one.text for one in short if one.kind == "left out"]
    ['28']
    """
    cut = [
        replace(one, text=_shortened(one.text), result=None if one.result is None else _shortened(one.result))
        for one in messages
    ]
    if sum(map(_size, cut)) <= MAX_TRANSCRIPT_CHARS:
        return tuple(cut)
    n_first = _n_that_fit(cut)
    n_last = _n_that_fit(cut[:n_first:-1])
    n_out = len(cut) - n_first - n_last
    return (*cut[:n_first], Message(kind="left out", text=str(n_out)), *cut[len(cut) - n_last :])


def _n_that_fit(messages: Sequence[Message]) -> int:
    """Return how many of the first messages fit half of a transcript."""
    left = MAX_TRANSCRIPT_CHARS // 2
    for number, one in enumerate(messages):
        left -= _size(one)
        if left < 0:
            return number
    return len(messages)


def _size(one: Message) -> int:
    return max(len(one.text) + len(one.name) + len(one.result or ""), _LEAST_CHARS)


def _shortened(text: str) -> str:
    text = keepable(text)
    if len(text) <= MAX_MESSAGE_CHARS:
        return text
    n_stored = MAX_MESSAGE_CHARS - _ROOM_FOR_MARK
    return f"{text[:n_stored]} [… cut: more characters …]"


def texts_policy(database: str) -> tuple[str, ...]:
    """Return what the setting ``keep_texts`` keeps, where, how long, and who reads it, a sentence each.

    >>> len(texts_policy("a.db"))
    4
    """
    return (
        "Kept of each run are its messages, calls with arguments, results, request and last answer; of each episode "
        "step both sides.",
        f"Secrets are masked. A transcript has at most {MAX_TRANSCRIPT_CHARS:,} characters.",
        f"They are in {database} and its backups, until armscope erase removes them.",
        "Operators read them, reviewers those of runs in a queue to judge, and tokens with the scope texts. "
        "Exports hold no transcript.",
    )
