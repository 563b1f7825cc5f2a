"""Sessions of Claude Code: the skills and tools that each had on offer, and those that it used.

A use is a call of a tool, a load of a skill, or a command that the user typed. The files of sub-agents belong to the
session that started them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from core.formats.moments import utc_ms_of

_LONGEST_LINE: Final = 16 << 20
_OF_INTEREST: Final = (b'"tool_use"', b"<command-name>", b'"skill_listing"', b'"deferred_tools_delta"')
_COMMAND: Final = re.compile(r"<command-name>/?([^<\s]{1,200})</command-name>")
_LOADS: Final = {"Skill": "skill", "SlashCommand": "command"}
"""Tools that load a skill, and the argument that names it."""


class _Block(msgspec.Struct):
    type: str = ""
    name: str | None = None
    text: str | None = None
    input: msgspec.Raw = msgspec.Raw(b"")


class _Content(msgspec.Struct):
    content: str | list[_Block] | None = None


class _Attachment(msgspec.Struct):
    type: str = ""
    names: list[str] | None = None
    addedNames: list[str] | None = None  # noqa: N815 - the file's own names
    removedNames: list[str] | None = None  # noqa: N815


class _SessionLine(msgspec.Struct):
    type: str = ""
    sessionId: str | None = None  # noqa: N815
    cwd: str | None = None
    timestamp: str | None = None
    message: _Content | None = None
    attachment: _Attachment | None = None


class _Loaded(msgspec.Struct):
    skill: str | None = None
    command: str | None = None


_LINES: Final = msgspec.json.Decoder(_SessionLine)
_LOADED: Final = msgspec.json.Decoder(_Loaded)


@dataclass(slots=True)
class SessionUse:
    """The offers and uses of a session; None where none of its lines says so.

    ``uses`` counts the uses of each name, ``last_ms`` has the time of each name's last use.
    """

    uid: str
    folder: str | None = None
    started_ms: int | None = None
    skills: set[str] | None = None
    tools: set[str] | None = None
    uses: Counter[str] = field(default_factory=Counter)
    last_ms: dict[str, int] = field(default_factory=dict)

    def is_within(self, folder: str) -> bool:
        """Return whether the session ran in a folder or below it."""
        return self.folder is not None and (self.folder == folder or self.folder.startswith(f"{folder}/"))

    def _take(self, line: _SessionLine) -> None:
        at_ms, _ = utc_ms_of(line.timestamp)
        self.folder = self.folder or line.cwd
        if at_ms is not None and (self.started_ms is None or at_ms < self.started_ms):
            self.started_ms = at_ms
        for name in _uses(line):
            self.uses[name] += 1
            self.last_ms[name] = max(self.last_ms.get(name, 0), at_ms or 0)
        if line.attachment is not None:
            self._offer(line.attachment)

    def _offer(self, attachment: _Attachment) -> None:
        if attachment.type == "skill_listing":
            self.skills = (self.skills or set()) | {*(attachment.names or ())}
        elif attachment.type == "deferred_tools_delta":
            # A tool that was taken away later was on offer all the same.
            self.tools = (self.tools or set()) | {*(attachment.addedNames or ())}


def read_sessions(folder: Path) -> list[SessionUse]:
    """Return the sessions in the files below a folder, by their start."""
    sessions: dict[str, SessionUse] = {}
    for path in sorted(folder.rglob("*.jsonl")) if folder.is_dir() else []:
        for line in _lines(path):
            uid = line.sessionId or path.stem
            session = sessions.get(uid)
            if session is None:
                session = sessions[uid] = SessionUse(uid)
            session._take(line)
    return sorted(sessions.values(), key=lambda one: (one.started_ms or 0, one.uid))


def _lines(path: Path) -> Iterator[_SessionLine]:
    """Yield the first line of messages in a file, and those with offers and uses."""
    has_begun = False
    try:
        with path.open("rb") as file:
            while raw := file.readline(_LONGEST_LINE):
                if has_begun and not any(mark in raw for mark in _OF_INTEREST):
                    continue
                try:
                    line = _LINES.decode(raw)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    continue
                if has_begun or line.type in {"user", "assistant"}:
                    has_begun = True
                    yield line
                elif line.attachment is not None:
                    yield line
    except OSError:
        return


def _uses(line: _SessionLine) -> Iterator[str]:
    content = None if line.message is None else line.message.content
    if line.type == "assistant" and isinstance(content, list):
        for block in content:
            if block.type == "tool_use" and block.name:
                yield block.name
                if block.name in _LOADS and (skill := _loaded(block)):
                    yield skill
    elif line.type == "user":
        texts = [content] if isinstance(content, str) else [one.text or "" for one in content or ()]
        yield from (name for text in texts for name in _COMMAND.findall(text))


def _loaded(block: _Block) -> str | None:
    try:
        loaded = _LOADED.decode(block.input)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    words = (loaded.skill or loaded.command or "").split()
    return words[0].removeprefix("/") if words else None
