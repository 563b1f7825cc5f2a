"""A reset: a boundary between two epochs of some arms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from core.records.request import digest

Target = Literal["uniform", "prior"]

REASONS: Final = (
    "Major changes to the tool inventory",
    "A bug gave wrong rewards for a while",
    "Switched to another model family",
    "A new project phase uses tools differently",
)


def reset_payload(arms: Sequence[str], types: Sequence[str], target: str, reason: str | None) -> int:
    """Return the digest of the request, independent of order and distinct from that of other verbs."""
    return digest(("reset", tuple(sorted(arms)), tuple(sorted(types)), target, reason))


class Reset(msgspec.Struct, frozen=True, kw_only=True):
    """One reset as it is read back; ``revision`` names the epoch it opened."""

    id: str
    revision: int
    at_ms: int
    actor: str
    target: Target
    scope: str
    reason: str | None
    n_arms: int
    undone: bool
