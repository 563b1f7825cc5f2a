"""A repair: the automatic observations of some arms in a span of time, taken back."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from core.records.request import digest


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """One repair as it is read back.

    It took back ``n_observations`` that counted then. Of them ``n_changed`` count again, because a later import
    brought the run with another outcome.
    """

    id: str
    since_ms: int
    until_ms: int
    at_ms: int
    actor: str
    reason: str | None
    arms: tuple[str, ...]
    n_observations: int
    n_changed: int
    undone: bool


def repair_payload(arms: Sequence[str], since: str, until: str | None, reason: str | None) -> int:
    """Return the digest of the request, independent of the order of arms."""
    return digest(("repair", tuple(sorted(arms)), since, until, reason))
