"""Learners as a table: a page of them, each of which leads to its overview; and those that can't be read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

import pyarrow as pa
import streamlit as st
from streamlit.errors import StreamlitAPIException

from core.records.learner import LearnerSummary
from dashboard import pages, wording
from dashboard.reading import reading
from dashboard.sentences import fleet as sentences
from dashboard.widgets import address, navigation
from dashboard.widgets.fleet import choosing
from dashboard.widgets.opening import clicked_row
from dashboard.widgets.tables import ROW_PX, columns
from dashboard.widgets.words import muted

PAGE: Final = 50
_KEY: Final = "fleet table"
_OPENED: Final = "fleet opened"
_NOW: Final = "fleet opened now"
_PHONE: Final = {"state": 128, "learner": 120, "alarms": 120}


def table(rows: Sequence[LearnerSummary], *, n_learners: int) -> None:
    """Draw the page of the learners that the address names, and the way to the others."""
    if not rows:
        muted("No learner matches; widen the search.")
        return
    first = choosing.page_start(len(rows), PAGE)
    shown = rows[first : first + PAGE]
    text, number = st.column_config.TextColumn, st.column_config.NumberColumn
    config: dict[str, Any] = {
        "state": text("state", width=140),
        "learner": text("learner", width=220),
        "alarms": text("alarms", width=240),
        "tokens saved": number("tokens saved", format="localized", width=110),
        "runs": number("runs", format="localized", width=84),
        "last run, UTC": text("last run, UTC", width=130),
    }
    frame = _frame(shown)
    key = f"{_KEY} {st.session_state.get(_OPENED, 0)}"
    st.dataframe(
        frame,
        placeholder=wording.MISSING,
        hide_index=True,
        row_height=ROW_PX,
        height="content",
        **columns(frame.column_names, config, _PHONE, hidden=""),
        key=key,
        on_select=partial(_choose, key, [one.name for one in shown]),
        selection_mode="single-cell",
        alt=f"Table of {wording.things(len(shown), 'learner')}: state, alarms, tokens saved, runs, last run",
    )
    _paging(first, len(rows), n_learners)


def _frame(rows: Sequence[LearnerSummary]) -> pa.Table:
    now_ms = reading().context.clock()
    return pa.table(
        {
            "state": [sentences.STATES[one.state] for one in rows],
            "learner": [wording.plain(one.name) for one in rows],
            "alarms": [sentences.alarms(one) for one in rows],
            "tokens saved": pa.array([one.tokens_saved for one in rows], type=pa.int64()),
            "runs": pa.array([one.runs for one in rows], type=pa.int64()),
            "last run, UTC": [wording.minute(_at_ms(one.last_run), year_of_ms=now_ms) for one in rows],
        }
    )


def _at_ms(text: str | None) -> int | None:
    return None if text is None else round(datetime.fromisoformat(text).timestamp() * 1000)


def _paging(first: int, n_rows: int, n_learners: int) -> None:
    last = min(first + PAGE, n_rows)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if n_rows > PAGE:
            back, onward = max(first - PAGE, 0), first + PAGE
            st.button("Previous", key="fleet back", disabled=not first, on_click=choosing.go, args=(back,))
            st.button("Next", key="fleet on", disabled=onward >= n_rows, on_click=choosing.go, args=(onward,))
        muted(sentences.counted(n_rows, n_learners, first + 1, last))


def unreadable(rows: Sequence[LearnerSummary]) -> None:
    """Show the unreadable learners in one band; nothing without any."""
    failed = [one for one in rows if one.state == "unreadable"]
    if failed:
        with st.container(border=True):
            st.markdown(sentences.unreadable(failed))


def _choose(key: str, names: Sequence[str]) -> None:
    """Note whose row was clicked, before the page is drawn again."""
    row = clicked_row(st.session_state.get(key), rest="state", key=key)
    if row is not None and row < len(names):
        st.session_state[_OPENED] = st.session_state.get(_OPENED, 0) + 1
        st.session_state[_NOW] = names[row]


def open_chosen() -> None:
    """Go to the overview of a learner that was just clicked."""
    learner = st.session_state.pop(_NOW, None)
    if learner is not None:
        address.take_along(address.LEARNER, learner)
        try:
            # A picker that isn't drawn yet puts into the address only what it read from the address.
            navigation.go(pages.OVERVIEW, **{address.LEARNER: learner})
        except StreamlitAPIException:  # it is drawn, and writes its own value there
            navigation.go(pages.OVERVIEW)
