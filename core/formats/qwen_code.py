"""Qwen Code sessions: JSON lines by ``type`` like Claude Code's, whose messages hold Gemini's ``parts``.

A ``user`` line with text is a prompt, by the user or a notice that starts a turn. An ``assistant`` line is a reply,
whose calls are parts with a ``functionCall``. Several lines of one ``uuid`` are parts of one message; its last usage
counts. ``promptTokenCount`` contains the cached ones, so the total is the one that the file states. In the bill the
cached tokens are taken out of the input, results of tools count as input and thoughts as output. Lines of a sub-agent
(``isSidechain``) are not the agent's: their tokens go to the bill of the run before them. The inventory is the set
of called tools.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from core.formats.chat import identity_of
from core.formats.entries import Entry, Progress, Rejected, Skipped
from core.formats.identity import digest_of, plain
from core.formats.reading import Format, Head, Reading
from core.formats.sessions import Prompt, Session, read_named
from core.formats.strict import UNDECODABLE
from core.formats.sub_agents import Response, SubAgents
from core.formats.unknown import Unknown
from core.records.bill import Owner, Spent, containing
from core.records.limits import Label, Tokens
from core.records.run import Run, Usage

NAME: Final = "qwen-code"

_HOOK_CONTEXT: Final = "<qwen:user-prompt-submit-context>"


class _Function(msgspec.Struct):
    name: Label
    id: str | None = None
    args: msgspec.Raw = msgspec.Raw(b"")


class _Answer(msgspec.Struct):
    """The result of a call."""

    id: msgspec.Raw = msgspec.Raw(b"")
    response: msgspec.Raw = msgspec.Raw(b"")


def _answer_of(raw: msgspec.Raw) -> _Answer:
    try:
        return msgspec.json.decode(raw, type=_Answer) if raw else _Answer()
    except UNDECODABLE:
        return _Answer()


class _Part(msgspec.Struct, rename="camel"):
    type: str | None = None
    text: str | None = None
    thought: bool | None = None
    function_call: _Function | None = None
    function_response: msgspec.Raw = msgspec.Raw(b"")
    inline_data: msgspec.Raw = msgspec.Raw(b"")
    file_data: msgspec.Raw = msgspec.Raw(b"")

    @property
    def spoken(self) -> str:
        """The text, unless it is a thought."""
        return "" if self.thought else self.text or ""

    @property
    def is_known(self) -> bool:
        held = (self.text, self.function_call, self.function_response, self.inline_data, self.file_data)
        return any(one is not None and one != msgspec.Raw(b"") for one in held)


class _Message(msgspec.Struct):
    parts: list[_Part] = []
    content: msgspec.Raw = msgspec.Raw(b"")
    tool_calls: msgspec.Raw = msgspec.Raw(b"")


class _Usage(msgspec.Struct, rename="camel"):
    prompt_token_count: Tokens | None = None
    candidates_token_count: Tokens | None = None
    thoughts_token_count: Tokens | None = None
    tool_use_prompt_token_count: Tokens | None = None
    cached_content_token_count: Tokens | None = None
    total_token_count: Tokens | None = None

    @property
    def sum(self) -> int:
        parts = (
            self.prompt_token_count,
            self.candidates_token_count,
            self.thoughts_token_count,
            self.tool_use_prompt_token_count,
        )
        return self.total_token_count or sum(part or 0 for part in parts)

    def spent(self, model: str | None, owner: Owner) -> Spent:
        return containing(
            model=model,
            owner=owner,
            input=(self.prompt_token_count or 0) + (self.tool_use_prompt_token_count or 0),
            cached=self.cached_content_token_count or 0,
            output=(self.candidates_token_count or 0) + (self.thoughts_token_count or 0),
            total=self.total_token_count or 0,
        )


class _Line(msgspec.Struct, rename="camel"):
    type: str
    uuid: str | None = None
    parent_uuid: str | None = None
    session_id: str | None = None
    timestamp: str | None = None
    is_sidechain: bool | None = None
    model: Label | None = None
    message: _Message | None = None
    usage_metadata: _Usage | None = None


class _Kind(msgspec.Struct):
    type: str


class _Parts(msgspec.Struct):
    parts: list[msgspec.Raw]


class _MessageOf(msgspec.Struct):
    message: _Parts


_LINE: Final = msgspec.json.Decoder(_Line)
_MESSAGE_OF: Final = msgspec.json.Decoder(_MessageOf)
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KIND: Final = msgspec.json.Decoder(_Kind)
_PARTS: Final = msgspec.json.Decoder(_Parts)
_READ: Final = frozenset(("user", "assistant", "tool_result"))
_NO_MESSAGE: Final = _Message()


def _claims(head: Head) -> bool:
    return any(_is_ours(line) for line in head.lines)


def _is_ours(line: dict[str, msgspec.Raw]) -> bool:
    """Claude Code's lines look the same but for their message."""
    if not {"sessionId", "uuid", "type", "message"} <= line.keys():
        return False
    try:
        return bool(_PARTS.decode(line["message"]).parts)
    except UNDECODABLE:
        return False


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    return read_named(reading, progress, _decode, _begin)


def _begin(unknown: Unknown) -> _Session:
    return _Session(unknown=unknown)


def _decode(raw: bytes) -> _Line | None:
    """The line; None = a whole line of a type that is not read, which may have any other shape."""
    try:
        return _LINE.decode(raw)
    except UNDECODABLE:
        if _is_of_no_interest(raw):
            return None
        raise


