"""Denials: what was refused, added up by actor, action and minute, so that a flood of it fills no disk."""

from __future__ import annotations

from typing import Final

from core.store.tables import insert_into
from core.store.transaction import Transaction

MINUTE_MS: Final = 60_000
_COUNT: Final = (
    insert_into("denial", "learner_id", "minute", "actor", "action", "n")
    + " ON CONFLICT (learner_id, minute, actor, action) DO UPDATE SET n = denial.n + excluded.n"
)


def count_denials(txn: Transaction, minute: int, actor: str, action: str, n: int) -> None:
    """Add denials to those of an actor and action in a minute since 1970 UTC."""
    txn.connection.run(_COUNT, [txn.learner_id, minute, actor, action, n])
