"""Gemini CLI sessions, one run per prompt of the user.

A session is one document ``{sessionId, projectHash, messages}``. Newer programs write it as lines: its head, then
messages, each again whenever it grew, and ``$set`` lines. Lines without a session belong to the last named one.
``type`` ``user`` is a prompt, ``gemini`` a reply with its calls and tokens, all else a notice of the program. So is
the ``<session_context>`` that begins a message of the user. Rewound messages stay. ``tokens.input`` contains the
cached ones, so the total is the one that the file states. In the bill the cached tokens are taken out of the input,
results of tools count as input and thoughts as output.

The file has no list of tools: the inventory is the set of called tools. A sub-agent's session holds no runs, because
its prompts are not the user's and its calls not the agent's. Its tokens are in the bill of the run during which they
were spent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, islice
from operator import itemgetter
from pathlib import Path
from typing import ClassVar, Final

import msgspec

from core.formats.entries import Rejected, Skipped
from core.formats.heads import head_of
from core.formats.prompts import Beside, Counts, counts_of
from core.formats.reading import Format, Head, Reading, SubAgentFiles
from core.formats.sessions import PART_BYTES, NamedSession, read_named
from core.formats.strict import UNDECODABLE, Flaw, decoded, digest_of, plain, utc_ms_of
from core.formats.sub_agents import Response, alone
from core.records.limits import Label
from core.records.run import Run, Status

NAME: Final = "gemini-cli"

_SESSION_ID: Final = re.compile(rb'"sessionId"\s*:\s*"([^"\\]*)"')
_CHILD: Final = re.compile(rb'"kind"\s*:\s*"subagent"')
_CONTEXT: Final = re.compile(r"\A\s*<session_context>.*?(?:</session_context>\s*|\Z)", re.DOTALL)
"""The program's words about the machine, at the start of a session."""
_NOTICES: Final = frozenset(("info", "error", "warning"))

_NO_TOKENS: Final = (b"", b"null")
_TOKENS: Final = msgspec.json.Decoder(Counts | None)


class _Call(msgspec.Struct, rename={"agent_id": "agentId"}):
    name: Label
    id: str | None = None
    agent_id: str | None = None
    args: msgspec.Raw = msgspec.Raw(b"")
    result: msgspec.Raw = msgspec.Raw(b"")


class _Part(msgspec.Struct, rename="camel"):
    text: str | None = None
    function_call: msgspec.Raw = msgspec.Raw(b"")


class _Message(msgspec.Struct, rename="camel"):
    type: str
    timestamp: str | None = None
    content: str | list[_Part | str] | _Part | None = None
    tool_calls: list[_Call] | None = None
    tokens: msgspec.Raw = msgspec.Raw(b"")
    model: Label | None = None

    @property
    def parts(self) -> list[_Part | str]:
        if isinstance(self.content, list):
            return self.content
        return [] if self.content is None else [self.content]

    @property
    def text(self) -> str:
        texts = [part.text if isinstance(part, _Part) else part for part in self.parts]
        return "\n".join([text for text in texts if text])

    def begins(self, other: _Message) -> bool:
        """Return whether the other one is this message, or has grown from it in place."""
        own, calls = (
            [(one.name, one.id, bytes(one.args)) for one in m.tool_calls or ()] for m in (self, other)
        )
        return (
            (self.type, self.timestamp) == (other.type, other.timestamp)
            and other.text.startswith(self.text)
            and calls[: len(own)] == own
            and (bytes(self.tokens) in _NO_TOKENS or bytes(other.tokens) not in _NO_TOKENS)
        )


class _Piece(msgspec.Struct, rename="camel"):
    """A whole session, or a line of one."""

    id: str | None = None
    type: str | None = None
    session_id: str | None = None
    kind: str | None = None
    messages: list[msgspec.Raw] | None = None
    set: _Piece | None = msgspec.field(default=None, name="$set")

    uuid: ClassVar[None] = None
    """A message may be repeated, so no other line follows this one."""
    parent_uuid: ClassVar[None] = None
    timestamp: ClassVar[None] = None


class _Identified(msgspec.Struct):
    id: str | None = None


