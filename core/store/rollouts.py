"""Rollouts: stored parts of sent events, until a rollout no longer grows.

A rollout without its start waits for it. All of it is deleted a week after its last event. Under a lack of room,
rollouts that already are episodes go first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import structs

from core.errors import StoreBusy
from core.records.rollout import Message, Started, Updated
from core.records.times import DAY_MS
from core.store.erased import Erased
from core.store.mapped import Mapped, StoredAs
from core.store.tables import insert_into
from core.store.transaction import Facts, Transaction

MAX_EVENTS: Final = 1_000_000
"""Limit per learner."""
LIFETIME_MS: Final = 7 * DAY_MS
SMALL: Final = 1_000
"""Up to this many events a rollout updates its episode with each event; a longer one when it has grown by a tenth."""
PAUSE_MS: Final = 60_000
"""After this time without an event the episode is updated."""
Task = Started | Updated
"""Events that name a task."""
_EVENTS: Final[msgspec.json.Decoder[Task]] = msgspec.json.Decoder(Started | Updated)
_COLUMNS: Final = ("uid", "started", "updated", "said", "n_events", "n_told", "last_ms")
_KEEP: Final = (
    insert_into("rollout", "learner_id", *_COLUMNS)
    + " ON CONFLICT (learner_id, uid) DO UPDATE SET started = excluded.started, updated = excluded.updated,"
    " n_events = excluded.n_events, last_ms = excluded.last_ms"
)
_MESSAGES: Final = msgspec.json.Decoder(Message)
_MESSAGE: Final = insert_into("rollout_message", "learner_id", "rollout", "place", "content")


class StoredRollout(NamedTuple):
    """A stored rollout: ``started`` and ``updated`` are its start and latest update, '' = none yet.

    ``said`` is the reason why it can't be an episode. ``n_told`` is its number of events when it last became one.
    """

    uid: str
    started: str = ""
    updated: str = ""
    problem: str = ""
    n_events: int = 0
    n_settled: int = 0
    last_ms: int = 0


_ROLLOUTS: Final = Mapped(StoredRollout, "rollout", problem=StoredAs("said"), n_settled=StoredAs("n_told"))


def rollouts_of(facts: Facts, uids: Sequence[str]) -> dict[str, StoredRollout]:
    """Return the rollouts of which rows are stored."""
    rows = facts.rows_in(
        f"SELECT {', '.join(_COLUMNS)} FROM rollout WHERE learner_id = ? AND uid IN ({{}})", uids
    )
    return {row[0]: StoredRollout(*row) for row in rows}


def messages_at(facts: Facts, uid: str, places: Sequence[int]) -> dict[int, str]:
    """The messages of a rollout that are kept at some places."""
    return dict(
        facts.connection.rows_in(
            "SELECT place, content FROM rollout_message WHERE learner_id = ? AND rollout = ? AND place IN ({})",
            [facts.learner_id, uid],
            places,
        )
    )


def messages_of(facts: Facts, uid: str) -> list[str]:
    """All messages of a rollout that are kept, by place."""
    return facts.column(
        "SELECT content FROM rollout_message WHERE learner_id = ? AND rollout = ? ORDER BY place", [uid]
    )


def keep_rollouts(
    txn: Transaction,
    rollouts: Iterable[StoredRollout],
    messages: Mapping[str, Mapping[int, str]],
    *,
    at_most: int = MAX_EVENTS,
) -> None:
    """Store starts, updates and new messages of rollouts. Raises `StoreBusy` for lack of room."""
    _make_room(txn, sum(len(places) for places in messages.values()), at_most)
    rows = sorted(rollouts)
    txn.connection.many(_KEEP, [(txn.learner_id, *one) for one in rows])
    txn.connection.many(
        _MESSAGE,
        [
            (txn.learner_id, uid, position, content)
            for uid, places in sorted(messages.items())
            for position, content in sorted(places.items())
        ],
    )


def _make_room(txn: Transaction, n_new: int, at_most: int) -> None:
    over = n_new + txn.count_of("SELECT sum(n_events) FROM rollout WHERE learner_id = ?") - at_most
    if over <= 0:
        return
    gone = []
    for uid, n_events in txn.rows(
        "SELECT uid, n_events FROM rollout WHERE learner_id = ? AND n_told >= n_events ORDER BY last_ms, uid"
    ):
        gone.append(uid)
        over -= n_events
        if over <= 0:
            break
    if over > 0:
        raise StoreBusy(
            f"Events that wait for their rollouts to start must be at most {at_most:,}, got more.",
            next_step="Send what starts them, or send these again later: what waits goes after a week.",
        )
    _drop(txn, gone)


def _drop(txn: Transaction, uids: Sequence[str]) -> None:
    txn.run_in("DELETE FROM rollout_message WHERE learner_id = ? AND rollout IN ({})", uids)
    txn.run_in("DELETE FROM rollout WHERE learner_id = ? AND uid IN ({})", uids)


def drop_rollout_texts(txn: Transaction, episodes: Sequence[str]) -> int:
    """Remove the texts of messages of episodes; return how many had one."""
    rows = txn.rows_in(
        "SELECT rollout, place, content FROM rollout_message WHERE learner_id = ? AND rollout IN ({})",
        _rollouts_behind(episodes),
    )
    emptied = []
    for rollout, position, content in rows:
        message = _MESSAGES.decode(content)
        if message.content is not None:
            without = msgspec.json.encode(structs.replace(message, content=None)).decode()
            emptied.append((without, txn.learner_id, rollout, position))
    txn.connection.many(
        "UPDATE rollout_message SET content = ? WHERE learner_id = ? AND rollout = ? AND place = ?", emptied
    )
    return len(emptied)


def _rollouts_behind(episodes: Sequence[str]) -> list[str]:
    """Return the ids that the rollouts of episodes may have."""
    return sorted({uid[at + 1 :] for uid in episodes for at, sign in enumerate(uid) if sign == "/"})


def drop_rollout_tasks(txn: Transaction, episodes: Sequence[str]) -> int:
    """Replace the tasks in rollouts of episodes by numbers; return how many rollouts had one."""
    rows = txn.rows_in(
        "SELECT uid, started, updated FROM rollout WHERE learner_id = ? AND uid IN ({})",
        _rollouts_behind(episodes),
    )
    changes = []
    for uid, *events in rows:
        without = [
            msgspec.json.encode(without_task(txn.erased, _EVENTS.decode(one))).decode() if one else one
            for one in events
        ]
        if without != events:
            changes.append((*without, txn.learner_id, uid))
    txn.connection.many(
        "UPDATE rollout SET started = ?, updated = ? WHERE learner_id = ? AND uid = ?", changes
    )
    return len(changes)


def without_task(erased: Erased, event: Task) -> Task:
    """Return an event of an erased episode with numbers for its task's names."""
    if isinstance(event, Started):
        return structs.replace(event, task=erased.task(event.task), otherwise=erased.task(event.otherwise))
    return structs.replace(event, task=erased.task(event.task))


