"""Replies: what callers' idempotency keys were answered with, and about which fact.

A key holds while its fact stands, so undoing the import that told a reward frees the key again. Should that import
stand again after the key was used anew, one fact holds it: what was said here directly, else what was told last.
The others don't stand, for what comes under one key was asked for once (`core.store.claims.standings`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from core.store.transaction import Facts, Transaction

ReplyKind = Literal["reward", "note"]


class Reply(NamedTuple):
    """``payload`` digests what was asked, ``answer`` is the answer in JSON."""

    kind: ReplyKind
    number: int
    payload: int
    answer: str


_OF_KEY: Final = (
    " FROM reply q LEFT JOIN observation x"
    "   ON q.kind = 'reward' AND x.learner_id = q.learner_id AND x.observation_no = q.no"
    " LEFT JOIN note y ON q.kind = 'note' AND y.learner_id = q.learner_id AND y.note_no = q.no"
)
_HELD_FIRST: Final = " ORDER BY coalesce(x.import_no, y.import_no) > 0, q.kind DESC, q.no DESC LIMIT 1"

HOLDS: Final = (
    f"(p.kind, p.no) = (SELECT q.kind, q.no{_OF_KEY} WHERE q.learner_id = p.learner_id AND q.key = p.key"
    f" AND coalesce(x.standing, y.standing) = 1{_HELD_FIRST})"
)
"""Whether the fact of a reply ``p`` is the one that holds its key."""


def reply_of(txn: Transaction, key: str) -> Reply | None:
    """What a key stands for at present."""
    row = txn.link.row(
        f"SELECT q.kind, q.no, q.payload, q.answer{_OF_KEY} WHERE q.learner_id = ? AND q.key = ?"
        f" AND coalesce(x.standing, y.standing) = 1{_HELD_FIRST}",
        [txn.learner_id, key],
    )
    return None if row is None else Reply(*row)


def number_told(txn: Transaction, kind: ReplyKind, key: str, payload: int) -> int | None:
    """The fact that the same request under this key made, whether it stands or not."""
    row = txn.link.row(
        f"SELECT q.no{_OF_KEY} WHERE q.learner_id = ? AND q.key = ? AND q.kind = ? AND q.payload = ?{_HELD_FIRST}",
        [txn.learner_id, key, kind, payload],
    )
    return None if row is None else int(row[0])


def keep_reply(txn: Transaction, key: str, reply: Reply) -> None:
    """Remember what a key was answered with; what is remembered of this fact already stays."""
    kind, number, payload, answer = reply
    n_new = txn.link.run(
        "INSERT INTO reply VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [txn.learner_id, kind, number, key, payload, answer],
    )
    if n_new:
        txn.tell_news()


def rivals(facts: Facts, kind: ReplyKind, numbers: Sequence[int]) -> list[tuple[int, ReplyKind, int]]:
    """Facts, by number, with every other fact (kind, number) that was asked for under the same key."""
    return facts.link.rows_in(
        "SELECT p.no, q.kind, q.no FROM reply p JOIN reply q"
        " ON q.learner_id = p.learner_id AND q.key = p.key AND (q.kind <> p.kind OR q.no <> p.no)"
        " WHERE p.learner_id = ? AND p.kind = ? AND p.no IN ({})",
        [facts.learner_id, kind],
        numbers,
    )
