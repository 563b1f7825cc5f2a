"""opencode sessions, one run per message of the user.

They are in ``opencode.db``, in exported documents ``{info, messages}``, or in the files that programs before 1.2 kept
(``storage/session``, ``message`` and ``part``).

A message is ``{info, parts}``; the database has both as JSON without their ids. Version 2 keeps a message with its
``content`` in ``session_message``, beside the older tables, which no longer change. A session in both is read once:
the older messages, then those that only the newer table has. A prompt is a user's text that is not ``synthetic``, or
a command (``subtask``). A tool part is a call in any state. Input contains no cached token. Reasoning counts as
output, unless the total shows that output contains it. Parts ``step-finish`` hold the tokens of each step. The
message holds those of the last one, and counts where no such part is. A session with a parent is a sub-agent's. Its
tokens go to the bill of the run that started it.

Ids of messages and calls are no identity: some programs replace them by a word before they publish a session.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from glob import escape
from itertools import chain
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace as replace_fields

from core.formats.entries import Entry, Progress, Rejected
from core.formats.heads import head_of
from core.formats.prompts import counts_of
from core.formats.reading import Document, Format, Head, Reading, SubAgentFiles
from core.formats.sessions import PART_BYTES, Steps
from core.formats.sqlite_file import MAGIC, Rows, opened, tables_in
from core.formats.stream import Bytes
from core.formats.strict import UNDECODABLE, Flaw, decoded, plain, uncollected
from core.formats.sub_agents import Response, alone
from core.formats.unknown import Unknown
from core.records.bill import Owner, Spent
from core.records.limits import Label, Tokens

NAME: Final = "opencode"

T = TypeVar("T")

_OLD: Final = ("session", "message", "part")
_NEW: Final = ("session_v2", "session_message")
_BETWEEN: Final = ("session", "session_message")
"""Tables of version 1, of version 2, and of versions that had begun to keep messages in the newer table."""
LAYOUTS: Final = (_OLD, _NEW, _BETWEEN)
_SESSIONS: Final = "SELECT id, parent_id FROM {} ORDER BY id"
_SORTED: Final = {
    "message": ("session_id", "time_created", "id"),
    "part": ("session_id", "id"),
    "session_message": ("session_id",),
}
"""The column of the session, and the order within it."""
_NEWER: Final = ("id", "type", "seq", "time_created")
_SESSION_ID: Final = re.compile(rb'"(id|parentID)"\s*:\s*"(ses_[^"\\]*)"')
_PASSED_OVER: Final = frozenset(
    ("reasoning", "step-start", "step-finish", "file", "patch", "snapshot", "agent", "retry", "compaction")
)

_NULL: Final = b"null"

_READ_KINDS: Final = frozenset(("user", "assistant", "compaction", "idle"))
_OTHER_KINDS: Final = frozenset(
    ("synthetic", "system", "skill", "shell", "agent-switched", "model-switched", "location-switched")
)
_OPEN: Final = frozenset(("pending", "streaming"))
"""States of a call whose arguments are still being written."""

_STORED: Final = ("session", "message", "part")
"""Folders of the storage from before 1.2."""


class _Cache(msgspec.Struct):
    read: Tokens = 0
    write: Tokens = 0


class _Tokens(msgspec.Struct):
    input: Tokens = 0
    output: Tokens = 0
    reasoning: Tokens = 0
    cache: msgspec.Raw = msgspec.Raw(b"{}")
    total: Tokens | None = None

    def spent(self, model: str | None, owner: Owner, cache: _Cache) -> Spent:
        """Return the disjoint counts."""
        contained = self.total == self.input + self.output + cache.read + cache.write
        return Spent(
            model=model,
            owner=owner,
            input=self.input,
            cache_read=cache.read,
            cache_write_5m=cache.write,
            output=self.output + (0 if contained else self.reasoning),
            assumed=cache.write > 0,
        ).as_request


_CACHE: Final = msgspec.json.Decoder(_Cache)
_TOKENS: Final = msgspec.json.Decoder(_Tokens)


def _spent(raw: msgspec.Raw, model: str | None, owner: Owner, unknown: Unknown) -> tuple[Spent]:
    """Return the counts of one answer; one that can't be read, or has others beside them, is not understood."""
    tokens, names = counts_of(_TOKENS, raw)
    cache, of_cache = counts_of(_CACHE, tokens.cache)
    row = tokens.spent(model, owner, cache)
    return (replace_fields(row, unread=unknown.spend(names + of_cache)),)


