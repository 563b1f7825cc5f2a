"""State of a server among the servers of one database."""

from __future__ import annotations

from typing import Literal

import msgspec


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A server's role: the primary takes writes, a standby follows it.

    ``synchronous``: the primary answers an act only when a standby has it; None for a standby. ``standbys`` counts
    those that receive the primary's writes; None for a standby. ``lag_s`` is the delay of a standby in seconds, or of
    the primary's slowest standby; None = unknown or no standby.
    """

    role: Literal["primary", "standby"]
    synchronous: bool | None = None
    standbys: int | None = None
    lag_s: float | None = None
