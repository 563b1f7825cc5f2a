"""Rollout events as OpenReward's client uploads them → episodes.

A line is one event, or a batch ``{"events": […]}``; a document may be one batch, or several recordings under
``rollouts``. Events come in any order and more than once, ``eventId`` tells them apart (an update has its rollout's);
``index`` orders messages. A tool's result is a step, and so is any other message that is paid or ends the rollout.

One message of several blocks is logged as several events that repeat its reward: events of consecutive ``index``, of
one side (what the agent says; what it is answered), with equal reward, end and metadata and at most 50 ms apart count
once, on the last of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from core.episodes import closed
from core.errors import InvalidInput
from core.formats.entries import Entry, Progress, Rejected, Remark
from core.formats.identity import named, plain
from core.formats.reading import Format, Head, Piece, Reading
from core.formats.stream import Damage
from core.formats.strict import UNDECODABLE, Flaw
from core.formats.tool_output import digest_of_value, first_of, paid_of
from core.records.counts import number_of
from core.records.episode import Episode, Step, StepNote
from core.records.limits import MAX_LABEL_CHARS, Count, Millis

NAME: Final = "openreward"

SPLIT_MS: Final = 50
"""Blocks of one message are logged at most so far apart."""
Side = Literal["agent", "answer", "other"]
_SIDES: Final[dict[str, Side]] = {
    "reasoning": "agent",
    "assistant_message": "agent",
    "tool_call": "agent",
    "tool_result": "answer",
    "user_message": "answer",
}
_RESULT: Final = "tool_result"
_CALL: Final = "tool_call"


class _Event(msgspec.Struct):
    """Any event; which of the members it has goes by its type."""

    event_id: str = msgspec.field(name="eventId")
    timestamp: Millis
    event_type: str = msgspec.field(name="eventType", default="")
    rollout: str | None = msgspec.field(name="rolloutEventId", default=None)
    index: Count | None = None
    type: str = ""
    content: str | None = None
    name: str | None = None
    call_id: str | None = msgspec.field(name="callId", default=None)
    reward: Any = None
    finished: bool | None = msgspec.field(name="isFinished", default=None)
    metadata: dict[str, Any] | None = None
    environment: str | None = None
    environment_id: str | None = None
    variant: str | None = None
    split: str | None = None
    task_spec: dict[str, Any] | None = None
    run_info: dict[str, Any] | None = None
    rollout_info: dict[str, Any] | None = None


class _Batch(msgspec.Struct):
    events: list[msgspec.Raw]


class _Recordings(msgspec.Struct):
    rollouts: dict[str, _Batch]
    source: str = ""


_EVENT: Final = msgspec.json.Decoder(_Event)
_BATCH: Final = msgspec.json.Decoder(_Batch)
_RECORDINGS: Final = msgspec.json.Decoder(_Recordings)
_KEYS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Message(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a message until all have come."""

    index: int
    at_ms: int
    type: str
    name: str
    call_id: str | None
    n_chars: int
    reward: float | None
    note: StepNote | None
    finished: bool
    meta_digest: str | None
    args_digest: str | None

    @property
    def side(self) -> Side:
        return _SIDES.get(self.type, "other")

    def goes_on(self, before: _Message) -> bool:
        """Whether it is a further block of the message that another is a block of."""
        return (
            self.reward is not None
            and self.index == before.index + 1
            and self.side == before.side != "other"
            and (self.reward, self.finished, self.meta_digest)
            == (before.reward, before.finished, before.meta_digest)
            and abs(self.at_ms - before.at_ms) <= SPLIT_MS
        )


@dataclass
class _Rollout:
    """What has come of a rollout so far; ``started`` None while only its messages have."""

    started: _Event | None = None
    info: dict[str, Any] = field(default_factory=dict)
    messages: dict[str, _Message] = field(default_factory=dict)


