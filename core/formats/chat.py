"""Messages of a benchmark record → runs: the whole record, or one per turn of the user.

Only role ``assistant`` counts: the user may be simulated and call tools too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Final, NamedTuple
from zlib import crc32

import msgspec
from msgspec.structs import replace

from core.errors import InvalidInput
from core.formats.entries import Entry, Outside, Progress, Rejected, Remark
from core.formats.reading import Head, Piece, Reading, first_keys
from core.formats.split import SLICE_BYTES
from core.formats.strict import utc_ms_of
from core.formats.tools import inferred
from core.formats.unknown import Unknown
from core.records.bill import Spent, merged
from core.records.counts import number_of
from core.records.episode import Episode, Step
from core.records.episode import Part as RewardPart
from core.records.limits import Label
from core.records.run import (
    FIRST,
    MARKED_BYTES,
    MESSAGES,
    METADATA_CHARS,
    PLACE,
    Call,
    History,
    Inventory,
    Rollout,
    Run,
    Status,
    Usage,
    beyond,
    digest_of_uid,
    rows_of_usage,
    sampled,
)
from core.records.transcript import READ_CHARS, Talk
from core.records.transcript import Message as Spoken

_DIVIDED: Final = "A record has several rewards and none of the whole, so its episode is unpaid."
_RESULT_ROLES: Final = frozenset(("tool", "function", "environment"))
_ROLES: Final = frozenset(("system", "developer", "user", "tool", "function", "environment", "exit"))
"""Roles whose messages are no replies. A message with another one may be a reply in a form that is not read."""
_CALL_PARTS: Final = frozenset(("tool_use", "server_tool_use", "mcp_tool_use"))
_PARTS: Final = _CALL_PARTS | {
    "text",
    "input_text",
    "output_text",
    "image",
    "image_url",
    "input_image",
    "input_audio",
    "audio",
    "video",
    "video_url",
    "file",
    "input_file",
    "document",
    "refusal",
    "thinking",
    "redacted_thinking",
    "reasoning",
    "tool_result",
    "data",
}
_RESULT: Final = "_tool_result"

Pieces = Callable[[Progress | None], Iterator[Piece]]
"""Goes through a file's pieces, every time it is called."""

BY_CONTENT: Final = re.compile(
    r"/[0-9a-f]{32}-\d|^swe-agent/|^atif/.*/[0-9a-f]{16}(/|$)|^(openclaw-export|factory-droid)/.*/[0-9a-f]{32}$"
)
"""In the uid of a run whose record has no id, or one that its program may give to all."""
_HELD_BYTES: Final = 8 << 20
_LENGTH_BITS: Final = 20
"""In a rank the state is above the length."""
_CANONICAL: Final = msgspec.json.Encoder(order="deterministic")
_ELEMENTS: Final = msgspec.json.Decoder(list[msgspec.Raw])


class Requested(NamedTuple):
    """A call as the model requested it; ``identity`` is how its result names it."""

    name: str
    arguments: msgspec.Raw
    identity: msgspec.Raw = msgspec.Raw(b"")

    @property
    def call(self) -> Call:
        return Call(name=self.name, metadata=metadata(bytes(self.arguments)))


class Part(msgspec.Struct):
    """A piece of a message's content: a text, or one of Anthropic's blocks, of which calls are read."""

    text: str | None = None
    type: str | None = None
    name: Label | None = None
    input: msgspec.Raw = msgspec.Raw(b"")
    id: msgspec.Raw = msgspec.Raw(b"")
    tool_use_id: msgspec.Raw = msgspec.Raw(b"")
    content: msgspec.Raw = msgspec.Raw(b"")

    @property
    def requested(self) -> Requested | None:
        if self.type not in _CALL_PARTS or not self.name:
            return None
        return Requested(self.name, self.input, self.id)


