"""A bridge: a program that brings chat messages, and the members behind its senders."""

from __future__ import annotations

import msgspec

from core.errors import InvalidInput
from core.records.limits import text

MAX_CHARS = 200


class SenderRow(msgspec.Struct, frozen=True, kw_only=True):
    """The member behind a ``sender`` in a ``channel``; ``by`` declared it at ``at_ms``."""

    channel: str
    sender: str
    member: str
    by: str
    at_ms: int


def check_chat_name(name: str, value: str) -> str:
    """Return a channel or sender, which are compared to the letter: 1 to 200 printable characters.

    >>> check_chat_name("A channel", "slack")
    'slack'
    """
    checked = text(name, value, MAX_CHARS, lowest=1)
    if not checked.isprintable() or checked.strip() != checked:
        raise InvalidInput(
            f"{name} must be printable, without a blank at its ends, got {checked[:60]!r}.",
            next_step="Copy it as the bridge sends it.",
        )
    return checked
