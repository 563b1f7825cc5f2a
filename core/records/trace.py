"""Foreign records of a run, received span by span."""

from __future__ import annotations

from typing import Literal

import msgspec

from core.records.times import Moment

TraceState = Literal["waiting", "rootless", "unread"]
"""Waits for its root; became a run without it; says what no run can be made of."""


class TraceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A trace that is no complete run. ``spans`` have arrived, the last at ``last_at`` (ISO 8601, UTC).

    ``run`` is the uid of its run, if there is one; ``said`` is the reason if not.
    """

    trace: str
    session: str | None
    state: TraceState
    spans: int
    last_at: Moment
    run: str | None = None
    said: str | None = None


class SpansTaken(msgspec.Struct, frozen=True, kw_only=True):
    """Result of sent spans: ``runs`` were made or grew, ``refused`` spans are not stored, ``words`` give reasons and
    notes.
    """

    kept: int
    refused: int
    runs: int
    words: str = ""


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """Traces that became runs, some of them without a root, and each reason against others once."""

    runs: int = 0
    rootless: int = 0
    unread: tuple[str, ...] = ()