class Function(msgspec.Struct):
    name: Label
    arguments: msgspec.Raw = msgspec.Raw(b"")
    input: msgspec.Raw = msgspec.Raw(b"")

    @property
    def written(self) -> msgspec.Raw:
        """The arguments."""
        return self.arguments or self.input


class ToolCall(msgspec.Struct):
    """A call, named by ``function``, by ``custom``, or by ``name`` or ``function`` beside its arguments."""

    function: Function | Label | None = None
    custom: Function | None = None
    name: Label | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"")
    id: msgspec.Raw = msgspec.Raw(b"")

    @property
    def requested(self) -> Requested | None:
        named = self.function or self.custom
        if isinstance(named, Function):
            return Requested(named.name, named.written, self.id)
        name = named or self.name
        return None if name is None else Requested(name, self.arguments, self.id)


class Message(msgspec.Struct):
    """A chat message; ``function_call`` is the older form. Anthropic's calls are parts, their results the user's."""

    role: str
    content: str | list[Part] | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: Function | None = None
    parts: msgspec.Raw = msgspec.Raw(b"")
    other_calls: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="toolCalls")
    tool_call_id: msgspec.Raw = msgspec.Raw(b"")

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n".join([part.text for part in self.content or () if part.text is not None])

    @property
    def requested(self) -> list[Requested]:
        if not self.tool_calls and self.function_call is None and not isinstance(self.content, list):
            return []  # as in most messages
        calls = [called.requested for called in self.tool_calls or ()]
        if self.function_call is not None:
            calls.append(Requested(self.function_call.name, self.function_call.written))
        if isinstance(self.content, list):
            calls += [part.requested for part in self.content]
        return [call for call in calls if call is not None]

    @property
    def calls(self) -> list[Call]:
        return [one.call for one in self.requested]

    def tell(self, talk: Talk) -> None:
        """Add the message to a transcript; a result that names no call is that of the first one without."""
        if self.role == "assistant":
            talk.add("agent", self.text)
            for name, arguments, identity in self.requested:
                talk.call(name, argument_text(bytes(arguments)), identity_of(identity))
        elif self.role in _RESULT_ROLES:
            talk.result(self.text, identity_of(self.tool_call_id))
        elif self.role == "user":
            for part in self.content if isinstance(self.content, list) else ():
                if part.type == "tool_result":
                    talk.result(output_text(part.content), identity_of(part.tool_use_id))
            talk.add("user", self.text)

    @property
    def opens_turn(self) -> bool:
        """Return whether the user says something; a message with results only does not."""
        if self.role != "user":
            return False
        if isinstance(self.content, list) and any(part.type == "tool_result" for part in self.content):
            return False
        return bool(self.text.strip())

    def foreign(self, unknown: Unknown) -> int:
        """Count what is not understood of it; how much of that may be calls."""
        n_calls = 0
        if isinstance(self.content, list):
            for part in self.content:
                if part.type is not None and part.type not in _PARTS and not part.type.endswith(_RESULT):
                    n_calls += unknown.block(part.type)
        for name, held in (("parts", self.parts), ("toolCalls", self.other_calls)):
            if held and bytes(held) not in (b"null", b"[]", b"{}"):
                unknown.field(name)
                n_calls += 1
        return n_calls

    @property
    def sent_at(self) -> str | None:
        """The time when it was sent, where a format has it."""
        return None


@dataclass(frozen=True, kw_only=True)
class Record:
    """A record in the terms of all formats; ``declared`` None = it lists no tools.

    ``identity`` None = the record has no id of its own. ``rank`` is the length of a record that grows. ``state``
    orders states of one record: the higher is later, 0 = unknown. Reward, usage and duration belong to the full
    record. ``spent`` are the disjoint counts by model where ``usage`` does not show them, ``unread`` the names of
    amounts that are not understood. ``environment`` paid the reward for ``task``. ``parts`` are its parts. A record
    with an ``environment`` is an episode even where it was not paid. ``is_divided``: it has several rewards and none
    of the whole. ``broken`` is the type of the error that ended it. ``place`` names its place in an evaluation: a
    record that was done again has the same one.
    """

    messages: Sequence[Message]
    declared: Inventory | None = None
    identity: str | None = None
    rank: int | None = None
    state: int = 0
    session: str | None = None
    model: str | None = None
    reward: float | None = None
    environment: str | None = None
    broken: str | None = None
    place: str | None = None
    task: str | None = None
    parts: tuple[RewardPart, ...] = ()
    is_divided: bool = False
    usage: Usage | None = None
    spent: tuple[Spent, ...] = ()
    unread: Sequence[str] = ()
    duration_ms: int | None = None
    ended_at: str | float | None = None
    status: Status = "completed"


