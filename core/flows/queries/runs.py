"""Runs: a page of them, and the part of each arm in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Unpack, cast

import numpy as np
from msgspec import Meta

from core.columns import Ints
from core.errors import NotFound
from core.flows.context import Context
from core.maths.statistics.heatmap import Heatmap, RowChoice, chosen_rows, grouped, heatmap
from core.records.run_page import (
    Cursor,
    Direction,
    RunPage,
    RunRow,
    RunsOfSession,
    SessionCursor,
    SessionPage,
    SessionRow,
)
from core.records.run_query import RunFilter, RunQuery, RunScope, SessionQuery, View, scope_of
from core.records.transcript import Message
from core.store import reads
from core.store.reads.log import after_of, marked_runs
from core.store.reads.run_pages import (
    changed_runs,
    looked_up,
    newest_without_tokens,
    page_of,
    run_page,
    runs_counted,
    session_rows,
)
from core.store.reads.run_story import arms_in_runs, manual_rewards, parts
from core.store.review import is_open_item
from core.store.texts import read_transcript
from core.store.transaction import Snapshot

PAGE_RUNS: Final = 50
"""Runs per page. The table and the heat map show the same runs."""
SESSIONS: Final = 200
"""Sessions in a list; a view with a narrower span shows others."""
ROWS_AT_MOST: Final = 24
"""Maximum number of arms in a heat map. At 15 px per row, more would not fit on a screen."""


@dataclass(frozen=True, kw_only=True)
class RunsView:
    """A page of runs and their heat map. ``n_runs`` counts all runs that pass the filters.

    ``n_runs`` is None if the filter asks for an arm's part: counting would read every run.
    """

    page: RunPage
    n_runs: int | None
    cells: Heatmap


def runs(
    context: Context,
    limit: Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of runs.")] = 50,
    **query: Unpack[RunQuery],
) -> tuple[RunRow, ...]:
    """List the latest runs that pass the filters, newest first."""
    with context.reading() as snapshot:
        scope, rows, cursor = scope_of(query, lambda: reads.last_run_ms(snapshot)), list[RunRow](), None
        while len(rows) < limit:
            page = _page(snapshot, scope, cursor, limit - len(rows))
            rows += page.rows
            cursor = page.onward
            if cursor is None:
                break
        return tuple(rows)


def listed_runs(
    context: Context, *, cursor: Cursor | None = None, limit: int = PAGE_RUNS, **query: Unpack[RunQuery]
) -> RunPage:
    """Return runs that pass the filters, beyond a cursor, newest first; with ``since`` those that changed."""
    with context.reading() as snapshot:
        return _page(snapshot, scope_of(query, lambda: reads.last_run_ms(snapshot)), cursor, limit)


def _page(snapshot: Snapshot, scope: RunScope, cursor: Cursor | None, limit: int) -> RunPage:
    filters, view, session, since = scope
    after = after_of(snapshot, since, ())
    if after is None:
        page = run_page(snapshot, filters, view, cursor=cursor, limit=limit, session=session)
        return page._replace(rows=marked_runs(snapshot, page.rows))
    rows = changed_runs(snapshot, filters, view, after, limit=limit, session=session)
    return RunPage(rows=marked_runs(snapshot, rows), onward=None, n_looked_at=len(rows), cut_short=False)


def sessions(
    context: Context,
    limit: Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of sessions.")] = 50,
    **query: Unpack[SessionQuery],
) -> tuple[SessionRow, ...]:
    """List the sessions with runs that pass the filters, the latest first."""
    return listed_sessions(context, limit=limit, **query).rows


def listed_sessions(
    context: Context, *, after: SessionCursor | None = None, limit: int, **query: Unpack[SessionQuery]
) -> SessionPage:
    """Return sessions beyond a cursor, the latest first."""
    with context.reading() as snapshot:
        view = scope_of(cast("RunQuery", query), lambda: reads.last_run_ms(snapshot)).view
        rows = session_rows(snapshot, view, limit=limit, after=after)
        last = SessionCursor(rows[-1].last_ms, rows[-1].session) if len(rows) == limit else None
        return SessionPage(rows, last)


def runs_without_tokens(context: Context, view: View) -> tuple[RunRow, ...]:
    """Return the newest baseline and selected runs of a view that do not say their tokens."""
    with context.reading() as snapshot:
        compared = RunFilter(classes=("baseline", "selected"))
        return newest_without_tokens(snapshot, compared, view, limit=PAGE_RUNS)


def sessions_in(context: Context, view: View, *, limit: int = SESSIONS) -> tuple[SessionRow, ...]:
    """Return the sessions with runs in a view, the latest first."""
    with context.reading() as snapshot:
        return session_rows(snapshot, view, limit=limit)


def session(
    context: Context,
    name: Annotated[str, Meta(description="The session's name.")],
    *,
    limit: Annotated[int, Meta(ge=1, le=1_000, description="Maximum number of runs.")] = 200,
    texts: Annotated[
        bool, Meta(description="Include the kept messages of the runs whose texts the caller may read.")
    ] = False,
) -> RunsOfSession:
    """Show a session: its runs in order, and the part of arms in them.

    Raises `NotFound` where no active run names it.
    """
    with context.reading() as snapshot:
        rows = session_rows(snapshot, View(), limit=1, session=name)
        if not rows:
            raise NotFound(
                f"There is no session {name[:80]!r} in learner {context.learner!r}.",
                next_step="Use a name that armscope sessions lists.",
            )
        page = run_page(snapshot, RunFilter(), View(), direction="newer", limit=limit, session=name)
        arms = arms_in_runs(snapshot, tuple(row.run_no for row in page.rows))
        counts = zip(arms.keys, arms.n_in.tolist(), arms.n_used.tolist(), strict=True)
        in_order = tuple(reversed(page.rows))
        return RunsOfSession(
            row=rows[0],
            rows=in_order,
            arms=tuple(sorted(counts, key=lambda one: (-one[2], -one[1], one[0]))),
            transcripts=_transcripts(context, snapshot, in_order) if texts else None,
        )


def _transcripts(
    context: Context, snapshot: Snapshot, rows: Sequence[RunRow]
) -> dict[str, tuple[Message, ...]]:
    """Return the kept messages of runs; a reviewer reads those of runs to be judged, each by itself."""
    transcripts = dict[str, tuple[Message, ...]]()
    for row in rows:
        if snapshot.shows_texts or (
            context.may("judge") and is_open_item(snapshot, context.actor.name, row.run_no)
        ):
            messages = read_transcript(snapshot, row.run_no)
            if messages is not None:
                transcripts[row.uid] = messages
    return transcripts


def runs_view(
    context: Context,
    filters: RunFilter = RunFilter(),  # noqa: B008 - frozen
    view: View = View(),  # noqa: B008 - frozen
    *,
    cursor: Cursor | None = None,
    direction: Direction = "older",
    rows_by: RowChoice = "most in",
    limit: int = PAGE_RUNS,
) -> RunsView:
    """Return runs that pass the filters beyond a cursor, newest first, with the part of each arm in them."""
    with context.reading() as snapshot:
        matches, n_runs = snapshot.together(
            lambda: looked_up(snapshot, filters, view, cursor=cursor, direction=direction, limit=limit),
            lambda: runs_counted(snapshot, filters, view),
        )
        numbers = [row.run_no for row in matches.matches]
        oldest_first = tuple(reversed(numbers) if direction == "older" else numbers)
        page, cells = snapshot.together(
            lambda: page_of(snapshot, matches, direction),
            lambda: _cells(snapshot, oldest_first, view, filters.arm, rows_by),
        )
        return RunsView(page=page, n_runs=n_runs, cells=cells)


def _cells(
    snapshot: Snapshot, run_nos: tuple[int, ...], view: View, arm: str | None, rows_by: RowChoice
) -> Heatmap:
    """Return the heat map of the page. The runs are columns, the newest last."""
    arms, by_hand = snapshot.together(
        lambda: arms_in_runs(snapshot, run_nos), lambda: manual_rewards(snapshot, run_nos)
    )
    if view.types:
        arms = arms.at(np.flatnonzero([kind in view.types for kind in arms.types]))
    indexes = chosen_rows(arms.n_in, arms.last_used, arms.n_used, by=rows_by, at_most=ROWS_AT_MOST)
    if arm in arms.keys and (index := arms.keys.index(arm)) not in indexes:
        indexes = np.append(indexes[:-1], index)  # the requested arm is always shown
    shown = arms.at(indexes)
    shown = shown.at(grouped(shown.types, shown.n_in))
    recorded = parts(snapshot, run_nos, shown.arm_nos.tolist())
    is_shown = np.isin(by_hand.arm_no, shown.arm_nos)
    return heatmap(
        shown.keys,
        shown.types,
        run_nos,
        run=recorded.run,
        arm=_indexes(shown.arm_nos, recorded.arm_no),
        flags=recorded.flags,
        hand_run=by_hand.run[is_shown],
        hand_arm=_indexes(shown.arm_nos, by_hand.arm_no[is_shown]),
        hand_reward_micro=by_hand.reward_micro[is_shown],
        n_rest=len(arms.keys) - len(shown.keys),
    )


def _indexes(arm_nos: Ints, numbers: Ints) -> Ints:
    """Return the index of each number in ``arm_nos``, which contains all of them."""
    order = np.argsort(arm_nos)
    return order[np.searchsorted(arm_nos, numbers, sorter=order)] if len(arm_nos) else numbers
