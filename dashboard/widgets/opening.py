"""Opening: a click on an arm or run, in a picture or table, opens its page."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, NoReturn

import pyarrow as pa
import streamlit as st

from core.explained.table import Row, Table
from core.records.run_page import RunRow
from dashboard import pages
from dashboard.figures import theme
from dashboard.figures.chart import Chart
from dashboard.pages import Page
from dashboard.reading import cached_figure, reading
from dashboard.widgets import parts
from dashboard.widgets.results import Act, offered_undo, undoing
from dashboard.widgets.tables import TALL_PX, act_column, by_head, config_of, frame_of, heads, shown_table

_OPENED: Final = "armscope opened"


def fresh(name: str) -> str:
    """Return a key that changes after each opening.

    With the same key, Streamlit would report the old click again.
    """
    return f"{name} {st.session_state.get(_OPENED, 0)}"


def open_one(page: Page, name: str) -> NoReturn:
    """Go to the page of what has this name, filters and all."""
    opened()
    parts.go(page, **{next(iter(page.names)): name})


def opened() -> None:
    """Have clickable tables and pictures forget the click that opened a page."""
    st.session_state[_OPENED] = st.session_state.get(_OPENED, 0) + 1


def arm_chart(shown: Chart, arms: Sequence[str], *, key: str) -> None:
    """Draw a figure whose points carry the places of arms; a click on one opens it."""
    index = _point(shown, key)
    if index is not None and 0 <= index < len(arms):
        open_one(pages.ARM, arms[index])


def run_chart(shown: Chart, rows: Sequence[RunRow], *, key: str) -> None:
    """Draw a figure whose points carry the numbers of runs; a click on one opens it."""
    number = _point(shown, key)
    uid = next((row.uid for row in rows if row.run_no == number), None)
    if uid is not None:
        open_one(pages.RUN, uid)


def _point(shown: Chart, key: str) -> int | None:
    return clicked_point(plot(shown, key=fresh(key), on_select="rerun", selection_mode="points"))


def plot(shown: Chart, *, key: str, **more: Any) -> Any:  # noqa: ANN401 - as `st.plotly_chart` has it
    """Draw a figure over the full width of its column, and return what was selected."""
    config = dict(theme.CONFIG)
    return st.plotly_chart(shown.figure, theme=None, config=config, alt=shown.alt, key=key, **more)


def clicked_point(event: Any) -> int | None:  # noqa: ANN401 - Streamlit's own kind
    """Return the number that the clicked point carries.

    >>> clicked_point({"selection": {"points": [{"customdata": 1}]}})
    1
    """
    points = event["selection"].get("points", []) if event else []
    number = points[0].get("customdata") if points else None
    return int(number) if isinstance(number, (int, float)) else None


def clicked_row(event: Any, *, rest: str, key: str) -> int | None:  # noqa: ANN401 - Streamlit's own kind
    """Return the row whose cell was clicked or reached by keyboard, if it opens.

    A cell of the first column (``rest``) opens nothing: the keyboard enters there and moves from row to row. The
    first row opens nothing while the keyboard tabs through, so that Tab can leave the table. ``key`` is the table's.
    """
    cells = event["selection"].get("cells", []) if event else []
    if not cells:
        return None
    row, column = int(cells[0][0]), cells[0][1]
    moved = f"{key} keyboard moved"
    if column == rest:
        st.session_state[moved] = row > 0 or st.session_state.get(moved, False)
        return None
    return None if row == 0 and st.session_state.get(moved) is False else row


def opening_table(
    frame: pa.Table,
    config: Mapping[str, Any],
    phone: Mapping[str, int],
    *,
    name: str,
    rest: str,
    alt: str,
    hidden: str = "id",
    column: str | None = None,
    at_most_px: int = TALL_PX,
) -> int | None:
    """Draw a table and return the row that a click opens: in ``column``, or (None) in any but ``rest``, the first."""
    key = fresh(name)
    event = shown_table(
        frame,
        config,
        phone,
        key=key,
        alt=alt,
        hidden=hidden,
        at_most_px=at_most_px,
        on_select="rerun",
        selection_mode="single-cell",
    )
    row = clicked_row(event, rest=rest, key=key)
    if row is None or row >= frame.num_rows or column not in (None, event["selection"]["cells"][0][1]):
        return None
    return row


def opening_records(
    table: Table[Row],
    rows: Sequence[Row],
    phone: Mapping[str, int],
    *,
    name: str,
    rest: str,
    alt: str,
    cache_key: Hashable,
    column: str | None = None,
    at_most_px: int = TALL_PX,
    acts: Sequence[Act | None] = (),
    at: str = "",
) -> Row | None:
    """Draw records and return the one that a click opens, None without one.

    ``phone``, ``rest`` and ``column`` name fields. ``cache_key`` differs for other records of the table. Rows that
    are ``acts`` have their undo in the last column, whose result is shown ``at`` a control.
    """
    year = reading().frame.last_at_ms

    def rows_and_undo() -> pa.Table:
        frame = frame_of(table, rows, year_of_ms=year)
        offers = ["" if act is None else offered_undo(act) or "" for act in acts]
        return frame.append_column("act", pa.array(offers)) if any(offers) else frame

    frame = cached_figure((name, cache_key), rows_and_undo)
    named = heads(table)
    index = opening_table(
        frame,
        {**config_of(table), "act": act_column(f"{name} act", undoing(acts, at))},
        by_head(table, phone),
        name=name,
        rest=named.get(rest, rest),
        alt=alt,
        hidden="id" if "type" in frame.column_names else "",
        column=None if column is None else named[column],
        at_most_px=at_most_px,
    )
    return None if index is None else rows[index]
