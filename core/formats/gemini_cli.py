"""Gemini CLI sessions, one run per prompt of the person.

A session is one document ``{sessionId, projectHash, messages}``; newer programs write it as lines: its head,
then messages, each again whenever it grew, and ``$set`` lines. Messages are told apart by ``type``: ``user`` is
a prompt, ``gemini`` a reply with its calls and tokens, all else a notice of the program. What was rewound had
happened and stays. ``tokens.input`` contains the cached ones, so the total is the one the file states.

No list of tools is in the file: the inventory is what the session calls. A sub-agent's session is refused,
because its prompts are not the person's and its calls not the agent's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from core.errors import InvalidInput, UnreadableSource
from core.formats.chat import Part, metadata
from core.formats.entries import Entry, Progress, Rejected
from core.formats.identity import digest_of, plain
from core.formats.moments import moment
from core.formats.reading import Format, Head, Reading
from core.formats.strict import UNDECODABLE
from core.formats.tools import inferred
from core.records.limits import Label, Tokens
from core.records.run import Call, Inventory, Run, Status, Usage

NAME: Final = "gemini-cli"

_CANCELLED: Final = "Request cancelled"
_SUBAGENT: Final = "subagent"


class _Tokens(msgspec.Struct):
    input: Tokens | None = None
    output: Tokens | None = None
    cached: Tokens | None = None
    thoughts: Tokens | None = None
    tool: Tokens | None = None
    total: Tokens | None = None

    @property
    def sum(self) -> int:
        """The file's total; without one all that is not part of another count."""
        parts = (self.input, self.output, self.thoughts, self.tool)
        return self.total or sum(part or 0 for part in parts)


class _Call(msgspec.Struct):
    name: Label
    id: str | None = None
    args: msgspec.Raw = msgspec.Raw(b"")


class _Message(msgspec.Struct, rename="camel"):
    type: str
    timestamp: str | None = None
    content: str | list[Part | str] | Part | None = None
    tool_calls: list[_Call] | None = None
    tokens: _Tokens | None = None
    model: Label | None = None

    @property
    def text(self) -> str:
        parts = self.content if isinstance(self.content, list) else [self.content]
        texts = [part.text if isinstance(part, Part) else part for part in parts]
        return "\n".join([text for text in texts if text])


class _Piece(msgspec.Struct, rename="camel"):
    """A whole session, or a line of one."""

    id: str | None = None
    type: str | None = None
    session_id: str | None = None
    kind: str | None = None
    messages: list[msgspec.Raw] | None = None
    set: _Piece | None = msgspec.field(default=None, name="$set")


class _Identified(msgspec.Struct):
    id: str | None = None


_PIECE: Final = msgspec.json.Decoder(_Piece)
_IDENTIFIED: Final = msgspec.json.Decoder(_Identified)
_MESSAGE: Final = msgspec.json.Decoder(_Message)


def _claims(head: Head) -> bool:
    return {"sessionId", "projectHash"} <= head.keys


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    kept = _Kept()
    for number, raw in reading.raw_records(progress):
        if isinstance(raw, Rejected):
            yield raw
            continue
        try:
            kept.add(number, raw)
        except UNDECODABLE as error:
            yield reading.rejected(number, error, raw)
    if kept.kind == _SUBAGENT:
        raise UnreadableSource(
            f"A session must be the agent's own, but this one is a sub-agent's ({reading.file}).",
            next_step="Import the session that started it; sub-agents' calls are not the agent's.",
        )
    session = _Session(session_id=plain(kept.session_id))
    for identity, (number, raw) in kept.messages.items():
        try:
            session.add(identity, _MESSAGE.decode(raw))
        except UNDECODABLE as error:
            yield reading.rejected(number, error, raw)
    yield from session.runs(reading)


@dataclass
class _Kept:
    """The messages of a session, each in its last version and at its first place."""

    session_id: str | None = None
    kind: str | None = None
    messages: dict[str, tuple[int, bytes]] = field(default_factory=dict)

    def add(self, number: int, raw: bytes) -> None:
        piece = _PIECE.decode(raw)
        self.session_id = self.session_id or piece.session_id
        if piece.type is not None:
            self._keep(number, raw.strip(), piece.id)
        for part in (piece, piece.set):
            if part is not None:
                self.kind = part.kind or self.kind
                for place, message in enumerate(part.messages or (), start=1):
                    self._keep(place, bytes(message), _IDENTIFIED.decode(message).id)

    def _keep(self, number: int, raw: bytes, identity: str | None) -> None:
        self.messages[plain(identity) or digest_of(raw)] = (number, raw)


