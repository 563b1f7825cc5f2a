"""Skills and tools that each session of an agent had on offer, and those that it used.

A use is a call of a tool, a load of a skill, or a command that the user typed. What sub-agents use belongs to the
session that started them. A fork repeats lines of its parent: a use in both is the parent's.
"""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from core.formats.by_name import listed_names
from core.formats.claude_code import COMMAND, COMMAND_STARTS, LOADS
from core.formats.strict import decoded, utc_ms_of
from core.installed.files import clean, matches_below

AGENT: Final = "Claude Code"
_LONGEST_LINE: Final = 16 << 20
_MOST_BYTES: Final = 2 << 30
"""Older files than the newest of so many bytes are not read."""
_SURE_ID: Final = 12
"""An id of a call this long is given once; shorter ones may come again in other messages."""
_OF_INTEREST: Final = (
    b'"tool_use"',
    b'"is_error"',
    b"<command-name>",
    b'"skill_listing"',
    b'"deferred_tools_delta"',
    b'"mcp_instructions_delta"',
    b'"usage"',
)

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class NamedUse(NamedTuple):
    """A use of a name. ``key`` identifies it, None where the file has no id of it."""

    name: str
    at_ms: int
    key: str | None = None
    kind: Literal["call", "load", "typed"] = "call"


class Definition(NamedTuple):
    """A tool as a session lists it: the text that its prompt has of it, and whether that is only a name."""

    text: str
    is_deferred: bool


@dataclass(slots=True)
class SessionUse:
    """The offers and uses of a session; ``skills`` and ``tools`` None where none of its lines lists them.

    ``requests`` are the agent's own by their ids, with the model of each. ``uses`` counts the uses of each name,
    ``typed`` those that the user typed, ``loads`` names the skills that the agent loaded. ``last_ms`` has the time of
    each name's last use. ``parent`` is the session that started this sub-agent, "" where the file does not name it.
    """

    agent: str
    uid: str
    folder: str | None = None
    parent: str | None = None
    started_ms: int | None = None
    skills: set[str] | None = None
    tools: set[str] | None = None
    listing_chars: int = 0
    instructions: dict[str, int] = field(default_factory=dict)
    definitions: dict[str, Definition] = field(default_factory=dict)
    requests: dict[str, str] = field(default_factory=dict)
    uses: Counter[str] = field(default_factory=Counter)
    typed: Counter[str] = field(default_factory=Counter)
    loads: set[str] = field(default_factory=set)
    last_ms: dict[str, int] = field(default_factory=dict)
    pending: list[NamedUse] = field(default_factory=list)
    loading: dict[str, list[NamedUse]] = field(default_factory=dict)

    def called(self, uses: Iterable[NamedUse], call_id: str | None) -> None:
        """Add the uses of a call, of which its result may take loads back."""
        added = [*uses]
        self.pending += added
        self.loading[call_id or ""] = [one for one in added if one.kind == "load"]

    def ended(self, call_id: str | None, *, failed: bool) -> None:
        """Take back the loads of a call that failed."""
        for use in self.loading.pop(call_id or "", ()):
            if failed:
                self.pending.remove(use)

    def is_within(self, folder: str) -> bool:
        return self.folder is not None and (
            self.folder == folder or self.folder.startswith(f"{folder.rstrip('/')}/")
        )

    @property
    def known(self) -> set[str]:
        """The tools that it lists or uses."""
        return (self.tools or set()) | {*self.uses}

    def began(self, at_ms: int | None) -> None:
        if at_ms is not None and (self.started_ms is None or at_ms < self.started_ms):
            self.started_ms = at_ms

    def count(self, known: set[str]) -> None:
        """Count what was pending, without the uses that an earlier session had."""
        for use in self.pending:
            if use.key is not None:
                if use.key in known:
                    continue
                known.add(use.key)
            self.uses[use.name] += 1
            if use.kind == "typed":
                self.typed[use.name] += 1
            elif use.kind == "load":
                self.loads.add(use.name)
            self.last_ms[use.name] = max(self.last_ms.get(use.name, 0), use.at_ms)
        self.pending = []


