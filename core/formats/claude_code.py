"""Claude Code session files: JSON lines by ``type``, one run per prompt of the person.

A prompt is a user line with text of its own: no tool result, no meta line, no summary of a compaction, no
sub-agent's (``isSidechain``), no output of a local command and no note of an interruption. One response is
spread over several lines that repeat its ``message.id`` and its usage; the last usage counts. ``progress``
lines carry sub-agents' calls, which are not the agent's. Lines of the model ``<synthetic>`` are notices of
the program, not replies.

No list of tools is in the file: the inventory is what the session calls, so runs are handed out once the
whole session has been read; kept in memory meanwhile are names, texts and counts of one session.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from core.errors import InvalidInput
from core.formats.chat import metadata
from core.formats.entries import Entry, Progress, Rejected
from core.formats.identity import digest_of, plain
from core.formats.moments import moment
from core.formats.reading import Format, Head, Reading
from core.formats.strict import UNDECODABLE
from core.formats.tools import inferred
from core.records.limits import Label, Millis, Tokens
from core.records.run import Call, Inventory, Run, Status, Usage

NAME: Final = "claude-code"

_NOT_PROMPTS: Final = ("<local-command", "<bash-", "[Request interrupted")
_INTERRUPTED: Final = "[Request interrupted"
_SYNTHETIC: Final = "<synthetic>"


class _Block(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    id: str | None = None
    name: Label | None = None
    input: msgspec.Raw = msgspec.Raw(b"")


class _Usage(msgspec.Struct, gc=False):
    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    cache_read_input_tokens: Tokens | None = None
    cache_creation_input_tokens: Tokens | None = None


class _Message(msgspec.Struct, gc=False):
    content: str | list[_Block] | None = None
    id: str | None = None
    model: Label | None = None
    usage: _Usage | None = None

    @property
    def blocks(self) -> list[_Block]:
        if isinstance(self.content, list):
            return self.content
        return [] if self.content is None else [_Block(type="text", text=self.content)]


_NO_MESSAGE: Final = _Message()


class _Line(msgspec.Struct, rename="camel", gc=False):
    type: str
    uuid: str | None = None
    session_id: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    timestamp: str | None = None
    subtype: str | None = None
    duration_ms: Millis | float | None = None
    message: _Message | None = None


class _Kind(msgspec.Struct, gc=False):
    type: str


_LINE: Final = msgspec.json.Decoder(_Line)
_KIND: Final = msgspec.json.Decoder(_Kind)
_CONVERSATION: Final = frozenset(("user", "assistant", "system"))
_CLAIMED: Final = frozenset((*_CONVERSATION, "progress"))


def _claims(head: Head) -> bool:
    return any(
        "sessionId" in line and "uuid" in line and _type_of(line) in _CLAIMED for line in head.lines
    ) or any("leafUuid" in line and _type_of(line) == "summary" for line in head.lines)


def _type_of(line: dict[str, msgspec.Raw]) -> str:
    raw = bytes(line.get("type", b""))
    return raw[1:-1].decode(errors="replace") if raw.startswith(b'"') else ""


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    session = _Session()
    for number, raw in reading.raw_records(progress):
        if isinstance(raw, Rejected):
            yield raw
            continue
        try:
            session.add(raw)
        except UNDECODABLE as error:
            if not _is_of_no_interest(raw):
                yield reading.rejected(number, error, raw)
    yield from session.runs(reading)


def _identity(line: _Line, raw: bytes) -> str:
    return plain(line.uuid) or digest_of(raw.strip())


def _is_of_no_interest(raw: bytes) -> bool:
    """A whole line of a type that is not read may have any other shape."""
    try:
        return _KIND.decode(raw).type not in _CONVERSATION
    except UNDECODABLE:
        return False


@dataclass(slots=True)
class _Growing:
    """A run whose lines are still being read."""

    identity: str
    status: Status = "completed"
    model: str | None = None
    n_replies: int = 0
    last_time: str | None = None
    duration_ms: int | None = None
    calls: list[Call] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    usages: dict[str, _Usage] = field(default_factory=dict)

    @property
    def usage(self) -> Usage | None:
        read = written = cached = kept = 0
        for part in self.usages.values():
            read += part.input_tokens or 0
            written += part.output_tokens or 0
            cached += part.cache_read_input_tokens or 0
            kept += part.cache_creation_input_tokens or 0
        found = Usage(input=read, output=written, cache_read=cached, cache_write=kept)
        return None if found.tokens is None else found


@dataclass(slots=True)
class _Session:
    """Lines of one file → its runs."""

    n_lines: int = 0
    session_id: str | None = None
    first: str | None = None
    current: _Growing | None = None
    grown: list[_Growing] = field(default_factory=list)
    _seen_lines: set[str] = field(default_factory=set)
    _seen_calls: set[str] = field(default_factory=set)
    _owners: dict[str, _Growing] = field(default_factory=dict)

    def add(self, raw: bytes) -> None:
        line = _LINE.decode(raw)
        kind = line.type
        if kind not in _CONVERSATION or line.is_sidechain or self._is_repeated(line):
            return
        self.n_lines += 1
        if not self.session_id:
            self.session_id = line.session_id
        if self.first is None and kind != "system":
            self.first = _identity(line, raw)
        if kind == "assistant":
            self._add_reply(line, raw)
        elif kind == "user":
            self._add_user(line, raw)
        else:
            self._add_notice(line)

    def runs(self, reading: Reading) -> Iterator[Run | Rejected]:
        inventory = reading.supplied
        if inventory is None:
            inventory = inferred({call.name for run in self.grown for call in run.calls})
        # A session's id alone is not enough: a fork of a session may carry it on.
        session = plain(self.session_id)
        source = f"{session or 'session'}/{self.first}"
        for run in self.grown:
            try:
                yield self._run(run, inventory, session, source)
            except InvalidInput as error:  # counts that no run can have, once they are added up
                yield Rejected(file=reading.file, line=None, reason=error.problem)

    def _is_repeated(self, line: _Line) -> bool:
        if line.uuid is None:
            return False
        n_seen = len(self._seen_lines)
        self._seen_lines.add(line.uuid)
        return len(self._seen_lines) == n_seen

    def _open(self, identity: str) -> _Growing:
        self.current = _Growing(identity)
        self.grown.append(self.current)
        return self.current

    def _add_user(self, line: _Line, raw: bytes) -> None:
        blocks = (line.message or _NO_MESSAGE).blocks
        if len(blocks) == 1 and blocks[0].type == "tool_result":  # most lines are of this kind
            self._touch(line)
            return
        text = "\n".join([block.text for block in blocks if block.type == "text" and block.text])
        if self.current is not None and text.startswith(_INTERRUPTED):
            self.current.status = "aborted"
            self.current.last_time = line.timestamp
        if "tool_result" in [block.type for block in blocks]:
            self._touch(line)
        elif not (line.is_meta or line.is_compact_summary or text.startswith(_NOT_PROMPTS)) and text.strip():
            self._open(_identity(line, raw)).last_time = line.timestamp

    def _add_reply(self, line: _Line, raw: bytes) -> None:
        message = line.message or _NO_MESSAGE
        if message.model == _SYNTHETIC:
            self._add_failure(line)
            return
        run = self.current or self._open(_identity(line, raw))
        run.n_replies += 1
        run.model = message.model or run.model
        if run.status == "error":
            run.status = "completed"
        if line.timestamp is not None:
            run.last_time = line.timestamp
        if message.usage is not None:
            response = message.id or _identity(line, raw)
            self._owners.setdefault(response, run).usages[response] = message.usage
        for block in message.blocks:
            if block.type == "text":
                if block.text:
                    run.texts.append(block.text)
            elif block.type == "tool_use" and block.name and self._is_new_call(block):
                run.calls.append(Call(name=block.name, metadata=metadata(bytes(block.input))))

    def _add_failure(self, line: _Line) -> None:
        """The program says that the model could not be reached; a later reply makes up for it."""
        if line.is_api_error_message and self.current is not None:
            self.current.status = "error"
            self._touch(line)

    def _is_new_call(self, block: _Block) -> bool:
        if block.id is None:
            return True
        n_seen = len(self._seen_calls)
        self._seen_calls.add(block.id)
        return len(self._seen_calls) > n_seen

    def _add_notice(self, line: _Line) -> None:
        if line.subtype == "turn_duration" and line.duration_ms is not None and self.current is not None:
            before = self.current.duration_ms or 0
            self.current.duration_ms = before + round(line.duration_ms)
            self._touch(line)

    def _touch(self, line: _Line) -> None:
        """A run ends with its last reply, tool result or notice, not with what the person did later."""
        if self.current is not None and line.timestamp is not None:
            self.current.last_time = line.timestamp

    def _run(self, run: _Growing, inventory: Inventory, session: str | None, source: str) -> Run:
        ended_at_ms, is_naive = moment(run.last_time)
        return Run(
            uid=f"{NAME}/prompt/{run.identity}",
            inventory=inventory,
            format=NAME,
            unit="prompt",
            source=source,
            rank=self.n_lines,
            session=session,
            ended_at_ms=ended_at_ms,
            naive_time=is_naive,
            model=run.model,
            status=run.status,
            usage=run.usage,
            duration_ms=run.duration_ms,
            calls=tuple(run.calls),
            texts=tuple(run.texts),
            empty=run.n_replies == 0,
        )


FORMAT: Final = Format(name=NAME, units=("prompt",), claims=_claims, read=_read)
