"""Calls, loads of skills, typed commands and tools with their text in the sessions of the other agents.

Codex CLI, OpenClaw and pi load a skill when the agent reads its SKILL.md. Gemini CLI and opencode have a tool for it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Set
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec

from core.errors import UnreadableSource
from core.formats.chat import identity_of
from core.formats.codex_cli import FAILED, Payload, spawner
from core.formats.entries import Limits
from core.formats.opencode import LAYOUTS
from core.formats.pi_session import Line
from core.formats.reading import Reading
from core.formats.sessions import skills_read
from core.formats.sqlite_file import opened
from core.formats.strict import decoded, utc_ms_of
from core.installed.files import clean
from core.installed.sessions import UNREADABLE, Definition, NamedUse, SessionReader, SessionUse, use_key

_T = TypeVar("_T")

_SKILL_TOOLS: Final = frozenset(("activate_skill", "skill"))
_INJECTED: Final = re.compile(r"\A\s*<skill(?:>\s*<name>([^<]{1,200})</name>| name=\"([^\"]{1,200})\")")
"""Text that Codex CLI and pi put in place of a skill that the user named."""
_CODEX_CALLS: Final = frozenset(
    ("function_call", "custom_tool_call", "local_shell_call", "mcp_tool_call_end")
)
_CODEX_MARKS: Final = (
    b"session_meta",
    b"_call",
    b"_output",
    b"mcp_tool_call_end",
    b"<skill>",
)

_TEXT: Final = msgspec.json.Decoder(str)


class _SkillName(msgspec.Struct):
    name: str | None = None


_NAMED: Final = msgspec.json.Decoder(_SkillName)


def _loads(
    tool: str, arguments: str, at_ms: int, key: str | None, status: str | None = None
) -> Iterator[NamedUse]:
    """Yield the call of a tool, and the skills that its arguments load, unless it failed."""
    yield NamedUse(clean(tool), at_ms, key)
    names = [*skills_read(tool, arguments)] if "SKILL.md" in arguments else []
    if tool in _SKILL_TOOLS:
        names.append((decoded(_NAMED, arguments.encode()) or _SkillName()).name or "")
    for name in () if status == "error" else dict.fromkeys(names):
        if name:
            yield NamedUse(clean(name), at_ms, key and f"{key} {name}", "load")


def _typed(text: str, at_ms: int, key: str | None) -> Iterator[NamedUse]:
    """Yield the skill whose text an agent has put in place of the user's words."""
    match = _INJECTED.match(text)
    if match is not None:
        name = (match[1] or match[2]).strip()
        yield NamedUse(clean(name), at_ms, key and f"{key} {name}", "typed")


def _lines(
    reader: SessionReader, path: Path, decoder: msgspec.json.Decoder[_T], marks: Collection[bytes]
) -> Iterator[_T]:
    """Yield the first line of a file that can be read, then those with a mark."""
    is_first = True
    for raw in reader.lines(path):
        line = decoded(decoder, raw) if is_first or any(mark in raw for mark in marks) else None
        if line is not None:
            is_first = False
            yield line


# Codex CLI


class _DynamicTool(msgspec.Struct, rename="camel"):
    name: str = ""
    description: str = ""
    input_schema: msgspec.Raw = msgspec.Raw(b"")
    defer_loading: bool = False


class _Payload(Payload):
    cwd: str | None = None


class _CodexLine(msgspec.Struct):
    type: str = ""
    timestamp: str | None = None
    payload: _Payload | None = None


_CODEX: Final = msgspec.json.Decoder(_CodexLine)
_DYNAMIC: Final = msgspec.json.Decoder(list[_DynamicTool])


def codex_sessions(home: Path, reader: SessionReader) -> Iterator[SessionUse]:
    """Yield the sessions of Codex CLI; a parent's history in a fork has the ids of its calls."""
    for path in reader.files(home, ".codex/sessions/**/*.jsonl", ".codex/archived_sessions/**/*.jsonl"):
        session: SessionUse | None = None
        for line in _lines(reader, path, _CODEX, _CODEX_MARKS):
            one = line.payload or _Payload()
            at_ms, _ = utc_ms_of(line.timestamp)
            if line.type == "session_meta":
                if session is None:  # a later header is that of a parent, repeated
                    session = _codex_session(one, path, at_ms)
            elif session is not None:
                _use_in_codex(session, one, at_ms or 0)
        if session is not None:
            yield session


def _codex_session(one: _Payload, path: Path, at_ms: int | None) -> SessionUse:
    session = SessionUse("Codex CLI", clean(one.id or path.stem), clean(one.cwd) if one.cwd else None)
    session.began(at_ms)
    parent = one.parent_thread_id or spawner(one.source)
    if parent is not None or b'"subagent"' in bytes(one.source):
        session.parent = clean(parent or "")
    tools = decoded(_DYNAMIC, one.dynamic_tools)
    for tool in tools or ():
        schema = bytes(tool.input_schema).decode(errors="replace")
        text = tool.name if tool.defer_loading else f"{tool.name}{tool.description}{_canonical(schema)}"
        session.definitions[clean(tool.name)] = Definition(clean(text), tool.defer_loading)
    if tools is not None:
        session.tools = {*session.definitions}
    return session


