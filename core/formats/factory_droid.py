"""Factory Droid sessions: JSON lines, a ``session_start`` and then messages with Anthropic's blocks.

A prompt is a user message with text of its own: no tool result, and nothing but a reminder of the program's. Calls
are ``tool_use`` blocks of replies. A session goes from one ``session_start`` to the next. Model and usage are not in
the file. The inventory is what the session calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from core.formats.chat import identity_of
from core.formats.entries import Entry, Progress
from core.formats.identity import digest_of, plain
from core.formats.reading import Format, Head, Reading
from core.formats.sessions import Prompt, Session, read_segments
from core.formats.strict import UNDECODABLE, Flaw
from core.formats.unknown import Unknown
from core.records.limits import Label

NAME: Final = "factory-droid"

_HEADER: Final = "session_start"
_REMINDER: Final = re.compile(r"<system-reminder>.*?(</system-reminder>|$)", re.DOTALL)


class _Block(msgspec.Struct):
    type: str = ""
    text: str | None = None
    id: str | None = None
    name: Label | None = None
    input: msgspec.Raw = msgspec.Raw(b"")
    tool_use_id: msgspec.Raw = msgspec.Raw(b"")
    content: msgspec.Raw = msgspec.Raw(b"")


class _Message(msgspec.Struct):
    role: str
    content: str | list[_Block | str] | None = None

    @property
    def blocks(self) -> list[_Block]:
        content = self.content if isinstance(self.content, list) else [self.content or ""]
        return [_Block(type="text", text=one) if isinstance(one, str) else one for one in content]


class _Line(msgspec.Struct, rename="camel"):
    type: str
    id: str | None = None
    parent_id: str | None = None
    timestamp: str | None = None
    message: _Message | None = None

    @property
    def uuid(self) -> str | None:
        return self.id

    @property
    def parent_uuid(self) -> str | None:
        return self.parent_id


class _Kind(msgspec.Struct):
    type: str


_LINE: Final = msgspec.json.Decoder(_Line)
_KIND: Final = msgspec.json.Decoder(_Kind)
_MESSAGE: Final = msgspec.json.Decoder(_Message)
_PASSED_OVER: Final = frozenset((_HEADER, "session_end", "compaction_state", "todo_state"))
_OTHER_BLOCKS: Final = frozenset(
    ("text", "thinking", "redacted_thinking", "image", "document", "file", "tool_result")
)
_MARKS: Final = frozenset(("tool_use", "tool_result"))


def _claims(head: Head) -> bool:
    return any(_is_header(line) or _has_marks(line) for line in head.lines)


def _is_header(line: dict[str, msgspec.Raw]) -> bool:
    return (
        bytes(line.get("type", b"")) == b'"session_start"'
        and "id" in line
        and not {"arms", "step"} & line.keys()
    )


def _has_marks(line: dict[str, msgspec.Raw]) -> bool:
    """A session cut off at its beginning looks like pi's, but for its calls."""
    if bytes(line.get("type", b"")) != b'"message"' or "message" not in line:
        return False
    try:
        return any(block.type in _MARKS for block in _MESSAGE.decode(line["message"]).blocks)
    except UNDECODABLE:
        return False


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    return read_segments(reading, progress, _decode, _begin, _header_of)


def _begin(unknown: Unknown) -> _Session:
    return _Session(unknown=unknown)


def _decode(raw: bytes) -> _Line | None:
    """The line; None = a whole line of a type that is not read, which may have any other shape."""
    try:
        line = _LINE.decode(raw)
    except UNDECODABLE:
        if _is_of_no_interest(raw):
            return None
        raise
    if line.message is None and line.type == "message":
        raise Flaw("has no message")
    return line


def _is_of_no_interest(raw: bytes) -> bool:
    try:
        return _KIND.decode(raw).type not in {"message", _HEADER}
    except UNDECODABLE:
        return False


def _header_of(line: _Line) -> str | None:
    return plain(line.id) or _HEADER if line.type == _HEADER else None


@dataclass(slots=True)
class _Prompt(Prompt):
    @property
    def usage(self) -> None:
        return None


@dataclass
class _Session(Session[_Prompt, _Line]):
    format_name = NAME

    _stood: set[str] = field(default_factory=set)
    _call_ids: set[str] = field(default_factory=set)

    def add(self, line: _Line, raw: bytes) -> None:
        self.is_repeated(line.id, line.parent_id)
        if line.type == _HEADER:
            self.id = self.id or _header_of(line)
        elif line.type == "message" and line.message is not None:
            self._add_message(line, line.message, raw)
        elif line.type not in _PASSED_OVER:
            self.unknown.line(line.type)

    @property
    def source(self) -> str:
        return self.id or f"session/{self.prompts[0].identity}"

    def _add_message(self, line: _Line, message: _Message, raw: bytes) -> None:
        entry = f"{line.timestamp}/{plain(line.id) or digest_of(raw.strip())}"
        if entry in self._stood:
            return
        self._stood.add(entry)
        self.n_facts += 1
        self.note_time(line.timestamp)
        blocks = message.blocks
        if message.role == "assistant":
            self._add_reply(line, blocks, entry)
        elif message.role != "user":
            self.unknown.line(f"message of {message.role}")
        elif any(block.type == "tool_result" for block in blocks):
            for block in blocks:
                self.add_output(identity_of(block.tool_use_id), block.content)
            self._touch(line)
        elif text := _REMINDER.sub("", "\n".join(block.text or "" for block in blocks)).strip():
            self.prompts.append(_Prompt(entry, request=text, last_time=line.timestamp))

    def _add_reply(self, line: _Line, blocks: list[_Block], entry: str) -> None:
        """A reply before the first prompt makes a run of its own."""
        if not self.prompts:
            self.prompts.append(_Prompt(entry))
        run = self.prompts[-1]
        run.n_replies += 1
        self._touch(line)
        for block in blocks:
            if block.type == "tool_use" and block.name:
                if self._is_new(block):
                    self.add_call(run, block.name, block.input, block.id)
            elif block.type == "text":
                if block.text:
                    self.add_text(run, block.text)
            elif block.type not in _OTHER_BLOCKS:
                run.n_foreign += self.unknown.block(block.type)

    def _is_new(self, block: _Block) -> bool:
        if block.id is None:
            return True
        n_before = len(self._call_ids)
        self._call_ids.add(block.id)
        return len(self._call_ids) > n_before

    def _touch(self, line: _Line) -> None:
        if self.prompts and line.timestamp is not None:
            self.prompts[-1].last_time = line.timestamp


FORMAT: Final = Format(name=NAME, units=("prompt",), claims=_claims, read=_read)
