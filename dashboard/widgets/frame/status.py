"""Status: the age of the page and whether newer data exist, from a fragment that polls; and results as toasts.

It redraws the page by itself in two cases only. After a switch of theme, which does not rerun the script, charts
would keep the old colours. A person who lost a role loses what it showed.
"""

from __future__ import annotations

import logging
from typing import Final

import streamlit as st

from core.errors import ArmscopeError
from core.records.times import DAY_MS
from dashboard import actions, queries, wording
from dashboard.reading import begun_here, has_changed_hands, reading
from dashboard.widgets.keys import UNDO
from dashboard.wording import Markdown, Words

_EVERY_S: Final = 10
_UP_TO_DATE: Final = "Up to date"
_BUTTON_PX: Final = 112
log = logging.getLogger(__name__)


@st.fragment(run_every=_EVERY_S)
def status() -> None:
    """Draw the time of the data, and a button when the learner has a newer revision."""
    here = reading()
    if (st.context.theme.type or "light") != here.tokens.name or has_changed_hands():
        st.rerun(scope="app")
    with st.container(
        horizontal=True,
        vertical_alignment="center",
        horizontal_alignment="right",
        gap="small",
        width="content",
    ):
        if not here.compact:
            now_ms = here.pages.clock()
            st.markdown(f":small[:gray[{age(here.frame.last_at_ms, now_ms)}]]", width="content")
        waiting = _waiting(short=here.compact)
        # In a narrow window the row has no room left: a button that came by itself would push its neighbours
        # away from the finger, so it is there from the beginning.
        if (waiting or here.compact) and st.button(
            waiting or _UP_TO_DATE,
            type="tertiary",
            icon=":material/refresh:",
            key="load new data",
            disabled=not waiting,
            width=_BUTTON_PX if here.compact else "content",
        ):
            st.rerun(scope="app")


def age(last_at_ms: int | None, now_ms: int) -> Words:
    """Return when the newest run ended, and how long ago.

    >>> age(1_773_939_306_000, 1_795_777_000_000), age(1_773_939_306_000, 1_773_939_400_000)
    ('Newest run 19 Mar 2026, 252 days ago', 'Newest run a minute ago')
    """
    if last_at_ms is None:
        return Words("No dated runs yet")
    days = (now_ms - last_at_ms) // DAY_MS
    if days < 1:
        return f"Newest run {wording.ago(last_at_ms, now_ms)}"
    return f"Newest run {wording.day_near(last_at_ms, now_ms)}, {wording.things(days, 'day')} ago"


def _waiting(*, short: bool) -> Markdown | None:
    """Return the button's words; None while the page shows the newest revision."""
    if begun_here():  # this rerun has just read the frame; the next poll sees newer revisions
        return None
    shown = reading().frame
    try:
        now = queries.revision()
    except ArmscopeError as problem:
        log.warning("the status line could not read: %s", problem)
        return None
    if now.snapshot_key == shown.snapshot_key:
        return None
    more = now.n_runs - shown.n_runs
    return Markdown(
        f"{wording.things(more, 'new run')}" if more > 0 else "New data" if short else "New data: refresh"
    )


def show_flashes() -> None:
    """Draw a toast for each success. Its control shows it too; a refusal is shown there alone, in full."""
    for flash in actions.flashes():
        if not flash.failed:
            st.toast(flash.text, icon=":material/check_circle:", duration="long")


def undo_last() -> None:
    """Show the person's latest act and its undo."""
    act = actions.last_act()
    if act is None or reading().presenting:
        return
    kind = act.rsplit("-", 1)[0].replace("-", " ")
    st.button(
        f"Undo {wording.literal(kind)}",
        type="tertiary",
        icon=":material/undo:",
        shortcut=UNDO,
        key=f"undo last {act}",
        on_click=actions.take_back,
        args=(act,),
    )
