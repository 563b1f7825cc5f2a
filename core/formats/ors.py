"""Recorded HTTP exchanges with an environment of the OpenReward Standard → their episodes.

A line is one exchange: ``{method, path, request_headers, request_body, status}`` and the answer. The answer is
``response_body`` (JSON), or the events of a stream as a list of ``{event, data}`` (``events``, or ``sse``) or as text
(``response_text``). ``at_ms`` is its time. A document ``{"episodes": {name: {"exchanges": […]}}}`` holds several
recordings.

``POST /create`` with a session begins an episode, every ``POST /{env}/call`` with it is a step, ``POST /delete`` ends
it. A long result comes in chunks, whose data are joined. A resumed call names its ``task_id`` and counts once. A
failed call is a step without a reward, and a call after the end is a refused one. Of a broken stream the received
part counts. A session without calls is no episode.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec
import orjson

from core.errors import InvalidInput
from core.formats.entries import Entry, Progress, Rejected
from core.formats.reading import Format, Head, Piece, Reading
from core.formats.stream import Damage
from core.formats.strict import UNDECODABLE, Flaw, check, named, plain
from core.formats.tool_output import digest_of_value, lenient, read_output, recorded, storable, task_of
from core.maths.episodes import closed
from core.records.episode import Episode, Step, StepNote
from core.records.limits import MAX_LABEL_CHARS, Millis

NAME: Final = "ors"

FINISHED: Final = "episode_finished"
"""Answer to a call after the end."""
_MARKS: Final = frozenset(("method", "path", "status"))
_ANSWERS: Final = frozenset(("events", "sse", "response_body", "response_text", "response_headers"))
_GONE: Final = 404
_ENDS: Final = frozenset(("end", "error"))


class _Event(msgspec.Struct):
    event: str = "message"
    data: str = ""


class _Exchange(msgspec.Struct):
    method: str
    path: str
    status: int
    request_headers: dict[str, Any] = {}
    request_body: Any = None
    events: list[_Event] | None = None
    sse: list[_Event] | None = None
    response_text: str | None = None
    response_body: Any = None
    at_ms: Millis | None = None

    @property
    def session(self) -> str | None:
        return next(
            (
                plain(value)
                for name, value in self.request_headers.items()
                if name.lower() == "x-session-id" and isinstance(value, str)
            ),
            None,
        )

    @property
    def stream(self) -> list[_Event]:
        """The events that were answered, however they were written down."""
        events = self.events if self.sse is None else self.sse
        if events is None:
            body = self.response_text if self.response_text is not None else self.response_body
            events = list(events_in(body)) if isinstance(body, str) else []
        return events

    @property
    def body(self) -> Mapping[str, Any]:
        return self.request_body if isinstance(self.request_body, dict) else {}


_EXCHANGE: Final = msgspec.json.Decoder(_Exchange)


class _Recording(msgspec.Struct):
    exchanges: list[msgspec.Raw] = []


class _Recordings(msgspec.Struct):
    episodes: dict[str, _Recording]
    source: str = ""


_RECORDINGS: Final = msgspec.json.Decoder(_Recordings)


def events_in(text: str) -> Iterator[_Event]:
    r"""Server-sent events (WHATWG HTML, section 9.2.6); one that is not ended by an empty line never arrived.

    >>> [(one.event, one.data) for one in events_in("event: end\r\ndata: a\r\ndata: b\r\n\r\ndata: cut")]
    [('end', 'a\nb')]
    """
    kind = ""
    data: list[str] = []
    for line in text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if not line:
            if data:
                yield _Event(event=kind or "message", data="\n".join(data))
            kind, data = "", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "data":
            data.append(value)


@dataclass(kw_only=True)
class _Answer:
    """The answer to a call; ``note`` is the reason for a missing output."""

    output: Mapping[str, Any] | None = None
    note: StepNote | None = None
    task_id: str | None = None
    arrived: str = ""


def _answer(exchange: _Exchange, before: str = "") -> _Answer:
    """Return the answer; ``before`` is the part that arrived before the last interruption."""
    if exchange.status >= 400:
        return _Answer(note="error")
    events = exchange.stream
    task_id = next((one.data for one in events if one.event == "task_id"), None)
    if not events and isinstance(exchange.response_body, dict):
        return _answer_of(exchange.response_body, None)
    last = next((one for one in events if one.event in _ENDS), None)
    arrived = "".join(one.data for one in events if one.event in {"chunk", "end"})
    if last is not None and last.event == "error":
        return _Answer(note="error", task_id=task_id)
    for whole in (arrived, before + arrived) if last is not None else ():
        try:
            return _answer_of(lenient(whole), task_id)
        except ValueError:
            continue
    return _Answer(note="cut", task_id=task_id, arrived=before + arrived)


def _answer_of(document: object, task_id: str | None) -> _Answer:
    if not isinstance(document, dict):
        return _Answer(note="error", task_id=task_id)
    output = document.get("output")
    if document.get("ok") is True and isinstance(output, dict):
        return _Answer(output=output, task_id=task_id)
    return _Answer(
        note="episode_finished" if document.get("reason") == FINISHED else "error", task_id=task_id
    )


@dataclass
class _Session:
    """An episode that goes on."""

    uid: str
    created: Mapping[str, Any]
    at_ms: int | None
    environment: str | None = None
    calls: dict[str, Step] = field(default_factory=dict)
    arrived: dict[str, str] = field(default_factory=dict)

    def call(self, environment: str, exchange: _Exchange) -> None:
        """Take a call; one that was resumed takes the place of what had broken off."""
        self.environment = self.environment or environment
        body = exchange.body
        resumed = body.get("task_id") if isinstance(body.get("task_id"), str) else None
        answer = _answer(exchange, self.arrived.get(resumed or "", ""))
        key = (resumed if resumed in self.calls else answer.task_id) or resumed or f"#{len(self.calls)}"
        known = self.calls.get(key)
        step = _step(len(self.calls) if known is None else known.number, body, answer, exchange.at_ms)
        if known is not None and known.note != "cut":
            if answer.note != "cut" and msgspec.structs.replace(step, at_ms=known.at_ms) != known:
                raise Flaw("answers a call that was answered before, with other content (conflict)")
            return
        self.calls[key], self.arrived[key] = step, answer.arrived

    def episode(self, prefix: str) -> Episode | None:
        """Return the episode; None without calls."""
        if not self.calls:
            return None
        environment = self.environment or NAME
        return Episode(
            uid=f"{environment}/{prefix}{self.uid}",
            environment=environment,
            format=NAME,
            split=named(self.created.get("split")),
            task=task_of(self.created.get("task_spec"), self.created.get("index")),
            at_ms=self.at_ms,
            steps=tuple(closed(self.calls.values())),
        )


def _step(number: int, body: Mapping[str, Any], answer: _Answer, at_ms: int | None) -> Step:
    step = msgspec.structs.replace(
        called(body.get("name"), body.get("input"), answer.note), number=number, at_ms=at_ms
    )
    return step if answer.output is None else answered(step, answer.output)


def called(name: object, arguments: object, note: StepNote | None = None) -> Step:
    """A call as a step, before it is known what it was answered; ``note`` says why it never was.

    >>> called("submit", {"answer": 3}, "error").n_chars_in
    13
    """
    text = None if arguments is None else json.dumps(arguments, ensure_ascii=False)
    return Step(
        number=0,
        name=storable(name),
        args_digest=digest_of_value(arguments),
        note=note,
        refused=note == FINISHED,
        n_chars_in=None if text is None else len(text),
        asked=text,
    )


def answered(step: Step, document: Mapping[str, Any]) -> Step:
    """The same with the tool output that it was answered.

    >>> answered(called("look", {}), {"blocks": [], "reward": 0.1, "finished": False}).reward
    0.1
    """
    output = read_output(document)
    return msgspec.structs.replace(
        step,
        reward=output.paid.reward,
        note=output.paid.note,
        finished=output.finished,
        n_chars_out=len(output.text),
        answered=output.text,
        extra=output.extra,
        meta_digest=output.meta_digest,
    )


class Recorder:
    """Exchanges in order → episodes, each at its session's end; ``prefix`` makes the ids of a recording unique."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._open: dict[str, _Session] = {}
        self._created: dict[str, int] = {}

    def take(self, exchange: _Exchange) -> Episode | None:
        """Take an exchange; the episode that it ended. Raises `Flaw` for what contradicts one before."""
        session = exchange.session
        if exchange.method.upper() != "POST" or session is None:
            return None
        parts = [part for part in exchange.path.partition("?")[0].split("/") if part]
        is_good = exchange.status < 400
        ended: _Session | None = None
        if parts[-1:] == ["call"] and len(parts) > 1:
            going_on = self._open.get(session)
            if going_on is not None and exchange.status != _GONE:
                going_on.call(parts[-2].lower()[:MAX_LABEL_CHARS], exchange)
        elif parts == ["create"] and is_good:
            ended = self._open.pop(session, None)
            self._open[session] = self._begun(session, exchange)
        elif parts in (["delete"], ["delete_session"]) and is_good:
            ended = self._open.pop(session, None)
        return None if ended is None else ended.episode(self._prefix)

    def rest(self) -> Iterator[Episode | InvalidInput]:
        """Episodes whose sessions were never deleted, and why one can't be."""
        for session in self._open.values():
            try:
                episode = session.episode(self._prefix)
            except InvalidInput as problem:
                yield problem
            else:
                if episode is not None:
                    yield episode

    def _begun(self, session: str, exchange: _Exchange) -> _Session:
        ordinal = self._created.get(session, 0)
        self._created[session] = ordinal + 1
        uid = f"{session}/{ordinal}" if ordinal else session
        environment = exchange.body.get("env_name")
        own = environment.lower()[:MAX_LABEL_CHARS] if isinstance(environment, str) and environment else None
        return _Session(uid, exchange.body, exchange.at_ms, own)