class _Metadata(msgspec.Struct, rename={"session_id": "sessionId", "newer_id": "sessionID"}):
    session_id: str | None = None
    newer_id: str | None = None


class _State(msgspec.Struct):
    status: str = ""
    input: msgspec.Raw = msgspec.Raw(b"")
    metadata: msgspec.Raw = msgspec.Raw(b"")
    structured: msgspec.Raw = msgspec.Raw(b"")
    output: msgspec.Raw = msgspec.Raw(b"")
    content: msgspec.Raw = msgspec.Raw(b"")


class _Part(msgspec.Struct, rename={"call_id": "callID"}):
    type: str = ""
    text: str | None = None
    prompt: str | None = None
    synthetic: bool | None = None
    tool: Label | None = None
    call_id: str | None = None
    state: _State = msgspec.field(default_factory=_State)
    tokens: msgspec.Raw = msgspec.Raw(b"null")


class _Error(msgspec.Struct):
    name: str = ""
    type: str = ""


class _Time(msgspec.Struct):
    created: float | None = None
    completed: float | None = None


class _Info(
    msgspec.Struct, rename={"model_id": "modelID", "provider_id": "providerID", "parent_id": "parentID"}
):
    id: str | None = None
    parent_id: str | None = None
    role: str = ""
    time: _Time = msgspec.field(default_factory=_Time)
    model_id: Label | None = None
    provider_id: Label | None = None
    tokens: msgspec.Raw = msgspec.Raw(b"null")
    error: _Error | None = None

    @property
    def place(self) -> tuple[str, float | None]:
        """Role and time, which one message of a session has in each table."""
        return self.role, self.time.created


class _Message(msgspec.Struct):
    info: _Info
    parts: list[_Part] = []
    uuid: None = None
    parent_uuid: None = None
    timestamp: None = None


class _Export(msgspec.Struct):
    """An exported session; ``messages`` None: a stored one, whose messages are files of their own."""

    info: _Info
    messages: list[_Message] | None = None


class _Stored(msgspec.Struct):
    """A file that is no export."""

    info: _Info | None = None


class _Model(msgspec.Struct, rename={"provider_id": "providerID"}):
    id: Label | None = None
    provider_id: Label | None = None


class _Content(msgspec.Struct):
    type: str = ""
    text: str | None = None
    id: str | None = None
    name: Label | None = None
    state: _State = msgspec.field(default_factory=_State)


class _Newer(msgspec.Struct):
    """A message as version 2 keeps it."""

    text: str | None = None
    time: _Time = msgspec.field(default_factory=_Time)
    model: _Model | None = None
    content: list[_Content] = []
    tokens: msgspec.Raw = msgspec.Raw(b"null")
    error: _Error | None = None
    outcome: str | None = None

    def message(self, identity: str, kind: str) -> _Message:
        """Return the message in the shape of version 1; what is not the agent's or the person's has no part."""
        model = self.model or _Model()
        error = self.error or _OUTCOMES.get(self.outcome or "")
        info = _Info(
            id=identity,
            role=kind if kind == "user" or kind not in _READ_KINDS else "assistant",
            time=self.time,
            model_id=model.id,
            provider_id=model.provider_id,
            tokens=self.tokens,
            error=error,
        )
        if kind == "user":
            return _Message(info, [_Part(type="text", text=self.text)])
        return _Message(
            info,
            [
                _Part(type=one.type, text=one.text, tool=one.name, call_id=one.id, state=one.state)
                for one in self.content
            ],
        )


