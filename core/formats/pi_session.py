"""Session files of pi and of OpenClaw, which inherited them: JSON lines by ``type``, one run per prompt.

A prompt is a user message with text. ``bashExecution`` is a command that the person ran, so it is no call of
the agent; nor are its outputs, summaries of a compaction or entries of extensions. The last reply's
``stopReason`` says how a run ended. Ids of sessions are not unique across files and ids of calls restart
within one, so neither is an identity: that is an entry's time and id, or, in old files without ids, its time
and the hash of what was said. A fork of a session carries its entries on: a prompt in both is one run.

``X.openclaw.txt`` beside ``X.jsonl`` belongs to it (`core.formats.openclaw_report`). Without it the inventory
is what the session calls, so runs are handed out once the whole session has been read; kept meanwhile are
names, counts and, where something could be recognised in them, texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from core.errors import InvalidInput
from core.formats.chat import metadata
from core.formats.entries import Entry, Progress, Rejected
from core.formats.identity import digest_of, plain
from core.formats.moments import moment
from core.formats.openclaw_report import Report, report_beside
from core.formats.reading import Format, Head, Reading
from core.formats.strict import UNDECODABLE
from core.formats.tools import inferred
from core.records.limits import Label, Tokens
from core.records.run import Call, Inventory, Run, Status, Usage

NAME: Final = "pi-session"

_STOPPED: Final[dict[str | None, Status]] = {"aborted": "aborted", "error": "error"}


class _Block(msgspec.Struct):
    type: str = ""
    text: str | None = None
    name: Label | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"")


class _Usage(msgspec.Struct, rename="camel"):
    input: Tokens | None = None
    output: Tokens | None = None
    cache_read: Tokens | None = None
    cache_write: Tokens | None = None
    total_tokens: Tokens | None = None


class _Message(msgspec.Struct, rename="camel"):
    role: str = ""
    content: str | list[_Block] | None = None
    provider: Label | None = None
    model: Label | None = None
    usage: _Usage | None = None
    stop_reason: str | None = None

    @property
    def blocks(self) -> list[_Block]:
        if isinstance(self.content, str):
            return [_Block(type="text", text=self.content)]
        return self.content or []

    @property
    def text(self) -> str:
        return "\n".join([block.text for block in self.blocks if block.type == "text" and block.text])


class _Line(msgspec.Struct, rename="camel"):
    type: str
    id: str | None = None
    timestamp: str | int | float | None = None
    provider: Label | None = None
    model_id: Label | None = None
    message: msgspec.Raw = msgspec.Raw(b"null")


class _Kind(msgspec.Struct):
    type: str


class _Role(msgspec.Struct):
    role: str


_LINE: Final = msgspec.json.Decoder(_Line)
_MESSAGE: Final = msgspec.json.Decoder(_Message)
_ROLE: Final = msgspec.json.Decoder(_Role)
_KIND: Final = msgspec.json.Decoder(_Kind)
_READ_TYPES: Final = frozenset(("session", "model_change", "message"))
_READ_ROLES: Final = frozenset(("user", "assistant", "toolResult"))


def _claims(head: Head) -> bool:
    return any(_is_header(line) or _is_message(line) for line in head.lines)


def _is_header(line: dict[str, msgspec.Raw]) -> bool:
    return bytes(line.get("type", b"")) == b'"session"' and "id" in line and "timestamp" in line


def _is_message(line: dict[str, msgspec.Raw]) -> bool:
    """A session cut off at its beginning still has these; Claude Code's lines have a type for each role."""
    if bytes(line.get("type", b"")) != b'"message"' or "timestamp" not in line:
        return False
    try:
        return bool(_ROLE.decode(bytes(line.get("message", b"null"))).role)
    except UNDECODABLE:
        return False


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    found = report_beside(reading)
    report = found if isinstance(found, Report) else None
    if isinstance(found, Rejected):
        yield found
    inventory = reading.supplied if report is None else report.inventory
    session = _Session(reads_text=_reads_text(inventory))
    for number, raw in reading.raw_records(progress):
        if isinstance(raw, Rejected):
            yield raw
            continue
        try:
            session.add(raw)
        except UNDECODABLE as error:
            if not _is_of_no_interest(raw):
                yield reading.rejected(number, error, raw)
    yield from session.runs(reading, inventory, report)


def _is_of_no_interest(raw: bytes) -> bool:
    """A whole line of a type that is not read may have any other shape."""
    try:
        return _KIND.decode(raw).type not in _READ_TYPES
    except UNDECODABLE:
        return False


def _reads_text(inventory: Inventory | None) -> bool:
    """An inferred inventory is nothing but tools, and tools are not looked for in texts."""
    return inventory is not None and any(arm.type != "tool" for arm in inventory.arms)


@dataclass
class _Growing:
    """A run whose lines are still being read."""

    identity: str
    provider: str | None
    model: str | None
    status: Status = "completed"
    n_replies: int = 0
    last_time: str | int | float | None = None
    calls: list[Call] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    n_input: int = 0
    n_output: int = 0
    n_cache_read: int = 0
    n_cache_write: int = 0
    n_total: int = 0

    def add_usage(self, usage: _Usage) -> None:
        parts = (usage.input or 0, usage.output or 0, usage.cache_read or 0, usage.cache_write or 0)
        self.n_input += parts[0]
        self.n_output += parts[1]
        self.n_cache_read += parts[2]
        self.n_cache_write += parts[3]
        self.n_total += usage.total_tokens or sum(parts)

    @property
    def usage(self) -> Usage | None:
        """All zero means unknown."""
        if not self.n_total:
            return None
        return Usage(
            input=self.n_input,
            output=self.n_output,
            cache_read=self.n_cache_read,
            cache_write=self.n_cache_write,
            total=self.n_total,
        )