@dataclass
class Segment:
    """A segment of a conversation, still growing; ``asked`` is the user's text at its start."""

    user_text: str | None = None
    n_replies: int = 0
    n_foreign: int = 0
    calls: list[Call] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    ended_at: str | None = None
    heard: list[Message] = field(default_factory=list)

    def add(self, message: Message, unknown: Unknown) -> None:
        self.heard.append(message)
        self.n_replies += 1
        self.n_foreign += message.foreign(unknown)
        self.ended_at = message.sent_at or self.ended_at
        self.calls.extend(message.calls)
        if text := message.text:
            self.texts.append(text)

    def pass_over(self, message: Message, unknown: Unknown) -> None:
        """Count a message of an unknown role; one with calls hides what the agent called."""
        self.heard.append(message)
        if message.role not in _ROLES:
            unknown.line(f"message of {message.role}")
            self.n_foreign += message.foreign(unknown) + len(message.calls)

    @property
    def messages(self) -> tuple[Spoken, ...]:
        """The transcript."""
        talk = Talk()
        for message in self.heard:
            message.tell(talk)
        return talk.messages


def metadata(arguments: bytes) -> str:
    r"""At most 200 characters of a call's arguments: of their text, or of their JSON without escapes.

    >>> metadata(b'"{\\"city\\": \\"Rome\\"}"'), metadata(b'{"skill": "caf\\u00e9"}')
    ('{"city": "Rome"}', '{"skill":"café"}')
    """
    if arguments.startswith(b'"'):
        return msgspec.json.decode(arguments, type=str)[:METADATA_CHARS]
    if b"\\u" in arguments:
        arguments = msgspec.json.encode(msgspec.json.decode(arguments))
    elif b"\n" in arguments:  # an indented document; inside a text there is no bare line break
        arguments = msgspec.json.format(arguments, indent=-1)
    # No character takes more than four bytes; one cut in half at the end is dropped.
    return arguments[: 4 * METADATA_CHARS].decode(errors="ignore")[:METADATA_CHARS]


def one_spelling(arguments: bytes) -> bytes:
    r"""Return JSON without spaces between its parts and without escapes of single characters.

    >>> one_spelling(b'{ "skill": "caf\\u00e9" }') == one_spelling('{"skill":"café"}'.encode())
    True
    """
    if b"\\u" in arguments:
        return msgspec.json.encode(msgspec.json.decode(arguments))
    return msgspec.json.format(arguments, indent=-1) if arguments else b""


def turns(messages: Sequence[Message], unknown: Unknown) -> tuple[Segment, list[Segment]]:
    """Return the part before the first user text, and the turns that user texts open."""
    before = current = Segment()
    opened: list[Segment] = []
    for message in messages:
        if message.role == "assistant":
            current.add(message, unknown)
        elif message.opens_turn:
            current = Segment(user_text=message.text, heard=[message])
            opened.append(current)
        else:
            current.pass_over(message, unknown)
    return before, opened


def episode(messages: Sequence[Message], unknown: Unknown) -> Segment:
    """Return all replies as one segment; it begins with the user's first text."""
    whole = Segment()
    for message in messages:
        if message.role == "assistant":
            whole.add(message, unknown)
        elif whole.user_text is None and message.opens_turn:
            whole.user_text = message.text
            whole.heard.append(message)
        else:
            whole.pass_over(message, unknown)
    return whole


