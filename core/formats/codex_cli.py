"""Codex CLI rollouts: JSON lines ``{timestamp, type, payload}``, one run per ``user_message`` of the person.

A message of role ``user`` alone is no prompt, because instructions and the environment have it too. Calls are items
of the response. An MCP call is named ``server.tool`` in each of its three forms. A ``token_usage_record`` has the
usage of one response, a compaction's too, and counts once by its id. Totals of ``token_count`` add up over the
session, so a run has the difference, without what records of the same responses count. A total that falls starts
again. Input contains the cached tokens. A call that searches the web is a search.

The file of a fork or sub-agent begins with its parent's history at new times. It ends at the first turn whose id,
which holds its time, is not older than the session. Its totals are the base of the first run. Without such a history
the last usage bounds the first difference. A sub-agent's calls are not the agent's. Its tokens go to the bill of the
run that was open at their time.

A tool that the header marks with ``deferLoading`` is there by name until a call or a search finds it. So is a skill
of the instructions until it is loaded (`core.formats.by_name`). A call that reads the ``SKILL.md`` of a skill loads
it. So does a person who names it: its text is then a message of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace as replace_fields

from core.formats.entries import Entry, Progress, Rejected, Skipped
from core.formats.prompts import counts_of, readable, split, unread
from core.formats.reading import Format, Head, Reading, SubAgentFiles
from core.formats.sessions import Steps, read_segments
from core.formats.strict import decoded, plain, utc_ms_of
from core.formats.sub_agents import Response, alone, counted
from core.records.bill import Spent
from core.records.limits import Label, Millis, Tokens
from core.records.run import Run, Status

NAME: Final = "codex-cli"

_MARKS: Final = frozenset(("session_meta", "response_item", "event_msg", "turn_context", "compacted"))
_CALLS: Final = {
    "function_call": None,
    "custom_tool_call": None,
    "local_shell_call": "local_shell",
    "web_search_call": "web_search",
    "tool_search_call": "tool_search",
    "image_generation_call": "image_generation",
}
"""Items that are calls, with the name of the tool where the item has none."""
_OTHERS: Final = frozenset(("message", "reasoning", "ghost_snapshot", "compaction", "agent_message", "other"))
_PASSED_OVER: Final = frozenset(("compacted", "world_state", "inter_agent_communication_metadata"))
_ENDS: Final[dict[str, Status]] = {"task_complete": "completed", "turn_aborted": "aborted", "error": "error"}
_SKILLS: Final = b"### Available skills"
_SKILL: Final = re.compile(r"^- (\S+?): .*\(file: .*\)$", re.MULTILINE)
_NAMED_SKILL: Final = re.compile(r"\s*<skill>\s*<name>([^<\s]{1,200})</name>")
FAILED: Final = re.compile(
    r"(?:(?!Output:).*\n){0,9}?(?:Exit code: |Process exited with code )-?[1-9]"
    r'|(?s:\s*\{.*"(?:exit_code"\s*:\s*-?[1-9]|success"\s*:\s*false))'
)
"""Output of a call that failed; the program's lines come before those of the command."""
_UUID7: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7")
_TIME_CHARS: Final = 13
_REPLAY_MS: Final = 500
"""Milliseconds after its first line in which a rollout without times in its ids may still be a replay."""


_Split = tuple[int, int, int, int]
"""Input with the cached tokens, those read from a cache, those written to one, and output."""

_TEXT: Final = msgspec.json.Decoder(str)

_NOTHING: Final = (0, 0, 0, 0)

_USUAL: Final = frozenset(("", "auto", "default", "standard"))
_SOURCE: Final = msgspec.json.Decoder(dict[str, dict[str, dict[str, str | int | None]]])


class _Counts(msgspec.Struct):
    input_tokens: Tokens = 0
    cached_input_tokens: Tokens = 0
    cache_write_input_tokens: Tokens = 0
    output_tokens: Tokens = 0

    def since(self, base: _Counts) -> tuple[int, int, int, int]:
        """Return the counts above those of ``base``; the whole counts where they fell below it."""
        if self.input_tokens < base.input_tokens or self.output_tokens < base.output_tokens:
            base = _Counts()
        return (
            self.input_tokens - base.input_tokens,
            max(self.cached_input_tokens - base.cached_input_tokens, 0),
            max(self.cache_write_input_tokens - base.cache_write_input_tokens, 0),
            self.output_tokens - base.output_tokens,
        )