class SessionReader:
    """Reader of the session files below a home folder; it remembers how many it left out."""

    def __init__(self) -> None:
        self.n_older = 0
        self.n_unread = 0

    def files(self, home: Path, *patterns: str) -> list[Path]:
        """Return the session files that match, the oldest left out where they are too many bytes together."""
        known: dict[tuple[int, int], tuple[int, int, Path]] = {}  # a file by its number: links lead to it too
        for pattern in patterns:
            try:
                paths = [*matches_below(home, pattern, lambda *_: self._count_unread())]
            except OSError:
                self.n_unread += 1
                continue
            for path in paths:
                try:
                    status = path.stat()
                except OSError:
                    self.n_unread += 1
                    continue
                if (
                    stat.S_ISREG(status.st_mode) and status.st_size
                ):  # files of the kernel have no size, and may block
                    known.setdefault(
                        (status.st_dev, status.st_ino), (status.st_mtime_ns, status.st_size, path)
                    )
        left, chosen = _MOST_BYTES, []
        for _, size, path in sorted(known.values(), reverse=True):
            if left < size:
                self.n_older += 1
                continue
            left -= size
            chosen.append(path)
        return sorted(chosen)

    def _count_unread(self) -> None:
        self.n_unread += 1

    def lines(self, path: Path) -> Iterator[bytes]:
        """Yield the lines of a file; a longer one comes in pieces, which are no JSON."""
        try:
            with path.open("rb") as file:
                while raw := file.readline(_LONGEST_LINE):
                    yield raw
        except OSError:
            self.n_unread += 1


def settled(sessions: Iterable[SessionUse]) -> list[SessionUse]:
    """Return sessions by their start, each use in its first one, and sub-agents in those that started them."""
    ordered = sorted(sessions, key=lambda one: (one.started_ms or 0, one.uid))
    known: set[str] = set()
    for one in ordered:
        one.count(known)
    by_uid = {(one.agent, one.uid): one for one in ordered}
    for one in reversed(ordered):  # the latest first: a sub-agent may have sub-agents
        parent = None if one.parent is None else by_uid.get((one.agent, one.parent))
        if parent is not None and parent is not one:
            parent.uses += one.uses
            parent.loads |= one.loads
            for name, at_ms in one.last_ms.items():
                parent.last_ms[name] = max(parent.last_ms.get(name, 0), at_ms)
    return [one for one in ordered if one.parent is None or (one.agent, one.parent) not in by_uid]


# Claude Code


class _Block(msgspec.Struct):
    type: str = ""
    id: str | None = None
    name: str | None = None
    text: str | None = None
    input: msgspec.Raw = msgspec.Raw(b"")
    tool_use_id: str | None = None
    is_error: msgspec.Raw = msgspec.Raw(b"")