def _canonical(schema: str) -> str:
    try:
        return msgspec.json.encode(msgspec.json.decode(schema)).decode() if schema else ""
    except UNREADABLE:
        return schema


def _use_in_codex(session: SessionUse, one: _Payload, at_ms: int) -> None:
    if one.type in _CODEX_CALLS:
        name = one.name or ""
        if one.invocation is not None:
            name = f"mcp__{one.invocation.server}__{one.invocation.tool}"
        elif one.namespace:
            name = f"{one.namespace.rstrip('_.')}__{name}"
        arguments = _plain(one.arguments or one.input or one.action)
        tool, key = name or one.type.removesuffix("_call"), use_key(one.call_id, None)
        session.called(_loads(tool, arguments, at_ms, key), one.call_id)
    elif one.type.endswith("_output"):
        session.ended(one.call_id, failed=FAILED.match(_plain(one.output)) is not None)
    elif one.type == "message" and one.role == "user":
        session.pending += _typed(one.text, at_ms, None)


def _plain(raw: msgspec.Raw) -> str:
    return decoded(_TEXT, raw) or bytes(raw).decode(errors="replace")


# Gemini CLI


class _GeminiCall(msgspec.Struct):
    id: str | None = None
    name: str = ""
    status: str | None = None
    args: msgspec.Raw = msgspec.Raw(b"")


class _GeminiPiece(msgspec.Struct, rename="camel"):
    """A session as a document, or a line of one."""

    session_id: str | None = None
    kind: str | None = None
    start_time: str | None = None
    id: str | None = None
    type: str | None = None
    timestamp: str | None = None
    tool_calls: list[_GeminiCall] | None = None
    messages: list[_GeminiPiece] | None = None


_GEMINI: Final = msgspec.json.Decoder(_GeminiPiece)


def gemini_sessions(home: Path, reader: SessionReader) -> Iterator[SessionUse]:
    """Yield the sessions of Gemini CLI: documents, or lines in which a message comes again when it grew."""
    for path in reader.files(home, ".gemini/tmp/*/chats/**/*.json", ".gemini/tmp/*/chats/**/*.jsonl"):
        session: SessionUse | None = None
        for raw in [b"".join(reader.lines(path))] if path.suffix == ".json" else reader.lines(path):
            piece = decoded(_GEMINI, raw)
            if piece is None:
                continue
            if session is None:
                session = SessionUse("Gemini CLI", clean(piece.session_id or path.stem))
                session.began(utc_ms_of(piece.start_time)[0])
            if piece.kind == "subagent":
                session.parent = ""
            for message in (piece, *(piece.messages or ())):
                at_ms, _ = utc_ms_of(message.timestamp)
                session.began(at_ms)
                for place, call in enumerate(message.tool_calls or ()):
                    key = use_key(call.id, f"{session.uid} {message.id} {place}")
                    session.pending += _loads(
                        call.name, bytes(call.args).decode(errors="replace"), at_ms or 0, key, call.status
                    )
        if session is not None:
            yield session


# OpenClaw and pi


class _PiLine(Line):
    cwd: str | None = None


_PI: Final = msgspec.json.Decoder(_PiLine)


def pi_sessions(home: Path, reader: SessionReader) -> Iterator[SessionUse]:
    """Yield the sessions of OpenClaw and of pi, whose files have one form."""
    for agent, pattern in (
        ("OpenClaw", ".openclaw/agents/*/sessions/**/*.jsonl"),
        ("pi", ".pi/agent/sessions/**/*.jsonl"),
    ):
        for path in reader.files(home, pattern):
            session: SessionUse | None = None
            for line in _lines(reader, path, _PI, (b'"session"', b'"toolCall"', b'"toolResult"', b"<skill ")):
                at_ms, _ = utc_ms_of(line.timestamp)
                if line.type == "session" or session is None:
                    if session is not None:
                        yield session
                    uid = f"{line.id or path.stem} {line.timestamp}"
                    session = SessionUse(agent, clean(uid), clean(line.cwd) if line.cwd else None)
                session.began(at_ms)
                _use_in_pi(session, line, at_ms or 0)
            if session is not None:
                yield session


def _use_in_pi(session: SessionUse, line: _PiLine, at_ms: int) -> None:
    """Add the uses of an entry; a fork repeats entries with their times and ids."""
    message = line.message
    if message is None:
        return
    if message.role == "toolResult":
        session.ended(identity_of(message.tool_call_id), failed=bytes(message.is_error) == b"true")
    key = f"{line.timestamp} {line.id}" if line.id else None
    for place, block in enumerate(message.blocks):
        own = key and f"{key} {place}"
        if message.role == "assistant" and block.type == "toolCall" and block.name:
            arguments = bytes(block.arguments).decode(errors="replace")
            session.called(_loads(block.name, arguments, at_ms, own), identity_of(block.id))
        elif message.role == "user" and block.text:
            session.pending += _typed(block.text, at_ms, own)