def lists_messages(head: Head, name: str) -> bool:
    """Return whether a field holds messages with a role; those with ``parts`` in place of content are Gemini's."""
    match = re.search(rb'"%b"\s*:\s*\[\s*\{' % name.encode(), head.start)
    if match is None:
        return False
    keys = set(first_keys(head.start[match.end() - 1 :]))
    return "role" in keys and ("parts" not in keys or "content" in keys)


def identity_of(raw: msgspec.Raw) -> str | None:
    """Return the id of a call as its source writes it; None for none."""
    value = msgspec.json.decode(raw) if raw else None
    return None if value in {None, ""} else str(value)


def argument_text(arguments: bytes) -> str:
    r"""Return the arguments of a call as text, as far as a transcript reads them.

    >>> argument_text(b'"{\\"city\\": \\"Rome\\"}"'), argument_text(b'{"skill":"caf\\u00e9"}')
    ('{"city": "Rome"}', '{"skill":"café"}')
    """
    if not arguments or arguments == b"null":
        return ""
    value = msgspec.json.decode(arguments)
    if not isinstance(value, str):
        value = msgspec.json.encode(value).decode()
    return value[:READ_CHARS]


def output_text(output: bytes | msgspec.Raw) -> str:
    r"""Return the result of a call as text: a text, the texts of its parts, or its JSON.

    >>> output_text(b'"4"'), output_text(b'[{"type": "text", "text": "a"}, {"type": "image"}]')
    ('4', 'a\n[image]')
    """
    value = msgspec.json.decode(output) if output else ""
    if isinstance(value, list) and any(isinstance(one, dict) and "type" in one for one in value):
        parts = [one for one in value if isinstance(one, dict)]
        value = "\n".join(str(one.get("text") or f"[{one.get('type')}]") for one in parts)
    return (value if isinstance(value, str) else msgspec.json.encode(value).decode())[:READ_CHARS]


Decode = Callable[[bytes], Record]


def read(
    format_name: str,
    reading: Reading,
    progress: Progress | None,
    decode: Decode,
    *,
    pieces: Pieces | None = None,
    about: str = "",
    resumes: bool = False,
) -> Iterator[Entry]:
    """Runs of a file of records, in its order; ``pieces`` None = its lines, or the elements of its array.

    Identity of a record: its own id, else the hash of its canonical JSON, its ordinal among identical ones in the
    file, and ``about``, which names the environment and the model of the file. Records of one id with other content
    stay apart. ``resumes``: the files of an evaluation that was resumed are states of it. Without a declared or
    supplied list the inventory is what the file's records call, so the longer file's inventory supersedes
    (`Run.rank`), and a file beyond a few MiB is read twice.
    """
    pieces = pieces or reading.pieces
    unknown = Unknown()
    called: _Called | None = None

    def again() -> Iterator[tuple[int, bytes, Record | Rejected]]:
        return reading.records(decode, pieces=pieces(None))

    names = _Names(decode, again, about)
    evaluation = _Evaluation(format_name, about)
    records = reading.records(names.identified, pieces=pieces(progress))
    held, n_bytes = list[tuple[int, bytes, tuple[Record, str] | Rejected]](), 0
    for number, raw, decoded in records:
        content = b"" if isinstance(decoded, Rejected) else raw
        held.append((number, content, decoded))
        if n_bytes > _HELD_BYTES:  # of the rows before: one large record alone is not read twice
            if resumes:
                evaluation.read(reading.records(_Names(decode, again, about).identified, pieces=pieces(None)))
            break
        n_bytes += len(content)
    else:
        called = _called(row[2] if isinstance(row[2], Rejected) else row[2][0] for row in held)
        if resumes:
            evaluation.read(held)
    for number, raw, decoded in chain(held, records):
        if isinstance(decoded, Rejected):
            yield decoded
            continue
        record, source = decoded
        inventory, rank = record.declared or reading.supplied, len(record.messages)
        if inventory is None:
            called = called or _called(row[2] for row in again())
            inventory, rank = called.inventory, record.rank or called.n_records
        one = _RecordRuns(
            format_name=format_name,
            reading=reading,
            number=number,
            record=record,
            source=source,
            inventory=inventory,
            rank=rank + (max(record.state - 1, 0) << _LENGTH_BITS),
            unknown=unknown,
            history=evaluation.history(record, source) if resumes else _placed(format_name, record),
        )
        try:
            yield from one.entries()
        except InvalidInput as error:  # counts that no run can have, once they are added up
            yield reading.rejected(number, error, raw)
    unknown.n_shared = names.n_shared
    yield from unknown.remarks(reading.file)
    if names.n_alike:
        alike = f"{number_of(names.n_alike, 'record')} equal to another one, without times"
        yield Remark(file=reading.file, text=f"{alike}: each counts, and may be a copy ({reading.file}).")