def due_rollouts(facts: Facts, now_ms: int, at_most: int) -> tuple[StoredRollout, ...]:
    """Return started rollouts whose episodes must be updated."""
    return _ROLLOUTS.rows(
        facts,
        "AND started <> '' AND n_told < n_events"
        " AND (n_events <= ? OR n_events * 10 >= n_told * 11 OR last_ms <= ? OR last_ms > ?)"
        " ORDER BY last_ms, uid LIMIT ?",
        [SMALL, now_ms - PAUSE_MS, now_ms + PAUSE_MS, at_most],
    )


def note_rollouts(txn: Transaction, settled: Iterable[tuple[StoredRollout, str]]) -> None:
    """Record that rollouts became episodes, or why they could not ('' = they did)."""
    txn.connection.many(
        "UPDATE rollout SET said = ?, n_told = ? WHERE learner_id = ? AND uid = ?",
        [(problem, one.n_events, txn.learner_id, one.uid) for one, problem in settled],
    )


def has_old_rollouts(facts: Facts, now_ms: int) -> bool:
    """Return whether `forget_rollouts` would change anything."""
    return facts.has_row(
        "SELECT 1 FROM rollout WHERE learner_id = ? AND (last_ms <= ? OR last_ms > ?) LIMIT 1",
        [now_ms - LIFETIME_MS, now_ms + LIFETIME_MS],
    )


def forget_rollouts(txn: Transaction) -> None:
    """Delete rollouts that no longer grow; those of a clock that ran ahead count as of now."""
    txn.set_row("rollout", "last_ms > ?", [txn.now_ms + LIFETIME_MS], last_ms=txn.now_ms)
    rows = txn.column(
        "SELECT uid FROM rollout WHERE learner_id = ? AND last_ms <= ?", [txn.now_ms - LIFETIME_MS]
    )
    _drop(txn, rows)


def held_rollouts(facts: Facts) -> set[str]:
    """Rollouts of which something is kept."""
    return set(facts.column("SELECT uid FROM rollout WHERE learner_id = ?"))


def listed_rollouts(facts: Facts, at_most: int) -> tuple[StoredRollout, ...]:
    """Return rollouts without a start, or with a problem, the latest first."""
    where = "AND (started = '' OR said <> '') ORDER BY last_ms DESC, uid LIMIT ?"
    return _ROLLOUTS.rows(facts, where, [at_most])
