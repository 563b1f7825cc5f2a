"""Claude Code session files: JSON lines by ``type``, one run per prompt of the person.

A prompt is a user line with text of its own: no tool result, no meta line, no summary of a compaction, no
sub-agent's (``isSidechain``), no output of a local command and no note of an interruption. A text that a person types
while the agent works is a prompt too (an attachment ``queued_command`` in mode ``prompt``, of a person or without an
origin): it opens a run. A notice that a task in the background has ended opens a run, too: it starts a turn of
the agent. Branches that a rewind abandoned count, because they happened and were paid for. The lines of one response
repeat its ``message.id`` and its usage; the last usage counts. ``progress`` lines carry sub-agents' calls, which are
not the agent's. Lines of the model ``<synthetic>`` are notices of the program, not replies.
Programs that write calls as lines of their own (``type: "tool"`` with a ``tool_name``, ``type:
"tool_use"``, or a ``tool_use`` beside the message) are read too.

The counts of a usage are disjoint: its input contains no cached token. ``cache_creation`` splits the cache writes by
lifetime. Older lines lack it, so five minutes are assumed. ``iterations`` lists the requests of an answer: each is in
the bill at its model, an advisor's and a compaction's too. Fast mode, service tier, region and web searches are
billed apart. A sub-agent's responses are among the session's lines (``isSidechain``), in notices
(``agent_progress``), or in a file of their own, ``agent-*.jsonl``. They go to the bill of the run during which they
were given (`core.formats.sub_agents`).

The inventory in full has the called tools, or those that a person supplied. Deferred tools (``deferred_tools_delta``)
and listed skills (``skill_listing``) are there by name, from the line that lists them. A call of such a tool, its
definition in the result of a search (``tool_reference``), or a load of such a skill (`core.formats.by_name`) puts it
in full in the later runs of the session. A command that a person typed puts its skill there from its own run on.
``removedNames`` take a tool out. A call that loads a skill, or a reply that names it (``attributionSkill``), is a
load by the agent. A call whose result is an error (``is_error``) is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace as replace_fields

from core.formats.entries import Entry, Progress, Rejected, Skipped
from core.formats.prompts import Parts, Prompt, readable, unread
from core.formats.reading import Format, Head, Reading, SubAgentFiles
from core.formats.sessions import NamedSession, lines_of, read_named
from core.formats.strict import decoded, id_or_digest
from core.formats.sub_agents import Response, alone
from core.formats.unknown import Unknown, may_be_call
from core.records.bill import Owner, Spent
from core.records.limits import Label, Millis, Tokens
from core.records.run import Run

NAME: Final = "claude-code"

_INTERRUPTED: Final = "[Request interrupted"
_NOT_PROMPTS: Final = ("<local-command", "<bash-", _INTERRUPTED)
_NOTICE: Final = re.compile(
    r"<task-notification>\s*<task-id>([^<]{1,200})</task-id>.*<total_tokens>(\d{1,12})</total_tokens>",
    re.DOTALL,
)
"""Notice of a task in the background that has ended, with the total of its tokens."""
_SYNTHETIC: Final = "<synthetic>"
_LISTS: Final = (b'"deferred_tools_delta"', b'"skill_listing"')

_OWN: Final = frozenset(("message", "fallback_message"))
"""Types of requests that the counts of the answer contain, if its model served them."""
_KNOWN: Final = frozenset(("iterations", "server_tool_use"))
_BY_SERVER: Final = frozenset(("web_search_requests", "web_fetch_requests"))
"""Searches are billed, fetches are free."""
_USUAL: Final = frozenset(("", "standard", "default", "auto"))
_ANYWHERE: Final = frozenset(("", "global", "not_available", "unknown"))

_UNREAD: Final = ("parts", "tool_calls", "function_call")
_NOTHING: Final = (b"", b"null", b"[]", b"{}")

_TEXT: Final = msgspec.json.Decoder(str)

LOADS: Final = frozenset(("Skill", "SlashCommand"))
"""Tools that load a skill."""
COMMAND_STARTS: Final = ("<command-message>", "<command-name>")
COMMAND: Final = re.compile(r"<command-name>/?([^<\s]{1,200})</command-name>")

_STARTS: Final = frozenset(("Task", "Agent"))
"""Tools that start a sub-agent."""
_CONVERSATION: Final = frozenset(("user", "assistant", "system"))
_CALL_LINES: Final = frozenset(("tool", "tool_use"))
_READ: Final = _CONVERSATION | _CALL_LINES
_CLAIMED: Final = frozenset((*_CONVERSATION, "progress"))
_PASSED_OVER: Final = frozenset(
    (
        "progress",
        "summary",
        "file-history-snapshot",
        "queue-operation",
        "permission-mode",
        "mode",
        "agent-name",
        "agent-setting",
        "custom-title",
        "ai-title",
        "tag",
        "last-prompt",
        "frame-link",
        "pr-link",
        "worktree-state",
        "content-replacement",
        "marble-origami-commit",
        "attribution-snapshot",
        "speculation-accept",
        "relocated",
        "bridge-session",
        "atis-latch",
    )
)
"""Types of lines about the session, without work of the agent."""
_CALL_BLOCKS: Final = frozenset(("tool_use", "server_tool_use", "mcp_tool_use"))
_OTHER_BLOCKS: Final = frozenset(
    (
        "text",
        "thinking",
        "redacted_thinking",
        "image",
        "document",
        "tool_result",
        "tool_reference",
        "mcp_tool_result",
        "search_result",
        "fallback",
        "compaction",
        "container_upload",
    )
)
_RESULT_SUFFIX: Final = "_tool_result"
"""Suffix of the types of results of tools that the model's provider runs."""