_OUTCOMES: Final = {"interrupted": _Error(name="Aborted"), "failed": _Error(name="Failed")}
_EXPORT: Final = msgspec.json.Decoder(_Export)
_MESSAGE: Final = msgspec.json.Decoder(_Message)
_STORED_OF: Final = msgspec.json.Decoder(_Stored)
_INFO: Final = msgspec.json.Decoder(_Info)
_PART: Final = msgspec.json.Decoder(_Part)
_NEWER_OF: Final = msgspec.json.Decoder(_Newer)
_METADATA: Final = msgspec.json.Decoder(_Metadata)


@dataclass
class _Session(Steps[_Message]):
    format_name = NAME
    has_call_ids = False

    last: _Message | None = None
    n_children: int = 0
    children: dict[str, None] = field(default_factory=dict)

    def add_all(self, messages: Iterator[_Message], reading: Reading) -> None:
        """Add all messages, of which one is held until the next shows whether it is the last."""
        message = next(messages, None)
        while message is not None:
            following = next(messages, None)
            self.last = message if following is None else None
            self.add(message, b"")
            self.n_parts += 1
            reading.check_parts(self.n_parts)
            message = following

    def add(self, line: _Message, raw: bytes) -> None:  # noqa: ARG002 - the message has all of it
        info, at = line.info, line.info.time.created
        self.written_at = at
        if self.is_same_line(info.id, _content_of(line)):
            return
        if info.role == "user":
            texts = [
                part.text or part.prompt
                for part in line.parts
                if part.type in {"text", "subtask"} and not part.synthetic
            ]
            if text := "\n".join([one for one in texts if one]).strip():
                self.open(plain(info.id) or f"{self.id}/{len(self.prompts)}", text, at)
            return
        if info.role != "assistant":
            self.pass_over(f"message of {info.role}", msgspec.json.encode(info))
            return
        at = info.time.completed or at
        is_unfinished = line is self.last and info.time.completed is None and info.error is None
        for part in line.parts:
            self.is_open |= part.state.status in _OPEN or (
                is_unfinished and part is line.parts[-1] and part.type == "text"
            )
            self._add_part(part, at)
        if any(part.type in {"text", "tool"} for part in line.parts) or bytes(info.tokens) != _NULL:
            turn = self.turn(at)
            turn.model, turn.provider = info.model_id or turn.model, info.provider_id or turn.provider
            for tokens in _tokens_of(line):
                turn.rows += _spent(tokens, info.model_id, "agent", self.unknown)
        if info.error is not None:
            self.end("aborted" if "abort" in (info.error.name or info.error.type).lower() else "error", at)

    def _add_part(self, part: _Part, at: float | None) -> None:
        if part.type == "text":
            self.say("" if part.synthetic else part.text or "", at)
        elif part.type == "tool" and part.tool:
            self.call(part.tool, part.call_id, _compact(part.state.input), at)
            self.add_output(part.call_id, part.state.output or part.state.content)
            if child := _child_of(part.state):
                self.n_children += 1
                self.children[child] = None
                self.agents.add_call(f"{child}/{self.n_children}", self.prompts[-1], "")
                self.agents.link(child, f"{child}/{self.n_children}")
        elif part.type not in _PASSED_OVER:
            is_call, is_spend = self.unknown.block(part.type), bytes(part.tokens) != _NULL
            if is_call or is_spend:
                turn = self.turn(at)
                turn.n_foreign, turn.n_unread = turn.n_foreign + is_call, turn.n_unread + is_spend

    def charge(self, child: str, messages: Iterable[_Message]) -> None:
        """Take in the tokens of a sub-agent, and of those that it started."""
        agent = self.agents.at(child, None)
        for number, message in enumerate(messages):
            at = message.info.time.completed or message.info.time.created
            for place, tokens in enumerate(_tokens_of(message)):
                spent = partial(_spent, tokens, message.info.model_id, "sub-agent")
                agent.add(f"{child}/{number}/{place}", Response(spent, 0, at, None))