@dataclass
class _Session:
    """Lines of one file → its runs."""

    reads_text: bool
    n_lines: int = 0
    header: str | None = None
    first: str | None = None
    provider: str | None = None
    model: str | None = None
    current: _Growing | None = None
    grown: list[_Growing] = field(default_factory=list)
    _seen: set[bytes] = field(default_factory=set)
    _plain_calls: dict[str, Call] = field(default_factory=dict)

    def add(self, raw: bytes) -> None:
        line = _LINE.decode(raw)
        if line.type in {"session", "model_change"}:
            self._add_model(line)
        elif line.type == "message":
            self._add_message(line)

    def runs(
        self, reading: Reading, inventory: Inventory | None, report: Report | None
    ) -> Iterator[Run | Rejected]:
        if inventory is None:
            inventory = inferred({call.name for run in self.grown for call in run.calls})
        for run in self.grown:
            told = report if run is self.grown[-1] else None
            try:
                yield self._run(run, inventory, report, told)
            except InvalidInput as error:  # counts that no run can have, once they are added up
                yield Rejected(file=reading.file, line=None, reason=error.problem)

    def _add_model(self, line: _Line) -> None:
        if line.type == "session" and self.header is None:
            self.header = f"{plain(line.id) or 'session'}/{_time(line)}"
        self.provider = line.provider or self.provider
        self.model = line.model_id or self.model

    def _add_message(self, line: _Line) -> None:
        raw = bytes(line.message)
        if _ROLE.decode(raw).role not in _READ_ROLES:
            return  # such a message may have any other shape
        message = _MESSAGE.decode(raw)
        if self._is_repeated(line, raw):
            return
        self.n_lines += 1
        if message.role == "assistant":
            self._add_reply(line, message)
        elif message.role == "toolResult":
            self._touch(line)
        elif message.text.strip():
            self._open(line, message).last_time = line.timestamp

    def _is_repeated(self, line: _Line, raw: bytes) -> bool:
        entry = f"{line.timestamp}\n{line.id}".encode() + (b"" if line.id else raw)
        digest = hashlib.blake2b(entry, digest_size=12).digest()
        is_repeated = digest in self._seen
        self._seen.add(digest)
        return is_repeated

    def _open(self, line: _Line, message: _Message) -> _Growing:
        self.current = _Growing(_identity(line, message), self.provider, self.model)
        self.first = self.first or self.current.identity
        self.grown.append(self.current)
        return self.current

    def _add_reply(self, line: _Line, message: _Message) -> None:
        run = self.current or self._open(line, message)
        run.n_replies += 1
        run.provider = message.provider or run.provider
        run.model = message.model or run.model
        run.status = _STOPPED.get(message.stop_reason, "completed")
        self._touch(line)
        if message.usage is not None:
            run.add_usage(message.usage)
        for block in message.blocks:
            if block.type == "toolCall" and block.name:
                run.calls.append(self._call(block.name, bytes(block.arguments)))
            elif block.type == "text" and block.text and self.reads_text:
                run.texts.append(block.text)

    def _call(self, name: str, arguments: bytes) -> Call:
        if self.reads_text:
            return Call(name=name, metadata=metadata(arguments))
        return self._plain_calls.setdefault(name, Call(name=name))

    def _touch(self, line: _Line) -> None:
        """A run ends with its last reply or tool result."""
        if self.current is not None and line.timestamp is not None:
            self.current.last_time = line.timestamp

    def _run(self, run: _Growing, inventory: Inventory, report: Report | None, told: Report | None) -> Run:
        """``report`` is the session's, ``told`` the same for the last run, whose request it was."""
        ended_at_ms, is_naive = moment(run.last_time)
        source = self.header or f"session/{self.first}"
        return Run(
            uid=f"{NAME}/prompt/{run.identity}",
            inventory=inventory,
            format=NAME,
            unit="prompt",
            source=source,
            # The same lines with a report say more than without.
            rank=2 * self.n_lines + (report is not None),
            session=source,
            ended_at_ms=ended_at_ms,
            naive_time=is_naive,
            provider=run.provider or (told.provider if told else None),
            model=run.model or (told.model if told else None),
            status="aborted" if told is not None and told.is_aborted else run.status,
            usage=run.usage,
            duration_ms=None if told is None else told.duration_ms,
            prompt_chars=None if report is None else report.prompt_chars,
            calls=tuple(run.calls),
            texts=tuple(run.texts),
            empty=run.n_replies == 0,
        )


def _identity(line: _Line, message: _Message) -> str:
    """Time and id of the entry; without an id, time and hash of what it says."""
    said = plain(line.id) or digest_of(message.text.encode())
    return f"{_time(line)}/{said}"


def _time(line: _Line) -> str:
    return plain(str(line.timestamp or "")) or "unknown"


FORMAT: Final = Format(name=NAME, units=("prompt",), claims=_claims, read=_read)
