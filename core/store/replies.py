"""Replies: stored answers to idempotency keys, with their facts.

A key is taken while its fact is active, so undoing the import of a reward frees its key. If that import is redone
after the key was used again, one fact holds the key: one recorded here directly, else the latest import's. The others
are inactive, because a key is one request (`core.store.provenance.standings`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from core.errors import Conflict
from core.store.engine.dialect import REPLIES_BY_KEY
from core.store.tables import KEYED_ACTS
from core.store.transaction import Facts, Transaction

_OF_KEY: Final = f" FROM reply q {REPLIES_BY_KEY}" + "".join(
    f" LEFT JOIN {table} {act}_ ON q.kind = '{act}' AND {act}_.learner_id = q.learner_id AND {act}_.{table}_no = q.no"
    for act, table in KEYED_ACTS.items()
)

_KEEP: Final = (
    "INSERT INTO reply (learner_id, kind, no, key, payload, answer) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO NOTHING"
)


class Reply(NamedTuple):
    """``payload`` digests what was asked, ``answer`` is the answer in JSON."""

    kind: str
    number: int
    payload: int
    answer: str


def _either(column: str) -> str:
    """Return SQL for a column of a reply's fact, in either table."""
    return f"coalesce({', '.join(f'{act}_.{column}' for act in KEYED_ACTS)})"


_IS_ACTIVE: Final = f"{_either('standing')} = 1"
_HELD_FIRST: Final = (
    f" ORDER BY CASE WHEN {_either('import_no')} > 0 THEN 1 ELSE 0 END, q.kind DESC, q.no DESC LIMIT 1"
)

HOLDS: Final = (
    f"(p.kind, p.no) = (SELECT q.kind, q.no{_OF_KEY} WHERE q.learner_id = ?1 AND q.key = p.key"
    f" AND {_IS_ACTIVE}{_HELD_FIRST})"
)
"""SQL condition: the fact of reply ``p`` of learner ``?1`` holds its key."""
_REPLIES: Final = (
    f"SELECT CASE WHEN {_either('import_no')} > 0 THEN 0 ELSE 1 END, q.kind, q.no, q.key, q.payload, q.answer"
    f"{_OF_KEY} WHERE q.learner_id = ? AND q.key IN ({{}}) AND {_IS_ACTIVE}"
)


def reply_of(txn: Transaction, key: str) -> Reply | None:
    """Return the present reply of a key."""
    return replies_of(txn, [key]).get(key)


def replies_of(txn: Transaction, keys: Collection[str]) -> dict[str, Reply]:
    """Return the present replies of those keys that have one."""
    rows = txn.rows_in(_REPLIES, sorted(keys))
    return {
        key: Reply(kind, number, *values) for _, kind, number, key, *values in sorted(rows)
    }  # the last holds it


def known_by_request(txn: Transaction, kind: str, key: str, payload: int) -> int | None:
    """Return the fact that the same request made under this key; raises `Conflict` for another request's key."""
    number = txn.scalar(
        int,
        f"SELECT q.no{_OF_KEY} WHERE q.learner_id = ? AND q.key = ? AND q.kind = ? AND q.payload = ?{_HELD_FIRST}",
        [key, kind, payload],
    )
    stored = reply_of(txn, key) if number is None else None
    if stored is not None:
        raise taken(key, stored)
    return number


def taken(key: str, stored: Reply) -> Conflict:
    """Return the error for a key with other content."""
    first = msgspec.json.decode(stored.answer)  # of any verb that takes keys
    what = f": {first['reward']:g} for {first['arm']}" if "reward" in first else ""
    return Conflict(
        f"The idempotency key {key!r} already belongs to {first['id']}{what}.",
        next_step=f"Use a new key for a new {stored.kind}.",
    )


def reply_to(kind: str, number: int, payload: int, answer: msgspec.Struct) -> Reply:
    """Return the answer to the request of this digest, which made this fact, for now and for repeats."""
    return Reply(kind, number, payload, msgspec.json.encode(answer).decode())


def keep_reply(txn: Transaction, key: str, reply: Reply) -> None:
    """Remember what a key was answered with; what is remembered of this fact already stays."""
    keep_replies(txn, {key: reply})


def keep_replies(txn: Transaction, replies: Mapping[str, Reply]) -> None:
    """The same for many keys."""
    rows = [
        (txn.learner_id, kind, number, key, payload, answer)
        for key, (kind, number, payload, answer) in replies.items()
    ]
    if txn.has_news:  # then no caller waits for this answer
        txn.connection.many(_KEEP, rows)
    elif txn.connection.n_changed(_KEEP, rows):
        txn.note_news()


def rivals(facts: Facts, kind: str, numbers: Sequence[int]) -> list[tuple[int, str, int]]:
    """Facts, by number, with every other fact (kind, number) that was asked for under the same key."""
    return facts.connection.rows_in(
        "SELECT p.no, q.kind, q.no FROM reply p JOIN reply q"
        " ON q.learner_id = p.learner_id AND q.key = p.key AND (q.kind <> p.kind OR q.no <> p.no)"
        " WHERE p.learner_id = ? AND p.kind = ? AND p.no IN ({})",
        [facts.learner_id, kind],
        numbers,
    )