class _Info(msgspec.Struct):
    total_token_usage: msgspec.Raw = msgspec.Raw(b"")
    last_token_usage: msgspec.Raw = msgspec.Raw(b"")


class _Action(msgspec.Struct):
    type: str = "search"


class _Part(msgspec.Struct):
    text: str | None = None


class _Invocation(msgspec.Struct):
    server: str = ""
    tool: str = ""


class _Tool(msgspec.Struct, rename="camel"):
    name: str
    namespace: str | None = None
    defer_loading: bool | None = None

    @property
    def called(self) -> str:
        """Return the name as it appears in calls."""
        return Payload(type="function_call", name=self.name, namespace=self.namespace).called


class Payload(msgspec.Struct):
    type: str = ""
    id: str | None = None
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    source: msgspec.Raw = msgspec.Raw(b"")
    model_provider: Label | None = None
    dynamic_tools: msgspec.Raw = msgspec.Raw(b"")
    turn_id: str | None = None
    model: Label | None = None
    message: msgspec.Raw = msgspec.Raw(b"")
    info: _Info | None = None
    duration_ms: Millis | float | None = None
    role: str | None = None
    content: msgspec.Raw = msgspec.Raw(b"")
    name: Label | None = None
    namespace: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"")
    input: msgspec.Raw = msgspec.Raw(b"")
    action: msgspec.Raw = msgspec.Raw(b"")
    output: msgspec.Raw = msgspec.Raw(b"")
    tools: msgspec.Raw = msgspec.Raw(b"")
    call_id: str | None = None
    invocation: _Invocation | None = None
    new_thread_id: str | None = None
    receiver_thread_id: str | None = None
    response_id: msgspec.Raw = msgspec.Raw(b"")
    thread_id: msgspec.Raw = msgspec.Raw(b"")
    service_tier: msgspec.Raw = msgspec.Raw(b"")
    usage: msgspec.Raw = msgspec.Raw(b"")

    @property
    def text(self) -> str:
        """Text of a message, in an item or an event."""
        content = decoded(_CONTENT, self.content or self.message)
        if isinstance(content, str):
            return content
        return "\n".join([part.text for part in content or () if part.text])

    @property
    def called(self) -> str:
        """Name of the called tool; ``server.tool`` for a tool of an MCP server."""
        name = self.name or _CALLS[self.type] or self.type
        server, _, tool = name.removeprefix("mcp__").partition("__")
        if name.startswith("mcp__") and tool:
            return f"{server}.{tool}"
        return f"{self.namespace.removeprefix('mcp__').rstrip('_.')}.{name}" if self.namespace else name

    @property
    def parents(self) -> set[str]:
        """Ids of the sessions that a header names as its parents."""
        return {one for one in (self.forked_from_id, self.parent_thread_id, spawner(self.source)) if one}


class _SearchedTool(msgspec.Struct):
    """A tool whose definition a search returned, or the tools of a server."""

    name: str
    namespace: str | None = None
    tools: list[_Tool] = []

    @property
    def names(self) -> list[str]:
        """Names as they appear in calls."""
        if self.tools:
            return [_Tool(name=one.name, namespace=one.namespace or self.name).called for one in self.tools]
        return [_Tool(name=self.name, namespace=self.namespace).called]


class _Line(msgspec.Struct):
    type: str = ""
    payload: Payload | None = None
    timestamp: str | None = None
    uuid: None = None
    parent_uuid: None = None


_decode: Final = msgspec.json.Decoder(_Line).decode
_PAYLOAD: Final = msgspec.json.Decoder(Payload)
_SEARCHED: Final = msgspec.json.Decoder(list[_SearchedTool])
_TOOLS: Final = msgspec.json.Decoder(list[_Tool])
_CONTENT: Final = msgspec.json.Decoder(str | list[_Part] | None)
_COUNTS: Final = msgspec.json.Decoder(_Counts)
_ACTION: Final = msgspec.json.Decoder(_Action)
_KNOWN: Final = frozenset((*_Counts.__struct_fields__, "reasoning_output_tokens", "total_tokens"))
"""Members of a usage that are read, or are part of another one."""


def spawner(source: msgspec.Raw) -> str | None:
    """Return the session that started a sub-agent's."""
    spawned = (decoded(_SOURCE, source) or {}).get("subagent", {}).get("thread_spawn", {})
    parent = spawned.get("parent_thread_id")
    return parent if isinstance(parent, str) else None