class Rollouts:
    """Events in any order → the rollouts they belong to.

    ``each_event``: every event counts, also where it repeats the reward of its message. ``prefix`` stands before the
    ids of rollouts, where those are unique in their recording only.
    """

    def __init__(self, *, each_event: bool = False, prefix: str = "") -> None:
        self.n_repeated = 0
        self.n_unknown = 0
        self._each_event = each_event
        self._prefix = prefix
        self._rollouts: dict[str, _Rollout] = {}

    def take(self, raw: bytes) -> None:
        """Take an event. Raises `Flaw` for one that says otherwise what was said before, under its id."""
        event = _EVENT.decode(raw)
        if event.event_type == "rollout":
            rollout = self._of(event.event_id)
            if rollout.started is not None and rollout.started != event:
                raise Flaw("starts a rollout that was started before, with other content (conflict)")
            rollout.started = event
        elif event.event_type == "rollout_update":
            self._of(event.event_id).info |= event.rollout_info or {}
        elif event.event_type == "message":
            self._message(event)
        else:
            self.n_unknown += 1

    def episodes(self) -> Iterator[Episode | str]:
        """The rollouts that have started, in the order in which they were first heard of; why others are none."""
        for uid, rollout in self._rollouts.items():
            if rollout.started is None:
                told = number_of(len(rollout.messages), "message")
                yield f"Rollout {uid[:60]!r} was not started in this file, so {told} of it wait for that."
                continue
            try:
                yield self._episode(uid, rollout, rollout.started)
            except InvalidInput as problem:
                yield problem.problem

    def _of(self, uid: str) -> _Rollout:
        return self._rollouts.setdefault(uid, _Rollout())

    def _message(self, event: _Event) -> None:
        if event.rollout is None or event.index is None:
            raise Flaw("is a message without its rollout or its index")
        messages = self._of(event.rollout).messages
        message = _message_of(event, event.index)
        known = messages.get(event.event_id)
        if known is not None and known != message:
            raise Flaw("is known under its eventId with other content (conflict)")
        if known is None and any(one.index == message.index for one in messages.values()):
            raise Flaw(f"has the index {message.index} of another message of its rollout (conflict)")
        messages[event.event_id] = message

    def _episode(self, uid: str, rollout: _Rollout, started: _Event) -> Episode:
        environment = plain(started.environment) or plain(started.environment_id) or NAME
        info = {**(started.rollout_info or {}), **rollout.info}
        task = started.task_spec
        steps = self._steps(sorted(rollout.messages.values(), key=lambda one: one.index))
        return Episode(
            uid=f"{environment}/{self._prefix}{plain(uid) or uid}",
            environment=environment,
            format=NAME,
            split=plain(started.split),
            task=_task(task, info),
            variant=plain(started.variant),
            model=named((started.run_info or {}).get("model_name")),
            at_ms=started.timestamp,
            steps=tuple(closed(steps)),
        )

    def _steps(self, messages: Sequence[_Message]) -> Iterator[Step]:
        calls = {one.call_id: one for one in messages if one.type == _CALL and one.call_id is not None}
        for place, message in enumerate(messages):
            after = messages[place + 1] if place + 1 < len(messages) else None
            is_repeated = not self._each_event and after is not None and after.goes_on(message)
            self.n_repeated += is_repeated
            called = calls.get(message.call_id or "") if message.type == _RESULT else None
            if message.type == _RESULT or (not is_repeated and _is_paid(message)):
                yield _step(message, called, is_repeated=is_repeated)


def _is_paid(message: _Message) -> bool:
    return message.reward is not None or message.note is not None or message.finished


def _message_of(event: _Event, index: int) -> _Message:
    paid = paid_of(event.reward)
    return _Message(
        index=index,
        at_ms=event.timestamp,
        type=event.type,
        name=(event.name or "")[:MAX_LABEL_CHARS].replace("\0", ""),
        call_id=event.call_id,
        n_chars=len(event.content or ""),
        reward=paid.reward,
        note=paid.note,
        finished=bool(event.finished),
        meta_digest=digest_of_value(event.metadata) if event.metadata else None,
        args_digest=digest_of_value(event.content) if event.type == _CALL else None,
    )