def _content_of(message: _Message) -> int:
    """Return a digest of what a message says."""
    parts = [(one.type, one.text, one.tool, one.call_id, bytes(one.state.input)) for one in message.parts]
    return hash((message.info.place, *parts))


def _compact(raw: msgspec.Raw) -> msgspec.Raw:
    """Return JSON as the database writes it; documents are indented."""
    return msgspec.Raw(msgspec.json.format(raw, indent=-1)) if b"\n" in bytes(raw) else raw


def _tokens_of(message: _Message) -> list[msgspec.Raw]:
    if message.info.role != "assistant":
        return []
    steps = [part.tokens for part in message.parts if part.type == "step-finish"]
    used = [one for one in steps if bytes(one) != _NULL] or [message.info.tokens]
    return [one for one in used if bytes(one) != _NULL]


def _child_of(state: _State) -> str | None:
    """Return the session of the sub-agent that a call started."""
    for raw in (state.metadata, state.structured):
        one = decoded(_METADATA, raw) or _Metadata()
        if child := one.session_id or one.newer_id:
            return child
    return None


def _claims(head: Head) -> bool:
    if head.start.startswith(MAGIC):
        tables = tables_in(head)
        is_old = tables >= {"message", "part"} and b"message_id" in head.start
        return is_old or (tables >= {"session_message"} and bool(tables & {"session", "session_v2"}))
    if {"info", "messages"} <= head.keys:
        return _SESSION_ID.search(head.start) is not None or b'"sessionID"' in head.start
    if "id" not in head.keys:  # else one of the files from before 1.2: a session, a message or a part
        return False
    if "sessionID" in head.keys:
        return b'"msg_' in head.start and ("role" in head.keys or "messageID" in head.keys)
    return "projectID" in head.keys and _SESSION_ID.search(head.start) is not None


def stored_session_of(path: Path) -> Path | None:
    """Return the file of the session that a stored message or part belongs to, None for all other files."""
    if len(path.parts) < len(_STORED) or path.parent.parent.name not in _STORED[1:]:
        return None
    return _stored_session(path.parent)


@lru_cache(maxsize=1 << 12)
def _stored_session(folder: Path) -> Path | None:
    storage, name = folder.parent.parent, escape(folder.name)
    if folder.parent.name == "part":
        message = next(storage.glob(f"message/*/{name}.json"), None)
        return None if message is None else _stored_session(message.parent)
    return next(storage.glob(f"session/*/{name}.json"), None)


def _sort(head: Head, path: Path, file: str, files: SubAgentFiles) -> None:
    """Note the session that the document holds. That of a sub-agent is listed under its parent, too."""
    ids = dict(reversed(_SESSION_ID.findall(head.start[: 1 << 14])))
    own = ids.get(b"id", b"").decode(errors="replace")
    if b"parentID" in ids:
        files.add(path, file, ids[b"parentID"].decode(errors="replace"), own)
    files.sessions.add(own)


def _decode(raw: bytes, path: Path) -> _Export:
    if _STORED_OF.decode(raw).info is not None:
        export = _EXPORT.decode(raw)
        if export.messages is None:
            raise Flaw("has no messages")
        return export
    info = _INFO.decode(raw)
    if info.role or not (info.id or "").startswith("ses_"):
        raise Flaw("belongs to a session of opencode from before 1.2 whose file is not beside it")
    if not (path.parent.parent.parent / "message").is_dir():
        raise Flaw("is a session of opencode from before 1.2 whose messages are not beside it")
    return _Export(info)