_PIECE: Final = msgspec.json.Decoder(_Piece)
_IDENTIFIED: Final = msgspec.json.Decoder(_Identified)
_MESSAGE: Final = msgspec.json.Decoder(_Message)
_NOTHING: Final = _Piece()


def _claims(head: Head) -> bool:
    marks = {"sessionId", "projectHash"}
    return marks <= head.keys or any(marks <= line.keys() for line in head.lines)


def _decode(raw: bytes) -> _Piece:
    piece = _PIECE.decode(raw)
    if piece == _NOTHING and raw.strip() == b"{}":
        raise Flaw("says nothing")
    return piece


@dataclass
class _Session(NamedSession[_Piece]):
    """The messages of a session, each in its last version and at its first place."""

    format_name = NAME

    kind: str | None = None
    _is_listed: bool = False
    _longest: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    _contents: set[int] = field(default_factory=set)
    _n_more: dict[str, int] = field(default_factory=dict)
    """Number of further messages under the id of one with other content."""

    def add(self, line: _Piece, raw: bytes) -> None:
        if line.type is not None:
            self._keep(self.number, raw.strip(), line.id)
        for part in (line, line.set):
            if part is not None:
                self.kind = part.kind or self.kind
                self._is_listed |= part.messages is not None
                for position, message in enumerate(part.messages or (), start=1):
                    self._keep(position, bytes(message), _identity(message))

    def entries(self, reading: Reading) -> Iterator[Run | Rejected | Skipped]:
        if self.kind == "subagent":
            if reading.path.parent.name not in reading.sub_agents.sessions:
                yield alone(reading.file)
            return
        if not self._is_listed:
            self._longest = _by_time(self._longest)
        for one in self._decoded(reading):
            if isinstance(one, Rejected):
                yield one
            else:
                self._add_message(*one)
                reading.check_parts(self.n_parts)
        self._read_sub_agents(reading)
        yield from super().entries(reading)

    def _decoded(self, reading: Reading) -> Iterator[tuple[str, _Message, bytes] | Rejected]:
        """Yield each message; it is no longer held then."""
        for identity in [*self._longest]:
            number, raw = self._longest.pop(identity)
            self.n_parts -= _parts_of(raw)
            try:
                yield identity, _MESSAGE.decode(raw), raw
            except UNDECODABLE as error:
                yield reading.rejected(number, error, raw)

    def _read_sub_agents(self, reading: Reading) -> None:
        """Add the tokens in files of sub-agents, at any depth: those of this session, and those that calls name."""
        read, waiting = {reading.path}, [self.id or "", *self.agents.unread] if self.prompts else []
        while waiting:
            for path, file in reading.sub_agents.of(waiting.pop()):
                if path not in read:
                    read.add(path)
                    shape = head_of(path, file, reading.limits).shape
                    waiting += self._add_sub_agent(replace(reading, path=path, file=file, shape=shape))

    def _add_sub_agent(self, reading: Reading) -> Iterator[str]:
        """Add the replies of a sub-agent, and yield the ids of those that it started."""
        child = _Session(unknown=self.unknown)
        for child.number, raw, piece in reading.records(_decode, mends=True):
            if not isinstance(piece, Rejected):
                child.id = piece.session_id or child.id
                child.add(piece, raw)
        agent = self.agents.at(child.id or reading.file, None)
        for one in child._decoded(reading):
            if isinstance(one, Rejected) or one[1].type != "gemini":
                continue
            identity, message, _ = one
            tokens, names = counts_of(_TOKENS, message.tokens)
            if tokens is not None:
                used = Beside(tokens, names)
                spent = partial(used.billed, message.model, "sub-agent")
                written = tokens.output or 0
                agent.add(f"{child.id}/{identity}", Response(spent, written, message.timestamp, None))
            for started in (call.agent_id for call in message.tool_calls or () if call.agent_id):
                self.agents.add_nested(started, child.id or reading.file)
                yield started

    def _keep(self, number: int, raw: bytes, identity: str | None) -> None:
        """Keep a message: in place of the last one of its id if it continues that, else as one of its own."""
        name = plain(identity) or digest_of(raw)
        content = hash((name, raw))
        if content in self._contents:
            return
        self._contents.add(content)
        place = f"{name} {n}" if (n := self._n_more.get(name, 0)) else name
        message, known = decoded(_MESSAGE, raw), self._longest.get(place)
        before = None if known is None else decoded(_MESSAGE, known[1])
        if before is None or (message is not None and before.begins(message)):
            self._hold(place, number, raw)
        elif message is None:  # it can't be read, which is reported
            self._hold(f"{name} line {number}", number, raw)
        elif not message.begins(before):
            self._n_more[name] = n + 1
            self._hold(f"{name} {n + 1}", number, raw)
            self.unknown.n_shared += 1 + (n == 0)

    def _hold(self, place: str, number: int, raw: bytes) -> None:
        before = self._longest.get(place, (0, b""))[1]
        self.n_parts += _parts_of(raw) - _parts_of(before)
        self._longest[place] = (number, raw)

    def _add_message(self, identity: str, message: _Message, raw: bytes) -> None:
        self.n_facts += 1
        if message.type == "user":
            text = _CONTEXT.sub("", message.text)
            if text.strip():
                self.begin(identity, text, message.timestamp)
        elif message.type == "gemini":
            self._add_reply(identity, message)
        elif message.type == "error":
            self._fail(message, "error")
        elif message.text.startswith("Request cancelled"):
            self._fail(message, "aborted")
        elif message.type not in _NOTICES:
            self.pass_over(message.type, raw)

    def _add_reply(self, identity: str, message: _Message) -> None:
        run = self.reply(identity, message.model, message.timestamp or None)
        run.status = "completed"
        # A message grows in place, so the content shows which of two copies of a file is the longer.
        tokens, names = counts_of(_TOKENS, message.tokens)
        if tokens is not None:
            self.n_facts += 1
            self.use(run, identity, message.model, tokens, names)
        if text := message.text:
            self.add_text(run, text)
        for call in message.tool_calls or ():
            if self.add_call(run, call.name, call.args, call.id):
                self.n_facts += 1
                self.add_output(call.id, call.result)
                if call.agent_id:
                    self.agents.add_call(call.id or call.agent_id, run, "")
                    self.agents.link(call.agent_id, call.id or call.agent_id)
        for part in message.parts if not message.tool_calls else ():
            if isinstance(part, _Part) and part.function_call:
                run.n_foreign += self.unknown.block("functionCall")

    def _fail(self, message: _Message, status: Status) -> None:
        """The program says that the prompt came to nothing; a later reply makes up for it."""
        if self.prompts:
            self.prompts[-1].status = status
            self.touch(message.timestamp or None)