class _Block(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    id: str | None = None
    tool_use_id: msgspec.Raw = msgspec.Raw(b"")
    name: Label | None = None
    input: msgspec.Raw = msgspec.Raw(b"")
    content: msgspec.Raw = msgspec.Raw(b"")
    is_error: msgspec.Raw = msgspec.Raw(b"")


class _Written(msgspec.Struct, gc=False):
    """Cache writes by lifetime."""

    ephemeral_5m_input_tokens: Tokens | None = None
    ephemeral_1h_input_tokens: Tokens | None = None


class _Counts(msgspec.Struct, gc=False):
    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    cache_read_input_tokens: Tokens | None = None
    cache_creation_input_tokens: Tokens | None = None
    cache_creation: msgspec.Raw = msgspec.Raw(b"")

    @property
    def split(self) -> _Written:
        """The cache writes by lifetime; empty for a member of another shape."""
        return decoded(_LIFETIMES, self.cache_creation) or _NOT_SPLIT

    def row(self, model: str | None, owner: Owner) -> Spent:
        """Return the disjoint counts; cache writes without a lifetime count as five minutes."""
        split = self.split
        five, hour = split.ephemeral_5m_input_tokens or 0, split.ephemeral_1h_input_tokens or 0
        known = self.cache_creation_input_tokens
        written = five + hour if known is None else known
        hour = min(hour, written)
        return Spent(
            model=model,
            owner=owner,
            input=self.input_tokens or 0,
            cache_read=self.cache_read_input_tokens or 0,
            cache_write_5m=written - hour,
            cache_write_1h=hour,
            output=self.output_tokens or 0,
            assumed=written > hour and five + hour != written,
        ).as_request


class _Iteration(_Counts, gc=False):
    """One of the requests that an answer took."""

    type: str = ""
    model: Label | None = None


class _Usage(_Counts, gc=False):
    iterations: msgspec.Raw = msgspec.Raw(b"")
    server_tool_use: msgspec.Raw = msgspec.Raw(b"")
    speed: msgspec.Raw = msgspec.Raw(b"")
    service_tier: msgspec.Raw = msgspec.Raw(b"")
    inference_geo: msgspec.Raw = msgspec.Raw(b"")

    @property
    def apart(self) -> tuple[str, str]:
        """The tiers that are billed apart, joined by ``+``, and the region of the inference, where it is."""
        return _apart(bytes(self.speed), bytes(self.service_tier), bytes(self.inference_geo))


@dataclass(frozen=True, slots=True)
class Used:
    """The usage of an answer in the bytes of its line."""

    raw: bytes

    @property
    def parts(self) -> Parts:
        """The counts of the answer's own model, as the source adds them up."""
        usage, _ = _usage_of(self.raw)
        cached, stored = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
        return usage.input_tokens or 0, usage.output_tokens or 0, cached, stored, 0

    def billed(self, model: str | None, owner: Owner, unknown: Unknown) -> Iterator[Spent]:
        """Yield a row for each request, also to other models; one for all where the requests count fewer tokens."""
        usage, wrong = _usage_of(self.raw)
        whole = usage.row(model, owner)
        names, (tier, region) = wrong + unread(self.raw, _KNOWN), usage.apart
        if not (usage.iterations or usage.server_tool_use or names or tier or region):
            yield whole  # as for most
            return
        rows, others, advisors = [], [], []
        iterations = decoded(_ITERATIONS, usage.iterations)
        for one in iterations or ():
            row = one.row(one.model or model, owner)
            if one.type in _OWN:
                rows.append(row)
            elif one.type == "compaction":
                others.append(row)
            elif one.type == "advisor_message":
                advisors.append(row)
            else:
                n_unread = unknown.spend([one.type])
                advisors.append(Spent(model=row.model, owner=owner, total=row.tokens, unread=n_unread))
        if sum(row.tokens for row in rows) < whole.tokens:
            rows = [whole, *(row for row in rows if row.model != model)]
        rows += others
        names += unread(usage.server_tool_use, _BY_SERVER)
        searched = decoded(_SEARCHED, usage.server_tool_use)
        names += ["iterations"] if iterations is None and bytes(usage.iterations) not in _NOTHING else []
        names += (
            ["server_tool_use"] if searched is None and bytes(usage.server_tool_use) not in _NOTHING else []
        )
        searched = searched or _NO_SEARCHES
        for row in rows:
            yield replace_fields(row, tier=tier, region=region) if tier or region else row
        for row in advisors:
            yield replace_fields(row, region=region) if region else row
        if searched.web_search_requests or names:
            n_searches = searched.web_search_requests
            yield Spent(model=model, owner=owner, searches=n_searches, unread=unknown.spend(names))


class _Searches(msgspec.Struct):
    web_search_requests: Tokens = 0


_NOT_SPLIT: Final = _Written()
_NO_SEARCHES: Final = _Searches()
_LIFETIMES: Final = msgspec.json.Decoder(_Written | None)
_USAGE: Final = msgspec.json.Decoder(_Usage)
_ITERATIONS: Final = msgspec.json.Decoder(list[_Iteration] | None)
_SEARCHED: Final = msgspec.json.Decoder(_Searches | None)


@lru_cache(maxsize=1_024)
def _usage_of(raw: bytes) -> tuple[_Usage, list[str]]:
    """Return a decoded usage. It is cached: the lines of an answer repeat it, and each needs its counts and bill."""
    return readable(_USAGE, raw)


@lru_cache(maxsize=256)
def _apart(speed: bytes, service_tier: bytes, region: bytes) -> tuple[str, str]:
    tiers = {_text(one) for one in (speed, service_tier) if one} - _USUAL
    named = _text(region) if region else ""
    return "+".join(sorted(tiers)), "" if named in _ANYWHERE else named


class _Message(msgspec.Struct, gc=False):
    content: str | list[_Block] | None = None
    id: str | None = None
    model: Label | None = None
    usage: msgspec.Raw = msgspec.Raw(b"")
    parts: msgspec.Raw = msgspec.Raw(b"")
    tool_calls: msgspec.Raw = msgspec.Raw(b"")
    function_call: msgspec.Raw = msgspec.Raw(b"")

    @property
    def blocks(self) -> list[_Block]:
        if isinstance(self.content, list):
            return self.content
        return [] if self.content is None else [_Block(type="text", text=self.content)]

    @property
    def unread(self) -> list[str]:
        """Non-empty fields that hold calls in other programs' messages."""
        return [name for name in _UNREAD if bytes(getattr(self, name)) not in _NOTHING]


_NO_MESSAGE: Final = _Message()


class _Line(msgspec.Struct, rename="camel", gc=False):
    type: str
    uuid: str | None = None
    parent_uuid: str | None = None
    session_id: str | None = None
    agent_id: msgspec.Raw = msgspec.Raw(b"")
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    attribution_skill: Label | None = None
    timestamp: str | None = None
    subtype: str | None = None
    duration_ms: Millis | float | None = None
    message: _Message | None = None
    attachment: msgspec.Raw = msgspec.Raw(b"")
    tool_use: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="tool_use")
    tool_use_result: msgspec.Raw = msgspec.Raw(b"")
    data: msgspec.Raw = msgspec.Raw(b"")
    parent_tool_use: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="parentToolUseID")