# opencode


class _PartTime(msgspec.Struct):
    start: float | None = None


class _ToolState(msgspec.Struct):
    status: str | None = None
    input: msgspec.Raw = msgspec.Raw(b"")
    time: _PartTime | None = None


class _OpencodePart(msgspec.Struct, rename={"call_id": "callID"}):
    type: str = ""
    call_id: str | None = None
    tool: str = ""
    state: _ToolState | None = None


class _Created(msgspec.Struct):
    created: float | None = None


class _NewerPart(msgspec.Struct):
    type: str = ""
    id: str | None = None
    name: str = ""
    state: _ToolState | None = None
    time: _Created | None = None


class _NewerMessage(msgspec.Struct):
    """A message of version 2; ``skill`` and ``name`` are of a skill that the user named."""

    skill: str | None = None
    name: str | None = None
    content: list[_NewerPart] = []
    time: _Created | None = None


_PART: Final = msgspec.json.Decoder(_OpencodePart)
_NEWER: Final = msgspec.json.Decoder(_NewerMessage)


def opencode_sessions(home: Path, reader: SessionReader) -> Iterator[SessionUse]:
    """Yield the sessions in the database of opencode."""
    for path in reader.files(home, ".local/share/opencode/opencode.db"):
        limits = Limits()
        reading = Reading(
            path=path, file=path.name, shape="object", unit="prompt", supplied=None, limits=limits
        )
        try:
            with opened(reading, "opencode", LAYOUTS, limits.document_bytes) as (database, tables):
                yield from [*_opencode_sessions(database, tables).values()]
        except UnreadableSource:
            reader.n_unread += 1


class _OpencodeTables(Protocol):
    def execute(self, sql: str, /) -> Iterable[tuple[object, ...]]: ...


def _opencode_sessions(database: _OpencodeTables, tables: Set[str]) -> dict[str, SessionUse]:
    sessions = {
        _text(uid): SessionUse("opencode", _text(uid), parent=_text(parent) or None)
        for table in sorted({"session", "session_v2"} & tables)
        for uid, parent in database.execute(f"SELECT id, parent_id FROM {table}")
    }
    older = _add_older(sessions, database) if "part" in tables else set()
    if "session_message" in tables:
        _add_newer(sessions, database, older)
    return sessions


def _add_older(sessions: dict[str, SessionUse], database: _OpencodeTables) -> set[tuple[str, object]]:
    """Add the calls of version 1; return the messages by their ids and by their times."""
    known: set[tuple[str, object]] = set()
    for uid, identity, created in database.execute("SELECT session_id, id, time_created FROM message"):
        known |= {(_text(uid), _text(identity)), (_text(uid), created)}
        if _text(uid) in sessions and isinstance(created, int):
            sessions[_text(uid)].began(utc_ms_of(created)[0])
    for uid, data in database.execute("SELECT session_id, data FROM part"):
        if _text(uid) not in sessions or not isinstance(data, bytes) or b'"tool"' not in data:
            continue
        part = decoded(_PART, data)
        if part is not None and part.type == "tool" and part.tool:
            state = part.state or _ToolState()
            at = state.time.start if state.time else None
            sessions[_text(uid)].pending += _opencode_loads(part.tool, state, at, part.call_id)
    return known


def _add_newer(
    sessions: dict[str, SessionUse], database: _OpencodeTables, older: Set[tuple[str, object]]
) -> None:
    """Add the calls of version 2, of messages that the older tables lack."""
    for raw_uid, raw_id, kind, data in database.execute(
        "SELECT session_id, id, type, data FROM session_message"
    ):
        uid, identity = _text(raw_uid), _text(raw_id)
        if (
            uid not in sessions
            or kind not in {b"user", b"assistant", b"skill"}
            or not isinstance(data, bytes)
        ):
            continue
        message = decoded(_NEWER, data)
        if message is None:
            continue
        created = message.time.created if message.time else None
        if not older.isdisjoint(((uid, identity), (uid, created))):
            continue
        at_ms, _ = utc_ms_of(created)
        sessions[uid].began(at_ms)
        if kind == b"skill" and (name := message.skill or message.name):
            sessions[uid].pending.append(NamedUse(clean(name), at_ms or 0, identity, "typed"))
        for part in message.content:
            if part.type == "tool" and part.name:
                at = part.time.created if part.time else created
                state = part.state or _ToolState()
                sessions[uid].pending += _opencode_loads(part.name, state, at, part.id)


def _opencode_loads(
    tool: str, state: _ToolState, at: float | None, call_id: str | None
) -> Iterator[NamedUse]:
    arguments = bytes(state.input).decode(errors="replace")
    return _loads(tool, arguments, utc_ms_of(at)[0] or 0, use_key(call_id, None), state.status)


def _text(value: object) -> str:
    return clean(value.decode(errors="replace")) if isinstance(value, bytes) else ""
