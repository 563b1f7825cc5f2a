"""Compacting of old runs: their rows are deleted for good, their sums stay.

Each piece of runs is one transaction, so other writers wait for one piece at most. A stop between two pieces leaves
what is done, and a second call goes on from there.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from core.errors import InvalidInput, StoreBusy
from core.flows.context import Context
from core.records.answers import CompactAnswer
from core.records.learner import MAX_KEEP_DAYS
from core.records.limits import whole
from core.records.times import DAY_MS, HOUR_MS, iso
from core.store.compacting import BEGIN, Position, compact_piece, left_of_none, old_runs

LOST: Final = (
    "Their pages and transcripts are gone, and so are they from lists, searches and exports.",
    "Comparisons of runs and sessions, and figures that read single runs, count only the runs that are left.",
    "Imports that brought some of them can't be undone or redone.",
    "A repair of a span in which they were observed is refused, and so is feedback on them.",
    "Selections from before the newest of them was recorded can't be replayed.",
)
"""What can't be answered after a compaction."""


def compact(
    context: Context,
    *,
    keep_days: Annotated[
        int | None,
        Meta(description="Days that runs are kept after their end; default: the setting keep_runs_days."),
    ] = None,
    shrink: Annotated[
        bool,
        Meta(description="Rewrite the file afterwards, so that it gets smaller; writers wait meanwhile."),
    ] = False,
) -> CompactAnswer:
    """Delete the rows of old runs for good, and keep their sums.

    Beliefs, savings by sums and the history stay as they are. Runs with feedback stay whole. No undo brings the rows
    back, and an import knows the deleted runs.

    Runs that ended more than ``keep_days`` ago are deleted; the default is the setting ``keep_runs_days``. ``shrink``
    rewrites the file without the deleted bytes. Without it later runs use their room.

    Raises `InvalidInput` where neither ``keep_days`` nor the setting says how long runs are kept. Raises `StoreBusy`
    or `StoreFull` where the runs are deleted and the file was not rewritten: a long read used it, or the disk is
    full. Compact again with ``shrink`` then.
    """
    context.permit("erase")
    until_ms = _until_ms(context, keep_days)
    n_runs = 0
    imports: frozenset[int] = frozenset()
    with context.reading() as snapshot:
        left = left_of_none(snapshot, until_ms)
    after: Position | None = BEGIN if left is None else None
    n_left = left or 0
    while after is not None:
        piece = context.write("erase", partial(compact_piece, until_ms=until_ms, after=after))
        n_runs, n_left = n_runs + piece.n_compacted, n_left + piece.n_referenced
        imports, after = imports | piece.imports, piece.after
    if shrink and not context.store.database.scour():
        raise StoreBusy(
            f"{n_runs:,} runs are deleted, but a long read kept the file from being rewritten.",
            next_step="Close programs that read the database. Then, with the same days: armscope compact --shrink.",
        )
    return _answer(until_ms, n_runs, n_left, len(imports))


def preview_compact(context: Context, *, keep_days: int | None = None) -> CompactAnswer:
    """Return what `compact` would delete; nothing is changed."""
    context.permit("erase")
    until_ms = _until_ms(context, keep_days)
    with context.reading() as snapshot:
        old = old_runs(snapshot, until_ms)
    answer = _answer(until_ms, old.n_free, old.n_referenced, old.n_imports)
    return msgspec.structs.replace(answer, is_preview=True)


def _until_ms(context: Context, keep_days: int | None) -> int:
    """Return the time before which runs are old: a full hour, because sums are by the hour."""
    if keep_days is None:
        with context.reading() as snapshot:
            days = snapshot.settings.keep_runs_days
        keep_days = None if days == 0 else days
    if keep_days is None:
        raise InvalidInput(
            "The days that runs are kept must be given, got none; the setting keep_runs_days is 0, so all are kept.",
            next_step="Say how many, for example: armscope compact --keep-days 365. Nothing was deleted.",
        )
    keep_days = whole("keep_days", keep_days, MAX_KEEP_DAYS, lowest=1, example=365)
    return (context.clock() - keep_days * DAY_MS) // HOUR_MS * HOUR_MS


def _answer(until_ms: int, n_runs: int, n_left: int, n_imports: int) -> CompactAnswer:
    return CompactAnswer(
        until=iso(until_ms) or "",
        runs=n_runs,
        left=n_left,
        imports=n_imports,
        lost=LOST if n_runs else (),
    )
