"""opencode sessions, one run per message of the user: ``opencode.db``, or exported documents ``{info, messages}``.

A message is ``{info, parts}``; the database has both as JSON without their ids. A prompt is a user's text that is not
``synthetic``, or a command (``subtask``). A tool part is a call in any state. Input contains no cached token.
Reasoning counts as output, unless the total shows that output contains it. Parts ``step-finish`` hold the tokens of
each step. The message holds those of the last one, and counts where no such part is. A session with a parent is a
sub-agent's. Its tokens go to the bill of the run that started it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from core.formats.entries import Entry, Progress, Rejected
from core.formats.heads import head_of
from core.formats.reading import Format, Head, Reading, SubAgentFiles
from core.formats.scalars import plain
from core.formats.sessions import Steps
from core.formats.sqlite_file import MAGIC, opened, tables_in
from core.formats.strict import UNDECODABLE, check, decoded
from core.formats.sub_agents import Response, alone
from core.formats.unknown import Unknown
from core.records.bill import Owner, Spent
from core.records.limits import Label, Tokens

NAME: Final = "opencode"

T = TypeVar("T")

_TABLES: Final = ("session", "message", "part")
_SESSIONS: Final = "SELECT id, parent_id FROM session ORDER BY id"
_MESSAGES: Final = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
_PARTS: Final = "SELECT message_id, data FROM part WHERE session_id = ? ORDER BY id"
_SESSION_ID: Final = re.compile(rb'"(id|parentID)"\s*:\s*"(ses_[^"\\]*)"')
_PASSED_OVER: Final = frozenset(
    ("reasoning", "step-start", "step-finish", "file", "patch", "snapshot", "agent", "retry", "compaction")
)


class _Cache(msgspec.Struct):
    read: Tokens = 0
    write: Tokens = 0


class _Tokens(msgspec.Struct):
    input: Tokens = 0
    output: Tokens = 0
    reasoning: Tokens = 0
    cache: _Cache = msgspec.field(default_factory=_Cache)
    total: Tokens | None = None

    def spent(self, model: str | None, owner: Owner) -> Spent:
        contained = self.total == self.input + self.output + self.cache.read + self.cache.write
        return Spent(
            model=model,
            owner=owner,
            input=self.input,
            cache_read=self.cache.read,
            cache_write_5m=self.cache.write,
            output=self.output + (0 if contained else self.reasoning),
            assumed=self.cache.write > 0,
        )


class _Metadata(msgspec.Struct, rename={"session_id": "sessionId"}):
    session_id: str | None = None


class _State(msgspec.Struct):
    input: msgspec.Raw = msgspec.Raw(b"")
    metadata: msgspec.Raw = msgspec.Raw(b"")
    output: msgspec.Raw = msgspec.Raw(b"")


class _Part(msgspec.Struct, rename={"call_id": "callID"}):
    type: str = ""
    text: str | None = None
    prompt: str | None = None
    synthetic: bool | None = None
    tool: Label | None = None
    call_id: str | None = None
    state: _State = msgspec.field(default_factory=_State)
    tokens: _Tokens | None = None


class _Error(msgspec.Struct):
    name: str = ""


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
    tokens: _Tokens | None = None
    error: _Error | None = None


class _Message(msgspec.Struct):
    info: _Info
    parts: list[_Part] = []
    uuid: None = None
    parent_uuid: None = None
    timestamp: None = None


class _Export(msgspec.Struct):
    info: _Info
    messages: list[_Message]


_EXPORT: Final = msgspec.json.Decoder(_Export)
_INFO: Final = msgspec.json.Decoder(_Info)
_PART: Final = msgspec.json.Decoder(_Part)
_METADATA: Final = msgspec.json.Decoder(_Metadata)


@dataclass
class _Session(Steps[_Message]):
    format_name = NAME

    parent: str | None = None

    def add(self, line: _Message, raw: bytes) -> None:  # noqa: ARG002 - the message has all of it
        info, at = line.info, line.info.time.created
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
            self.unknown.line(f"message of {info.role}")
            return
        at = info.time.completed or at
        for part in line.parts:
            self._add_part(part, at)
        if any(part.type in {"text", "tool"} for part in line.parts) or info.tokens is not None:
            turn = self.turn(at)
            turn.model, turn.provider = info.model_id or turn.model, info.provider_id or turn.provider
            turn.rows += [one.spent(info.model_id, "agent") for one in _tokens_of(line)]
        if info.error is not None:
            self.end("aborted" if "Abort" in info.error.name else "error", at)

    def _add_part(self, part: _Part, at: float | None) -> None:
        if part.type == "text":
            self.say("" if part.synthetic else part.text or "", at)
        elif part.type == "tool" and part.tool:
            self.call(part.tool, part.call_id, part.state.input, at)
            self.add_output(part.call_id, part.state.output)
            if child := _child_of(part.state):
                self.agents.add_call(part.call_id or child, self.prompts[-1], "")
                self.agents.link(child, part.call_id or child)
        elif part.type not in _PASSED_OVER and self.unknown.block(part.type):
            self.turn(at).n_foreign += 1

    def charge(self, child: str, messages: Iterable[_Message]) -> None:
        """Take in the tokens of a sub-agent, and of those that it started."""
        agent = self.agents.at(child, None)
        for message in messages:
            at = message.info.time.completed or message.info.time.created
            for place, tokens in enumerate(_tokens_of(message)):
                spent = partial(tokens.spent, message.info.model_id, "sub-agent")
                agent.add(f"{message.info.id}/{place}", Response(spent, tokens.output, at, None))


def _tokens_of(message: _Message) -> list[_Tokens]:
    if message.info.role != "assistant":
        return []
    steps = [part.tokens for part in message.parts if part.type == "step-finish" and part.tokens is not None]
    return steps or [one for one in (message.info.tokens,) if one is not None]


def _child_of(state: _State) -> str | None:
    return (decoded(_METADATA, state.metadata) or _Metadata()).session_id


def _claims(head: Head) -> bool:
    if head.start.startswith(MAGIC):
        return tables_in(head) >= {"message", "part"} and b"message_id" in head.start
    return {"info", "messages"} <= head.keys and _SESSION_ID.search(head.start) is not None


def _sort(head: Head, path: Path, file: str, files: SubAgentFiles) -> None:
    """Note the session that the document holds. That of a sub-agent is listed under its parent, too."""
    ids = dict(reversed(_SESSION_ID.findall(head.start[: 1 << 14])))
    if b"parentID" in ids:
        files.add(path, file, ids[b"parentID"].decode(errors="replace"))
    files.sessions.add(ids.get(b"id", b"").decode(errors="replace"))


class _Source:
    """Sessions of one file, each by its id."""

    def __init__(self, reading: Reading, stack: ExitStack) -> None:
        self.reading, self.rejected = reading, list[Rejected]()
        self._exports: dict[str, _Export] = {}
        self.parents: dict[str, str | None] = {}
        with reading.path.open("rb") as file:
            self.is_database = file.read(len(MAGIC)) == MAGIC
        if self.is_database:
            most = reading.limits.document_bytes
            self._database = stack.enter_context(opened(reading, NAME, _TABLES, most))
            self.parents = {
                _text(one): _text(parent) or None for one, parent in self._database.execute(_SESSIONS)
            }
            return
        for number, _, export in reading.records(_EXPORT.decode):
            if isinstance(export, Rejected):
                self.rejected.append(export)
            else:
                self._exports[export.info.id or f"{number}"] = export
                self.parents[export.info.id or f"{number}"] = export.info.parent_id

    def messages(self, session: str) -> Iterator[_Message]:
        """Yield a session's messages in order; what can't be read is rejected."""
        if not self.is_database:
            yield from self._exports[session].messages
            return
        parts: dict[str, list[_Part]] = {}
        for message, data in self._database.execute(_PARTS, (session,)):
            part = self._decoded(_PART, data)
            if part is not None:
                parts.setdefault(_text(message), []).append(part)
        for identity, data in self._database.execute(_MESSAGES, (session,)):
            info = self._decoded(_INFO, data)
            if info is not None:
                info.id = _text(identity)
                yield _Message(info, parts.get(_text(identity), []))

    def _decoded(self, decoder: msgspec.json.Decoder[T], data: bytes) -> T | None:
        try:
            check(data, self.reading.limits.depth)
            return decoder.decode(data)
        except UNDECODABLE as error:
            self.rejected.append(replace(self.reading.rejected(1, error, data), line=None))
            return None

    def sub_agents_of(self, known: set[str]) -> list[str]:
        """Return the sessions that one of these started, and that are not among them."""
        return [one for one, parent in self.parents.items() if parent in known and one not in known]


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    unknown = Unknown()
    with ExitStack() as stack:
        source = _Source(reading, stack)
        for identity, parent in source.parents.items():
            if parent is None:
                session = _Session(unknown=unknown, id=plain(identity))
                for message in source.messages(identity):
                    session.add(message, b"")
                _charge(session, identity, source, stack)
                yield from session.entries(reading)
            elif parent not in source.parents and parent not in reading.sub_agents.sessions:
                yield alone(reading.file)
            yield from source.rejected
            source.rejected.clear()
        yield from source.rejected
    yield from unknown.remarks(reading.file)
    if progress is not None:
        progress(reading.path.stat().st_size)


def _charge(session: _Session, identity: str, own: _Source, stack: ExitStack) -> None:
    """Give the tokens of a session's sub-agents, and of theirs, to the runs that started them."""
    known, sources, waiting = {identity}, [own], [identity]
    while waiting and session.prompts:
        at = waiting.pop()
        for path, file in own.reading.sub_agents.of(at):
            if path != own.reading.path:
                shape = head_of(path, file, own.reading.limits).shape
                sources.append(_Source(replace(own.reading, path=path, file=file, shape=shape), stack))
        for source in sources:
            for child in source.sub_agents_of(known):
                known.add(child)
                waiting.append(child)
                session.charge(child, source.messages(child))
                if source.parents[child] not in {None, identity}:
                    session.agents.add_nested(child, source.parents[child] or "")


FORMAT: Final = Format(name=NAME, units=("prompt",), claims=_claims, read=_read, sort=_sort)
