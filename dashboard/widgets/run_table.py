"""A page of runs as a table.

Cells are text cells, which Streamlit shows as they are. A click on one opens its run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import streamlit as st

from core.records.review import QueueAsks
from core.records.run_page import RunRow
from dashboard import actions, reviews, wording
from dashboard.actions import Flash
from dashboard.pages import REVIEW
from dashboard.reading import cached_figure, reading
from dashboard.widgets.opening import clicked_row, fresh, open_arm, open_run, opened, opening_table
from dashboard.widgets.results import result
from dashboard.widgets.tables import ROW_PX, arm_name, columns, height, type_cells, type_column
from dashboard.wording import Words

_PHONE_ARMS: Final = {"type": 48, "arm": 176, "prompts": 74, "used in": 68}
_PHONE: Final = {"ended, UTC": 110, "run": 62, "used": 60, "tokens": 84}


def table(rows: Sequence[RunRow], *, order: Words = Words("newest first")) -> None:
    """Draw runs in their order; a click opens one, and ticked ones can become a queue."""
    year_of_ms = reading().frame.last_at_ms
    numbers = tuple(row.run_no for row in rows)
    frame = cached_figure(("run table", numbers), lambda: _run_frame(rows, year_of_ms))
    text, number = st.column_config.TextColumn, st.column_config.NumberColumn
    config: dict[str, Any] = {
        "run": number("run", format="localized", width=64),
        "ended, UTC": text("ended, UTC", width=114),
        "class": text("class", width=76),
        "verdict": text("verdict", width=106),
        "status": text("status", width=84),
        "model": text("model", width=122),
        "channel": text("channel", width=80),
        "arms in": number("arms in", width=68),
        "used": number("used", width=60),
        "tokens": number("tokens", format="localized", width=72),
        "seconds": number("seconds", format="%.1f", width=70),
        "achieved": number("achieved", format="%.3g", width=82),
        "id": text("id", width=180),
    }
    clicked = st.dataframe(
        frame,
        placeholder=wording.MISSING,
        hide_index=True,
        row_height=ROW_PX,
        height=height(len(rows)),
        **columns(frame.column_names, config, _PHONE, hidden=""),
        key=fresh("runs"),
        on_select="rerun",
        selection_mode=["multi-row", "single-cell"] if reading().may("queue") else "single-cell",
        alt=f"Table of {wording.things(len(rows), 'run')}, {order}",
    )
    _ticked([rows[index] for index in clicked["selection"].get("rows", ()) if index < len(rows)])
    index = clicked_row(clicked, rest="ended, UTC", key=fresh("runs"))
    if index is not None and index < len(rows):
        open_run(rows[index].uid)


def _ticked(rows: Sequence[RunRow]) -> None:
    """Draw the button that makes a queue of ticked runs, and its result with its undo."""
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


def _queue(uids: tuple[str, ...]) -> None:
    def act() -> Flash:
        asks = QueueAsks(source="runs", runs=uids, limit=len(uids))
        name = reviews.unused_name(f"{len(uids)} ticked of {wording.minute(reading().pages.clock())}")
        queue = reviews.make_queue(name, asks, due_days=None, token=reviews.propose(asks).token)
        opened()
        return Flash(
            text=f"{wording.things(queue.n_items, 'item')} wait in {wording.literal(queue.id)}.", act=queue.id
        )

    actions.tried("No queue was made.", act, at="queue ticked")


def _run_frame(rows: Sequence[RunRow], year_of_ms: int | None) -> pa.Table:
    return pa.table(
        {
            "ended, UTC": [wording.minute(row.at_ms, year_of_ms=year_of_ms) for row in rows],
            "run": [row.run_no for row in rows],
            "class": [row.run_class for row in rows],
            "verdict": [row.outcome for row in rows],
            "status": [row.status for row in rows],
            "model": [_text(row.model) for row in rows],
            "channel": [_text(row.channel) for row in rows],
            "arms in": [row.n_arms for row in rows],
            "used": [row.n_referenced for row in rows],
            "tokens": pa.array([row.tokens for row in rows], type=pa.int64()),
            "seconds": pa.array(
                [None if row.duration_ms is None else row.duration_ms / 1000 for row in rows],
                type=pa.float64(),
            ),
            "achieved": pa.array([row.achieved for row in rows], type=pa.float64()),
            "id": [wording.plain(row.uid) for row in rows],
        }
    )


def _text(value: str | None) -> str:
    return wording.MISSING if value is None else wording.plain(value)


def arms(arms: Sequence[tuple[str, int, int]]) -> None:
    """Draw arms of runs: id, prompts with it, runs that referenced it; a click opens one."""
    frame = cached_figure(("arms of runs", tuple(arms)), lambda: _arms_frame(arms))
    config: dict[str, Any] = {
        "type": type_column(),
        "arm": st.column_config.TextColumn("arm", width=320),
        "prompts": st.column_config.NumberColumn("prompts", format="localized", width=86),
        "used in": st.column_config.NumberColumn("used in", format="localized", width=86),
    }
    alt = f"{wording.things(len(arms), 'arm')} of these runs: in how many prompts, how often used"
    index = opening_table(frame, config, _PHONE_ARMS, name="arms of runs", rest="type", alt=alt)
    if index is not None:
        open_arm(arms[index][0])


def _arms_frame(arms: Sequence[tuple[str, int, int]]) -> pa.Table:
    return pa.table(
        {
            "type": pa.array(type_cells([arm for arm, _, _ in arms]), type=pa.list_(pa.string())),
            "arm": [arm_name(arm) for arm, _, _ in arms],
            "prompts": [n_in for _, n_in, _ in arms],
            "used in": [n_used for _, _, n_used in arms],
            "id": [wording.plain(arm) for arm, _, _ in arms],
        }
    )