class _CallLine(msgspec.Struct, gc=False):
    """A call that is a line of its own, or lies beside a message."""

    tool_name: Label | None = None
    name: Label | None = None
    tool_use_id: str | None = None
    id: str | None = None
    tool_input: msgspec.Raw = msgspec.Raw(b"")
    input: msgspec.Raw = msgspec.Raw(b"")


class _Listing(msgspec.Struct, rename="camel"):
    """Deferred tools that came on offer or were taken away, or a list of skills."""

    type: str
    added_names: list[str] = []
    added_lines: list[str] = []
    removed_names: list[str] = []
    names: list[str] = []
    content: str = ""


class _Origin(msgspec.Struct):
    kind: str = "human"


class _Queued(msgspec.Struct, rename="camel"):
    """A command that waited while the agent worked."""

    type: str
    prompt: str | list[_Block] = ""
    command_mode: str = ""
    origin: _Origin | None = None
    is_meta: bool | None = None

    @property
    def is_prompt(self) -> bool:
        by_person = self.origin is None or self.origin.kind == "human"
        return (
            self.type == "queued_command" and self.command_mode == "prompt" and by_person and not self.is_meta
        )


class _Result(msgspec.Struct, rename="camel"):
    """Result of a call that started a sub-agent."""

    agent_id: str | None = None
    total_tokens: Tokens | None = None