def _claims(head: Head) -> bool:
    return any(_kind(line) in _MARKS and "payload" in line for line in head.lines)


def _kind(line: dict[str, msgspec.Raw]) -> str:
    return bytes(line.get("type", b"")).decode(errors="replace").strip('"')


class _Headers:
    """Headers of a file's sessions, without those of parents in a replayed history."""

    def __init__(self) -> None:
        self.parents: set[str] = set()
        self._id: str | None = None
        self._began: str | None = None

    def id_of(self, line: _Line) -> str | None:
        """Return the id of a session that begins with this line."""
        payload = line.payload
        if line.type != "session_meta" or payload is None:
            if self.parents and _begins_turn(line, self._id, self._began):
                self.parents = set()
            return None
        identity = plain(payload.id) or NAME
        if identity in self.parents:
            self.parents = (self.parents - {identity}) | payload.parents
            return None
        self.parents, self._id, self._began = payload.parents, identity, line.timestamp
        return identity


def _begins_turn(line: _Line, session: str | None, began: str | None) -> bool:
    """Return whether a line begins a turn of this session, not one of a parent whose history is replayed."""
    turn = None if line.payload is None else line.payload.turn_id
    if line.type != "turn_context" and (line.payload is None or line.payload.type != "task_started"):
        return False
    if _UUID7.match(turn or "") and _UUID7.match(session or ""):
        return (turn or "")[:_TIME_CHARS] >= (session or "")[:_TIME_CHARS]
    since, now = utc_ms_of(began)[0], utc_ms_of(line.timestamp)[0]
    return since is None or now is None or now - since >= _REPLAY_MS


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    return read_segments(reading, progress, _decode, _Session, _Headers().id_of)


