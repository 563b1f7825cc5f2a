"""Run tables: a page of runs; the arms of one run with why, evidence and what would have flipped them.

Cells are text cells, which Streamlit shows as they are. A click on any cell opens what its row is about.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import streamlit as st

from core.doors import explained
from core.flows.look import RunArm, RunStory
from core.store.reads import RunRow
from dashboard import loading, wording
from dashboard.figures import theme
from dashboard.figures.drawn import Drawn
from dashboard.widgets import ways
from dashboard.widgets.opening import clicked_row
from dashboard.widgets.tables import ROW_PX, type_column

_ALL_AT_ONCE: Final = 2_000
_MANY_ROWS: Final = 15
_TALL_PX: Final = 420
_OPENED: Final = "opened from a table"


def run_table(rows: Sequence[RunRow]) -> None:
    """Runs newest first; a click opens one."""
    year_of_ms = loading.reading().frame.last_at_ms
    numbers = tuple(row.run_no for row in rows)
    frame = loading.drawn_once(("run table", numbers), lambda: _run_frame(rows, year_of_ms))
    text, number = st.column_config.TextColumn, st.column_config.NumberColumn
    clicked = st.dataframe(
        frame,
        hide_index=True,
        row_height=ROW_PX,
        height="content" if len(rows) <= _MANY_ROWS else _TALL_PX,
        column_config={
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
        },
        key=_fresh("runs"),
        on_select="rerun",
        selection_mode="single-cell",
        alt=f"Table of {wording.things(len(rows), 'run')}, newest first",
    )
    place = clicked_row(clicked, rest="ended, UTC", key=_fresh("runs"))
    if place is not None and place < len(rows):
        open_run(rows[place].uid)


def open_run(name: str) -> None:
    """Go to the page of a run, filters and all."""
    st.session_state[_OPENED] = st.session_state.get(_OPENED, 0) + 1
    ways.go("run", run=name)


def _fresh(name: str) -> str:
    """A key that is new after something was opened, or the old selection would open it again."""
    return f"{name} {st.session_state.get(_OPENED, 0)}"


def run_chart(drawn: Drawn, rows: Sequence[RunRow]) -> None:
    """The heat map; a click on a cell opens its run."""
    clicked = st.plotly_chart(
        drawn.figure,
        theme=None,
        config=dict(theme.CONFIG),
        alt=drawn.alt,
        key=_fresh("heat map"),
        on_select="rerun",
        selection_mode="points",
    )
    points = clicked["selection"].get("points", []) if clicked else []
    number = points[0].get("customdata") if points else None
    uid = next((row.uid for row in rows if row.run_no == number), None)
    if uid is not None:
        open_run(uid)


def _run_frame(rows: Sequence[RunRow], year_of_ms: int | None) -> pa.Table:
    return pa.table(
        {
            "ended, UTC": [wording.moment(row.at_ms, year_of_ms=year_of_ms) for row in rows],
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


def decision_table(story: RunStory) -> None:
    """Every arm of a run; a click opens the arm."""
    n_arms = len(story.arms)
    frame = loading.drawn_once(("decisions", story.facts.run_no), lambda: _decisions(story))
    text = st.column_config.TextColumn
    is_long = n_arms > _ALL_AT_ONCE  # then rows are sent as one scrolls, which can't be combined with clicks
    more: dict[str, Any] = (
        {"lazy": True} if is_long else {"on_select": "rerun", "selection_mode": "single-cell"}
    )
    clicked = st.dataframe(
        frame,
        hide_index=True,
        row_height=ROW_PX,
        height="content" if n_arms <= _MANY_ROWS else 640,
        column_config={
            "type": type_column(),
            "arm": text("arm", width=190),
            "prompt": text("prompt", width=58),
            "why": text("why", width=132),
            "draw": text("draw", width=54, alignment="right"),
            "rank": text("rank", width=46, alignment="right"),
            "tokens": st.column_config.NumberColumn("tokens", format="localized", width=58),
            "evidence": text("evidence", width=134),
            "observed": text("observed", width=70),
            "what would have flipped it": text("what would have flipped it", width=330),
        },
        key=_fresh("decisions"),
        **more,
        alt=f"Every arm of run {story.facts.run_no}: {story.n_in} in, {n_arms - story.n_in} out, and why",
    )
    place = None if is_long else clicked_row(clicked, rest="type", key=_fresh("decisions"))
    if place is not None and place < n_arms:
        st.session_state[_OPENED] = st.session_state.get(_OPENED, 0) + 1
        ways.go("arm", arm=story.arms[place].arm)


def _decisions(story: RunStory) -> pa.Table:
    arms = story.arms
    kinds = pa.array([[wording.type_of(arm.arm)] for arm in arms], type=pa.list_(pa.string()))
    cells: dict[str, object] = {
        "type": kinds,
        "arm": [wording.short_name(arm.arm) for arm in arms],
        "prompt": ["✓ in" if arm.in_prompt else "× out" for arm in arms],
    }
    if story.selection is not None:
        cells |= {
            "why": [explained.why(arm) for arm in arms],
            "draw": [_draw(arm) for arm in arms],
            "rank": [wording.MISSING if arm.rank is None else wording.count(arm.rank) for arm in arms],
        }
    cells |= {
        "tokens": pa.array([arm.token_cost for arm in arms], type=pa.int64()),
        "evidence": [explained.evidence(arm, story) for arm in arms],
        "observed": [explained.observed(arm) for arm in arms],
    }
    if story.selection is not None:
        cells["what would have flipped it"] = [explained.flip(arm, story) for arm in arms]
    return pa.table(cells)


def _draw(arm: RunArm) -> str:
    """A seed's draw decided nothing and isn't shown."""
    return wording.MISSING if arm.draw is None or arm.reason == "seed" else f"{arm.draw:.3f}"
