"""A page of runs as a table.

Cells are text cells, which Streamlit shows as they are. A click on one opens its run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import streamlit as st

from core.records.run_page import RunRow
from dashboard import wording
from dashboard.reading import cached_figure, reading
from dashboard.widgets.opening import clicked_row, fresh, open_run
from dashboard.widgets.tables import ROW_PX, columns, height

_PHONE: Final = {"ended, UTC": 110, "run": 62, "used": 60, "tokens": 84}


def table(rows: Sequence[RunRow]) -> None:
    """Draw the runs newest first; a click opens one."""
    year_of_ms = reading().frame.last_at_ms
    numbers = tuple(row.run_no for row in rows)
    frame = cached_figure(("run table", numbers), lambda: _run_frame(rows, year_of_ms))
    text, number = st.column_config.TextColumn, st.column_config.NumberColumn
    config: dict[str, Any] = {
        "run": number("run", format="localized", width=72),
        "ended, UTC": text("ended, UTC", width=136),
        "class": text("class", width=84),
        "verdict": text("verdict", width=112),
        "status": text("status", width=88),
        "model": text("model", width=140),
        "channel": text("channel", width=96),
        "arms in": number("arms in", width=68),
        "used": number("used", width=60),
        "tokens": number("tokens", format="localized", width=84),
        "seconds": number("seconds", format="%.1f", width=76),
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
        selection_mode="single-cell",
        alt=f"Table of {wording.things(len(rows), 'run')}, newest first",
    )
    index = clicked_row(clicked, rest="ended, UTC", key=fresh("runs"))
    if index is not None and index < len(rows):
        open_run(rows[index].uid)


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
            "id": [wording.plain(row.uid) for row in rows],
        }
    )


def _text(value: str | None) -> str:
    return wording.MISSING if value is None else wording.plain(value)