@dataclass
class _Session(Steps[_Line]):
    """A rollout. ``began`` is its first time as long as lines may be a parent's replayed history, then None."""

    format_name = NAME
    loads_known = True
    reads_skill_files = True

    parents: set[str] = field(default_factory=set)
    is_sub_agent: bool = False
    began: str | None = None
    base: _Counts = field(default_factory=_Counts)
    is_fork: bool = False
    has_base: bool = False
    tier: str = ""
    used: list[tuple[str | None, Spent]] = field(default_factory=list)
    responses: set[str] = field(default_factory=set)
    recorded: list[_Split] = field(default_factory=list)
    """Usages of records since the last total that rose."""
    alone: _Split | None = None
    """Difference of the last total that rose without a record before it."""
    provider: str | None = None
    model: str | None = None
    turn_id: str | None = None
    n_in_turn: Counter[str] = field(default_factory=Counter)
    early: list[Spent] = field(default_factory=list)
    """What was spent before the first prompt."""
    searched: dict[str, list[str]] = field(default_factory=dict)
    """Tools whose definitions searches of a run returned."""

    def add(self, line: _Line, raw: bytes) -> None:
        one, at = line.payload or Payload(), line.timestamp
        if line.type == "session_meta":
            self._add_header(one, at)
            return
        if self.began is not None and _begins_turn(line, self.id, self.began):
            self.began = None
        if one.info is not None and bytes(one.info.total_token_usage) not in {b"", b"null"}:
            self._add_total(one.info, at)
        elif line.type == "token_usage_record":
            self._add_record(one, at)
        elif self.began is not None:
            return
        elif line.type == "turn_context":
            self.model = one.model or self.model
            self.tier = decoded(_TEXT, one.service_tier) or ""
        elif line.type == "event_msg":
            self._add_event(one, at)
        elif line.type == "response_item":
            self._add_item(one, at)
        elif line.type not in _PASSED_OVER:
            self.pass_over(line.type, raw)

    def entries(self, reading: Reading) -> Iterator[Run | Rejected | Skipped]:
        if self.is_sub_agent:
            if not self.parents & reading.sub_agents.sessions:
                yield alone(reading.file)
            return
        self._read_sub_agents(reading)
        for prompt in self.prompts:
            prompt.provider = self.provider
        self.offer_by_name(self.searched)
        yield from super().entries(reading)

    def _add_header(self, one: Payload, at: str | None) -> None:
        if self.id is None:
            self.id, self.provider, self.parents = plain(one.id), one.model_provider, one.parents
            self.is_sub_agent = b'"subagent"' in bytes(one.source)
            self.is_fork = one.forked_from_id is not None
            self.began = (at or "") if one.parents else None
            self._add_tools(one.dynamic_tools)

    def _add_tools(self, listed: msgspec.Raw) -> None:
        tools = decoded(_TOOLS, listed or b"[]")
        if tools is None:
            self.unknown.field("dynamic_tools")
            return
        deferred = [tool.called for tool in tools if tool.defer_loading]
        self.n_facts += bool(deferred)  # a reading without them is a shorter one
        self.by_name.add_tools(deferred)

    def _add_total(self, info: _Info, at: str | None) -> None:
        latest, (total, wrong) = info.last_token_usage, readable(_COUNTS, info.total_token_usage)
        if wrong:  # the next total has what it counted
            if self.began is None:
                self._use(Spent(model=self.model, unread=self.unknown.spend(wrong)), at)
            return
        counts, is_first = total.since(self.base), self.is_fork and not self.has_base
        self.base, self.has_base = total, True
        if self.began is not None or not any(counts):
            return
        last = decoded(_COUNTS, latest)
        request = None if last is None else last.since(_Counts())
        if is_first and request is None:  # its own part of the parent's total is unknown
            self._use(Spent(model=self.model, unread=int(not self.recorded)), at)
            self.recorded = []
            return
        if is_first and request is not None:
            counts = _least(counts, request)
        names = [] if self.recorded else unread(latest, _KNOWN)
        if self.recorded:
            counts, self.recorded, self.alone = _above(counts, self.recorded), [], None
        else:
            self.alone = counts
        if any(counts) or names:
            row = replace_fields(split(self.model, "agent", counts), unread=self.unknown.spend(names))
            self._use(row.as_request if counts == request else row, at)

    def _add_record(self, one: Payload, at: str | None) -> None:
        """Add the usage of one response; a parent's in a fork is its own matter."""
        identity = decoded(_TEXT, one.response_id)
        is_known = identity in self.responses
        self.responses.add(identity or "")
        foreign = self.parents and (decoded(_TEXT, one.thread_id) or self.id) != self.id
        if self.began is not None or foreign or (identity and is_known):
            return
        usage, names = counts_of(_COUNTS, one.usage, _KNOWN)
        counts = usage.since(_Counts())
        model = one.model or self.model
        if counts == self.alone:
            counts, self.alone = _NOTHING, None
        elif any(counts):
            self.recorded.append(counts)
        self._use(
            replace_fields(split(model, "agent", counts).as_request, unread=self.unknown.spend(names)), at
        )

    def _use(self, row: Spent, at: str | None) -> None:
        if row.tokens and self.tier not in _USUAL:
            row = replace_fields(row, tier=self.tier)
        if not any(row.counts):
            return
        self.used.append((at, row))
        if not self.is_sub_agent:
            (self.prompts[-1].rows if self.prompts else self.early).append(row)
            if self.prompts:
                self.prompts[-1].model = self.model

    def _add_event(self, one: Payload, at: str | None) -> None:
        if one.type == "task_started":
            self.turn_id = plain(one.turn_id)
        elif one.type == "user_message":
            self._open(one.text, at)
        elif one.type in _ENDS and self.prompts:
            self.end(_ENDS[one.type], at, one.duration_ms)
        elif one.type == "mcp_tool_call_end" and one.invocation is not None:
            name = f"{one.invocation.server}.{one.invocation.tool}"
            self.call(name, one.call_id, one.arguments, at, is_notice=True)
        agent = one.new_thread_id or one.receiver_thread_id
        if agent and one.call_id and self.prompts:
            self.agents.add_call(one.call_id, self.prompts[-1], "")
            self.agents.link(agent, one.call_id)

    def _open(self, text: str, at: str | None) -> None:
        own = self.turn_id or self.id or "session"
        n_same = self.n_in_turn[own]
        self.n_in_turn[own] += 1
        self.open(f"{own}/{n_same}" if n_same or self.turn_id is None else own, text, at)
        self.prompts[-1].model = self.model
        self.prompts[-1].rows, self.early = [*self.early], []

    def _add_item(self, one: Payload, at: str | None) -> None:
        self.alone = None
        if one.type in _CALLS:
            self.call(one.called, one.call_id, one.arguments or one.input or one.action, at)
            self.prompts[-1].model = self.model or self.prompts[-1].model
            if one.type == "web_search_call" and (decoded(_ACTION, one.action) or _Action()).type == "search":
                self._use(Spent(model=self.model, searches=1), at)
        elif one.type == "message" and one.role == "assistant":
            self.say(one.text, at)
            self.prompts[-1].model = self.model or self.prompts[-1].model
        elif one.type == "message":
            self._add_skills(one)
        elif one.type.endswith("_output"):
            output = decoded(_TEXT, one.output) or bytes(one.output).decode(errors="replace")
            self.add_output(one.call_id, one.output, failed=FAILED.match(output) is not None)
            if one.tools and self.prompts:
                tools = decoded(_SEARCHED, one.tools) or ()
                self.searched.setdefault(self.prompts[-1].identity, []).extend(
                    name for tool in tools for name in tool.names
                )
        elif one.type not in _OTHERS and self.unknown.block(one.type):
            self.turn(at).n_foreign += 1

    def _add_skills(self, one: Payload) -> None:
        """Add the skills that the instructions list, or the one that a person named."""
        if _SKILLS in bytes(one.content):
            listed = one.text.partition(_SKILLS.decode())[2]
            self.n_facts += 1
            self.by_name.add_skills(_SKILL.findall(listed), listed)
        elif self.prompts and (named := _NAMED_SKILL.match(one.text)):
            self.prompts[-1].typed.add(named[1])

    def _read_sub_agents(self, reading: Reading) -> None:
        """Add the tokens of sub-agents, at any depth, to the runs that started them."""
        paths = [(reading.path, reading.file)] if self.agents.unread else []
        paths += reading.sub_agents.of(self.id or "")
        known, sessions = {self.id or ""}, list[_Session]()
        while self.prompts:
            for path, file in paths:
                sessions += _sessions_of(replace(reading, path=path, file=file, shape="lines"))
            own = [
                one
                for one in sessions
                if one.is_sub_agent and (one.id or "") not in known and one.parents & known
            ]
            for child in own:
                self._charge(child)
                known.add(child.id or "")
            if not own:
                break
            paths = [pair for child in own for pair in reading.sub_agents.of(child.id or "")]

    def _charge(self, child: _Session) -> None:
        agent = self.agents.at(child.id or "", None)
        for place, (at, row) in enumerate(child.used):
            spent = counted(replace_fields(row, owner="sub-agent"))
            agent.add(f"{child.id}/{place}", Response(spent, row.output, at, None))
        for parent in child.parents - {self.id or ""}:
            self.agents.add_nested(child.id or "", parent)


