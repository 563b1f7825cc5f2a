"""Choosing learners: filter, order and start; all in the address."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

import streamlit as st

from core.flows.learners import STATES
from core.records.learner import LearnerSummary
from dashboard.widgets.picker import matches

FIND: Final = "fleet_find"
WHICH: Final = "fleet_of"
ORDER: Final = "fleet_by"
START: Final = "fleet_from"
"""Parameter for the number of learners before the page."""
_LAST: Final = "fleet as it was chosen"

Which = Literal["all", "need"]
_WHICH: Final[dict[Which, str]] = {"all": "All", "need": "Need attention"}


def _by_need(one: LearnerSummary) -> tuple[object, ...]:
    return STATES.index(one.state), -len(one.alarms)


_ORDERS: Final[dict[str, Callable[[LearnerSummary], tuple[object, ...]]]] = {
    "Need first": _by_need,
    "Name": lambda _: (),
    "Last run": lambda one: (one.last_run is None, _descending(one.last_run or "")),
    "Most runs": lambda one: (one.runs is None, -(one.runs or 0)),
    "Most saved": lambda one: (one.tokens_saved is None, -(one.tokens_saved or 0)),
    "Least saved": lambda one: (one.tokens_saved is None, one.tokens_saved or 0),
}
"""Sort keys of learners, then by name; learners without the figure come last."""


def _descending(text: str) -> tuple[int, ...]:
    return tuple(-ord(character) for character in text)


def chosen(rows: Sequence[LearnerSummary]) -> list[LearnerSummary]:
    """Return search, which of them, and order, each behind a field; a change of any begins with the first."""
    needle = st.text_input(
        "Find a learner",
        key=FIND,
        bind="query-params",
        type="search",
        placeholder="part of a name",
        width=220,
    )
    which: Which = st.segmented_control(
        "Which",
        list(_WHICH),
        default="all",
        required=True,
        format_func=lambda one: _WHICH[one],
        key=WHICH,
        bind="query-params",
    )
    order = st.selectbox("Order", list(_ORDERS), key=ORDER, bind="query-params", width=160)
    now = (needle, which, order)
    if st.session_state.setdefault(_LAST, now) != now:
        st.session_state[_LAST] = now
        go(0)
    names = set(matches([one.name for one in rows], needle or "", len(rows)))
    matching = [one for one in rows if one.name in names and (which == "all" or one.needs_attention)]
    return sorted(matching, key=_ORDERS[order])


def page_start(n_rows: int, page: int) -> int:
    """Return how many learners precede the page; anything invalid begins with the first."""
    text = st.query_params.get(START, "")
    first = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    return first // page * page if first < n_rows else 0


def go(first: int) -> None:
    """Put a place into the address, or take it out."""
    if first:
        st.query_params[START] = str(first)
    elif START in st.query_params:
        del st.query_params[START]
