"""Bridges: tokens that may name senders in a chat, and the member behind each sender."""

from __future__ import annotations

from typing import Final

from core.records.bridge import SenderRow
from core.store.members import MemberMatch, member_by_number
from core.store.tables import insert_into
from core.store.transaction import Facts, Transaction

_ADD: Final = insert_into("bridge_sender", "learner_id", "channel", "sender", "member_no", "by", "at_ms")


def is_bridge(facts: Facts, token_no: int) -> bool:
    """Return whether a token is a bridge."""
    row = facts.connection.row(
        "SELECT is_bridge FROM token WHERE learner_id = ? AND token_no = ?", [facts.learner_id, token_no]
    )
    return row is not None and row[0] > 0


def add_sender(txn: Transaction, channel: str, sender: str, member_no: int) -> None:
    """From now on a member speaks as this sender."""
    txn.connection.run(_ADD, [txn.learner_id, channel, sender, member_no, txn.actor.name, txn.now_ms])


def remove_sender(txn: Transaction, channel: str, sender: str) -> None:
    """Remove a sender."""
    txn.connection.run(
        "DELETE FROM bridge_sender WHERE learner_id = ? AND channel = ? AND sender = ?",
        [txn.learner_id, channel, sender],
    )


def forget_senders(txn: Transaction, member_no: int) -> None:
    """A member is no sender any more, in no channel."""
    txn.connection.run(
        "DELETE FROM bridge_sender WHERE learner_id = ? AND member_no = ?", [txn.learner_id, member_no]
    )


def member_of_sender(facts: Facts, channel: str, sender: str) -> MemberMatch | None:
    """The member who speaks as a sender."""
    row = facts.connection.row(
        "SELECT member_no FROM bridge_sender WHERE learner_id = ? AND channel = ? AND sender = ?",
        [facts.learner_id, channel, sender],
    )
    return None if row is None else member_by_number(facts, row[0])


def sender_rows(facts: Facts) -> tuple[SenderRow, ...]:
    """Return every sender, by channel."""
    rows = facts.connection.rows(
        "SELECT s.channel, s.sender, m.name, s.by, s.at_ms FROM bridge_sender s JOIN member m"
        " ON m.learner_id = s.learner_id AND m.member_no = s.member_no WHERE s.learner_id = ?"
        " ORDER BY s.channel, s.sender",
        [facts.learner_id],
    )
    return tuple(
        SenderRow(channel=channel, sender=sender, member=name, by=by, at_ms=at_ms)
        for channel, sender, name, by, at_ms in rows
    )
