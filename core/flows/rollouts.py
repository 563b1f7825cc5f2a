"""Rollouts: events that OpenReward's client uploads → episodes.

Events come late, twice and in any order. What was sent is on disk before anything is made of it; a rollout that has
started is told as an episode, anew whenever more of it came, and one that hasn't waits for that, listed. Nothing is
kept of what was said but lengths, and what tells equal arguments and metadata; where the setting ``keep_texts`` is
on, the texts too, until they are erased with their episode. Files whose events wait for a start are held likewise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import structs

from core.errors import InvalidInput, StoreError
from core.flows.context import Context
from core.formats.openreward import Rollouts, check_known, event_of, later
from core.formats.strict import Flaw
from core.permissions import authorise
from core.records.episode import Episode
from core.records.kept_texts import cut, keepable
from core.records.rollout import EventsTaken, RefusedEvent, RolloutRow
from core.records.rollout_event import Message, Sent, Started, Updated
from core.records.times import iso
from core.store.episodes import keyed, retell_episodes
from core.store.reads import learners
from core.store.rollouts import (
    KeptRollout,
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
)
from core.store.transaction import Facts, Transaction

_AT_ONCE: Final = 20
_LISTED: Final = 1_000
_ENCODER: Final = msgspec.json.Encoder()
_STARTED: Final = msgspec.json.Decoder(Started)
_UPDATED: Final = msgspec.json.Decoder(Updated)
_MESSAGE: Final = msgspec.json.Decoder(Message)


class _Taking:
    """What is kept of the events of one upload, and why others are not."""

    def __init__(self, facts: Transaction, sent: Sequence[tuple[int, Sent]]) -> None:
        self.refused: list[RefusedEvent] = []
        self.n_known = 0
        self.fresh: dict[str, dict[int, Message]] = defaultdict(dict)
        self._now_ms = facts.now_ms
        self._places: dict[str, dict[int, Message]] = defaultdict(dict)
        self.rollouts = rollouts_of(facts, sorted({event.rollout for _, event in sent}))
        self._read(facts, [event for _, event in sent if isinstance(event, Message)])
        for place, event in sent:
            try:
                self._take(event)
            except Flaw as problem:
                self.refused.append(RefusedEvent(place=place, error=f"The event {problem}."))

    def _read(self, facts: Facts, messages: Sequence[Message]) -> None:
        wanted: dict[str, set[int]] = defaultdict(set)
        for one in messages:
            wanted[one.rollout].add(one.index)
        for uid, places in wanted.items():
            found = messages_at(facts, uid, sorted(places))
            self._places[uid] = {place: _MESSAGE.decode(content) for place, content in found.items()}

    def _take(self, event: Sent) -> None:
        rollout = self.rollouts.get(event.rollout, KeptRollout(event.rollout))
        if isinstance(event, Message):
            known = self._places[event.rollout].get(event.index)
            check_known(known, event)
            is_new = known is None
            self._places[event.rollout][event.index] = event
            if is_new:
                self.fresh[event.rollout][event.index] = event
            told = rollout
        elif isinstance(event, Started):
            if rollout.started and _STARTED.decode(rollout.started) != event:
                raise Flaw("starts a rollout that was started before, with other content (conflict)")
            is_new, told = not rollout.started, rollout._replace(started=_encoded(event))
        else:
            before = _UPDATED.decode(rollout.updated) if rollout.updated else None
            after = later(before, event)
            is_new, told = after != before, rollout._replace(updated=_encoded(after))
        self.n_known += not is_new
        if is_new:
            self.rollouts[event.rollout] = told._replace(n_events=told.n_events + 1, last_ms=self._now_ms)

    def keep(self, txn: Transaction) -> None:
        messages = {
            uid: {place: _encoded(event) for place, event in places.items()}
            for uid, places in self.fresh.items()
        }
        keep_rollouts(txn, self.rollouts.values(), messages)


def take_events(context: Context, events: Sequence[object]) -> EventsTaken:
    """Keep events, each by itself, and tell the rollouts that have started; all of it is on disk when this returns.

    Raises `InvalidInput` where not one of them can be kept, and `StoreBusy` where too much waits already.
    """
    refused: list[RefusedEvent] = []
    sent: list[tuple[int, Sent]] = []
    n_unknown = 0
    for place, event in enumerate(events):
        try:
            found = event_of(event)
        except Flaw as problem:
            refused.append(RefusedEvent(place=place, error=f"The event {problem}."))
        else:
            n_unknown += found is None
            sent += [] if found is None else [(place, found)]
    if refused and len(refused) == len(events):
        raise InvalidInput(
            f"Events must be as OpenReward's client sends them. {refused[0].error}",
            next_step="Send events with eventId, timestamp and eventType; nothing was recorded.",
        )

    def work(txn: Transaction) -> EventsTaken:
        taken = _taken(txn, sent)
        return structs.replace(
            taken,
            unknown=n_unknown,
            refused=tuple(sorted([*refused, *taken.refused], key=lambda one: one.place)),
        )

    return context.write("ingest", work, create=True)


def hold_events(context: Context, events: Sequence[Sent]) -> EventsTaken:
    """Keep events of files whose rollouts others start, or whose others wait; those that have started are told.

    That is no act of the import: undoing it leaves them, as it leaves what was uploaded.
    """
    return context.write("ingest", lambda txn: _taken(txn, list(enumerate(events))), create=True)


def _taken(txn: Transaction, sent: Sequence[tuple[int, Sent]]) -> EventsTaken:
    """Keep events that can be read, each by its place, and tell the rollouts that have started."""
    taking = _Taking(txn, [(place, _to_keep(txn, event)) for place, event in sent])
    taking.keep(txn)
    told: list[str] = []
    n_repeated = 0
    while due := due_rollouts(txn, txn.now_ms, _AT_ONCE):
        uids, more = _tell(txn, due)
        told += uids
        n_repeated += more
    return EventsTaken(
        kept=len(sent) - len(taking.refused) - taking.n_known,
        known=taking.n_known,
        unknown=0,
        repeated=n_repeated,
        refused=tuple(taking.refused),
        episodes=tuple(told),
        waiting=tuple(uid for uid, one in taking.rollouts.items() if not one.started),
    )


def _encoded(event: Sent) -> str:
    return _ENCODER.encode(event).decode()


def _to_keep(txn: Transaction, event: Sent) -> Sent:
    """A message as it is kept: its digests under the learner's key, as those of steps are; its text if texts are."""
    if not isinstance(event, Message):
        return event
    is_kept = txn.settings.keep_texts and event.content
    content = cut(keepable(event.content)) if is_kept and event.content else None
    if event.args_digest is event.meta_digest is None:
        return structs.replace(event, content=content)
    args, meta = keyed(txn, event.args_digest, event.meta_digest)
    return structs.replace(event, content=content, args_digest=args, meta_digest=meta)


