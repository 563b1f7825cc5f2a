"""Rollouts: events that OpenReward's client uploads, turned into episodes.

Events come late, repeated and in any order. They are on disk before they are processed. A rollout that has started is
written as an episode, again whenever more events came. One that has not started waits and is listed. Of texts only
lengths and digests of arguments and metadata are stored. With the setting ``keep_texts`` texts are stored until they
are erased with their episode. Events of files that wait for a start are held the same way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import structs

from core.errors import InvalidInput
from core.flows.context import Context, settle_learners
from core.formats.openreward import Rollouts, check_known, event_of, later
from core.formats.strict import Flaw
from core.records.episode import Episode
from core.records.limits import keepable
from core.records.rollout import (
    EventsTaken,
    Message,
    RefusedEvent,
    RolloutEvent,
    RolloutRow,
    Started,
    Updated,
)
from core.records.times import iso
from core.store.episodes import keyed, retell_episodes
from core.store.rollouts import (
    StoredRollout,
    drop_rollout_texts,
    due_rollouts,
    forget_rollouts,
    has_old_rollouts,
    keep_rollouts,
    listed_rollouts,
    messages_at,
    messages_of,
    note_rollouts,
    rollouts_of,
    without_task,
)
from core.store.texts import storable
from core.store.transaction import Facts, Transaction

_AT_ONCE: Final = 20
_LISTED: Final = 1_000
_ENCODER: Final = msgspec.json.Encoder()
_STARTED: Final = msgspec.json.Decoder(Started)
_UPDATED: Final = msgspec.json.Decoder(Updated)
_MESSAGE: Final = msgspec.json.Decoder(Message)


class _Upload:
    """Events of one upload: those to store, and those refused with reasons."""

    def __init__(self, facts: Transaction, events: Sequence[tuple[int, RolloutEvent]]) -> None:
        self.refused: list[RefusedEvent] = []
        self.n_known = 0
        self.fresh: dict[str, dict[int, Message]] = defaultdict(dict)
        self._now_ms = facts.now_ms
        self._messages: dict[str, dict[int, Message]] = defaultdict(dict)
        self.rollouts = rollouts_of(facts, sorted({event.rollout for _, event in events}))
        self._read(facts, [event for _, event in events if isinstance(event, Message)])
        for index, event in events:
            try:
                self._take(event)
            except Flaw as problem:
                self.refused.append(RefusedEvent(place=index, error=f"The event {problem}."))

    def _read(self, facts: Facts, messages: Sequence[Message]) -> None:
        indexes: dict[str, set[int]] = defaultdict(set)
        for one in messages:
            indexes[one.rollout].add(one.index)
        for uid, places in indexes.items():
            contents = messages_at(facts, uid, sorted(places))
            self._messages[uid] = {index: _MESSAGE.decode(content) for index, content in contents.items()}

    def _take(self, event: RolloutEvent) -> None:
        rollout = self.rollouts.get(event.rollout, StoredRollout(event.rollout))
        if isinstance(event, Message):
            known = self._messages[event.rollout].get(event.index)
            check_known(known, event)
            is_new = known is None
            self._messages[event.rollout][event.index] = event
            if is_new:
                self.fresh[event.rollout][event.index] = event
            changed = rollout
        elif isinstance(event, Started):
            if rollout.started and _STARTED.decode(rollout.started) != event:
                raise Flaw("starts a rollout that was started before, with other content (conflict)")
            is_new, changed = not rollout.started, rollout._replace(started=_ENCODER.encode(event).decode())
        else:
            before = _UPDATED.decode(rollout.updated) if rollout.updated else None
            after = later(before, event)
            is_new, changed = after != before, rollout._replace(updated=_ENCODER.encode(after).decode())
        self.n_known += not is_new
        if is_new:
            self.rollouts[event.rollout] = changed._replace(
                n_events=changed.n_events + 1, last_ms=self._now_ms
            )

    def keep(self, txn: Transaction) -> None:
        messages = {
            uid: {index: _ENCODER.encode(event).decode() for index, event in places.items()}
            for uid, places in self.fresh.items()
        }
        keep_rollouts(txn, self.rollouts.values(), messages)


def take_events(context: Context, events: Sequence[object]) -> EventsTaken:
    """Store events one by one, and write the rollouts that have started; all is on disk when this returns.

    Raises `InvalidInput` if no event is valid, and `StoreBusy` if too many events are waiting.
    """
    refused: list[RefusedEvent] = []
    numbered: list[tuple[int, RolloutEvent]] = []
    n_unknown = 0
    for index, event in enumerate(events):
        try:
            parsed = event_of(event)
        except Flaw as problem:
            refused.append(RefusedEvent(place=index, error=f"The event {problem}."))
        else:
            n_unknown += parsed is None
            numbered += [] if parsed is None else [(index, parsed)]
    if refused and len(refused) == len(events):
        raise InvalidInput(
            f"Events must be as OpenReward's client sends them. {refused[0].error}",
            next_step="Send events with eventId, timestamp and eventType; nothing was recorded.",
        )

    def work(txn: Transaction) -> EventsTaken:
        taken = _write_events(txn, numbered)
        return structs.replace(
            taken,
            unknown=n_unknown,
            refused=tuple(sorted([*refused, *taken.refused], key=lambda one: one.place)),
        )

    return context.write("ingest", work, create=True)


def hold_events(context: Context, events: Sequence[RolloutEvent]) -> EventsTaken:
    """Store events that wait for others or another start; undoing the import leaves them, like uploaded ones."""
    return context.write("ingest", lambda txn: _write_events(txn, list(enumerate(events))), create=True)


def _write_events(txn: Transaction, events: Sequence[tuple[int, RolloutEvent]]) -> EventsTaken:
    """Store valid events by their index, and write the rollouts that have started."""
    erased = _erased_rollouts(txn, [event for _, event in events])
    upload = _Upload(txn, [(index, _stored_form(txn, event, erased)) for index, event in events])
    upload.keep(txn)
    episodes: list[str] = []
    n_repeated = 0
    while due := due_rollouts(txn, txn.now_ms, _AT_ONCE):
        uids, more = _write_episodes(txn, due)
        episodes += uids
        n_repeated += more
    return EventsTaken(
        kept=len(events) - len(upload.refused) - upload.n_known,
        known=upload.n_known,
        unknown=0,
        repeated=n_repeated,
        refused=tuple(upload.refused),
        episodes=tuple(episodes),
        waiting=tuple(uid for uid, one in upload.rollouts.items() if not one.started),
    )


def _erased_rollouts(txn: Transaction, events: Sequence[RolloutEvent]) -> frozenset[str]:
    """Return the rollouts whose episodes were erased: their tasks come as numbers."""
    if not txn.erased:
        return frozenset()
    known = rollouts_of(txn, sorted({event.rollout for event in events}))
    stored = [_STARTED.decode(one.started) for one in known.values() if one.started]
    started = [*stored, *(event for event in events if isinstance(event, Started))]
    return frozenset(
        one.rollout for one in started if txn.erased.has("episode", f"{one.environment}/{one.rollout}")
    )


def _stored_form(txn: Transaction, event: RolloutEvent, erased: frozenset[str]) -> RolloutEvent:
    """Return an event as it is stored: digests under the learner's key, and texts only if they are stored."""
    if not isinstance(event, Message):
        return without_task(txn.erased, event) if event.rollout in erased else event
    has_text = txn.settings.keep_texts and event.content
    content = storable(keepable(event.content)) if has_text and event.content else None
    if event.args_digest is event.meta_digest is None:
        return structs.replace(event, content=content)
    args, meta = keyed(txn, event.args_digest, event.meta_digest)
    return structs.replace(event, content=content, args_digest=args, meta_digest=meta)