def _identity(message: msgspec.Raw) -> str | None:
    """Return the id of a message; None where it is no text, or the message is no object."""
    return (decoded(_IDENTIFIED, message) or _Identified()).id


def _parts_of(raw: bytes) -> int:
    return 1 + len(raw) // PART_BYTES if raw else 0


def _by_time(messages: dict[str, tuple[int, bytes]]) -> dict[str, tuple[int, bytes]]:
    """Messages in the order in which they were written; one of unknown time stays behind the one before it."""
    known = (decoded(_MESSAGE, raw) for _, raw in messages.values())
    times = (None if one is None else utc_ms_of(one.timestamp)[0] for one in known)
    latest = accumulate(times, lambda before, at: before if at is None else at, initial=0)
    pairs = sorted(zip(islice(latest, 1, None), messages.items(), strict=True), key=itemgetter(0))
    return dict(one for _, one in pairs)


def _sort(head: Head, path: Path, file: str, files: SubAgentFiles) -> None:
    """Record the session of a file; that of a sub-agent lies in a folder with the name of its session."""
    own = _SESSION_ID.search(head.start)
    if _CHILD.search(head.start):
        files.add(path, file, path.parent.name, *([own[1].decode(errors="replace")] if own else []))
    elif own:
        files.sessions.add(own[1].decode(errors="replace"))


FORMAT: Final = Format(
    name=NAME,
    units=("prompt",),
    claims=_claims,
    read=partial(read_named, decode=_decode, begin=_Session, listed="messages"),
    sort=_sort,
    may_be_document="messages",
)