def _tell(txn: Transaction, due: Sequence[KeptRollout]) -> tuple[tuple[str, ...], int]:
    """Tell rollouts as they are now; the uids of their episodes, and how many events repeated a reward."""
    told: list[Episode] = []
    noted: list[tuple[KeptRollout, str]] = []
    n_repeated = 0
    for one in due:
        rollouts = Rollouts()
        said = ""
        for event in _events(txn, one):
            try:
                rollouts.add(event)
            except Flaw as problem:
                said = f"An event {problem}."
        for found in rollouts.episodes():
            if isinstance(found, str):
                said = found
            else:
                told.append(found)
        noted.append((one, said))
        n_repeated += rollouts.n_repeated
    retell_episodes(txn, told)
    note_rollouts(txn, noted)
    drop_rollout_texts(txn, [one.uid for one in told if txn.erased and txn.erased.has("episode", one.uid)])
    return tuple(one.uid for one in told), n_repeated


def _events(facts: Facts, one: KeptRollout) -> list[Sent]:
    found: list[Sent] = [_STARTED.decode(one.started)]
    if one.updated:
        found.append(_UPDATED.decode(one.updated))
    return [*found, *(_MESSAGE.decode(content) for content in messages_of(facts, one.uid))]


def settle_rollouts(context: Context) -> int:
    """Tell every rollout that is to be told by now, and forget what nobody adds to any more; how many were told."""
    context.permit("ingest")
    n_told = 0
    while True:
        with context.store.reading(context.learner) as snapshot:
            is_due = bool(due_rollouts(snapshot, context.clock(), 1))
            is_old = has_old_rollouts(snapshot, context.clock())
        if is_due:
            found, _ = context.write(
                "ingest", lambda txn: _tell(txn, due_rollouts(txn, txn.now_ms, _AT_ONCE))
            )
            n_told += len(found)
            continue
        if is_old:
            context.write("ingest", forget_rollouts)
        return n_told


def settle_all_rollouts(context: Context) -> None:
    """The same for every learner; what can't be done now is done the next time."""
    authorise(context.actor, "ingest", None)
    with context.store.reading(context.learner) as snapshot:
        names = learners(snapshot)
    for name in names:
        try:
            settle_rollouts(context.of(name))
        except StoreError:
            continue


def rollouts(context: Context) -> list[RolloutRow]:
    """List rollouts that are no episode: those that wait for their start, or cannot be one.

    The latest come first.
    """
    with context.reading() as snapshot:
        return [_row(one) for one in listed_rollouts(snapshot, _LISTED)]


def _row(one: KeptRollout) -> RolloutRow:
    return RolloutRow(
        rollout=one.uid, events=one.n_events, last_at=iso(one.last_ms) or "", said=one.said or None
    )
