"""Rollout events as OpenReward's client uploads them → episodes.

A line is one event, or a batch ``{"events": […]}``. A document may be one batch, or several recordings under
``rollouts``. Events come in any order and may repeat; ``eventId`` identifies them (an update has its rollout's).
``index`` orders messages. A tool's result is a step, and so is any other message with a reward or the end.

One message of several blocks is logged as several events that repeat its reward. Such events have consecutive
``index``, one side (agent or environment), equal reward, end and metadata, and are at most 50 ms apart. They count
once, on the last of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec

from core.errors import InvalidInput
from core.formats.entries import Entry, Progress, Rejected, Remark, RolloutEvents
from core.formats.reading import Format, Head, Piece, Reading
from core.formats.strict import UNDECODABLE, Flaw, named, plain
from core.formats.tool_output import digest_of_metadata, digest_of_value, paid_of, recorded, storable, task_of
from core.maths.episodes import closed
from core.records.alike import alike
from core.records.counts import number_of
from core.records.episode import Episode, Step
from core.records.limits import Count, Millis, shown
from core.records.misfits import misfit
from core.records.rollout import Message, RolloutEvent, Started, Updated, without_text

NAME: Final = "openreward"

_RESULT: Final = "tool_result"
_CALL: Final = "tool_call"

_KEYS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


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


def event_of(document: object) -> RolloutEvent | None:
    """Return the stored part of a decoded event, which may hold NaN, None for an unknown type; raises `Flaw`."""
    try:
        return _stored_event(msgspec.convert(document, _Event))
    except msgspec.ValidationError as problem:
        raise Flaw(f"is none that can be read: {misfit(problem)}") from problem


def _stored_event(event: _Event) -> RolloutEvent | None:
    if event.event_type == "rollout":
        return Started(
            rollout=_id(event.event_id),
            at_ms=event.timestamp,
            environment=plain(event.environment) or plain(event.environment_id) or NAME,
            split=plain(event.split),
            task=named((event.task_spec or {}).get("id")),
            otherwise=task_of(event.task_spec, (event.rollout_info or {}).get("task_index")),
            variant=plain(event.variant),
            model=named((event.run_info or {}).get("model_name")),
        )
    if event.event_type == "rollout_update":
        index = (event.rollout_info or {}).get("task_index")
        return Updated(_id(event.event_id), event.timestamp, named(index))
    return _message_of(event) if event.event_type == "message" else None


def _id(text: str) -> str:
    identity = plain(text)
    if identity is None:
        raise Flaw("has an id without a character")
    return identity


@dataclass
class _Rollout:
    """The received part of a rollout; ``started`` None while it has messages only."""

    started: Started | None = None
    updated: Updated | None = None
    messages: dict[int, Message] = field(default_factory=dict)
    indexes: dict[str, int] = field(default_factory=dict)


class Rollouts:
    """Events in any order → their rollouts.

    ``each_event``: every event counts, also one that repeats the reward of its message. ``prefix`` precedes rollout
    ids that are unique in their recording only.
    """

    def __init__(self, *, each_event: bool = False, prefix: str = "") -> None:
        self.n_repeated = 0
        self.n_unknown = 0
        self._each_event = each_event
        self._prefix = prefix
        self._rollouts: dict[str, _Rollout] = {}

    def take(self, raw: bytes) -> None:
        """Add an event. Raises `Flaw` for one that contradicts an earlier one with its id."""
        event = _stored_event(_EVENT.decode(raw))
        if event is None:
            self.n_unknown += 1
        else:
            self.add(event)

    def add(self, event: RolloutEvent) -> None:
        """The same of one that was read."""
        rollout = self._rollouts.setdefault(event.rollout, _Rollout())
        if isinstance(event, Started):
            if rollout.started is not None and rollout.started != event:
                raise Flaw("starts a rollout that was started before, with other content (conflict)")
            rollout.started = event
        elif isinstance(event, Updated):
            rollout.updated = later(rollout.updated, event)
        else:
            check_known(rollout.messages.get(event.index), event)
            if rollout.indexes.setdefault(event.uid, event.index) != event.index:
                raise Flaw("is known under its eventId with other content (conflict)")
            rollout.messages[event.index] = event

    def episodes(self) -> Iterator[Episode | str]:
        """Yield the started rollouts in order of their first event, and the reasons against others."""
        for rollout in self._rollouts.values():
            if rollout.started is None:
                continue
            try:
                yield self._episode(rollout, rollout.started)
            except InvalidInput as problem:
                yield problem.problem

    def events(self) -> Iterator[tuple[RolloutEvent, ...]]:
        """All that counts of each rollout, whether it has started or not; its start comes first."""
        for rollout in self._rollouts.values():
            first = [one for one in (rollout.started, rollout.updated) if one is not None]
            yield (*first, *(rollout.messages[index] for index in sorted(rollout.messages)))

    def _episode(self, rollout: _Rollout, started: Started) -> Episode:
        updated = None if rollout.updated is None else rollout.updated.task
        steps = self._steps([rollout.messages[index] for index in sorted(rollout.messages)])
        return alike(
            Episode,
            started,
            uid=f"{started.environment}/{self._prefix}{started.rollout}",
            format=NAME,
            task=started.task or updated or started.otherwise,
            steps=tuple(closed(steps)),
        )

    def _steps(self, messages: Sequence[Message]) -> Iterator[Step]:
        calls = {one.call_id: one for one in messages if one.type == _CALL and one.call_id is not None}
        for index, message in enumerate(messages):
            after = messages[index + 1] if index + 1 < len(messages) else None
            is_repeated = not self._each_event and after is not None and after.goes_on(message)
            self.n_repeated += is_repeated
            called = calls.get(message.call_id or "") if message.type == _RESULT else None
            is_paid = message.reward is not None or message.note is not None or message.finished
            if message.type == _RESULT or (is_paid and not is_repeated):
                yield _step(message, called, is_repeated=is_repeated)


def later(known: Updated | None, event: Updated) -> Updated:
    """Return the update that counts: the one that was sent later, in any order of arrival."""
    if known is None or known.task is None:
        return event
    if event.task is None:
        return known
    return max(known, event, key=lambda one: (one.at_ms, one.task or ""))


def check_known(known: Message | None, event: Message) -> None:
    """Raise `Flaw` where another message is known at a message's place; a text may have gone, its length has not."""
    if known is not None and without_text(known) != without_text(event):
        raise Flaw(
            "is known under its eventId with other content (conflict)"
            if known.uid == event.uid
            else f"has the index {event.index} of another message of its rollout (conflict)"
        )