@dataclass(frozen=True, kw_only=True)
class _RecordRuns:
    """A record in its place, ready to become runs."""

    format_name: str
    reading: Reading
    number: int
    record: Record
    source: str
    inventory: Inventory
    rank: int
    unknown: Unknown
    history: History | None = None

    def entries(self) -> Iterator[Entry]:
        """Its runs and episode; none with calls of unknown kinds alone, because it would pass for conversation."""
        runs: list[str] = []
        for entry in self._entries():
            if isinstance(entry, Run):
                runs.append(entry.uid)
            yield entry
        paid = self._paid(tuple(runs))
        if paid is not None:
            yield paid
        if paid is not None and self.record.is_divided and not paid.broken:
            yield Remark(file=self.reading.file, text=_DIVIDED)

    def _paid(self, runs: tuple[str, ...]) -> Episode | None:
        """Return the record's final reward, the same in every unit; its earlier calls earned nothing."""
        record = self.record
        if record.reward is None and record.environment is None:
            return None
        whole = self._whole
        if whole.n_foreign and not whole.calls:
            return None
        at_ms, _ = utc_ms_of(record.ended_at)
        answers = [message.text for message in record.messages if message.role == "tool"]
        answered: Sequence[str | None] = answers
        if len(answers) != len(whole.calls):  # which is of which is not known
            answered = [None] * len(whole.calls)
        calls = [
            Step(number=number, name=call.name, asked=call.metadata or None, answered=answer)
            for number, (call, answer) in enumerate(zip(whole.calls, answered, strict=True))
        ]
        outcome = Step(
            number=len(calls),
            kind="outcome",
            name=record.broken or "",
            note=None if record.broken is None else "error",
            reward=record.reward,
            finished=True,
            at_ms=at_ms,
            n_chars_in=len(whole.texts[-1]) if whole.texts else 0,
            asked=whole.texts[-1] if whole.texts else None,
        )
        return Episode(
            uid=f"{self.format_name}/{self.source}",
            environment=record.environment or self.format_name,
            format=self.format_name,
            task=record.task,
            model=record.model,
            at_ms=at_ms,
            broken=record.broken is not None,
            steps=(*calls, outcome),
            rank=record.state,
            parts=record.parts,
            runs=runs,
        )

    @cached_property
    def _whole(self) -> Segment:
        """All replies; what is not understood of a record in turns is counted in these."""
        return episode(self.record.messages, self.unknown if self.reading.unit == "episode" else Unknown())

    def _entries(self) -> Iterator[Entry]:
        if self.reading.unit == "episode":
            yield self._run(self._whole, self.source, is_last=True)
            return
        before, opened = turns(self.record.messages, self.unknown)
        if before.n_replies or not opened:
            yield Outside(
                file=self.reading.file,
                line=self.number,
                n_replies=before.n_replies,
                n_calls=len(before.calls),
                no_user_text=not opened,
            )
        for ordinal, segment in enumerate(opened):
            yield self._run(segment, f"{self.source}/{ordinal}", is_last=ordinal == len(opened) - 1)

    def _run(self, segment: Segment, identity: str, *, is_last: bool) -> Run | Rejected:
        """Return a turn's run; reward, usage and duration are the whole record's, and its end the last turn's."""
        if segment.n_foreign and not segment.calls:
            reason = self.unknown.no_call_is_known(segment.n_foreign)
            return Rejected(file=self.reading.file, line=self.number, reason=reason)
        is_whole = self.reading.unit == "episode"
        ended_at_ms, is_naive = utc_ms_of(self.record.ended_at if is_whole else segment.ended_at)
        return Run(
            uid=f"{self.format_name}/{self.reading.unit}/{identity}",
            inventory=self.inventory,
            format=self.format_name,
            unit=self.reading.unit,
            source=self.source,
            rank=self.rank,
            session=self.record.session or self.source,
            ended_at_ms=ended_at_ms,
            naive_time=is_naive,
            model=self.record.model,
            status=self.record.status if is_last else "completed",
            reward=self.record.reward if is_whole else None,
            usage=self.record.usage if is_whole else None,
            bill=self._bill() if is_whole else (),
            duration_ms=self.record.duration_ms if is_whole else None,
            calls=tuple(segment.calls),
            texts=tuple(segment.texts),
            empty=segment.n_replies == 0,
            prompt=segment.user_text,
            reply=segment.texts[-1] if segment.texts else None,
            messages=segment.messages if self.reading.keeps_texts else (),
            history=self.history if is_whole else None,
        )

    def _bill(self) -> tuple[Spent, ...]:
        record = self.record
        if not record.unread:
            return beyond(record.usage, record.spent, record.model)
        rows = record.spent or [replace(row, model=record.model) for row in rows_of_usage(record.usage)]
        return merged((*rows, Spent(model=record.model, unread=self.unknown.spend(record.unread))))


