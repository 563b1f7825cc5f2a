"""Session files of pi and of OpenClaw, which inherited them: JSON lines by ``type``, one run per prompt.

A prompt is a user message with text. ``bashExecution`` is a command by the user, so it is no call of the agent. The
same holds for its outputs, summaries of a compaction and entries of extensions. The last reply's ``stopReason`` is
the status of the run. Ids of sessions repeat across files, and ids of calls repeat within one, so neither is an
identity. The identity is an entry's time and id, or, in old files without ids, its time and the hash of its text. A
fork of a session repeats its entries: a prompt in both is one run.

The four counts of a usage are disjoint: its input contains no cached token. ``cacheWrite1h`` is the part of the cache
writes that lives an hour. Older programs do not write it, so five minutes are assumed.

Lines do not name their session: it goes from one ``session`` header to the next. Lines before the only header of a
file belong to it where they and those after it follow each other.

``X.openclaw.txt`` beside ``X.jsonl`` belongs to it (`core.formats.openclaw_report`), if that holds one session.
Without a report the inventory is the set of called tools, and texts are not held, because they name no tools. It has
the skills that the session uses by name, until one is loaded (`core.formats.by_name`): by a call that reads its
``SKILL.md``, or by a person, whose prompt then begins with ``<skill name="…" location="…">``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from core.formats.chat import identity_of
from core.formats.entries import Entry, Progress, Rejected, Skipped
from core.formats.openclaw_report import Report, report_beside
from core.formats.prompts import Parts, Prompt, counts_of
from core.formats.reading import Format, Head, Reading
from core.formats.sessions import LinkedLine, Session, lines_of, read_segments, role_of
from core.formats.strict import digest_of, plain
from core.formats.unknown import Unknown
from core.records.bill import Owner, Spent, disjoint
from core.records.limits import Label, Tokens
from core.records.run import Call, Run, Status

NAME: Final = "pi-session"

_TYPED_SKILL: Final = re.compile(r'<skill name="([^"\s]{1,200})" location="[^"\n]*">\n')
_STOPPED: Final[dict[str | None, Status]] = {"aborted": "aborted", "error": "error"}

_READ_TYPES: Final = frozenset(("session", "model_change", "message"))
_PASSED_OVER: Final = frozenset(
    (
        "thinking_level_change",
        "compaction",
        "branch_summary",
        "custom",
        "custom_message",
        "label",
        "session_info",
    )
)
"""Entries about the session that say nothing of what the agent did."""
_READ_ROLES: Final = frozenset(("user", "assistant", "toolResult"))
_OTHER_ROLES: Final = frozenset(
    ("bashExecution", "custom", "hookMessage", "branchSummary", "compactionSummary", "system")
)
_OTHER_BLOCKS: Final = frozenset(("text", "thinking", "image", "toolCall"))


class _Block(msgspec.Struct):
    type: str = ""
    text: str | None = None
    name: Label | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"")
    id: msgspec.Raw = msgspec.Raw(b"")


class Usage(msgspec.Struct, rename="camel"):
    input: Tokens | None = None
    output: Tokens | None = None
    cache_read: Tokens | None = None
    cache_write: Tokens | None = None
    hour_write: Tokens | None = msgspec.field(default=None, name="cacheWrite1h")
    total_tokens: Tokens | None = None

    @property
    def parts(self) -> Parts:
        parts = (self.input or 0, self.output or 0, self.cache_read or 0, self.cache_write or 0)
        return (*parts, self.total_tokens or sum(parts))

    def billed(self, model: str | None, owner: Owner, unknown: Unknown) -> Iterable[Spent]:  # noqa: ARG002
        """Return the disjoint counts; a total with another split has none."""
        return (self._row(model, owner).as_request,)

    def _row(self, model: str | None, owner: Owner) -> Spent:
        row = disjoint(*self.parts)
        if row is None:
            return Spent(model=model, owner=owner, total=self.total_tokens or 0)
        if self.hour_write is None:
            return replace(row, model=model, owner=owner)
        hour = min(self.hour_write, row.cache_write_5m)
        five = row.cache_write_5m - hour
        return replace(row, model=model, owner=owner, cache_write_5m=five, cache_write_1h=hour, assumed=False)


class _Message(msgspec.Struct, rename="camel"):
    role: str = ""
    content: str | list[_Block] | None = None
    provider: Label | None = None
    model: Label | None = None
    usage: msgspec.Raw = msgspec.Raw(b"")
    stop_reason: str | None = None
    tool_calls: list[msgspec.Raw] | None = None
    tool_call_id: msgspec.Raw = msgspec.Raw(b"")
    is_error: msgspec.Raw = msgspec.Raw(b"")

    @property
    def blocks(self) -> list[_Block]:
        if isinstance(self.content, str):
            return [_Block(type="text", text=self.content)]
        return self.content or []

    @property
    def text(self) -> str:
        return "\n".join([block.text for block in self.blocks if block.type == "text" and block.text])


class Line(LinkedLine, rename="camel"):
    timestamp: str | int | float | None = None
    provider: Label | None = None
    model_id: Label | None = None
    message: _Message | None = None
    usage: msgspec.Raw = msgspec.Raw(b"")
    """What the summary cost, which an entry about it may have."""


_USAGE: Final = msgspec.json.Decoder(Usage | None)
_decode: Final = lines_of(Line, _READ_TYPES, _READ_ROLES)


def _claims(head: Head) -> bool:
    return any(_is_header(line) or _is_message(line) for line in head.lines)


def _is_header(line: dict[str, msgspec.Raw]) -> bool:
    return bytes(line.get("type", b"")) == b'"session"' and "id" in line and "timestamp" in line


def _is_message(line: dict[str, msgspec.Raw]) -> bool:
    """A session cut off at its beginning still has these; Claude Code's lines have a type for each role."""
    if bytes(line.get("type", b"")) != b'"message"' or "timestamp" not in line:
        return False
    return bool(role_of(line.get("message", b"null")))


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    beside = report_beside(reading)
    if isinstance(beside, Rejected):
        yield beside
    report = beside if isinstance(beside, Report) else None
    if report is not None and _n_sessions(reading) > 1:
        report = None
        yield Skipped(
            file=reading.file,
            reason="The report beside a file of several sessions says nothing of any one of them.",
            next_step="Put it beside the session it is about.",
        )
    inventory = reading.supplied if report is None else report.inventory

    begin = partial(_Session, inventory=inventory, report=report)
    yield from read_segments(reading, progress, _decode, begin, _header_of)


