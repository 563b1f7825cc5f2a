"""A page of runs as a table.

Cells are text cells, which Streamlit shows as they are. A click on one opens its run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from core.explained import runs as explained
from core.records.review import QueueAsks
from core.records.run_page import RunRow
from dashboard import actions, reviews, wording
from dashboard.actions import Flash
from dashboard.pages import ARM, REVIEW, RUN
from dashboard.reading import cached_figure, reading
from dashboard.widgets.opening import clicked_row, fresh, open_one, opened, opening_records
from dashboard.widgets.results import result
from dashboard.widgets.tables import by_head, config_of, frame_of, heads, shown_table
from dashboard.wording import Words

_PHONE_ARMS: Final = {"type": 48, "arm": 176, "n_in": 74, "n_referenced": 68}
_PHONE: Final = {"at": 110, "run_no": 62, "n_referenced": 60, "tokens": 84}


def table(rows: Sequence[RunRow], *, order: Words = Words("newest first")) -> None:
    """Draw runs in their order; a click opens one, and ticked ones can become a queue."""
    year_of_ms = reading().frame.last_at_ms
    numbers = tuple(row.run_no for row in rows)
    frame = cached_figure(
        ("run table", numbers), lambda: frame_of(explained.RUNS, rows, year_of_ms=year_of_ms)
    )
    named = heads(explained.RUNS)
    clicked = shown_table(
        frame,
        config_of(explained.RUNS),
        by_head(explained.RUNS, _PHONE),
        key=fresh("runs"),
        alt=f"Table of {wording.things(len(rows), 'run')}, {order}",
        hidden="",
        on_select="rerun",
        selection_mode=["multi-row", "single-cell"] if reading().may("queue") else "single-cell",
    )
    _ticked([rows[index] for index in clicked["selection"].get("rows", ()) if index < len(rows)])
    index = clicked_row(clicked, rest=named["at"], key=fresh("runs"))
    if index is not None and index < len(rows):
        open_one(RUN, rows[index].uid)


def _ticked(rows: Sequence[RunRow]) -> None:
    if rows:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.button(
                f"Queue {wording.things(len(rows), 'ticked run')} for review",
                icon=":material/playlist_add_check:",
                key="queue ticked runs",
                on_click=_queue,
                args=(tuple(row.uid for row in rows),),
            )
    if reading().may("queue"):
        result("queue ticked", onward=(REVIEW, Words("Review them")))


@actions.as_act("No queue was made.", at="queue ticked")
def _queue(uids: tuple[str, ...]) -> Flash:
    asks = QueueAsks(source="runs", runs=uids, limit=len(uids))
    name = reviews.unused_name(f"{len(uids)} ticked of {wording.minute(reading().pages.clock())}")
    queue = reviews.make_queue(name, asks, due_days=None, token=reviews.propose(asks).token)
    opened()
    return Flash(
        text=f"{wording.things(queue.n_items, 'item')} wait in {wording.literal(queue.id)}.", act=queue.id
    )


def arms(arms: Sequence[tuple[str, int, int]]) -> None:
    """Draw arms of runs: id, prompts with it, runs that referenced it; a click opens one."""
    alt = f"{wording.things(len(arms), 'arm')} of these runs: in how many prompts, how often used"
    chosen = opening_records(
        explained.ARMS_OF_SESSION,
        arms,
        _PHONE_ARMS,
        name="arms of runs",
        rest="type",
        alt=alt,
        cache_key=tuple(arms),
    )
    if chosen is not None:
        open_one(ARM, chosen[0])