class _Names:
    """Identities of records: their own ids, or digests with an ordinal for repeats.

    A million records cost about 100 MB, so only 64 bits of each hash are held. Two equal hashes of different records
    would still get different identities.
    """

    def __init__(
        self, decode: Decode, again: Callable[[], Iterable[tuple[int, bytes, Record | Rejected]]], about: str
    ) -> None:
        self._decode, self._again, self._about = decode, again, about
        self._ids: set[int] = set()
        self._repeats: dict[int, int] = {}
        self._first: dict[str, int] = {}
        self._states: dict[str, list[tuple[str, int, bytes]]] = {}
        self._marks: dict[int, bytes] | None = None
        self.n_alike = self.n_shared = 0

    def identified(self, raw: bytes) -> tuple[Record, str]:
        """Return the record of some JSON, and its identity."""
        record = self._decode(raw)
        if record.identity is not None:
            return record, self._own(record.identity, raw, record)
        return record, self._ordinal(raw, is_timed=record.ended_at is not None) + self._about

    def _own(self, identity: str, raw: bytes, record: Record) -> str:
        """Return the id of a record, with a digest where an earlier one of this id has other content."""
        content = crc32(raw)
        first = self._first.setdefault(identity, content)
        if first == content:
            return identity
        if self._marks is None:
            self._marks = {
                crc32(one): _marks(row) for _, one, row in self._again() if isinstance(row, Record)
            }
        marks = _marks(record)
        states = self._states.setdefault(identity, [(identity, first, self._marks.get(first, b""))])
        for name, known, before in states:
            n_both = min(len(before), len(marks))
            if known == content or (len(before) != len(marks) and before[:n_both] == marks[:n_both]):
                return name
        states.append((f"{identity}~{content:08x}", content, marks))
        self.n_shared += 1
        return states[-1][0]

    def _ordinal(self, raw: bytes, *, is_timed: bool) -> str:
        sha = hashlib.sha256()
        for part in _canonical(raw):
            sha.update(part)
        digest = sha.digest()[:16]
        short = int.from_bytes(digest[:8])
        ordinal = 0
        if short in self._ids:
            ordinal = self._repeats[short] = self._repeats.get(short, 0) + 1
            self.n_alike += not is_timed
        self._ids.add(short)
        return f"{digest.hex()}-{ordinal}"


