"""Bridge: a program that brings messages of a chat, and who its senders are."""

from __future__ import annotations

import msgspec

from core.errors import InvalidInput
from core.records.limits import text

MAX_CHARS = 200


class SenderRow(msgspec.Struct, frozen=True, kw_only=True):
    """Whoever a bridge calls ``sender`` in ``channel`` is the member of this name; ``by`` whom it was said, when."""

    channel: str
    sender: str
    member: str
    by: str
    at_ms: int


def check_place(name: str, value: str) -> str:
    """Return a channel or sender, which are compared to the letter: 1 to 200 printable characters.

    >>> check_place("A channel", "slack")
    'slack'
    """
    found = text(name, value, MAX_CHARS, lowest=1)
    if not found.isprintable() or found.strip() != found:
        raise InvalidInput(
            f"{name} must be printable, without a blank at its ends, got {found[:60]!r}.",
            next_step="Copy it as the bridge sends it.",
        )
    return found
