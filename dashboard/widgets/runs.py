"""Filters of the runs page: arm, part, verdict, class, status and position in time; all are in the address.

Buttons write the position (``before`` or ``after`` a run). A change of a filter removes it. Otherwise a page older
than a run outside the filter would hide the newest runs inside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from core.maths.statistics.heatmap import RowChoice
from core.records.achieved import SOLVED_WORDS
from core.records.run import RUN_CLASSES
from core.records.run_page import Cursor, Direction, RunPage
from core.records.run_query import OUTCOMES, STATUSES, Part, RunFilter, View
from dashboard import queries, wording
from dashboard.reading import reading
from dashboard.widgets.address import RUNS_ARM
from dashboard.widgets.fields import choice, filters, one_arm
from dashboard.widgets.paging import both_ways, place_of
from dashboard.wording import Markdown, Words

PART: Final = "part"
OUTCOME: Final = "outcome"
CLASS: Final = "class"
STATUS: Final = "status"
ACHIEVED: Final = "achieved"
ROWS: Final = "rows"
BEFORE: Final = "before"
AFTER: Final = "after"

_PART_WORDS: Final[dict[Part, str]] = {
    "any": "In or left out",
    "in": "In the prompt",
    "named": "By name",
    "out": "Left out",
}
_ROW_WORDS: Final[dict[RowChoice, str]] = {"most in": "Most often in", "last used": "Last used"}


def run_filter() -> RunFilter:
    """Draw the popover of filters, and return the chosen ones. A changed filter shows the newest rows again."""
    return filters(
        _label(),
        (RUNS_ARM, OUTCOME, CLASS, STATUS, ACHIEVED),
        RunFilter(),
        _requested,
        key="run filter",
        places=(BEFORE, AFTER),
        of=reading().view,
    )


def _requested() -> RunFilter:
    arm = one_arm(queries.everything().columns, key=RUNS_ARM, label="Arm")
    part: Part = choice("Its part", _PART_WORDS, "any", key=PART, labelled=True, disabled=arm is None)
    outcomes = _choice("Verdict", OUTCOMES, OUTCOME)
    classes = _choice("Class", RUN_CLASSES, CLASS)
    statuses = _choice("Status", STATUSES, STATUS)
    achieved = _choice("Outcome", SOLVED_WORDS, ACHIEVED)
    st.markdown(":small[:gray[Time, models and channels are chosen in the row above.]]")
    return RunFilter(
        arm=arm,
        part=part if arm is not None and part != "any" else None,
        outcomes=tuple(name for name in OUTCOMES if name in outcomes),
        classes=tuple(name for name in RUN_CLASSES if name in classes),
        statuses=tuple(name for name in STATUSES if name in statuses),
        achieved=tuple(name for name in SOLVED_WORDS if name in achieved),
    )


def rows_by() -> RowChoice:
    """Return which arms the heat map shows when there are too many."""
    return choice("Arms shown", _ROW_WORDS, "most in", key=ROWS)


def page_start() -> tuple[Cursor | None, Direction]:
    """Return the cursor in the address, and the direction; None for the newest runs or an invalid cursor."""
    place, direction = place_of(BEFORE, AFTER)
    return None if place is None else Cursor(*place), direction


def at_newest(page: RunPage, cursor: Cursor | None, direction: Direction) -> bool:
    """Return whether the page begins with the newest run."""
    return cursor is None or (direction == "newer" and page.onward is None)


def narrowed(chosen: RunFilter) -> bool:
    """Return whether a filter excludes runs."""
    view = reading().view
    return chosen != RunFilter() or view != View(types=view.types)


def paging(page: RunPage, cursor: Cursor | None, direction: Direction) -> None:
    """Draw the links to newest, newer and older rows."""
    cut = page.cut_short
    both_ways(
        BEFORE,
        AFTER,
        rows=[(row.at_ms, row.run_no) for row in page.rows],
        onward=page.onward,
        place=cursor,
        direction=direction,
        what=Words("runs"),
        words=(
            Words("Look further on" if cut and direction == "newer" else "Newer"),
            Words("Look further back" if cut and direction == "older" else "Older"),
        ),
    )


def _choice(label: Markdown, options: Sequence[str], key: str) -> list[str]:
    chosen: list[str] = st.multiselect(label, list(options), key=key, bind="query-params", placeholder="All")
    return chosen


def _label() -> Markdown:
    chosen: list[Markdown] = []
    arm = st.session_state.get(RUNS_ARM) or st.query_params.get(RUNS_ARM)
    if isinstance(arm, str) and arm in queries.everything().columns.places:
        chosen.append(wording.literal(wording.short_name(arm)))
    for key, options in (
        (OUTCOME, OUTCOMES),
        (CLASS, RUN_CLASSES),
        (STATUS, STATUSES),
        (ACHIEVED, SOLVED_WORDS),
    ):
        value = st.session_state.get(key)
        named = st.query_params.get_all(key) if not isinstance(value, list) else value
        chosen += [wording.literal(name) for name in named if name in options]
    return Markdown(wording.listed(chosen) if chosen else "All runs")