class _Notice(msgspec.Struct, rename="camel"):
    """Notice of a sub-agent's progress, with one of its lines."""

    type: str
    agent_id: str | None = None
    message: _Line | None = None


class _Task(msgspec.Struct):
    """Arguments of a call that starts a sub-agent."""

    prompt: str = ""


class _Definition(msgspec.Struct):
    """Part of a search's result."""

    type: str = ""
    tool_name: Label | None = None


class _Loaded(msgspec.Struct):
    """Arguments of a call that loads a skill."""

    skill: str | None = None
    command: str | None = None


_CALLS: Final = msgspec.json.Decoder(list[_CallLine] | _CallLine)
_LISTINGS: Final = msgspec.json.Decoder(_Listing)
_QUEUE: Final = msgspec.json.Decoder(_Queued)
_RESULTS: Final = msgspec.json.Decoder(_Result)
_NOTICES: Final = msgspec.json.Decoder(_Notice)
_REFERENCES: Final = msgspec.json.Decoder(list[_Definition])
_LOADED: Final = msgspec.json.Decoder(_Loaded)
_TASKS: Final = msgspec.json.Decoder(_Task)


def _claims(head: Head) -> bool:
    return any(_is_ours(line) for line in head.lines) or any(
        "leafUuid" in line and _type_of(line) == "summary" for line in head.lines
    )


def _is_ours(line: dict[str, msgspec.Raw]) -> bool:
    return "sessionId" in line and "uuid" in line and _type_of(line) in _CLAIMED


def _type_of(line: dict[str, msgspec.Raw]) -> str:
    raw = bytes(line.get("type", b""))
    return raw[1:-1].decode(errors="replace") if raw.startswith(b'"') else ""


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    n_entries = 0
    sidechains = _Sidechains()
    for entry in read_named(reading, progress, _decode, sidechains.begin):
        n_entries += 1
        yield entry
    if sidechains.n_lines and not n_entries and not sidechains.sessions & reading.sub_agents.sessions:
        yield alone(reading.file)


_decode: Final = lines_of(_Line, _READ)


def _content_of(line: _Line) -> int:
    """Return a digest of a line's content; of the results of tools it has only the size."""
    message = line.message
    if message is None:
        return hash((line.timestamp, bytes(line.attachment), bytes(line.tool_use)))
    content = message.content
    if not isinstance(content, list):
        return hash((line.timestamp, message.id, content))
    if len(content) == 1:  # as in most lines
        one = content[0]
        more = bytes(one.input) or len(one.content)
        return hash((line.timestamp, message.id, one.id, one.name, one.text, more))
    parts = [(one.id, one.name, one.text, bytes(one.input), len(one.content)) for one in content]
    return hash((line.timestamp, message.id, *parts))


@dataclass
class _Sidechains:
    """Number of a file's lines by sub-agents, and the sessions that they name."""

    n_lines: int = 0
    sessions: set[str | None] = field(default_factory=set)

    def begin(self, unknown: Unknown) -> _Session:
        return _Session(unknown=unknown, sidechains=self)