def _write_episodes(txn: Transaction, due: Sequence[StoredRollout]) -> tuple[tuple[str, ...], int]:
    """Write rollouts as episodes. Return their uids, and how many events repeated a reward."""
    episodes: list[Episode] = []
    noted: list[tuple[StoredRollout, str]] = []
    n_repeated = 0
    for one in due:
        rollouts = Rollouts()
        problem_text = ""
        for event in _events(txn, one):
            try:
                rollouts.add(event)
            except Flaw as problem:
                problem_text = f"An event {problem}."
        for episode in rollouts.episodes():
            if isinstance(episode, str):
                problem_text = episode
            else:
                episodes.append(episode)
        noted.append((one, problem_text))
        n_repeated += rollouts.n_repeated
    retell_episodes(txn, episodes)
    note_rollouts(txn, noted)
    drop_rollout_texts(
        txn, [one.uid for one in episodes if txn.erased and txn.erased.has("episode", one.uid)]
    )
    return tuple(one.uid for one in episodes), n_repeated


def _events(facts: Facts, one: StoredRollout) -> list[RolloutEvent]:
    events: list[RolloutEvent] = [_STARTED.decode(one.started)]
    if one.updated:
        events.append(_UPDATED.decode(one.updated))
    return [*events, *(_MESSAGE.decode(content) for content in messages_of(facts, one.uid))]


def settle_rollouts(context: Context) -> int:
    """Write every due rollout, delete abandoned ones, and return how many were written."""
    context.permit("ingest")
    n_written = 0
    while True:
        with context.store.reading(context.learner) as snapshot:
            is_due = bool(due_rollouts(snapshot, context.clock(), 1))
            is_old = has_old_rollouts(snapshot, context.clock())
        if is_due:
            uids, _ = context.write(
                "ingest", lambda txn: _write_episodes(txn, due_rollouts(txn, txn.now_ms, _AT_ONCE))
            )
            n_written += len(uids)
            continue
        if is_old:
            context.write("ingest", forget_rollouts)
        return n_written


def settle_all_rollouts(context: Context) -> None:
    """Settle the rollouts of every learner. Learners with a store error are settled next time."""
    settle_learners(context, settle_rollouts)


def rollouts(context: Context) -> list[RolloutRow]:
    """List rollouts that are no episode: those that wait for their start, or cannot be one.

    The latest come first.
    """
    with context.reading() as snapshot:
        return [
            RolloutRow(
                rollout=one.uid, events=one.n_events, last_at=iso(one.last_ms) or "", said=one.problem or None
            )
            for one in listed_rollouts(snapshot, _LISTED)
        ]