def _n_sessions(reading: Reading) -> int:
    def header(raw: bytes) -> Line | None:
        return _decode(raw) if b'"session"' in raw or b"\\u" in raw else None

    lines = (line for _, _, line in reading.records(header) if isinstance(line, Line))
    return len({_header_of(line) for line in lines} - {None})


def _header_of(line: Line) -> str | None:
    return f"{plain(line.id) or 'session'}/{_time(line)}" if line.type == "session" else None


@dataclass
class _Session(Session[Line]):
    """``report`` is the session's own."""

    format_name = NAME
    has_call_ids = False
    loads_known = True
    reads_skill_files = True

    report: Report | None = None
    provider: str | None = None
    model: str | None = None
    _plain_calls: dict[str, Call] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # An inferred inventory is nothing but tools, and tools are not looked for in texts.
        arms = () if self.inventory is None else self.inventory.arms
        self.reads_text = any(arm.type != "tool" for arm in arms)

    def add(self, line: Line, raw: bytes) -> None:
        self.is_repeated(line.id, line.parent_id)
        message = line.message
        if line.type == "message" and message is not None:
            if message.role in _READ_ROLES:
                self._add_message(line, message, raw)
            elif message.role not in _OTHER_ROLES:
                self.pass_over(f"message of {message.role}", raw)
        elif line.type in _READ_TYPES:
            self.id = self.id or _header_of(line)
            self.provider = line.provider or self.provider
            self.model = line.model_id or self.model
        elif line.type not in _PASSED_OVER:
            self.pass_over(line.type, raw)
        elif line.usage and self.prompts and not self.is_same_line(None, raw):
            self._add_usage(self.prompts[-1], self.model, line.usage)

    def entries(self, reading: Reading) -> Iterator[Run | Rejected | Skipped]:
        if self.report is not None and self.prompts:
            self._end(self.prompts[-1], self.report)
        if self.inventory is None:
            used = {one for prompt in self.prompts for one in (*prompt.loaded, *prompt.typed)}
            self.by_name.add_skills(sorted(used), "")
            self.offer_by_name({})
        yield from super().entries(reading)

    @property
    def rank(self) -> int:
        # The same lines with a report say more than without.
        return 2 * self.n_facts + (self.report is not None)

    def _end(self, last: Prompt, report: Report) -> None:
        """Return the report's result of the last request, which it describes."""
        self.prompt_chars = report.prompt_chars
        last.provider = last.provider or report.provider
        last.model = last.model or report.model
        last.duration_ms = report.duration_ms
        if report.is_aborted:
            last.status = "aborted"

    def _add_message(self, line: Line, message: _Message, raw: bytes) -> None:
        if self.is_same_line(line.id and f"{line.timestamp}\n{line.id}", raw):
            return
        self.n_facts += 1
        at = line.timestamp
        self.note_time(f"{at:020.3f}" if isinstance(at, (int, float)) else at)
        if message.role == "assistant":
            self._add_reply(line, message)
        elif message.role == "toolResult":
            output, failed = msgspec.json.encode(message.text), bytes(message.is_error) == b"true"
            self.add_output(identity_of(message.tool_call_id), output, failed=failed)
            self.touch(line.timestamp)
        elif message.text.strip():
            opened = self._open(line, message, message.text)
            if typed := _TYPED_SKILL.match(message.text):
                opened.typed.add(typed[1])

    def _open(self, line: Line, message: _Message, request: str | None = None) -> Prompt:
        identity = plain(line.id) or digest_of(message.text.encode())
        opened = self.begin(f"{_time(line)}/{identity}", request, line.timestamp)
        opened.provider, opened.model = self.provider, self.model
        return opened

    def _add_reply(self, line: Line, message: _Message) -> None:
        run = self.prompts[-1] if self.prompts else self._open(line, message)
        run.n_replies += 1
        run.provider = message.provider or run.provider
        run.model = message.model or run.model
        run.status = _STOPPED.get(message.stop_reason, "completed")
        self.touch(line.timestamp)
        self._add_usage(run, message.model or run.model, message.usage)
        run.last_text = message.text or run.last_text
        for block in message.blocks:
            if block.type == "toolCall" and block.name:
                self._add_call(run, block.name, block)
            elif block.type == "text":
                if block.text and (self.reads_text or self.keeps_texts):
                    self.add_text(run, block.text)
                elif block.text:
                    self.mark(run, block.text.encode(errors="surrogatepass"))
            elif block.type not in _OTHER_BLOCKS:
                run.n_foreign += self.unknown.block(block.type)
        if message.tool_calls:
            self.unknown.field("tool_calls")
            run.n_foreign += 1

    def _add_usage(self, run: Prompt, model: str | None, raw: msgspec.Raw) -> None:
        usage, names = counts_of(_USAGE, raw)
        if usage is not None:
            self.use(run, f"{len(self.owners)}", model, usage, names)

    def _add_call(self, run: Prompt, name: str, block: _Block) -> None:
        if self.reads_text or self.keeps_texts:
            self.add_call(run, name, block.arguments, identity_of(block.id))
        else:
            run.calls.append(self._plain_calls.setdefault(name, Call(name=name)))
            self.mark_call(run, name, bytes(block.arguments))
            self.note_loads(run, name, bytes(block.arguments), identity_of(block.id))


def _time(line: Line) -> str:
    return plain(str(line.timestamp or "")) or "unknown"


FORMAT: Final = Format(name=NAME, units=("prompt",), claims=_claims, read=_read)