def _claims(head: Head) -> bool:
    if "episodes" in head.keys and b'"exchanges"' in head.start:
        return True
    return any(line.keys() >= _MARKS and line.keys() & _ANSWERS for line in head.lines)


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    def lines(pieces: Iterable[Piece]) -> Iterator[Entry]:
        return _entries_of(reading, pieces, Recorder())

    return recorded(reading, progress, "episodes", partial(_document, reading), lines)


def _document(reading: Reading, raw: bytes) -> Iterator[Entry]:
    recordings = reading.decoded_whole(_RECORDINGS, raw)
    for name, recording in recordings.episodes.items():
        prefix = f"{digest_of_value([recordings.source, name])}/"
        pieces: Iterable[Piece] = (
            (number, bytes(raw)) for number, raw in enumerate(recording.exchanges, start=1)
        )
        yield from _entries_of(reading, pieces, Recorder(prefix))


def _entries_of(reading: Reading, pieces: Iterable[Piece], recorder: Recorder) -> Iterator[Entry]:
    mended = ((number, _mended(piece, reading.limits.depth)) for number, piece in pieces)
    for number, raw, exchange in reading.records(_EXCHANGE.decode, pieces=mended):
        try:
            entry = exchange if isinstance(exchange, Rejected) else recorder.take(exchange)
        except (Flaw, InvalidInput) as error:
            entry = reading.rejected(number, error, raw)
        if entry is not None:
            yield entry
    for left in recorder.rest():
        if isinstance(left, InvalidInput):
            yield Rejected(file=reading.file, line=None, reason=left.problem)
        else:
            yield left


def _mended(piece: bytes | Damage, depth: int) -> bytes | Damage:
    """A line whose chunks split a character, with what they hold in one; any other as it is."""
    if isinstance(piece, Damage):
        return piece
    try:
        check(piece, depth)
    except Flaw:
        return _joined(piece)
    except UNDECODABLE:
        return piece
    return piece


def _joined(line: bytes) -> bytes:
    try:
        event = json.loads(line)
        name = "sse" if event.get("sse") is not None else "events"
        pieces = [one for one in event[name] if one.get("event") in {"chunk", "end"}]
        whole = "".join(one["data"] for one in pieces)
        others = [one for one in event[name] if one not in pieces]
        text = whole.encode("utf-16", "surrogatepass").decode("utf-16")
        return orjson.dumps({**event, name: [*others, {"event": "end", "data": text}]})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return line


FORMAT: Final = Format(
    name=NAME, units=(), claims=_claims, read=_read, takes_tools=False, may_be_document="episodes"
)
