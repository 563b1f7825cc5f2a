"""Opening: a click on an arm in a picture or a table goes to the page of that arm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import streamlit as st

from dashboard.figures import theme
from dashboard.figures.drawn import Drawn
from dashboard.widgets import ways

_OPENED: Final = "arms opened"


def fresh(name: str) -> str:
    """A key that is new after something was opened, or the old selection would open it again."""
    return f"{name} {st.session_state.get(_OPENED, 0)}"


def open_arm(arm: str) -> None:
    """Go to the page of an arm, filters and all."""
    st.session_state[_OPENED] = st.session_state.get(_OPENED, 0) + 1
    ways.go("arm", arm=arm)


def arm_chart(drawn: Drawn, arms: Sequence[str], *, key: str) -> None:
    """A figure whose points carry the places of arms; a click on one opens it."""
    event = st.plotly_chart(
        drawn.figure,
        theme=None,
        config=dict(theme.CONFIG),
        alt=drawn.alt,
        key=fresh(key),
        on_select="rerun",
        selection_mode="points",
    )
    arm = clicked_point(event, arms)
    if arm is not None:
        open_arm(arm)


def clicked_point(event: Any, arms: Sequence[str]) -> str | None:  # noqa: ANN401 - Streamlit's own kind
    """The arm of the point that was clicked.

    >>> clicked_point({"selection": {"points": [{"customdata": 1}]}}, ["a", "b"])
    'b'
    """
    points = event["selection"].get("points", []) if event else []
    place = points[0].get("customdata") if points else None
    return arms[int(place)] if isinstance(place, (int, float)) and 0 <= place < len(arms) else None


def clicked_row(event: Any, *, rest: str, key: str) -> int | None:  # noqa: ANN401 - Streamlit's own kind
    """The row of the cell that was clicked, or that the keyboard moved to, if it opens.

    Cells of the first column, ``rest``, open nothing: there the keyboard arrives and moves from row to row. Nor
    does the first row while the keyboard only passes through it with Tab. Were a cell to open because it has the
    focus, nobody could get past a table without a mouse. ``key`` is the table's.
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
