"""Fleet page: filter, order and start in the address, and the table of learners. A row opens its overview."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Literal

import streamlit as st
from streamlit.errors import StreamlitAPIException

from core.explained.machine import LEARNERS
from core.flows.learners import STATES
from core.records.learner import LearnerSummary
from dashboard import pages, wording
from dashboard.reading import reading
from dashboard.sentences import fleet as sentences
from dashboard.widgets import address, parts
from dashboard.widgets.fields import begin_again, choice, matches
from dashboard.widgets.opening import clicked_row, fresh, opened
from dashboard.widgets.parts import muted
from dashboard.widgets.tables import by_head, config_of, frame_of, shown_table

FIND: Final = "fleet_find"
WHICH: Final = "fleet_of"
ORDER: Final = "fleet_by"
START: Final = "fleet_from"
"""Parameter for the number of learners before the page."""

Which = Literal["all", "need"]
_WHICH: Final[dict[Which, str]] = {"all": "All", "need": "Need attention"}

PAGE: Final = 50
_NOW: Final = "fleet opened now"
_PHONE: Final = {"state": 128, "name": 120, "alarms": 120}


_ORDERS: Final[dict[str, Callable[[LearnerSummary], tuple[object, ...]]]] = {
    "Need first": lambda one: (STATES.index(one.state), -len(one.alarms)),
    "Name": lambda _: (),
    "Last run": lambda one: (one.last_run is None, [-ord(character) for character in one.last_run or ""]),
    "Most runs": lambda one: (one.runs is None, -(one.runs or 0)),
    "Most saved": lambda one: (one.tokens_saved is None, -(one.tokens_saved or 0)),
    "Least saved": lambda one: (one.tokens_saved is None, one.tokens_saved or 0),
}
"""Sort keys of learners, then by name; learners without the figure come last."""


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
    which: Which = choice("Which", _WHICH, "all", key=WHICH, labelled=True)
    order = st.selectbox("Order", list(_ORDERS), key=ORDER, bind="query-params", width=160)
    begin_again("fleet as it was chosen", (needle, which, order), START)
    names = set(matches([one.name for one in rows], needle or "", len(rows)))
    matching = [one for one in rows if one.name in names and (which == "all" or one.needs_attention)]
    return sorted(matching, key=_ORDERS[order])


def page_start(n_rows: int, page: int) -> int:
    """Return how many learners precede the page; anything invalid begins with the first."""
    first = address.number(START, digits=9) or 0
    return first // page * page if first < n_rows else 0


def table(rows: Sequence[LearnerSummary], *, n_learners: int) -> None:
    """Draw the page of the learners that the address names, and the way to the others."""
    if not rows:
        muted("No learner matches; widen the search.")
        return
    first = page_start(len(rows), PAGE)
    shown = rows[first : first + PAGE]
    now_ms = reading().context.clock()
    described = LEARNERS.only("state", "name", "alarms", "tokens_saved", "runs", "last").but(
        state=lambda one: sentences.STATES[one.state],
        alarms=sentences.alarms,
        last=lambda one: wording.written_minute(one.last_run, year_of_ms=now_ms),
    )
    key = fresh("fleet table")
    shown_table(
        frame_of(described, shown),
        config_of(described),
        by_head(described, _PHONE),
        key=key,
        alt=f"Table of {wording.things(len(shown), 'learner')}: state, alarms, tokens saved, runs, last run",
        hidden="",
        at_most_px="content",
        on_select=partial(_choose, key, [one.name for one in shown]),
        selection_mode="single-cell",
    )
    _paging(first, len(rows), n_learners)


def _paging(first: int, n_rows: int, n_learners: int) -> None:
    last = min(first + PAGE, n_rows)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if n_rows > PAGE:
            for words, key, to in (
                ("Previous", "fleet back", first - PAGE),
                ("Next", "fleet on", first + PAGE),
            ):
                place: dict[str, str | None] = {START: str(to) if to > 0 else None}
                st.button(words, key=key, disabled=not 0 <= to < n_rows, on_click=address.say, args=(place,))
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
        opened()
        st.session_state[_NOW] = names[row]


def open_chosen() -> None:
    """Go to the overview of a learner that was just clicked."""
    learner = st.session_state.pop(_NOW, None)
    if learner is not None:
        address.take_along(address.LEARNER, learner)
        try:
            # A picker that isn't drawn yet puts into the address only what it read from the address.
            parts.go(pages.OVERVIEW, **{address.LEARNER: learner})
        except StreamlitAPIException:  # it is drawn, and writes its own value there
            parts.go(pages.OVERVIEW)