class _Source:
    """Sessions of one file, each by a key: its id, with a number where another session of the file has it too."""

    def __init__(self, reading: Reading, stack: ExitStack, unknown: Unknown) -> None:
        self.reading, self.rejected, self.unknown = reading, list[Rejected](), unknown
        self._exports: dict[str, _Export] = {}
        self.parents: dict[str, str | None] = {}
        self.tables: frozenset[str] = frozenset()
        self._children: dict[str | None, list[str]] = {}
        self._document: Document | None = None
        with Bytes(reading.path, reading.file, reading.limits) as file:
            is_database = file.read(len(MAGIC)) == MAGIC
        if is_database:
            most = reading.limits.line_bytes
            database, self.tables = stack.enter_context(opened(reading, NAME, LAYOUTS, most))
            self._rows = Rows(reading, database)
            for table in sorted({"session", "session_v2"} & self.tables):
                for one, parent in self._rows.all(_SESSIONS.format(table)):
                    self.parents[_text(one)] = _text(parent) or None
            for table in sorted(_SORTED.keys() & self.tables):
                self._rows.gather(table, *_SORTED[table])
            return
        if reading.shape == "object":
            self._document = reading.document("messages")
        pieces = None if self._document is None else [(1, self._document.raw)]
        n_parts = 0
        for number, raw, export in reading.records(partial(_decode, path=reading.path), pieces=pieces):
            n_parts += 0 if reading.shape == "object" else len(raw) // PART_BYTES + raw.count(b"{") // 2
            reading.check_parts(n_parts)
            if isinstance(export, Rejected):
                self.rejected.append(export)
                continue
            if export.messages is None:
                export.messages = self._stored(export.info.id or "")
            key = export.info.id or f"{number}"
            key = f"{key}\0{number}" if key in self._exports else key
            self._exports[key], self.parents[key] = export, export.info.parent_id

    def messages(self, session: str) -> Iterable[_Message]:
        """Return a session's messages in order; what can't be read is rejected."""
        if not self.tables:
            listed = (
                () if self._document is None or not self._document.is_large else self._listed(self._document)
            )
            return chain(self._exports[session].messages or (), listed)
        newer = list(self._newer(session)) if "session_message" in self.tables else []
        if not newer:
            return self._older(session) if "part" in self.tables else ()
        older = list(self._older(session)) if "part" in self.tables else []
        ids, places = {one.info.id for one in older}, {one.info.place for one in older}
        rest = [one for one in newer if one.info.id not in ids and one.info.place not in places]
        if not older or not rest:
            return older or rest
        return sorted((*older, *rest), key=lambda one: one.info.time.created or 0)

    def _older(self, session: str) -> Iterator[_Message]:
        rows, parts = self._rows, dict[str, list[int]]()
        for message, number in rows.cells("part", "message_id, rowid", rows.of("part", session.encode())):
            parts.setdefault(_text(message), []).append(number)
        for identity, number in rows.cells("message", "id, rowid", rows.of("message", session.encode())):
            info = self._decoded(_INFO, rows.text("message", "data", number))
            if info is not None:
                info.id = _text(identity)
                texts = (rows.text("part", "data", one) for one in parts.get(info.id, ()))
                decoded_parts = (self._decoded(_PART, one) for one in texts)
                yield _Message(info, [part for part in decoded_parts if part is not None])

    def _listed(self, document: Document) -> Iterator[_Message]:
        """Yield the messages of a large document, each decoded by itself."""
        for _, _, message in self.reading.records(_MESSAGE.decode, pieces=document.elements()):
            if isinstance(message, Rejected):
                self.rejected.append(message)
            else:
                yield message

    def _newer(self, session: str) -> Iterator[_Message]:
        names = [one for one in _NEWER if one in self._rows.columns("session_message")]
        numbers = self._rows.of("session_message", session.encode())
        cells = self._rows.cells("session_message", ", ".join([*names, "rowid"]), numbers)
        rows = [dict(zip([*names, "rowid"], row, strict=True)) for row in cells]
        for row in sorted(rows, key=lambda one: (one.get("seq") or 0, one.get("time_created") or 0)):
            kind = _text(row.get("type"))
            if kind in _OTHER_KINDS:
                continue
            data = self._decoded(_NEWER_OF, self._rows.text("session_message", "data", row["rowid"]))
            if data is not None:
                yield data.message(_text(row.get("id")), kind)

    def _stored(self, session: str) -> list[_Message]:
        """Return the messages that lie in the folders beside a stored session."""
        storage, messages = self.reading.path.parents[2], list[_Message]()
        for path in sorted(storage.glob(f"message/{escape(session)}/*.json")):
            info = self._decoded(_INFO, path.read_bytes())
            if info is not None:
                files = sorted(storage.glob(f"part/{escape(path.stem)}/*.json"))
                parts = [self._decoded(_PART, one.read_bytes()) for one in files]
                messages.append(_Message(info, [one for one in parts if one is not None]))
        return sorted(messages, key=lambda one: one.info.time.created or 0)

    def _decoded(self, decoder: msgspec.json.Decoder[T], data: bytes | None) -> T | None:
        try:
            if not data:
                raise Flaw("is no text, or too large even without its long texts")
            self.reading.check(data)
            return uncollected(decoder.decode, data)
        except UNDECODABLE as error:
            whole = replace(self.reading, shape="object")  # a cell or file, no line
            self.rejected.append(replace(whole.rejected(1, error, data or b""), line=None))
            return None

    def sub_agents_of(self, known: Collection[str], named: Iterable[str]) -> list[str]:
        """Return the sessions that one of these started or named, and that are not among them."""
        if not self._children:
            for one, parent in self.parents.items():
                self._children.setdefault(parent, []).append(one)
        started = [one for parent in known for one in self._children.get(parent, ())]
        sub_agents = dict.fromkeys([*started, *(one for one in named if one in self.parents)])
        return [one for one in sub_agents if one not in known]


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    unknown = Unknown()
    with ExitStack() as stack:
        source = _Source(reading, stack, unknown)
        for key, parent in source.parents.items():
            identity = key.partition("\0")[0]
            if parent is None:
                session = _Session(unknown=unknown, id=plain(identity), keeps_texts=reading.keeps_texts)
                session.add_all(iter(source.messages(key)), reading)
                _charge(session, identity, source, stack)
                yield from session.entries(reading)
            elif parent == identity or (
                parent not in source.parents and parent not in reading.sub_agents.sessions
            ):
                yield alone(reading.file)
            yield from source.rejected
            source.rejected.clear()
        yield from source.rejected
    yield from unknown.remarks(reading.file)
    if progress is not None:
        progress(reading.path.stat().st_size)


def _charge(session: _Session, identity: str, own: _Source, stack: ExitStack) -> None:
    """Give the tokens of sub-agents at any depth to the runs that started them, also those that a fork copied."""
    known, sources, waiting = {identity}, [own], [identity, *session.children]
    while waiting and session.prompts:
        at = waiting.pop()
        for path, file in own.reading.sub_agents.of(at):
            if all(path != one.reading.path for one in sources):
                shape = head_of(path, file, own.reading.limits).shape
                reading = replace(own.reading, path=path, file=file, shape=shape)
                sources.append(_Source(reading, stack, session.unknown))
        for source in sources:
            for child in source.sub_agents_of(known, session.children):
                known.add(child)
                waiting.append(child)
                session.charge(child, source.messages(child))
                if source.parents[child] not in {None, identity}:
                    session.agents.add_nested(child, source.parents[child] or "")


FORMAT: Final = Format(
    name=NAME, units=("prompt",), claims=_claims, read=_read, sort=_sort, may_be_document="info"
)