class _Content(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    content: str | list[_Block] | None = None


class _Attachment(msgspec.Struct, rename="camel"):
    type: str = ""
    names: list[str] | None = None
    content: str | None = None
    added_names: list[str] | None = None
    added_blocks: list[str] | None = None


class _AgentProgress(msgspec.Struct):
    message: _Progressed | None = None


class _Progressed(msgspec.Struct):
    type: str = ""
    message: _Content | None = None


class _SessionLine(msgspec.Struct):
    type: str = ""
    isSidechain: bool = False  # noqa: N815
    uuid: str | None = None
    sessionId: str | None = None  # noqa: N815 - the file's own name
    cwd: str | None = None
    timestamp: str | None = None
    message: _Content | None = None
    attachment: _Attachment | None = None
    data: _AgentProgress | None = None


class _Loaded(msgspec.Struct):
    skill: str | None = None
    command: str | None = None
    server: str | None = None


_LINES: Final = msgspec.json.Decoder(_SessionLine)
_LOADED: Final = msgspec.json.Decoder(_Loaded)


def claude_code_sessions(home: Path, reader: SessionReader) -> list[SessionUse]:
    """Return the sessions of Claude Code, those of sub-agents among them."""
    sessions: dict[str, SessionUse] = {}
    for path in reader.files(home, ".claude/projects/**/*.jsonl"):
        for line in _lines(reader, path):
            uid = clean(line.sessionId or path.stem)
            session = sessions.get(uid)
            if session is None:
                session = sessions[uid] = SessionUse(AGENT, uid)
            _take(session, line)
    return [*sessions.values()]


def _take(session: SessionUse, line: _SessionLine) -> None:
    at_ms, _ = utc_ms_of(line.timestamp)
    session.folder = session.folder or (None if line.cwd is None else clean(line.cwd))
    session.began(at_ms)
    _use(session, line, at_ms or 0)
    if line.type == "assistant" and not line.isSidechain and line.message is not None and line.message.id:
        session.requests[line.message.id] = line.message.model or ""
    if line.attachment is not None:
        _offer(session, line.attachment)


def _offer(session: SessionUse, attachment: _Attachment) -> None:
    """Note what a line lists; what was taken away later was on offer all the same."""
    if attachment.type == "skill_listing":
        names = listed_names(attachment.names, attachment.content or "")
        session.skills = (session.skills or set()) | {*map(clean, names)}
        session.listing_chars += len(attachment.content or "")
    elif attachment.type == "deferred_tools_delta":
        session.tools = (session.tools or set()) | {*map(clean, attachment.added_names or ())}
    elif attachment.type == "mcp_instructions_delta":
        texts = zip(attachment.added_names or (), attachment.added_blocks or (), strict=False)
        session.instructions |= {clean(name): len(text) for name, text in texts}


def _lines(reader: SessionReader, path: Path) -> Iterator[_SessionLine]:
    """Yield the first line of messages in a file, and those with offers and uses."""
    has_begun = False
    for raw in reader.lines(path):
        if has_begun and not any(mark in raw for mark in _OF_INTEREST):
            continue
        line = decoded(_LINES, raw)
        if line is None:
            continue
        if has_begun or line.type in {"user", "assistant"}:
            has_begun = True
            yield line
        elif line.attachment is not None:
            yield line


def _use(session: SessionUse, line: _SessionLine, at_ms: int) -> None:
    kind, message = line.type, line.message
    if line.data is not None and line.data.message is not None:  # a sub-agent's progress
        kind, message = line.data.message.type, line.data.message.message
    content = None if message is None else message.content
    for block in content if isinstance(content, list) else [_Block(text=content)]:
        if kind == "assistant" and block.type == "tool_use" and block.name:
            session.called(_called(block, block.name, line.uuid, at_ms), block.id)
        elif kind == "user" and block.type == "tool_result":
            session.ended(block.tool_use_id, failed=bytes(block.is_error) == b"true")
        elif kind == "user" and line.data is None:
            text = block.text or ""
            is_typed = text.lstrip().startswith(COMMAND_STARTS)  # elsewhere in a text it is quoted
            for name in COMMAND.findall(text) if is_typed else ():
                key = None if line.uuid is None else f"{line.uuid} {name}"
                session.pending.append(NamedUse(clean(name), at_ms, key, "typed"))


def _called(block: _Block, name: str, uuid: str | None, at_ms: int) -> Iterator[NamedUse]:
    key = use_key(block.id, uuid)
    yield NamedUse(clean(name), at_ms, key)
    loaded = decoded(_LOADED, block.input) or _Loaded()
    if name in LOADS:
        words = (loaded.skill or loaded.command or "").split()
        if words:
            yield NamedUse(clean(words[0].removeprefix("/")), at_ms, key and f"{key} skill", "load")
    elif loaded.server and not name.startswith("mcp__"):  # its resources are read by tools of the agent
        yield NamedUse(clean(f"mcp__{loaded.server}__"), at_ms, key and f"{key} server")


def use_key(call_id: str | None, line_id: str | None) -> str | None:
    """Return the key of a call, the same in a copy of its line; None where the file has none.

    >>> use_key("toolu_0123456789", None), use_key("1", "line"), use_key("1", None)
    ('toolu_0123456789', 'line 1', None)
    """
    if call_id is not None and len(call_id) >= _SURE_ID:
        return call_id
    return None if line_id is None else f"{line_id} {call_id or ''}"
