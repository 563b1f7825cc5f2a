"""Factory Droid sessions: JSON lines, a ``session_start`` and then messages with Anthropic's blocks.

A prompt is a user message without a tool result, which has text outside the program's reminders. Calls
are ``tool_use`` blocks of replies. A session goes from one ``session_start`` to the next. Model and usage are not in
the file. The inventory is what the session calls.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from core.formats.chat import identity_of
from core.formats.reading import Format, Head
from core.formats.sessions import LinkedLine, Session, lines_of, read_segments
from core.formats.strict import decoded, id_or_digest, plain
from core.records.limits import Label

NAME: Final = "factory-droid"

_HEADER: Final = "session_start"
_REMINDER: Final = re.compile(r"<system-reminder>.*?(</system-reminder>|$)", re.DOTALL)

_PASSED_OVER: Final = frozenset((_HEADER, "session_end", "compaction_state", "todo_state"))
_OTHER_BLOCKS: Final = frozenset(
    ("text", "thinking", "redacted_thinking", "image", "document", "file", "tool_result")
)
_MARKS: Final = frozenset(("tool_use", "tool_result"))


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


class _Line(LinkedLine, rename="camel"):
    timestamp: str | None = None
    message: _Message | None = None


_MESSAGE: Final = msgspec.json.Decoder(_Message)


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
    message = decoded(_MESSAGE, line["message"])
    return message is not None and any(block.type in _MARKS for block in message.blocks)


def _header_of(line: _Line) -> str | None:
    return plain(line.id) or _HEADER if line.type == _HEADER else None


_decode: Final = lines_of(_Line, frozenset(("message", _HEADER)), frozenset())


@dataclass
class _Session(Session[_Line]):
    format_name = NAME

    def add(self, line: _Line, raw: bytes) -> None:
        self.is_repeated(line.id, line.parent_id)
        if line.type == _HEADER:
            self.id = self.id or _header_of(line)
        elif line.type == "message" and line.message is not None:
            self._add_message(line, line.message, raw)
        elif line.type not in _PASSED_OVER:
            self.pass_over(line.type, raw)

    def _add_message(self, line: _Line, message: _Message, raw: bytes) -> None:
        entry = f"{line.timestamp}/{id_or_digest(line.id, raw)}"
        if self.is_same_line(plain(line.id) and entry, raw):
            return
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
            self.touch(line.timestamp)
        elif text := _REMINDER.sub("", "\n".join(block.text or "" for block in blocks)).strip():
            self.begin(entry, text, line.timestamp)

    def _add_reply(self, line: _Line, blocks: list[_Block], entry: str) -> None:
        run = self.reply(entry, None, line.timestamp)
        for block in blocks:
            if block.type == "tool_use" and block.name:
                self.add_call(run, block.name, block.input, block.id)
            elif block.type == "text":
                if block.text:
                    self.add_text(run, block.text)
            elif block.type not in _OTHER_BLOCKS:
                run.n_foreign += self.unknown.block(block.type)


FORMAT: Final = Format(
    name=NAME,
    units=("prompt",),
    claims=_claims,
    read=partial(read_segments, decode=_decode, begin=_Session, header_of=_header_of),
)
