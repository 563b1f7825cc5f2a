"""Trace: somebody else's record of a run as it comes, span by span: what came of it, and what waits."""

from __future__ import annotations

from typing import Literal

import msgspec

TraceState = Literal["waiting", "rootless", "unread"]
"""Waits for its root; became a run without it; says what no run can be made of."""


class TraceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A trace that is no whole run: ``spans`` are those that came, ``last_at`` when the last did (ISO 8601, UTC);
    ``run`` is the run's uid once there is one, ``said`` why there is none.
    """

    trace: str
    session: str | None
    state: TraceState
    spans: int
    last_at: str
    run: str | None = None
    said: str | None = None


class SpansTaken(msgspec.Struct, frozen=True, kw_only=True):
    """What came of spans that were sent: ``runs`` were made or went on, ``refused`` spans are not kept; ``words`` say
    why, and what was noticed besides.
    """

    kept: int
    refused: int
    runs: int
    words: str = ""


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """Traces that were told: as runs, of them some without a root; and why some could not be, each reason once."""

    runs: int = 0
    rootless: int = 0
    unread: tuple[str, ...] = ()
