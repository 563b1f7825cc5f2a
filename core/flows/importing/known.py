"""Known: whether what a file names is here already."""

from __future__ import annotations

from core.flows.requests import taken
from core.records.arm import Arm
from core.store.replies import ReplyKind, number_told, reply_of
from core.store.transaction import Transaction


def known_by_request(txn: Transaction, kind: ReplyKind, key: str, payload: int) -> int | None:
    """The number of what the same request made here.

    Raises `Conflict` where the key stands for another request.
    """
    number = number_told(txn, kind, key, payload)
    kept = None if number is not None else reply_of(txn, key)
    if kept is not None:
        raise taken(key, kept)
    return number


def arm_no_of(txn: Transaction, key: str) -> int:
    """The number of an arm that a line names and says nothing else of; made if need be."""
    known = txn.arm_no(key)
    return txn.ensure_arms([Arm(key=key)])[key] if known is None else known