@dataclass
class _Session(NamedSession[_Line]):
    format_name = NAME
    loads_known = True

    first: str | None = None
    sidechains: _Sidechains = field(default_factory=_Sidechains)
    _open: Prompt | None = None

    def add(self, line: _Line, raw: bytes) -> None:
        if line.is_sidechain:
            self.sidechains.n_lines += 1
            self.sidechains.sessions.add(line.session_id)
            self._add_sub_agent(line, raw, self._open)
            return
        kind = line.type
        if self.is_repeated(line.uuid, line.parent_uuid):
            if self.is_same_line(line.uuid, _content_of(line)):
                return
        elif line.uuid is not None:
            content = _content_of(line)
            self._lines[line.uuid or content] = content
        if kind not in _CONVERSATION:
            if kind == "progress":
                self._add_progress(line)
            elif kind not in _PASSED_OVER:
                self._add_other(line, raw)
            return
        if kind == "user" and line.tool_use_result:
            self._add_result(line, None)
        self.n_facts += 1
        self.note_time(line.timestamp)
        if self.first is None and kind != "system":
            self.first = id_or_digest(line.uuid, raw)
        if kind == "assistant":
            self._add_reply(line, raw)
        elif kind == "user":
            self._add_user(line, raw)
        elif line.subtype == "turn_duration" and line.duration_ms is not None and self._open is not None:
            self._open.duration_ms = (self._open.duration_ms or 0) + round(line.duration_ms)
            self.touch(line.timestamp)

    def entries(self, reading: Reading) -> Iterator[Run | Rejected | Skipped]:
        yield from self._read_sub_agents(reading)
        yield from super().entries(reading)

    @property
    def source(self) -> str:
        # A session's id alone is not enough: a fork of a session may keep it.
        return f"{self.name or 'session'}/{self.first}"

    def begin(self, identity: str, request: str | None = None, at: str | float | None = None) -> Prompt:
        self._open = super().begin(identity, request, at)
        self._open.offer = self.by_name.begin()
        return self._open

    def _add_user(self, line: _Line, raw: bytes) -> None:
        self.is_answered = True
        blocks = (line.message or _NO_MESSAGE).blocks
        for block in blocks:
            content = bytes(block.content)
            if content.startswith(b"[") and b'"tool_reference"' in content:
                for part in decoded(_REFERENCES, block.content) or ():
                    if part.type == "tool_reference" and part.tool_name:
                        self.by_name.add_call(part.tool_name)
            if block.type == "tool_result":
                failed = bytes(block.is_error) == b"true"
                self.add_output(_text(block.tool_use_id), block.content, failed=failed)
        if len(blocks) == 1 and blocks[0].type == "tool_result":  # most lines are of this kind
            self.touch(line.timestamp)
            return
        text = "\n".join([block.text for block in blocks if block.type == "text" and block.text])
        for block in blocks:
            if block.type not in _OTHER_BLOCKS:
                self.unknown.block(block.type)
        if self._open is not None and text.startswith(_INTERRUPTED):
            self._open.status = "aborted"
            self._open.last_time = line.timestamp
        if "tool_result" in [block.type for block in blocks]:
            self.touch(line.timestamp)
        elif not (line.is_meta or line.is_compact_summary):
            self._add_prompt(line, raw, text)

    def _add_prompt(self, line: _Line, raw: bytes, text: str) -> None:
        if (notice := _NOTICE.match(text)) and self._open is not None:
            self.agents.add_result(notice[1], int(notice[2]), None, self._open)
        if text.strip() and not text.startswith(_NOT_PROMPTS):
            commands = COMMAND.findall(text) if text.startswith(COMMAND_STARTS) else ()
            for command in commands:
                self.by_name.add_load(command)
            self.begin(id_or_digest(line.uuid, raw), text, line.timestamp).typed.update(commands)

    def _add_queued(self, line: _Line, raw: bytes) -> None:
        """Add a command that waited; a person's prompt is a fact like a line of the user."""
        queued = decoded(_QUEUE, line.attachment)
        if queued is None:
            self.unknown.line("queued_command")
        if queued is None or not queued.is_prompt:
            return
        self.n_facts += 1
        self.note_time(line.timestamp)
        self.first = self.first or id_or_digest(line.uuid, raw)
        blocks = _Message(content=queued.prompt).blocks
        text = "\n".join([block.text for block in blocks if block.type == "text" and block.text])
        self._add_prompt(line, raw, text)

    def _add_reply(self, line: _Line, raw: bytes) -> None:
        message = line.message or _NO_MESSAGE
        if message.model == _SYNTHETIC:
            if line.is_api_error_message and self._open is not None:  # a later reply completes the run
                self._open.status = "error"
                self.touch(line.timestamp)
            return
        run = self.reply(id_or_digest(line.uuid, raw), message.model, line.timestamp)
        if line.attribution_skill:
            self._add_load(run, line.attribution_skill)
        if run.status == "error":
            run.status = "completed"
        if (usage := bytes(message.usage)) not in _NOTHING:
            self.use(run, message.id or id_or_digest(line.uuid, raw), message.model, Used(usage))
        self._add_blocks(run, message)
        if line.tool_use:
            self._add_calls(run, line.tool_use)

    def _add_blocks(self, run: Prompt, message: _Message) -> None:
        for block in message.blocks:
            if block.type == "text":
                if block.text:
                    self.add_text(run, block.text)
            elif block.type in _CALL_BLOCKS:
                if block.name:
                    self._add_call(run, block.name, block.id, block.input)
            elif block.type not in _OTHER_BLOCKS and not block.type.endswith(_RESULT_SUFFIX):
                run.n_foreign += self.unknown.block(block.type)
        if message.parts or message.tool_calls or message.function_call:
            for name in message.unread:
                self.unknown.field(name)
                run.n_foreign += 1

    def _add_other(self, line: _Line, raw: bytes) -> None:
        """Add a line that is no conversation: a separate call, tools on offer, or something unknown."""
        if line.type in _CALL_LINES:
            self.n_facts += 1
            self.note_time(line.timestamp)
            self.first = self.first or id_or_digest(line.uuid, raw)
            run = self._open or self.begin(id_or_digest(line.uuid, raw))
            run.n_replies += 1
            self._add_calls(run, line.tool_use or msgspec.Raw(raw))
            self.touch(line.timestamp)
        elif line.type == "tool_result":
            self.touch(line.timestamp)
        elif line.type == "attachment":
            if any(mark in bytes(line.attachment) for mark in _LISTS):
                self._add_listing(line)
            elif b'"queued_command"' in bytes(line.attachment):
                self._add_queued(line, raw)
        else:
            self.pass_over(line.type, raw)
            if may_be_call(line.type) and self._open is not None:
                self._open.n_foreign += 1

    def _add_calls(self, run: Prompt, raw: msgspec.Raw) -> None:
        calls = decoded(_CALLS, raw) or []
        for call in calls if isinstance(calls, list) else [calls]:
            name = call.tool_name or call.name
            if name:
                self._add_call(run, name, call.tool_use_id or call.id, call.tool_input or call.input)
            else:
                self.unknown.field("tool_use")
                run.n_foreign += 1

    def _add_call(self, run: Prompt, name: str, identity: str | None, arguments: msgspec.Raw) -> None:
        if not self.add_call(run, name, arguments, identity):
            return
        self.by_name.add_call(name)
        if name in LOADS and (skill := _loaded(arguments)):
            self._add_load(run, skill, identity)
        if name in _STARTS and identity is not None:
            self.agents.add_call(identity, run, (decoded(_TASKS, arguments) or _Task()).prompt)

    def _add_load(self, run: Prompt, skill: str, identity: str | None = None) -> None:
        """Add a load of a skill by the agent; if the person typed the skill in this run, it counts as theirs."""
        self.by_name.add_load(skill)
        if skill not in run.typed:
            self.load(run, [skill], identity)

    def _add_sub_agent(
        self, line: _Line, raw: bytes, open_run: Prompt | None, named: str | None = None
    ) -> None:
        """Add a line of a sub-agent: its task, a response, or the result of one that it started itself."""
        identity = named or _text(line.agent_id)
        if identity:
            one = self.agents.at(identity, open_run)
        else:
            one = self.agents.line_of(line.uuid, line.parent_uuid, open_run)
        one.began = one.began or line.timestamp
        message = line.message or _NO_MESSAGE
        if line.type == "user" and not one.asked:
            texts = [block.text for block in message.blocks if block.type == "text" and block.text]
            one.asked = "\n".join(texts)
        usage, model = bytes(message.usage), message.model
        # A notice without the id of its response can't be matched with the same one in a file.
        response = message.id or (None if named else id_or_digest(line.uuid, raw))
        if (
            line.type == "assistant"
            and usage not in _NOTHING
            and model != _SYNTHETIC
            and response is not None
        ):
            used = Used(usage)
            spent = partial(used.billed, model, "sub-agent")
            one.add(response, Response(spent, used.parts[1], line.timestamp, open_run))
        if line.tool_use_result:
            self._add_result(line, identity)

    def _add_progress(self, line: _Line) -> None:
        """Add a notice of a sub-agent's progress, which repeats a line of the sub-agent."""
        if b'"agent_progress"' not in bytes(line.data):
            return
        notice = decoded(_NOTICES, line.data)
        if notice is not None and notice.message is not None and notice.agent_id:
            self._add_sub_agent(notice.message, bytes(line.data), self._open, notice.agent_id)
            if call := _text(line.parent_tool_use):
                self.agents.link(notice.agent_id, call)

    def _add_result(self, line: _Line, by: str | None) -> None:
        """Add the result of a call that started a sub-agent; ``by`` is the sub-agent that made the call."""
        result = decoded(_RESULTS, line.tool_use_result) or _Result()  # results of other tools have any shape
        agent = result.agent_id
        if agent is None and result.total_tokens is None:
            return
        blocks = (line.message or _NO_MESSAGE).blocks
        called = next((call for block in blocks if (call := _text(block.tool_use_id))), None)
        if by:
            key = agent or called
            if key is not None:
                self.agents.add_nested(key, by)
        else:
            key = called or agent
            if agent is not None and called is not None:
                self.agents.link(agent, called)
        if key is not None:
            self.agents.add_result(key, result.total_tokens, line.timestamp, self._open)

    def _read_sub_agents(self, reading: Reading) -> Iterator[Rejected]:
        """Read the sub-agents' files of this session, and those that its results name, if it has a run for them."""
        files = reading.sub_agents
        read: set[Path] = set()
        keys = [self.id, *self.agents.unread] if self.prompts else []
        while keys:
            new = {path: file for key in keys for path, file in files.of(key or "") if path not in read}
            for path, file in new.items():
                read.add(path)
                own = replace(reading, path=path, file=file, shape="lines")
                for _, raw, line in own.records(_decode, mends=True):
                    if isinstance(line, Rejected):
                        if path not in files.sources:  # else the file reports it itself
                            yield line
                    elif line is not None and line.is_sidechain:
                        self._add_sub_agent(line, raw, None)
            keys = list(self.agents.unread) if new else []

    def _add_listing(self, line: _Line) -> None:
        """Add a list of names on offer. It counts as a fact, so a file without it has a lower rank."""
        listing = decoded(_LISTINGS, line.attachment)
        if listing is None:
            self.unknown.line("attachment")
            return
        self.n_facts += 1
        if listing.type == "skill_listing":
            self.by_name.add_skills(listing.names, listing.content)
        elif listing.type == "deferred_tools_delta":
            self.by_name.add_tools(listing.added_names, listing.added_lines)
            self.by_name.remove_tools(listing.removed_names)
        if self._open is not None and self._open.offer is not None:
            self.by_name.update(self._open.offer, has_begun=self._open.n_replies > 0)


def _loaded(arguments: msgspec.Raw) -> str:
    """Return the skill or command that a call loads."""
    loaded = decoded(_LOADED, arguments) or _Loaded()
    words = (loaded.skill or loaded.command or "").split()
    return words[0].removeprefix("/") if words else ""


def _sort(head: Head, path: Path, file: str, sub_agents: SubAgentFiles) -> None:
    """Add a file whose first lines are all a sub-agent's, or else note the sessions of the file."""
    marked = [line for line in head.lines if "isSidechain" in line and "sessionId" in line]
    ids = {_text(line["sessionId"]) for line in marked}
    if any(bytes(line["isSidechain"]) != b"true" for line in marked):
        sub_agents.sessions |= ids
    else:
        ids |= {_text(line["agentId"]) for line in marked if "agentId" in line}
        sub_agents.add(path, file, *sorted(ids - {""}))


def _text(raw: bytes | msgspec.Raw) -> str:
    """Return a text, empty for another kind of member."""
    return decoded(_TEXT, raw) or ""


FORMAT: Final = Format(name=NAME, units=("prompt",), claims=_claims, read=_read, sort=_sort)
