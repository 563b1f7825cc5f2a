"""Session files: lines → runs, one per prompt of the person; each session of a file by itself.

A file may hold several sessions, one behind the other or written into one another. What a session calls, which of two
copies of it is the longer and in which order its lines were written is its own matter, so a joined file comes to what
its parts come to, in any order. Where no list of tools is in the file the inventory is what the session calls, so
runs are handed out once their session has been read; kept meanwhile are names, texts and counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Final, Generic, Protocol, TypeVar

import msgspec

from core.errors import InvalidInput
from core.formats.by_name import Offer
from core.formats.chat import argument_text, metadata, output_text
from core.formats.entries import Entry, Progress, Rejected, Remark, Skipped
from core.formats.line_order import Line, Order, in_order
from core.formats.moments import utc_ms_of
from core.formats.reading import Reading
from core.formats.tools import inferred
from core.formats.unknown import Unknown
from core.records.bill import Spent, heaviest, merged
from core.records.limits import MAX_TOKENS
from core.records.run import Call, Inventory, Run, Status, Usage, beyond
from core.records.transcript import Message, Talk

_LINES_HELD: Final = 50_000
"""So many lines of several sessions are held at once; of more it is found out first where each session ends."""


@dataclass(slots=True)
class Prompt(ABC):
    """A run whose lines are still being read; ``n_foreign`` are calls of a kind that is not understood, ``asked`` is
    what the person wrote. ``offer`` is what it had by name, in formats that say so.
    """

    identity: str
    request: str | None = None
    status: Status = "completed"
    provider: str | None = None
    model: str | None = None
    n_replies: int = 0
    n_foreign: int = 0
    last_time: str | float | None = None
    duration_ms: int | None = None
    calls: list[Call] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    by_sub_agents: list[Callable[[], Spent]] = field(default_factory=list)
    offer: Offer | None = None
    talk: Talk = field(default_factory=Talk)

    @property
    def reply(self) -> str | None:
        """The agent's last message."""
        return self.texts[-1] if self.texts else None

    @property
    @abstractmethod
    def usage(self) -> Usage | None:
        """The usage of its replies, where they report it."""

    @property
    def spent(self) -> Iterable[Spent]:
        """The disjoint counts of each reply with its model, where they report them."""
        return ()


K = TypeVar("K")
P = TypeVar("P", bound=Prompt)
L = TypeVar("L", bound=Line)


@dataclass
class Session(Order, ABC, Generic[P, L]):
    """The lines of one session, and its runs; each format defines how. ``n_facts`` counts what was read."""

    format_name: ClassVar[str]

    unknown: Unknown = field(default_factory=Unknown)
    id: str | None = None
    number: int = 0
    n_bytes: int = 0
    n_facts: int = 0
    prompts: list[P] = field(default_factory=list)
    prompt_chars: int | None = None
    keeps_texts: bool = False
    _talks: dict[str, Talk] = field(default_factory=dict, init=False)

    @abstractmethod
    def add(self, line: L, raw: bytes) -> None:
        """Add a line with its ``number``."""

    def add_text(self, prompt: P, text: str) -> None:
        """Add a text of the agent to a run."""
        prompt.texts.append(text)
        if self.keeps_texts:
            prompt.talk.add("agent", text)

    def add_call(
        self, prompt: P, name: str, arguments: bytes | msgspec.Raw, identity: str | None = None
    ) -> None:
        """Add a call to a run; ``identity`` is how its result names it."""
        prompt.calls.append(Call(name=name, metadata=metadata(bytes(arguments))))
        if self.keeps_texts:
            prompt.talk.call(name, argument_text(bytes(arguments)), identity)
            if identity:
                self._talks[identity] = prompt.talk

    def add_output(self, identity: str | None, output: bytes | msgspec.Raw) -> None:
        """Add the result of a call to the run that made it."""
        talk = self._talks.get(identity or "")
        if talk is not None and output:
            talk.result(output_text(output), identity)

    @property
    @abstractmethod
    def source(self) -> str:
        """The source that its runs name."""

    @property
    def name(self) -> str | None:
        """The session's name in its runs."""
        return self.source

    @property
    def rank(self) -> int:
        return self.n_facts

    def entries(self, reading: Reading) -> Iterator[Run | Rejected | Skipped]:
        """Yield all runs, once every line was added.

        A run with calls of unknown kinds only is left out, because it would pass for conversation. If that holds for
        all calls of the session, the session is left out.
        """
        n_foreign = sum(prompt.n_foreign for prompt in self.prompts)
        if n_foreign and not any(prompt.calls for prompt in self.prompts):
            yield self._refused(reading, n_foreign)
            return
        inventory_of = self.inventories(reading)
        for prompt in self.prompts:
            if prompt.n_foreign and not prompt.calls:
                yield self._refused(reading, prompt.n_foreign)
                continue
            try:
                yield self._run(prompt, inventory_of(prompt))
            except InvalidInput as error:  # counts that no run can have, once they are added up
                yield Rejected(file=reading.file, line=None, reason=error.problem)

    def inventories(self, reading: Reading) -> Callable[[P], Inventory]:
        """The inventory of each prompt."""
        whole = reading.supplied
        if whole is None:
            whole = inferred({call.name for prompt in self.prompts for call in prompt.calls})
        return lambda _: whole

    def _refused(self, reading: Reading, n_foreign: int) -> Rejected:
        return Rejected(file=reading.file, line=None, reason=self.unknown.no_call_is_known(n_foreign))

    def _run(self, prompt: P, inventory: Inventory) -> Run:
        ended_at_ms, is_naive = utc_ms_of(prompt.last_time)
        usage = prompt.usage
        spent = merged(prompt.spent) + _by_sub_agents(prompt)  # sorted: the agent's rows come first
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
            loaded=prompt.offer.loads(inventory) if prompt.offer else (),
            texts=tuple(prompt.texts),
            empty=prompt.n_replies == 0,
            prompt=prompt.request,
            reply=prompt.reply,
            messages=self._messages(prompt),
        )

    def _messages(self, prompt: P) -> tuple[Message, ...]:
        messages = prompt.talk.messages
        if not messages or not prompt.request:
            return messages
        return (Message(kind="user", text=prompt.request), *messages)