def _message_of(event: _Event) -> Message:
    if event.rollout is None or event.index is None:
        raise Flaw("is a message without its rollout or its index")
    paid = paid_of(event.reward)
    return Message(
        rollout=_id(event.rollout),
        uid=_id(event.event_id),
        index=event.index,
        at_ms=event.timestamp,
        type=event.type,
        name=storable(event.name),
        call_id=event.call_id,
        n_chars=len(event.content or ""),
        content=event.content or "",
        reward=paid.reward,
        note=paid.note,
        finished=bool(event.finished),
        meta_digest=digest_of_metadata(event.metadata, ends=bool(event.finished)) if event.metadata else None,
        args_digest=digest_of_value(event.content) if event.type == _CALL else None,
    )


def _step(message: Message, called: Message | None, *, is_repeated: bool) -> Step:
    is_answer = message.side == "answer"
    result = called if is_answer else message
    return Step(
        number=message.index,
        kind="call" if message.type in {_RESULT, _CALL} else "message",
        name=message.name or ("" if called is None else called.name),
        reward=None if is_repeated else message.reward,
        finished=message.finished and not is_repeated,
        at_ms=message.at_ms,
        n_chars_in=None if result is None else result.n_chars,
        n_chars_out=message.n_chars if is_answer else None,
        asked=None if result is None else result.content,
        answered=message.content if is_answer else None,
        note=message.note,
        args_digest=None if result is None else result.args_digest,
        meta_digest=message.meta_digest,
    )


def _claims(head: Head) -> bool:
    if {"rollouts", "events"} & head.keys and b'"eventType"' in head.start:
        return True
    return any(line.keys() >= {"eventId", "eventType"} for line in head.lines)


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    def events(pieces: Iterator[Piece]) -> Iterator[Entry]:
        return _entries_of(reading, _events(reading, pieces), Rollouts(each_event=reading.each_event))

    return recorded(reading, progress, "rollouts", partial(_document, reading), events)


def _document(reading: Reading, raw: bytes) -> Iterator[Entry]:
    recordings = reading.decoded_whole(_RECORDINGS, raw)
    for name, batch in recordings.rollouts.items():
        prefix = f"{digest_of_value([recordings.source, name])}/"
        events = ((number, bytes(raw)) for number, raw in enumerate(batch.events, start=1))
        yield from _entries_of(
            reading, events, Rollouts(each_event=reading.each_event, prefix=prefix), is_whole=True
        )


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


def _entries_of(
    reading: Reading,
    events: Iterator[tuple[int, bytes] | Rejected],
    rollouts: Rollouts,
    *,
    is_whole: bool = False,
) -> Iterator[Entry]:
    """Events as episodes, and as what may belong to those of other files, unless a recording ``is_whole``."""
    for one in events:
        if isinstance(one, Rejected):
            yield one
            continue
        number, raw = one
        try:
            rollouts.take(raw)
        except UNDECODABLE as error:
            yield reading.rejected(number, error, raw)
    for entry in rollouts.episodes():
        yield Rejected(file=reading.file, line=None, reason=entry) if isinstance(entry, str) else entry
    for waiting_events in rollouts.events():
        if not is_whole:
            yield RolloutEvents(waiting_events)
        elif not isinstance(waiting_events[0], Started):
            waiting, uid = number_of(len(waiting_events), "event"), shown(waiting_events[0].rollout)
            yield Rejected(
                file=reading.file,
                line=None,
                reason=f"Rollout {uid} was not started in its recording, so {waiting} of it can't be read.",
            )
    if rollouts.n_repeated:
        repeated = number_of(rollouts.n_repeated, "event")
        yield Remark(
            file=reading.file,
            text=f"{repeated} repeated the reward of a message that was logged block by block; it counts once "
            "(--each-event counts all).",
        )
    if rollouts.n_unknown:
        yield Remark(file=reading.file, text=f"{number_of(rollouts.n_unknown, 'event')} of an unknown type.")


FORMAT: Final = Format(
    name=NAME, units=(), claims=_claims, read=_read, takes_tools=False, may_be_document="rollouts"
)
