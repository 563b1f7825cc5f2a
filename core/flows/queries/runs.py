"""Runs: a page of them, and what became of each arm in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np
from msgspec import Meta

from core.columns import Ints
from core.flows.context import Context
from core.records.run_page import Cursor, Direction, RunPage, RunRow
from core.records.view import RunFilter, View
from core.statistics.heatmap import Heatmap, RowChoice, chosen_rows, grouped, heatmap
from core.store import reads
from core.store.reads.run_pages import looked_up, page_of, run_page, runs_counted
from core.store.reads.run_parts import arms_in_runs, given_by_hand, parts
from core.store.transaction import Snapshot

PAGE_RUNS: Final = 50
"""Runs on a page: those of the table are those of the heat map."""
ROWS_AT_MOST: Final = 24
"""Arms a heat map shows; at 15 px a row more would not fit a screen."""


@dataclass(frozen=True, kw_only=True)
class RunsSeen:
    """A page of runs and their heat map. ``n_runs`` pass the filters in all (None: an arm's part is asked for,
    and counting would mean looking at every run).
    """

    page: RunPage
    n_runs: int | None
    cells: Heatmap


def runs(
    context: Context, limit: Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of runs.")] = 50
) -> tuple[RunRow, ...]:
    """List the latest runs, newest first."""
    with context.reading() as snapshot:
        return reads.run_rows(snapshot, limit=limit)


def listed_runs(context: Context, *, cursor: Cursor | None = None, limit: int = PAGE_RUNS) -> RunPage:
    """Runs beyond a cursor, newest first."""
    with context.reading() as snapshot:
        return run_page(snapshot, RunFilter(), View(), cursor=cursor, limit=limit)


def seen_runs(
    context: Context,
    wanted: RunFilter = RunFilter(),  # noqa: B008 - frozen
    view: View = View(),  # noqa: B008 - frozen
    *,
    cursor: Cursor | None = None,
    direction: Direction = "older",
    rows_by: RowChoice = "most in",
    limit: int = PAGE_RUNS,
) -> RunsSeen:
    """Runs that pass the filters beyond a cursor, newest first, with what became of each arm in them."""
    with context.reading() as snapshot:
        found, n_runs = snapshot.together(
            lambda: looked_up(snapshot, wanted, view, cursor=cursor, direction=direction, limit=limit),
            lambda: runs_counted(snapshot, wanted, view),
        )
        numbers = [place.run_no for place in found.found]
        oldest_first = tuple(reversed(numbers) if direction == "older" else numbers)
        page, cells = snapshot.together(
            lambda: page_of(snapshot, found, direction),
            lambda: _cells(snapshot, oldest_first, view, wanted.arm, rows_by),
        )
        return RunsSeen(page=page, n_runs=n_runs, cells=cells)


def _cells(
    snapshot: Snapshot, run_nos: tuple[int, ...], view: View, arm: str | None, rows_by: RowChoice
) -> Heatmap:
    """The page's runs as columns, the newest last."""
    seen, given = snapshot.together(
        lambda: arms_in_runs(snapshot, run_nos), lambda: given_by_hand(snapshot, run_nos)
    )
    if view.types:
        seen = seen.at(np.flatnonzero([kind in view.types for kind in seen.types]))
    places = chosen_rows(seen.n_in, seen.last_used, seen.n_used, by=rows_by, at_most=ROWS_AT_MOST)
    if arm in seen.keys and (place := seen.keys.index(arm)) not in places:
        places = np.append(places[:-1], place)  # the arm that was asked for is always shown
    shown = seen.at(places)
    shown = shown.at(grouped(shown.types, shown.n_in))
    had = parts(snapshot, run_nos, shown.arm_nos.tolist())
    is_shown = np.isin(given.arm_no, shown.arm_nos)
    return heatmap(
        shown.keys,
        shown.types,
        run_nos,
        run=had.run,
        arm=_places(shown.arm_nos, had.arm_no),
        flags=had.flags,
        hand_run=given.run[is_shown],
        hand_arm=_places(shown.arm_nos, given.arm_no[is_shown]),
        hand_reward_micro=given.reward_micro[is_shown],
        n_rest=len(seen.keys) - len(shown.keys),
    )


def _places(arm_nos: Ints, wanted: Ints) -> Ints:
    """Where each wanted number stands among ``arm_nos``; every one of them does."""
    order = np.argsort(arm_nos)
    return order[np.searchsorted(arm_nos, wanted, sorter=order)] if len(arm_nos) else wanted
