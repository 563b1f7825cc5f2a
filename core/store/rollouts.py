"""Rollouts: events as they were sent, in as far as they are read, until nobody adds to their rollout any more.

A rollout that is known by its messages alone waits for its start. All that is kept of one goes a week after the last
of it came, told or not; where there is too little room, that of rollouts that are told goes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import structs

from core.errors import StoreBusy
from core.records.rollout_event import Message
from core.records.times import DAY_MS
from core.store.tables import insert_into
from core.store.transaction import Facts, Transaction

MAX_EVENTS: Final = 1_000_000
"""Of one learner."""
KEPT_MS: Final = 7 * DAY_MS
SMALL: Final = 1_000
"""A rollout of so few events is told again with each that comes; a longer one when it has grown by a tenth."""
PAUSE_MS: Final = 60_000
"""After so long without an event it is told as it is."""
_COLUMNS: Final = ("uid", "started", "updated", "said", "n_events", "n_told", "last_ms")
_KEEP: Final = (
    insert_into("rollout", "learner_id", *_COLUMNS)
    + " ON CONFLICT (learner_id, uid) DO UPDATE SET started = excluded.started, updated = excluded.updated,"
    " n_events = excluded.n_events, last_ms = excluded.last_ms"
)
_KEPT: Final = msgspec.json.Decoder(Message)
_MESSAGE: Final = insert_into("rollout_message", "learner_id", "rollout", "place", "content")


class KeptRollout(NamedTuple):
    """A rollout as it is kept: ``started`` and ``updated`` are what was said of it, '' nothing yet.

    ``said`` is why it could not be told, ``n_told`` how many of its events had come when it last was.
    """

    uid: str
    started: str = ""
    updated: str = ""
    said: str = ""
    n_events: int = 0
    n_told: int = 0
    last_ms: int = 0


def rollouts_of(facts: Facts, uids: Sequence[str]) -> dict[str, KeptRollout]:
    """Those of some rollouts of which something is kept."""
    rows = facts.connection.rows_in(
        f"SELECT {', '.join(_COLUMNS)} FROM rollout WHERE learner_id = ? AND uid IN ({{}})",
        [facts.learner_id],
        uids,
    )
    return {row[0]: KeptRollout(*row) for row in rows}


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
    rows = facts.connection.rows(
        "SELECT content FROM rollout_message WHERE learner_id = ? AND rollout = ? ORDER BY place",
        [facts.learner_id, uid],
    )
    return [content for (content,) in rows]


def keep_rollouts(
    txn: Transaction,
    rollouts: Iterable[KeptRollout],
    messages: Mapping[str, Mapping[int, str]],
    *,
    at_most: int = MAX_EVENTS,
) -> None:
    """Keep what was said of rollouts, and messages that are new. Raises `StoreBusy` where there is no room."""
    _make_room(txn, sum(len(places) for places in messages.values()), at_most)
    rows = sorted(rollouts)
    txn.connection.many(_KEEP, [(txn.learner_id, *one) for one in rows])
    txn.connection.many(
        _MESSAGE,
        [
            (txn.learner_id, uid, place, content)
            for uid, places in sorted(messages.items())
            for place, content in sorted(places.items())
        ],
    )


def _make_room(txn: Transaction, n_new: int, at_most: int) -> None:
    row = txn.connection.row("SELECT sum(n_events) FROM rollout WHERE learner_id = ?", [txn.learner_id])
    over = n_new + int((row and row[0]) or 0) - at_most
    if over <= 0:
        return
    gone = []
    for uid, n_events in txn.connection.rows(
        "SELECT uid, n_events FROM rollout WHERE learner_id = ? AND n_told >= n_events ORDER BY last_ms, uid",
        [txn.learner_id],
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
    place = [txn.learner_id]
    txn.connection.run_in("DELETE FROM rollout_message WHERE learner_id = ? AND rollout IN ({})", place, uids)
    txn.connection.run_in("DELETE FROM rollout WHERE learner_id = ? AND uid IN ({})", place, uids)


def drop_rollout_texts(txn: Transaction, episodes: Sequence[str]) -> int:
    """Remove the texts of messages that episodes are told from; how many had one."""
    ends = {uid[at + 1 :] for uid in episodes for at, sign in enumerate(uid) if sign == "/"}
    rows = txn.connection.rows_in(
        "SELECT rollout, place, content FROM rollout_message WHERE learner_id = ? AND rollout IN ({})",
        [txn.learner_id],
        sorted(ends),
    )
    emptied = []
    for rollout, place, content in rows:
        message = _KEPT.decode(content)
        if message.content is not None:
            without = msgspec.json.encode(structs.replace(message, content=None)).decode()
            emptied.append((without, txn.learner_id, rollout, place))
    txn.connection.many(
        "UPDATE rollout_message SET content = ? WHERE learner_id = ? AND rollout = ? AND place = ?", emptied
    )
    return len(emptied)


def due_rollouts(facts: Facts, now_ms: int, at_most: int) -> list[KeptRollout]:
    """Rollouts that have started, and are to be told anew."""
    rows = facts.connection.rows(
        f"SELECT {', '.join(_COLUMNS)} FROM rollout WHERE learner_id = ? AND started <> '' AND n_told < n_events"
        " AND (n_events <= ? OR n_events * 10 >= n_told * 11 OR last_ms <= ?) ORDER BY last_ms, uid LIMIT ?",
        [facts.learner_id, SMALL, now_ms - PAUSE_MS, at_most],
    )
    return [KeptRollout(*row) for row in rows]


def note_rollouts(txn: Transaction, told: Iterable[tuple[KeptRollout, str]]) -> None:
    """Note that rollouts were told as they are, or why they could not be ('')."""
    txn.connection.many(
        "UPDATE rollout SET said = ?, n_told = ? WHERE learner_id = ? AND uid = ?",
        [(said, one.n_events, txn.learner_id, one.uid) for one, said in told],
    )


def has_old_rollouts(facts: Facts, now_ms: int) -> bool:
    """Whether there is anything that `forget_rollouts` would let go."""
    row = facts.connection.row(
        "SELECT 1 FROM rollout WHERE learner_id = ? AND last_ms <= ? LIMIT 1",
        [facts.learner_id, now_ms - KEPT_MS],
    )
    return row is not None


def forget_rollouts(txn: Transaction) -> None:
    """Let go what nobody adds to any more."""
    rows = txn.connection.rows(
        "SELECT uid FROM rollout WHERE learner_id = ? AND last_ms <= ?",
        [txn.learner_id, txn.now_ms - KEPT_MS],
    )
    _drop(txn, [uid for (uid,) in rows])


def held_rollouts(facts: Facts) -> set[str]:
    """Rollouts of which something is kept."""
    rows = facts.connection.rows("SELECT uid FROM rollout WHERE learner_id = ?", [facts.learner_id])
    return {uid for (uid,) in rows}


def listed_rollouts(facts: Facts, at_most: int) -> list[KeptRollout]:
    """Rollouts that wait for their start, or could not be told; the latest first."""
    rows = facts.connection.rows(
        f"SELECT {', '.join(_COLUMNS)} FROM rollout WHERE learner_id = ? AND (started = '' OR said <> '')"
        " ORDER BY last_ms DESC, uid LIMIT ?",
        [facts.learner_id, at_most],
    )
    return [KeptRollout(*row) for row in rows]