def _canonical(raw: bytes) -> Iterator[bytes]:
    """Yield the canonical JSON of an object; the elements of the lists of a large one are decoded one by one.

    >>> b"".join(_canonical(b'{"b": [1, {}], "c": [],' + b" " * 300_000 + b'"a": 2}'))
    b'{"a":2,"b":[1,{}],"c":[]}'
    """
    fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw]) if len(raw) > SLICE_BYTES else {}
    for place, name in enumerate(sorted(fields)):
        yield (b"," if place else b"{") + msgspec.json.encode(name) + b":"
        is_list = memoryview(fields[name])[0] == ord("[")
        yield b"[" * is_list
        for at, one in enumerate(_ELEMENTS.decode(fields[name]) if is_list else [fields[name]]):
            yield b"," * (at > 0) + _CANONICAL.encode(msgspec.json.decode(one))
        yield b"]" * is_list
    yield b"}" if fields else _CANONICAL.encode(msgspec.json.decode(raw))


def _marks(record: Record) -> bytes:
    """Return four bytes for each message of a record."""
    marks = b""
    for one in record.messages:
        calls = [(call.name, one_spelling(bytes(call.arguments))) for call in one.requested]
        marks += crc32(ascii((one.role, one.text, calls)).encode()).to_bytes(4, "big")
    return marks


def _key(*names: str | None) -> int:
    return int.from_bytes(hashlib.sha256(msgspec.json.encode(names)).digest()[:8]) >> 1


def _placed(format_name: str, record: Record) -> History | None:
    """Return what a record with an id is known again by: its place in an evaluation, or its messages."""
    if record.place is not None:
        key = _key(format_name, record.place)
        return History(key=key, marks=PLACE + key.to_bytes(8, "big"))
    return None if record.identity is None else History(marks=MESSAGES + _marks(record)[:MARKED_BYTES])


class _Evaluation:
    """Rollouts of one file by their tasks, as digests of their uids."""

    def __init__(self, format_name: str, about: str) -> None:
        self._format_name, self._about = format_name, about
        self._by_task: dict[int, list[int]] = {}
        self._good: tuple[int, ...] = ()

    def read(self, rows: Iterable[tuple[int, bytes, tuple[Record, str] | Rejected]]) -> None:
        good = []
        for _, _, row in rows:
            if not isinstance(row, Rejected):
                record, source = row
                digest = self._digest(source)
                self._by_task.setdefault(self._key(record), []).append(digest)
                if record.broken is None:
                    good.append(digest)
        self._good = sampled(good, good[:FIRST])

    def history(self, record: Record, source: str) -> History:
        """Return the marks of a rollout."""
        own, key = self._digest(source), self._key(record)
        beside = tuple(one for one in self._by_task.get(key, ()) if one != own)
        return Rollout(own, record.broken is not None, self._good, beside).history(key)

    def _digest(self, source: str) -> int:
        return digest_of_uid(f"{self._format_name}/episode/{source}")

    def _key(self, record: Record) -> int:
        return _key(self._format_name, self._about, record.environment, record.task)


@dataclass(frozen=True)
class _Called:
    inventory: Inventory
    n_records: int


def _called(records: Iterable[Record | Rejected]) -> _Called:
    """Names called in all records that list no tools themselves, and how many those are."""
    names: set[str] = set()
    n_records = 0
    for record in records:
        # What could not be read is reported where the runs are read.
        if not isinstance(record, Rejected) and record.declared is None:
            n_records += 1
            replies = (one for one in record.messages if one.role == "assistant")
            names.update(call.name for one in replies for call in one.requested)
    return _Called(inferred(names), n_records)
