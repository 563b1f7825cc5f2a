"""Qwen Code sessions: JSON lines by ``type`` like Claude Code's, whose messages hold Gemini's ``parts``.

A ``user`` line with text is a prompt, by the user or a notice that starts a turn. An ``assistant`` line is a reply,
whose calls are parts with a ``functionCall``. Several lines of one ``uuid`` are parts of one message; its last usage
counts. ``promptTokenCount`` contains the cached ones, so the total is the one that the file states. In the bill the
cached tokens are taken out of the input, results of tools count as input and thoughts as output. Lines of a sub-agent
(``isSidechain``), in the session or in a file of its own, are not the agent's. Their tokens go to the bill of the run
during which they were spent. The inventory is the set of called tools.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

import msgspec

from core.formats.chat import identity_of
from core.formats.entries import Rejected, Skipped
from core.formats.prompts import Beside, Counts, counts_of
from core.formats.reading import Format, Head, Reading, SubAgentFiles
from core.formats.sessions import NamedSession, lines_of, read_named
from core.formats.strict import decoded, id_or_digest
from core.formats.sub_agents import Response, alone
from core.records.limits import Label, Tokens
from core.records.run import Run

NAME: Final = "qwen-code"

_HOOK_CONTEXT: Final = "<qwen:user-prompt-submit-context>"

_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])

_READ: Final = frozenset(("user", "assistant", "tool_result"))


class _Function(msgspec.Struct):
    name: Label
    id: str | None = None
    args: msgspec.Raw = msgspec.Raw(b"")


class _Answer(msgspec.Struct):
    """The result of a call."""

    id: msgspec.Raw = msgspec.Raw(b"")
    response: msgspec.Raw = msgspec.Raw(b"")


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
    """The counts in the order of `Counts`."""

    prompt_token_count: Tokens | None = None
    candidates_token_count: Tokens | None = None
    cached_content_token_count: Tokens | None = None
    thoughts_token_count: Tokens | None = None
    tool_use_prompt_token_count: Tokens | None = None
    total_token_count: Tokens | None = None

    @property
    def counts(self) -> Counts:
        return Counts(*msgspec.structs.astuple(self))


class _Line(msgspec.Struct, rename="camel"):
    type: str
    uuid: str | None = None
    parent_uuid: str | None = None
    session_id: str | None = None
    timestamp: str | None = None
    is_sidechain: bool | None = None
    model: Label | None = None
    message: _Message | None = None
    usage_metadata: msgspec.Raw = msgspec.Raw(b"")


class _Parts(msgspec.Struct):
    parts: list[msgspec.Raw]


class _MessageOf(msgspec.Struct):
    message: _Parts


class _Meta(msgspec.Struct):
    model: Label | None = None


_USAGE: Final = msgspec.json.Decoder(_Usage | None)
_META: Final = msgspec.json.Decoder(_Meta)
_MESSAGE_OF: Final = msgspec.json.Decoder(_MessageOf)
_PARTS: Final = msgspec.json.Decoder(_Parts)
_ANSWER: Final = msgspec.json.Decoder(_Answer)
_NO_MESSAGE: Final = _Message()
_decode: Final = lines_of(_Line, _READ)


def _claims(head: Head) -> bool:
    return any(_is_ours(line) for line in head.lines)


def _is_ours(line: dict[str, msgspec.Raw]) -> bool:
    """Claude Code's lines look the same but for their message."""
    if not {"sessionId", "uuid", "type", "message"} <= line.keys():
        return False
    message = decoded(_PARTS, line["message"])
    return message is not None and bool(message.parts)


def _kind_of(raw: bytes, index: int) -> str:
    """Return the kind of an unknown part: the names of its fields."""
    part = _MESSAGE_OF.decode(raw).message.parts[index]
    return "+".join(sorted(_FIELDS.decode(part))) or "empty"


