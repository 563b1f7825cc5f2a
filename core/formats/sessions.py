"""Session files: lines → runs, one per prompt of the person; each session of a file by itself.

A file may hold several sessions, one behind the other or written into one another. What a session calls, which of two
copies of it is the longer and in which order its lines were written is its own matter, so a joined file comes to what
its parts come to, in any order. Where no list of tools is in the file the inventory is what the session calls, so
runs are handed out once their session has been read; kept meanwhile are names, texts and counts.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import ClassVar, Final, Generic, Protocol, TypeVar
from zlib import crc32

import msgspec

from core.errors import InvalidInput
from core.formats.by_name import ByName, Offer
from core.formats.chat import argument_text, metadata, one_spelling, output_text
from core.formats.entries import Entry, Progress, Rejected, Remark, Skipped
from core.formats.prompts import Beside, Prompt, Reported, counts_tokens
from core.formats.reading import Reading
from core.formats.strict import UNDECODABLE, Flaw, decoded, plain, utc_ms_of
from core.formats.sub_agents import SubAgents
from core.formats.tools import inferred
from core.formats.unknown import Unknown
from core.records.bill import heaviest
from core.records.run import Call, History, Inventory, Run, Status, beyond
from core.records.transcript import READ_CHARS, Message

_LINES_HELD: Final = 50_000
"""So many lines of several sessions are held at once; of more it is found out first where each session ends."""


_LINE_BYTES: Final = 512
"""Memory of a decoded line beside its own bytes."""
_SESSION_PARTS: Final = 20
_RUN_PARTS: Final = 10
_CALL_PARTS: Final = 3
PART_BYTES: Final = 256

K = TypeVar("K")

_NO_OFFER: Final = Offer()
_SKILL_OF: Final = re.compile(r"""(?:(?<![^/\\\s"',])([^/\\\s"',]++)[/\\]++|(?<![\w.-]))SKILL\.md""")
_PATTERN: Final = re.compile(r"[$%*?{}\[\]<>()`]|^\.\.?$")
"""A name that a shell replaces by another one."""
_READER: Final = re.compile(r"(?:^|[._])(?:read|view|open)(?:_file|_text_file)?$")
_READ_PART: Final = re.compile(
    r"(?<![\w.-])(?:cat|head|tail|less|more|bat|nl|sed\s+-n|type|gc|get-content)"
    r"""(?![\w.-]|"\s*:)([^|;&<>\n]*)""",
    re.IGNORECASE,
)
"""What a program that prints files is given, in a command."""


class Line(Protocol):
    """A line that may say which line it follows, and when it was written."""

    @property
    def uuid(self) -> str | None: ...
    @property
    def parent_uuid(self) -> str | None: ...
    @property
    def timestamp(self) -> str | float | None: ...


class LinkedLine(msgspec.Struct, rename="camel"):
    """The beginning of a line that has an id, and that of the line it follows."""

    type: str
    id: str | None = None
    parent_id: str | None = None

    @property
    def uuid(self) -> str | None:
        return self.id

    @property
    def parent_uuid(self) -> str | None:
        return self.parent_id


L = TypeVar("L", bound=Line)


class _Role(msgspec.Struct):
    role: str


class _Kind(msgspec.Struct):
    type: str
    message: msgspec.Raw = msgspec.Raw(b"null")


_KIND: Final = msgspec.json.Decoder(_Kind)
_ROLE: Final = msgspec.json.Decoder(_Role)


def skills_read(tool: str, arguments: str) -> Iterator[str]:
    r"""Yield the names of the skills whose files a call reads: by a tool that reads, or by a program of a command.

    A path that does not name the skill gives "".

    >>> [*skills_read("shell", '["bash", "-lc", "cat /s/go/SKILL.md > /tmp/x && rm /s/web/SKILL.md"]')]
    ['go']
    >>> [*skills_read("read", '{"path": "/s/web/SKILL.md"}')], [*skills_read("write", '{"path": "/s/web/SKILL.md"}')]
    (['web'], [])
    >>> [*skills_read("shell", r'{"type": "x", "command": "ls /s/web/SKILL.md\nGet-Content C:\\s\\go\\SKILL.md"}')]
    ['go']
    """
    is_reader = _READER.search(tool.lower()) is not None
    # A command has its new lines as JSON has them; two backslashes are one in a path.
    pieces = [piece.replace(r"\n", "\n").replace(r"\r", "\n") for piece in arguments.split(r"\\")]
    lines = [line for line in r"\\".join(pieces).split("\n") if "SKILL.md" in line]
    for part in [arguments] if is_reader else chain.from_iterable(map(_READ_PART.findall, lines)):
        yield from ("" if _PATTERN.search(name) else name for name in _SKILL_OF.findall(part))


def role_of(message: bytes | msgspec.Raw) -> str | None:
    """Return the role of a message; None without one."""
    held = decoded(_ROLE, message)
    return None if held is None else held.role


def lines_of(
    kind: type[L], types: frozenset[str], roles: frozenset[str] | None = None
) -> Callable[[bytes], L | None]:
    """Return a decoder of lines; None for a type or role that is not read. With ``roles`` a message needs one."""
    decoder = msgspec.json.Decoder(kind)

    def is_of_no_interest(raw: bytes) -> bool:
        line = decoded(_KIND, raw)
        if line is None:
            return False
        if line.type not in types:
            return True
        return bool(roles) and line.type == "message" and role_of(line.message) not in {None, *(roles or ())}

    def decode(raw: bytes) -> L | None:
        try:
            return decoder.decode(raw)
        except UNDECODABLE:
            if is_of_no_interest(raw):
                return None
            raise

    def decode_message(raw: bytes) -> L | None:
        line = decode(raw)
        if getattr(line, "type", "") == "message" and getattr(line, "message", None) is None:
            raise Flaw("has no message")
        return line

    return decode if roles is None else decode_message


@dataclass
class Order:
    """Check of the order of writing: each line after its predecessor, by time where no line has one."""

    _ids: set[str] = field(default_factory=set)
    _awaited: set[str] = field(default_factory=set)
    _latest: str = ""
    _is_overtaken: bool = False
    _is_falling: bool = False
    _is_linked: bool = False

    def is_repeated(self, identity: str | None, followed: str | None) -> bool:
        """Return whether a line with this id came before, and record its predecessor."""
        ids = self._ids
        if followed is not None:
            self._is_linked = True
            if followed not in ids:
                self._awaited.add(followed)
        if identity is None:
            return False
        if self._awaited and identity in self._awaited:
            self._is_overtaken = True
        if identity in ids:
            return True
        ids.add(identity)
        return False

    def note_time(self, timestamp: str | None) -> None:
        """Take in when a line was written."""
        if timestamp is not None:
            self._is_falling |= timestamp < self._latest
            self._latest = timestamp

    @property
    def is_broken(self) -> bool:
        return self._is_overtaken or (self._is_falling and not self._is_linked)

    def is_mixed_with(self, other: Order) -> bool:
        """Return whether lines of both follow each other; without predecessors, whether some are out of order."""
        if self._is_linked or other._is_linked:
            return not self._awaited.isdisjoint(other._ids) or not other._awaited.isdisjoint(self._ids)
        return self._is_falling or other._is_falling


@dataclass
class Session(Order, ABC, Generic[L]):
    """The lines of one session, and its runs; each format defines how. ``n_facts`` counts what was read."""

    format_name: ClassVar[str]
    loads_known: ClassVar[bool] = False
    """Its lines say which skills were loaded."""
    reads_skill_files: ClassVar[bool] = False
    """A call that reads the file of a skill loads it."""
    has_call_ids: ClassVar[bool] = True
    """An id names one call of the session, so that the same id with the same content is the same call."""

    unknown: Unknown = field(default_factory=Unknown)
    id: str | None = None
    number: int = 0
    n_bytes: int = 0
    n_parts: int = _SESSION_PARTS
    """The memory that it takes, as `Limits` counts it."""
    n_facts: int = 0
    prompts: list[Prompt] = field(default_factory=list)
    prompt_chars: int | None = None
    keeps_texts: bool = False
    inventory: Inventory | None = None
    """Its own list of tools; None = what a person supplied, or what it calls."""
    by_name: ByName = field(default_factory=ByName)
    agents: SubAgents = field(default_factory=SubAgents)
    owners: dict[str, Prompt] = field(default_factory=dict)
    """The run of each response with a usage."""
    written_at: str | float | None = None
    """The time of the message that is read, where the run's last time is another one."""
    is_open: bool = False
    """The rest is still being written, so that nothing of it can be known again."""
    is_answered: bool = False
    """A line of the user or a result follows the last usage."""
    n_unread: int = 0
    """Records of an unknown kind before the first prompt that count tokens."""
    _inputs: dict[str, tuple[int, int]] = field(default_factory=dict)
    _calls: dict[str, set[int]] = field(default_factory=dict)
    _left_out: dict[str, list[tuple[Prompt, Call]]] = field(default_factory=dict)
    _lines: dict[str | int, int] = field(default_factory=dict)
    _further: dict[str, set[int]] = field(default_factory=dict)
    """Contents of the lines of one id, where they are several."""
    _waiting: dict[str, Prompt] = field(default_factory=dict)
    _loading: dict[str, tuple[Prompt, Collection[str]]] = field(default_factory=dict)
    _before: int = 0
    _is_timed: bool = True

    @abstractmethod
    def add(self, line: L, raw: bytes) -> None:
        """Add a line with its ``number``."""

    def is_same_line(self, identity: str | None, content: bytes | int) -> bool:
        """Return whether a line of this id and content came before; other content makes it another line."""
        content = content if isinstance(content, int) else hash(content.strip())
        n_before = len(self._lines)
        first = self._lines.setdefault(identity or content, content)
        if len(self._lines) != n_before:
            return False
        if first == content:
            return True
        contents = self._further.setdefault(identity or "", {first})
        if content in contents:
            return True
        self._share(contents, content)
        return False

    def _share(self, contents: set[int], content: int) -> None:
        """Count a record whose id another record has, with other content."""
        self.unknown.n_shared += 1 + (len(contents) == 1)
        contents.add(content)

    def begin(self, identity: str, request: str | None = None, at: str | float | None = None) -> Prompt:
        """Open a run, with a prompt of the person."""
        prompt = Prompt(identity, request=request, began=at, last_time=at, n_unread=self.n_unread)
        self.n_unread = 0
        self.n_parts += _RUN_PARTS + len(request or "") // PART_BYTES
        if request is not None:
            text = request.encode(errors="surrogatepass")
            if self.prompts:
                self._before = crc32(self.prompts[-1].marks, self._before)
            self._is_timed &= utc_ms_of(at)[0] is not None
            if self._is_timed:
                known = f"{self.format_name}\n{self._before}\n{at}\n".encode(errors="replace")
                digest = blake2b(known + text, digest_size=8).digest()
                prompt.key = int.from_bytes(digest, "big", signed=True)
            prompt.mark(at, text)
        self.prompts.append(prompt)
        return prompt

    def reply(self, identity: str, model: str | None, at: str | float | None) -> Prompt:
        """Return the run of a reply; one before the first prompt makes a run of its own."""
        run = self.prompts[-1] if self.prompts else self.begin(identity)
        run.n_replies += 1
        run.model = model or run.model
        self.touch(at)
        return run

    def touch(self, at: str | float | None) -> None:
        """Note the time of a reply, result or notice: a run ends there, not with what the person did later."""
        if self.prompts and at is not None:
            self.prompts[-1].last_time = at

    def pass_over(self, kind: str, raw: bytes | msgspec.Raw) -> None:
        """Count a line of an unknown kind; one that counts tokens is a spend that is not understood."""
        self.unknown.line(kind)
        if counts_tokens(raw):
            (self.prompts[-1] if self.prompts else self).n_unread += 1

    def use(
        self, run: Prompt, response: str, model: str | None, usage: Reported, names: Collection[str] = ()
    ) -> None:
        """Add a usage; the last one of a response counts, in the run that had the first.

        ``names`` are the amounts in it that no reader knows. An id is of two responses where an answer lies between
        and their inputs differ: it is no identity then.
        """
        read, _, cached, stored, _ = usage.parts
        total = read + cached + stored
        number, before = self._inputs.get(response, (0, 0))
        number += self.is_answered and before not in (total, 0) and total != 0
        self._inputs[response], self.is_answered = (number, total), False
        key = f"{response}/{number}" if number else response
        usage = Beside(usage, names) if names else usage
        self.n_parts += _CALL_PARTS
        owner = self.owners.setdefault(key, run)
        owner.used[key] = (model, usage)
        if self.keeps_texts:
            owner.talk.use(key, usage.billed(model, "agent", Unknown()))

    def _at_ms(self, prompt: Prompt) -> int | None:
        return utc_ms_of(self.written_at or prompt.last_time)[0]

    def add_text(self, prompt: Prompt, text: str) -> None:
        """Add a text of the agent to a run."""
        self.n_parts += 1 + len(text) // PART_BYTES
        prompt.texts.append(text)
        self.mark(prompt, text.encode(errors="surrogatepass"))
        if self.keeps_texts:
            prompt.talk.add("agent", text, self._at_ms(prompt))

    def mark(self, prompt: Prompt, content: bytes) -> None:
        """Add a text or call to what a run is known again by."""
        if not self.is_open:
            prompt.mark(self.written_at or prompt.last_time, content)

    def mark_call(self, prompt: Prompt, name: str, arguments: bytes) -> None:
        """Add a call, the same in each spelling of its JSON."""
        if not self.is_open:
            self.mark(prompt, name.encode(errors="surrogatepass") + b"\0" + one_spelling(arguments))

    def add_call(
        self, prompt: Prompt, name: str, arguments: bytes | msgspec.Raw, identity: str | None = None
    ) -> bool:
        """Add a call to a run, and return whether it is new; ``identity`` is how its result names it."""
        if self._is_repeat(prompt, name, arguments, identity):
            return False
        self._take_call(prompt, name, arguments, identity)
        return True

    def _take_call(
        self, prompt: Prompt, name: str, arguments: bytes | msgspec.Raw, identity: str | None
    ) -> None:
        raw = bytes(arguments)
        prompt.calls.append(Call(name=name, metadata=metadata(raw)))
        self.mark_call(prompt, name, raw)
        self.note_loads(prompt, name, raw, identity)
        if self.keeps_texts:
            prompt.talk.call(name, argument_text(bytes(arguments)), identity, self._at_ms(prompt))
            if identity:
                self._waiting[identity] = prompt

    def note_loads(self, prompt: Prompt, name: str, arguments: bytes, identity: str | None) -> None:
        """Note the skills whose files a call reads, where that loads them."""
        self._loading.pop(identity or "", None)  # an id may come again for another call
        if self.reads_skill_files and b"SKILL.md" in arguments:
            self.load(prompt, [*skills_read(name, argument_text(arguments))], identity)

    def load(self, prompt: Prompt, skills: Collection[str], identity: str | None) -> None:
        """Add the skills that a call of the agent loads, unless its result reports a failure later."""
        prompt.loaded.update(skills)
        self._loading[identity or ""] = (prompt, skills)

    def offer_by_name(self, searched: Mapping[str, Iterable[str]]) -> None:
        """Give each run its offer: later ones have in full what it loads, calls or finds (``searched``)."""
        for prompt in self.prompts:
            for skill in prompt.typed:
                self.by_name.add_load(skill)
            prompt.offer = self.by_name.begin()
            for name in (*[call.name for call in prompt.calls], *searched.get(prompt.identity, ())):
                self.by_name.add_call(name)
            for skill in prompt.loaded:
                self.by_name.add_load(skill)

    def _is_repeat(
        self, prompt: Prompt, name: str, arguments: bytes | msgspec.Raw, identity: str | None
    ) -> bool:
        """Return whether this call came before. All calls of an id that has several contents count."""
        self.n_parts += _CALL_PARTS + (len(arguments) // PART_BYTES if self.keeps_texts else 0)
        if identity is None or not self.has_call_ids:
            return False
        content, contents = hash((name, bytes(arguments))), self._calls.get(identity)
        if contents is None:
            self._calls[identity] = {content}
            return False
        if contents == {content}:
            again = Call(name=name, metadata=metadata(bytes(arguments)))
            self._left_out.setdefault(identity, []).append((prompt, again))
            return True
        self._share(contents, content)
        for run, call in self._left_out.pop(identity, ()):
            run.calls.append(call)
        return False

    def add_output(self, identity: str | None, output: bytes | msgspec.Raw, *, failed: bool = False) -> None:
        """Add the result of a call to the run that made it. A call that failed loaded no skill."""
        run, skills = self._loading.pop(identity, (None, ())) if identity else (None, ())
        if run is not None and failed:
            run.loaded -= Counter(skills)
            self.by_name.keep_loads({one for run in self.prompts for one in (*run.loaded, *run.typed)})
        prompt = self._waiting.get(identity or "")
        if prompt is not None and output:
            self.n_parts += min(len(output), READ_CHARS) // PART_BYTES
            prompt.talk.result(output_text(output), identity)

    @property
    def source(self) -> str:
        """The source that its runs name."""
        return self.id or f"session/{self.prompts[0].identity}"

    @property
    def name(self) -> str | None:
        """The session's name in its runs."""
        return self.source

    @property
    def rank(self) -> int:
        return self.n_facts

    def entries(self, reading: Reading) -> Iterator[Run | Rejected | Skipped]:
        """Yield all runs. One whose calls are all of unknown kinds is left out: it would pass for conversation."""
        self.agents.charge(self.prompts, self.owners.__contains__)
        n_foreign = sum(prompt.n_foreign for prompt in self.prompts)
        if n_foreign and not any(prompt.calls for prompt in self.prompts):
            yield self._refused(reading, n_foreign)
            return
        whole = self.inventory or reading.supplied
        if whole is None:
            whole = inferred({call.name for prompt in self.prompts for call in prompt.calls})
        self._count_loads(whole)
        for prompt in self.prompts:
            if prompt.n_foreign and not prompt.calls:
                yield self._refused(reading, prompt.n_foreign)
                continue
            try:
                yield self._run(prompt, self.inventory_of(prompt, whole))
            except InvalidInput as error:  # counts that no run can have, once they are added up
                yield Rejected(file=reading.file, line=None, reason=error.problem)

    def inventory_of(self, prompt: Prompt, whole: Inventory) -> Inventory:
        """Return the inventory of a run; ``whole`` is the session's without any list of names."""
        if not self.by_name.has_lists:
            return whole
        return self.by_name.inventory(whole, prompt.offer or _NO_OFFER)

    def _refused(self, reading: Reading, n_foreign: int) -> Rejected:
        return Rejected(file=reading.file, line=None, reason=self.unknown.no_call_is_known(n_foreign))

    def _run(self, prompt: Prompt, inventory: Inventory) -> Run:
        ended_at_ms, is_naive = utc_ms_of(prompt.last_time)
        usage, spent = prompt.usage, prompt.spent(self.unknown)
        model = heaviest(spent) or prompt.model
        return Run(
            uid=f"{self.format_name}/prompt/{prompt.identity}",
            inventory=inventory,
            format=self.format_name,
            unit="prompt",
            source=self.source,
            rank=self.rank,
            session=self.name,
            ended_at_ms=ended_at_ms,
            naive_time=is_naive,
            provider=prompt.provider,
            model=model,
            status=prompt.status,
            usage=usage,
            bill=beyond(usage, spent, model),
            duration_ms=prompt.duration_ms,
            prompt_chars=self.prompt_chars,
            calls=tuple(prompt.calls),
            loaded=self._skills(prompt.loaded, inventory),
            typed=self._skills(prompt.typed, inventory),
            loads_known=self.loads_known,
            texts=tuple(prompt.texts),
            empty=prompt.n_replies == 0,
            prompt=prompt.request,
            reply=prompt.reply,
            messages=self._messages(prompt),
            history=History(key=prompt.key, marks=bytes(prompt.marks)),
        )

    def _skills(self, names: Collection[str], inventory: Inventory) -> tuple[str, ...]:
        """Return the arms of a run that its loads mean."""
        keys = {self.by_name.loaded_key(name) for name in names}
        return tuple(arm.key for arm in inventory.offered if arm.key in keys) if names else ()

    def _count_loads(self, whole: Inventory) -> None:
        """Count the loads that mean no listed skill, in a session that lists skills, or no certain one."""
        listed = {*self.by_name.keys, *(arm.key for arm in whole.arms)}
        has_list = any(key.startswith("skill:") for key in listed)
        for name in (name for prompt in self.prompts for name in sorted(prompt.loaded)):
            key = self.by_name.loaded_key(name)
            if key not in listed and (has_list or not name):
                (self.unknown.ambiguous if key is None else self.unknown.unlisted)[name] += 1

    def _messages(self, prompt: Prompt) -> tuple[Message, ...]:
        messages = prompt.talk.messages
        if not messages or not prompt.request:
            return messages
        return (Message(kind="user", text=prompt.request, at_ms=utc_ms_of(prompt.began)[0]), *messages)


@dataclass
class Steps(Session[L], ABC, Generic[L]):
    """A session whose format translates its lines into these steps: each is a fact, and belongs to the open run."""

    _places: dict[str, tuple[Prompt, int]] = field(default_factory=dict)
    _noticed: set[str] = field(default_factory=set)
    """Ids of calls that a notice alone named so far."""

    @property
    def source(self) -> str:
        return self.id or self.prompts[0].identity

    def open(self, identity: str, request: str, at: str | float | None) -> None:
        """Open a run with a prompt of the person."""
        self.n_facts += 1
        self.begin(identity, request, at)

    def turn(self, at: str | float | None, *, is_reply: bool = False) -> Prompt:
        """Return the open run, at a step of this time; a step before the first prompt opens one."""
        self.n_facts += 1
        turn = self._opened()
        turn.last_time = at or turn.last_time
        if is_reply:
            turn.n_replies += 1
            turn.status = "completed"
        return turn

    def _opened(self) -> Prompt:
        return self.prompts[-1] if self.prompts else self.begin(f"{self.id or 'session'}/0")

    def say(self, text: str, at: str | float | None) -> None:
        """Add a text of the agent."""
        turn = self.turn(at, is_reply=True)
        if text:
            self.add_text(turn, text)

    def call(
        self,
        name: str,
        identity: str | None,
        arguments: msgspec.Raw,
        at: str | float | None,
        *,
        is_notice: bool = False,
    ) -> None:
        """Add a call. A notice is about the call of its id, and the later of both names is the better one."""
        if identity in self._places and (is_notice or identity in self._noticed):
            self._name_again(identity or "", name, arguments, is_notice=is_notice)
            return
        turn = self._opened()
        if self._is_repeat(turn, name, arguments, identity or None):
            return
        self.turn(at, is_reply=True)
        self._take_call(turn, name, arguments, identity or None)
        if identity:
            self._places[identity] = (turn, len(turn.calls) - 1)
            if is_notice:
                self._noticed.add(identity)

    def _name_again(self, identity: str, name: str, arguments: msgspec.Raw, *, is_notice: bool) -> None:
        turn, place = self._places[identity]
        turn.calls[place] = Call(name=name, metadata=turn.calls[place].metadata)
        turn.talk.rename(name, identity)
        if not is_notice:
            self._noticed.discard(identity)
            self._calls[identity] = {hash((name, bytes(arguments)))}

    def end(self, status: Status, at: str | float | None, duration_ms: float | None = None) -> None:
        """Add how the open run ended."""
        turn = self.turn(at)
        turn.status = status
        if duration_ms is not None:
            turn.duration_ms = round(duration_ms)


class NamedLine(Line, Protocol):
    """A line that also says whose it is."""

    @property
    def session_id(self) -> str | None: ...


N = TypeVar("N", bound=NamedLine)


class NamedSession(Session[N], ABC, Generic[N]):
    """A session that its runs name only where its lines do."""

    @property
    def source(self) -> str:
        return self.name or self.prompts[0].identity

    @property
    def name(self) -> str | None:
        return plain(self.id)


def read_named(
    reading: Reading,
    progress: Progress | None,
    decode: Callable[[bytes], N | None],
    begin: Callable[..., Session[N]],
    listed: str = "",
) -> Iterator[Entry]:
    """Yield the runs of lines that name their session; ``listed`` is the list of a file that is one document."""
    yield from _Named(reading, begin, decode, listed).entries(progress)


def read_segments(
    reading: Reading,
    progress: Progress | None,
    decode: Callable[[bytes], L | None],
    begin: Callable[..., Session[L]],
    header_of: Callable[[L], str | None],
) -> Iterator[Entry]:
    """Yield runs of sessions from one header to the next; ``header_of`` gives the identity of a header line."""
    yield from _Segments(reading, begin, decode, header_of).entries(progress)


@dataclass
class _Sessions(ABC, Generic[K, L]):
    """The sessions of one file, each handed out when it is over; those out of order are read again at the end."""

    reading: Reading
    begin: Callable[..., Session[L]]
    unknown: Unknown = field(default_factory=Unknown, init=False)
    open: dict[K, Session[L]] = field(default_factory=dict, init=False)
    disordered: dict[K, int] = field(default_factory=dict, init=False)
    _n_parts: int = field(default=0, init=False)

    @abstractmethod
    def lines(self, progress: Progress | None) -> Iterator[tuple[int, K, bytes, L | Rejected]]:
        """Yield every line with its number and the identity of its session."""

    @abstractmethod
    def over(self, key: K, number: int) -> Iterable[K]:
        """Sessions of which nothing more follows, now that a line of session ``key`` is read."""

    def end(self) -> None:
        """Yield remarks that precede the sessions that are still open."""

    def entries(self, progress: Progress | None) -> Iterator[Entry]:
        current: Session[L] | None = None
        latest: K | None = None
        for number, key, raw, line in self.lines(progress):
            if isinstance(line, Rejected):
                yield line
                continue
            if current is None or key != latest:
                yield from self._handed_out(self.over(key, number))
                if key not in self.open:
                    self.open[key] = self.begun(key, self.unknown)
                    self.open[key].keeps_texts = self.reading.keeps_texts
                    self._n_parts += self.open[key].n_parts
                current, latest = self.open[key], key
            current.number = number
            current.n_bytes += len(raw) + _LINE_BYTES
            before = current.n_parts
            current.add(line, raw)
            current.n_parts += 1
            self._n_parts += current.n_parts - before
            self.reading.check_parts(self._n_parts)
        self.end()
        yield from self._handed_out(list(self.open))
        yield from self._put_in_order()
        yield from self.unknown.remarks(self.reading.file)

    def begun(self, key: K, unknown: Unknown) -> Session[L]:  # noqa: ARG002 - not all keys say something
        """A session of which nothing has been read."""
        return self.begin(unknown=unknown)

    def _handed_out(self, keys: Iterable[K]) -> Iterator[Entry]:
        for key in keys:
            session = self.open.pop(key)
            self._n_parts -= session.n_parts
            if not session.is_broken:
                yield from session.entries(self.reading)
            elif session.n_bytes > self.reading.limits.document_bytes:
                yield from session.entries(self.reading)
                yield self._remark("are not in order of time, and too many to be put in order")
            else:
                self.disordered[key] = session.n_bytes

    def _put_in_order(self) -> Iterator[Entry]:
        for now in _batches(self.disordered, self.reading.limits.document_bytes):
            ordered: dict[K, list[tuple[L, bytes]]] = {}
            for _, key, raw, line in self.lines(None):
                if key in now and not isinstance(line, Rejected):
                    ordered.setdefault(key, []).append((line, raw))
            for key, lines in ordered.items():
                session = self.begun(key, Unknown())  # what isn't understood was counted before
                session.keeps_texts = self.reading.keeps_texts
                for line, raw in self.sorted(lines):
                    session.add(line, raw)
                yield from session.entries(self.reading)
                self.unknown.spends |= session.unknown.spends  # they are counted with the bills
        if self.disordered:
            yield self._remark("were not in order of time, and were put in order", len(self.disordered))

    def sorted(self, lines: list[tuple[L, bytes]]) -> Iterable[tuple[L, bytes]]:
        """The lines of a session as they were written."""
        return in_order(lines)

    def _remark(self, what: str, n_sessions: int = 1) -> Remark:
        whose = "The lines" if n_sessions == 1 else f"The lines of {n_sessions:,} sessions"
        return Remark(file=self.reading.file, text=f"{whose} {what} ({self.reading.file}).")


@dataclass
class _Named(_Sessions[str | None, N]):
    """By the id in their lines; a line without one is of the session that was named last, else of the next."""

    decode: Callable[[bytes], N | None]
    listed: str
    _first: str | None = field(default=None, init=False)
    _ends: dict[str | None, int] | None = field(default=None, init=False)

    def lines(self, progress: Progress | None) -> Iterator[tuple[int, str | None, bytes, N | Rejected]]:
        current, pieces = self._first, None
        if self.listed and self.reading.shape == "object":
            pieces = self.reading.document(self.listed, progress).parts()
        for number, raw, line in self.reading.records(self.decode, progress, pieces, mends=True):
            if line is None:
                continue
            if not isinstance(line, Rejected):
                current = line.session_id or current
            yield number, current, raw, line

    def over(self, key: str | None, number: int) -> Iterable[str | None]:
        if self._first is None and key is not None:
            self._first = key
            if None in self.open:
                self.open[key] = self.open.pop(None)
                self.open[key].id = key
        if number < _LINES_HELD or not self.open:
            return ()
        if self._ends is None:
            self._ends = {}
            for at, one, _, line in self.lines(None):
                if not isinstance(line, Rejected):
                    self._ends[one] = at
                    self.reading.check_parts(len(self._ends))
        ends = self._ends
        return [one for one in self.open if one != key and ends.get(one, number) < number]

    def begun(self, key: str | None, unknown: Unknown) -> Session[N]:
        session = self.begin(unknown=unknown)
        session.id = key
        return session


@dataclass
class _Segments(_Sessions[int, L]):
    """Segments by number; 0 precedes the first header."""

    decode: Callable[[bytes], L | None]
    header_of: Callable[[L], str | None]
    _first: int = field(default=0, init=False)

    def lines(self, progress: Progress | None) -> Iterator[tuple[int, int, bytes, L | Rejected]]:
        """The same header again goes on with the same session."""
        segment, latest = 0, None
        for number, raw, line in self.reading.records(self.decode, progress, mends=True):
            if line is None:
                continue
            if not isinstance(line, Rejected):
                header = self.header_of(line)
                if header is not None and header != latest:
                    segment, latest = segment + 1, header
            yield number, max(segment, self._first), raw, line

    def over(self, key: int, number: int) -> Iterable[int]:  # noqa: ARG002 - a header says it
        return list(self.open) if key > 1 else ()

    def end(self) -> None:
        """Yield remarks; lines before the only header of a file may belong to its session."""
        before, after = self.open.get(0), self.open.get(1)
        if before is None or after is None:
            return
        is_one = before.is_mixed_with(after) or (before.is_broken and not after.n_facts)
        n_bytes = before.n_bytes + after.n_bytes
        if is_one and n_bytes <= self.reading.limits.document_bytes:
            self._first = 1
            self.open.clear()
            self.disordered[1] = n_bytes

    def sorted(self, lines: list[tuple[L, bytes]]) -> Iterable[tuple[L, bytes]]:
        """Return the lines in order; the header comes first at any time."""
        headers = [one for one in lines if self.header_of(one[0]) is not None]
        return (*headers, *in_order([one for one in lines if self.header_of(one[0]) is None]))


def in_order(lines: list[tuple[L, bytes]]) -> Iterator[tuple[L, bytes]]:
    """Return the lines in the order of writing: each after its predecessor, else by time, else as they are."""
    places: dict[str, int] = {}
    for position, (line, _) in enumerate(lines):
        if line.uuid is not None:
            places.setdefault(line.uuid, position)
    followers: dict[int, list[int]] = {}
    waiting: list[tuple[int, int]] = []
    at = 0
    for position, (line, _) in enumerate(lines):
        before = places.get(line.parent_uuid or "")
        at = at if (at_ms := utc_ms_of(line.timestamp)[0]) is None else at_ms
        if before is None or before == position:
            waiting.append((at, position))
        else:
            followers.setdefault(before, []).append(position)
    heapify(waiting)
    is_left = [True] * len(lines)
    while waiting:
        since, position = heappop(waiting)
        is_left[position] = False
        yield lines[position]
        for follower in followers.pop(position, ()):
            at_ms, _ = utc_ms_of(lines[follower][0].timestamp)
            heappush(waiting, (since if at_ms is None else at_ms, follower))
    # They follow each other in a ring.
    yield from (line for line, left in zip(lines, is_left, strict=True) if left)


def _batches(sizes: dict[K, int], most: int) -> Iterator[frozenset[K]]:
    """Keys with at most so many bytes together, if one alone hasn't more.

    >>> [sorted(batch) for batch in _batches({"a": 5, "b": 3, "c": 4}, 8)]
    [['a', 'b'], ['c']]
    """
    batch: list[K] = []
    total = 0
    for key, size in sizes.items():
        if batch and total + size > most:
            yield frozenset(batch)
            batch, total = [], 0
        batch.append(key)
        total += size
    if batch:
        yield frozenset(batch)