def _by_sub_agents(prompt: Prompt) -> tuple[Spent, ...]:
    """Return the tokens of a run's sub-agents; counts that no bill can have are a lower bound."""
    try:
        return merged(make() for make in prompt.by_sub_agents)
    except InvalidInput:
        return (Spent(owner="sub-agent", total=MAX_TOKENS),)


class NamedLine(Line, Protocol):
    """A line that also says whose it is."""

    @property
    def session_id(self) -> str | None: ...


N = TypeVar("N", bound=NamedLine)


def read_named(
    reading: Reading,
    progress: Progress | None,
    decode: Callable[[bytes], N | None],
    begin: Callable[[Unknown], Session[P, N]],
) -> Iterator[Entry]:
    """Runs of a file whose lines name their session; ``decode`` gives None for lines that are of no interest."""
    yield from _Named(reading, begin, decode).entries(progress)


def read_segments(
    reading: Reading,
    progress: Progress | None,
    decode: Callable[[bytes], L | None],
    begin: Callable[[Unknown], Session[P, L]],
    header_of: Callable[[L], str | None],
) -> Iterator[Entry]:
    """Yield the runs of a file whose sessions go from one header to the next.

    ``header_of`` returns the identity of a header line, None for all other lines.
    """
    yield from _Segments(reading, begin, decode, header_of).entries(progress)


@dataclass
class _Sessions(ABC, Generic[K, P, L]):
    """The sessions of one file, each handed out when it is over; those out of order are read again at the end."""

    reading: Reading
    begin: Callable[[Unknown], Session[P, L]]
    unknown: Unknown = field(default_factory=Unknown, init=False)
    open: dict[K, Session[P, L]] = field(default_factory=dict, init=False)
    disordered: dict[K, int] = field(default_factory=dict, init=False)

    @abstractmethod
    def lines(self, progress: Progress | None) -> Iterator[tuple[int, K, bytes, L | Rejected]]:
        """Yield every line with its number and the identity of its session."""

    @abstractmethod
    def over(self, key: K, number: int) -> Iterable[K]:
        """Sessions of which nothing more follows, now that a line of session ``key`` is read."""

    def end(self) -> None:
        """Yield remarks that precede the sessions that are still open."""

    def entries(self, progress: Progress | None) -> Iterator[Entry]:
        current: Session[P, L] | None = None
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
                current, latest = self.open[key], key
            current.number = number
            current.n_bytes += len(raw)
            current.add(line, raw)
        self.end()
        yield from self._handed_out(list(self.open))
        yield from self._put_in_order()
        yield from self.unknown.remarks(self.reading.file)

    def begun(self, key: K, unknown: Unknown) -> Session[P, L]:  # noqa: ARG002 - not all keys say something
        """A session of which nothing has been read."""
        return self.begin(unknown)

    def _handed_out(self, keys: Iterable[K]) -> Iterator[Entry]:
        for key in keys:
            session = self.open.pop(key)
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
        if self.disordered:
            yield self._remark("were not in order of time, and were put in order", len(self.disordered))

    def sorted(self, lines: list[tuple[L, bytes]]) -> Iterable[tuple[L, bytes]]:
        """The lines of a session as they were written."""
        return in_order(lines)

    def _remark(self, what: str, n_sessions: int = 1) -> Remark:
        whose = "The lines" if n_sessions == 1 else f"The lines of {n_sessions:,} sessions"
        return Remark(file=self.reading.file, text=f"{whose} {what} ({self.reading.file}).")


@dataclass
class _Named(_Sessions[str | None, P, N]):
    """By the id in their lines; a line without one is of the session that was named last, else of the next."""

    decode: Callable[[bytes], N | None]
    _first: str | None = field(default=None, init=False)
    _ends: dict[str | None, int] | None = field(default=None, init=False)

    def lines(self, progress: Progress | None) -> Iterator[tuple[int, str | None, bytes, N | Rejected]]:
        current = self._first
        for number, raw, line in self.reading.records(self.decode, progress, mends=True):
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
        ends = self._ends
        return [one for one in self.open if one != key and ends.get(one, number) < number]

    def begun(self, key: str | None, unknown: Unknown) -> Session[P, N]:
        session = self.begin(unknown)
        session.id = key
        return session


@dataclass
class _Segments(_Sessions[int, P, L]):
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