def _least(counts: _Split, bound: _Split) -> _Split:
    """Return the smaller of each count.

    >>> _least((105, 0, 0, 9), (5, 3, 0, 9))
    (5, 0, 0, 9)
    """
    read, cached, written, output = map(min, zip(counts, bound, strict=True))
    return read, cached, written, output


def _above(counts: _Split, recorded: Iterable[_Split]) -> _Split:
    """Return what a difference of totals counts beyond the records; nothing where it does not contain them.

    >>> _above((30, 0, 0, 3), [(10, 0, 0, 1)]), _above((10, 0, 0, 1), [(10, 0, 0, 1), (200, 0, 0, 3)])
    ((20, 0, 0, 2), (0, 0, 0, 0))
    """
    known = map(sum, zip(*recorded, strict=True))
    read, cached, written, output = (one - other for one, other in zip(counts, known, strict=True))
    return (read, cached, written, output) if min(read, cached, written, output) >= 0 else _NOTHING


def _sessions_of(reading: Reading) -> Iterable[_Session]:
    sessions: list[_Session] = []
    headers = _Headers()
    for _, raw, line in reading.records(_decode, mends=True):
        if not isinstance(line, Rejected):
            if headers.id_of(line) is not None:
                sessions.append(_Session())
            if sessions:
                sessions[-1].add(line, raw)
    return sessions


def _sort(head: Head, path: Path, file: str, sub_agents: SubAgentFiles) -> None:
    """Record the session of the file. A sub-agent's file is listed under its parents, too."""
    header = next(
        (line["payload"] for line in head.lines if _kind(line) == "session_meta" and "payload" in line), None
    )
    one = decoded(_PAYLOAD, header or b"")
    if one is None:
        return  # what is wrong with it is named where it is read
    if b'"subagent"' in bytes(one.source):
        sub_agents.add(path, file, *one.parents)
    sub_agents.sessions.add(plain(one.id) or "")


FORMAT: Final = Format(name=NAME, units=("prompt",), claims=_claims, read=_read, sort=_sort)
