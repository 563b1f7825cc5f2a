"""Standing: what a server is to the others that keep the same database."""

from __future__ import annotations

from typing import Literal

import msgspec


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A server at one moment: the one that is written to (primary), or one that follows it (standby).

    ``synchronous``: whether the primary answers an act only when a standby has it, too; None of a standby, which
    can't tell. ``standbys``: how many receive what the primary writes; None of a standby. ``lag_s``: how many seconds
    a standby is behind, of a primary its standby that is furthest behind; None: there is none, or it can't be told.
    """

    role: Literal["primary", "standby"]
    synchronous: bool | None = None
    standbys: int | None = None
    lag_s: float | None = None