def _is_of_no_interest(raw: bytes) -> bool:
    try:
        return _KIND.decode(raw).type not in _READ
    except UNDECODABLE:
        return False


def _kind_of(raw: bytes, index: int) -> str:
    """Return the kind of an unknown part: the names of its fields."""
    part = _MESSAGE_OF.decode(raw).message.parts[index]
    return "+".join(sorted(_FIELDS.decode(part))) or "empty"


def _identity(line: _Line, raw: bytes) -> str:
    return plain(line.uuid) or digest_of(raw.strip())


@dataclass(slots=True)
class _Prompt(Prompt):
    usages: dict[str, tuple[str | None, _Usage]] = field(default_factory=dict)

    @property
    def spent(self) -> Iterable[Spent]:
        return [usage.spent(model, "agent") for model, usage in self.usages.values()]

    @property
    def usage(self) -> Usage | None:
        usages = [usage for _, usage in self.usages.values()]
        usage = Usage(
            input=sum(one.prompt_token_count or 0 for one in usages),
            output=sum(one.candidates_token_count or 0 for one in usages),
            cache_read=sum(one.cached_content_token_count or 0 for one in usages),
            total=sum(one.sum for one in usages) or None,
        )
        return None if usage.tokens is None else usage


@dataclass
class _Session(Session[_Prompt, _Line]):
    format_name = NAME

    _stood: set[bytes] = field(default_factory=set)
    _call_ids: set[str] = field(default_factory=set)
    _agents: SubAgents[_Prompt] = field(default_factory=SubAgents)

    def add(self, line: _Line, raw: bytes) -> None:
        self.is_repeated(line.uuid, line.parent_uuid)
        if self._stood_before(raw):
            return
        if line.is_sidechain:
            self._add_sub_agent(line, raw)
            return
        if line.type not in _READ:
            if line.type != "system":
                self.unknown.line(line.type)
            return
        self.n_facts += 1
        self.note_time(line.timestamp)
        message = line.message or _NO_MESSAGE
        if line.type == "assistant":
            self._add_reply(line, message, raw)
        elif line.type == "tool_result" or any(part.function_response for part in message.parts):
            for part in message.parts if self.keeps_texts else ():
                answer = _answer_of(part.function_response)
                self.add_output(identity_of(answer.id), answer.response)
            self._touch(line)
        else:
            self._add_prompt(line, message, raw)

    @property
    def source(self) -> str:
        return self.name or self.prompts[0].identity

    @property
    def name(self) -> str | None:
        return plain(self.id)

    def entries(self, reading: Reading) -> Iterator[Run | Rejected | Skipped]:
        self._agents.charge(self.prompts, lambda _: False)
        yield from super().entries(reading)

    def _add_sub_agent(self, line: _Line, raw: bytes) -> None:
        open_run = self.prompts[-1] if self.prompts else None
        one = self._agents.line_of(line.uuid, line.parent_uuid, open_run)
        one.began = one.began or line.timestamp
        usage = line.usage_metadata
        if line.type == "assistant" and usage is not None:
            spent = partial(usage.spent, line.model, "sub-agent")
            written = usage.candidates_token_count or 0
            one.add(_identity(line, raw), Response(spent, written, line.timestamp, open_run))

    def _stood_before(self, raw: bytes) -> bool:
        """Return whether the line is a repeat; another line of the same message is more of it."""
        n_stood = len(self._stood)
        self._stood.add(hashlib.blake2b(raw.strip(), digest_size=12).digest())
        return len(self._stood) == n_stood

    def _add_prompt(self, line: _Line, message: _Message, raw: bytes) -> None:
        texts = [part.spoken for part in message.parts if not part.spoken.startswith(_HOOK_CONTEXT)]
        if "".join(texts).strip():
            request = "\n".join(part for part in texts if part)
            self.prompts.append(_Prompt(_identity(line, raw), request=request, last_time=line.timestamp))

    def _add_reply(self, line: _Line, message: _Message, raw: bytes) -> None:
        """A reply before the first prompt makes a run of its own."""
        if not self.prompts:
            self.prompts.append(_Prompt(_identity(line, raw)))
        run = self.prompts[-1]
        run.n_replies += 1
        run.model = line.model or run.model
        self._touch(line)
        if line.usage_metadata is not None:
            run.usages[_identity(line, raw)] = (line.model, line.usage_metadata)
        for index, part in enumerate(message.parts):
            if part.function_call is not None:
                self._add_call(run, part.function_call)
            elif part.spoken:
                self.add_text(run, part.spoken)
            elif not part.is_known:
                run.n_foreign += self.unknown.block(part.type or _kind_of(raw, index))
        if message.tool_calls or (message.content and not message.parts):
            self.unknown.field("tool_calls" if message.tool_calls else "content")
            run.n_foreign += 1

    def _add_call(self, run: _Prompt, call: _Function) -> None:
        if call.id is not None:
            n_before = len(self._call_ids)
            self._call_ids.add(call.id)
            if len(self._call_ids) == n_before:
                return
        self.add_call(run, call.name, call.args, call.id)

    def _touch(self, line: _Line) -> None:
        if self.prompts and line.timestamp is not None:
            self.prompts[-1].last_time = line.timestamp


FORMAT: Final = Format(name=NAME, units=("prompt",), claims=_claims, read=_read)
