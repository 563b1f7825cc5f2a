"""Compacting for tests: every piece of a learner, one after another."""

from __future__ import annotations

from functools import partial

from core.flows.context import Context
from core.store.compacting import BEGIN, Position, compact_piece


def compact_until(context: Context, until_ms: int) -> int:
    """Compact the runs that ended before a time; return how many there were."""
    n_runs, after = 0, BEGIN
    position: Position | None = after
    while position is not None:
        piece = context.write("erase", partial(compact_piece, until_ms=until_ms, after=position))
        n_runs, position = n_runs + piece.n_compacted, piece.after
    return n_runs