def _step(message: _Message, called: _Message | None, *, is_repeated: bool) -> Step:
    is_answer = message.side == "answer"
    sent = called if is_answer else message
    return Step(
        number=message.index,
        kind="call" if message.type in {_RESULT, _CALL} else "message",
        name=message.name or ("" if called is None else called.name),
        reward=None if is_repeated else message.reward,
        finished=message.finished and not is_repeated,
        at_ms=message.at_ms,
        n_chars_in=None if sent is None else sent.n_chars,
        n_chars_out=message.n_chars if is_answer else None,
        note=message.note,
        args_digest=None if sent is None else sent.args_digest,
        meta_digest=message.meta_digest,
    )


def _task(spec: dict[str, Any] | None, info: dict[str, Any]) -> str | None:
    found = named((spec or {}).get("id")) or named(info.get("task_index"))
    return found if found is not None or not spec else digest_of_value(spec)


def _claims(head: Head) -> bool:
    if "rollouts" in head.keys and b'"eventType"' in head.start:
        return True
    if "events" in head.keys and b'"eventType"' in head.start:
        return True
    return any(line.keys() >= {"eventId", "eventType"} for line in head.lines)


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    members, pieces = first_of(reading.pieces(progress))
    if "rollouts" in members:
        for number, piece in pieces:
            yield from _document(reading, number, piece)
    else:
        yield from _told_by(reading, _events(reading, pieces), Rollouts(each_event=reading.each_event))


def _document(reading: Reading, number: int, piece: bytes | Damage) -> Iterator[Entry]:
    checked = reading.checked(number, piece)
    if isinstance(checked, Rejected):
        yield checked
        return
    try:
        found = _RECORDINGS.decode(checked)
    except UNDECODABLE as error:
        raise reading.damaged(error, checked) from None
    for name, batch in found.rollouts.items():
        prefix = f"{digest_of_value([found.source, name])}/"
        events = ((number, bytes(raw)) for number, raw in enumerate(batch.events, start=1))
        yield from _told_by(reading, events, Rollouts(each_event=reading.each_event, prefix=prefix))


def _events(reading: Reading, pieces: Iterator[Piece]) -> Iterator[tuple[int, bytes] | Rejected]:
    """The events of lines that are one, or several."""
    for number, piece in pieces:
        checked = reading.checked(number, piece)
        if isinstance(checked, Rejected):
            yield checked
            continue
        try:
            is_batch = "events" in _KEYS.decode(checked)
            events = [bytes(one) for one in _BATCH.decode(checked).events] if is_batch else [checked]
        except UNDECODABLE as error:
            yield reading.rejected(number, error, checked)
            continue
        for event in events:
            yield number, event


def _told_by(
    reading: Reading, events: Iterator[tuple[int, bytes] | Rejected], rollouts: Rollouts
) -> Iterator[Entry]:
    for one in events:
        if isinstance(one, Rejected):
            yield one
            continue
        number, raw = one
        try:
            rollouts.take(raw)
        except UNDECODABLE as error:
            yield reading.rejected(number, error, raw)
    for found in rollouts.episodes():
        yield Rejected(file=reading.file, line=None, reason=found) if isinstance(found, str) else found
    if rollouts.n_repeated:
        repeated = number_of(rollouts.n_repeated, "event")
        yield Remark(
            file=reading.file,
            text=f"{repeated} repeated the reward of a message that was logged block by block; it counts once "
            "(--each-event counts all).",
        )
    if rollouts.n_unknown:
        yield Remark(file=reading.file, text=f"{number_of(rollouts.n_unknown, 'event')} of an unknown type.")


FORMAT: Final = Format(name=NAME, units=(), claims=_claims, read=_read, takes_tools=False)