@dataclass
class _Growing:
    """A run whose messages are still being read."""

    identity: str
    n_replies: int = 0
    status: Status = "completed"
    model: str | None = None
    ended_at: str | None = None
    tokens: list[_Tokens] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def add(self, message: _Message, calls: list[Call]) -> None:
        self.n_replies += 1
        self.status = "completed"
        self.model = message.model or self.model
        self.ended_at = message.timestamp or self.ended_at
        self.calls.extend(calls)
        if text := message.text:
            self.texts.append(text)
        if message.tokens is not None:
            self.tokens.append(message.tokens)

    def fail(self, message: _Message, status: Status) -> None:
        """The program says that the prompt came to nothing; a later reply makes up for it."""
        self.status = status
        self.ended_at = message.timestamp or self.ended_at

    @property
    def usage(self) -> Usage | None:
        found = Usage(
            input=sum(tokens.input or 0 for tokens in self.tokens),
            output=sum(tokens.output or 0 for tokens in self.tokens),
            cache_read=sum(tokens.cached or 0 for tokens in self.tokens),
            total=sum(tokens.sum for tokens in self.tokens) or None,
        )
        return None if found.tokens is None else found


@dataclass
class _Session:
    """Messages of one file → its runs."""

    session_id: str | None
    n_facts: int = 0
    grown: list[_Growing] = field(default_factory=list)
    _seen_calls: set[str] = field(default_factory=set)

    def add(self, identity: str, message: _Message) -> None:
        self.n_facts += 1
        if message.type == "user":
            if message.text.strip():
                self.grown.append(_Growing(identity, ended_at=message.timestamp))
        elif message.type == "gemini":
            self._add_reply(identity, message)
        elif message.type == "error":
            self._fail(message, "error")
        elif message.text.startswith(_CANCELLED):
            self._fail(message, "aborted")

    def runs(self, reading: Reading) -> Iterator[Run | Rejected]:
        inventory = reading.supplied
        if inventory is None:
            inventory = inferred({call.name for run in self.grown for call in run.calls})
        for run in self.grown:
            try:
                yield self._run(run, inventory)
            except InvalidInput as error:  # counts that no run can have, once they are added up
                yield Rejected(file=reading.file, line=None, reason=error.problem)

    def _add_reply(self, identity: str, message: _Message) -> None:
        """A reply before the first prompt makes a run of its own."""
        if not self.grown:
            self.grown.append(_Growing(identity))
        calls = [call for call in message.tool_calls or () if self._is_new(call)]
        # A message grows in place, so what is in it tells which of two copies of a file is the longer.
        self.n_facts += len(calls) + (message.tokens is not None)
        self.grown[-1].add(
            message, [Call(name=call.name, metadata=metadata(bytes(call.args))) for call in calls]
        )

    def _fail(self, message: _Message, status: Status) -> None:
        if self.grown:
            self.grown[-1].fail(message, status)

    def _is_new(self, call: _Call) -> bool:
        if call.id is None:
            return True
        is_new = call.id not in self._seen_calls
        self._seen_calls.add(call.id)
        return is_new

    def _run(self, run: _Growing, inventory: Inventory) -> Run:
        ended_at_ms, is_naive = moment(run.ended_at)
        return Run(
            uid=f"{NAME}/prompt/{run.identity}",
            inventory=inventory,
            format=NAME,
            unit="prompt",
            source=self.session_id or self.grown[0].identity,
            rank=self.n_facts,
            session=self.session_id,
            ended_at_ms=ended_at_ms,
            naive_time=is_naive,
            model=run.model,
            status=run.status,
            usage=run.usage,
            calls=tuple(run.calls),
            texts=tuple(run.texts),
            empty=run.n_replies == 0,
        )


FORMAT: Final = Format(name=NAME, units=("prompt",), claims=_claims, read=_read)