@dataclass
class _Session(NamedSession[_Line]):
    format_name = NAME

    def entries(self, reading: Reading) -> Iterator[Run | Rejected | Skipped]:
        """Yield the runs; the file of a sub-agent holds none."""
        if self.agents.by_id and not self.prompts and self.id not in reading.sub_agents.sessions:
            yield alone(reading.file)
        for path, file in reading.sub_agents.of(self.id or "") if self.prompts else ():
            own = replace(reading, path=path, file=file, shape="lines")
            for _, raw, line in own.records(_decode, mends=True):
                if isinstance(line, _Line) and line.is_sidechain:
                    line.model = line.model or _model_beside(path)
                    self._add_sub_agent(line, raw)
        yield from super().entries(reading)

    def add(self, line: _Line, raw: bytes) -> None:
        self.is_repeated(line.uuid, line.parent_uuid)
        if self.is_same_line(None, raw):  # another line of the same message is more of it
            return
        if line.is_sidechain:
            self._add_sub_agent(line, raw)
            return
        if line.type not in _READ:
            if line.type != "system":
                self.pass_over(line.type, raw)
            return
        self.n_facts += 1
        self.note_time(line.timestamp)
        message = line.message or _NO_MESSAGE
        if line.type == "assistant":
            self._add_reply(line, message, raw)
            return
        self.is_answered = True
        if line.type == "tool_result" or any(part.function_response for part in message.parts):
            for part in message.parts if self.keeps_texts else ():
                answer = decoded(_ANSWER, part.function_response) or _Answer()
                self.add_output(identity_of(answer.id), answer.response)
            self.touch(line.timestamp)
        else:
            self._add_prompt(line, message, raw)

    def _add_sub_agent(self, line: _Line, raw: bytes) -> None:
        open_run = self.prompts[-1] if self.prompts else None
        one = self.agents.line_of(line.uuid, line.parent_uuid, open_run)
        one.began = one.began or line.timestamp
        usage, names = counts_of(_USAGE, line.usage_metadata)
        if line.type == "assistant" and usage is not None:
            used = Beside(usage.counts, names)
            spent = partial(used.billed, line.model, "sub-agent")
            written = usage.candidates_token_count or 0
            one.add(id_or_digest(line.uuid, raw), Response(spent, written, line.timestamp, open_run))

    def _add_prompt(self, line: _Line, message: _Message, raw: bytes) -> None:
        texts = [part.spoken for part in message.parts if not part.spoken.startswith(_HOOK_CONTEXT)]
        if "".join(texts).strip():
            request = "\n".join(part for part in texts if part)
            self.begin(id_or_digest(line.uuid, raw), request, line.timestamp)

    def _add_reply(self, line: _Line, message: _Message, raw: bytes) -> None:
        run = self.reply(id_or_digest(line.uuid, raw), line.model, line.timestamp)
        usage, names = counts_of(_USAGE, line.usage_metadata)
        if usage is not None:
            self.use(run, id_or_digest(line.uuid, raw), line.model, usage.counts, names)
        for index, part in enumerate(message.parts):
            if part.function_call is not None:
                self.add_call(run, part.function_call.name, part.function_call.args, part.function_call.id)
            elif part.spoken:
                self.add_text(run, part.spoken)
            elif not part.is_known:
                run.n_foreign += self.unknown.block(part.type or _kind_of(raw, index))
        if message.tool_calls or (message.content and not message.parts):
            self.unknown.field("tool_calls" if message.tool_calls else "content")
            run.n_foreign += 1


@lru_cache(maxsize=1)
def _model_beside(path: Path) -> str | None:
    """Return the model of a sub-agent, which the file beside its own names."""
    try:
        content = path.with_name(f"{path.name.partition('.')[0]}.meta.json").read_bytes()
    except OSError:
        return None
    return (decoded(_META, content) or _Meta()).model


def _sort(head: Head, path: Path, file: str, files: SubAgentFiles) -> None:
    """Record the session of a file; a sub-agent's file has the id of its session."""
    ids = {
        raw[1:-1].decode(errors="replace")
        for line in head.lines
        if (raw := bytes(line.get("sessionId", b"")))
    }
    if all(line.get("isSidechain") == msgspec.Raw(b"true") for line in head.lines):
        files.add(path, file, *ids)
    else:
        files.sessions |= ids


_READ_ALL: Final = partial(read_named, decode=_decode, begin=_Session)
FORMAT: Final = Format(name=NAME, units=("prompt",), claims=_claims, read=_READ_ALL, sort=_sort)
