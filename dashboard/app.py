"""Router and frame: navigation on top, then learner, span, filters, state of the data and role; then a page.

Run by ``streamlit run dashboard/app.py`` and by `dashboard.server`. Streamlit puts only this folder on the path,
so the project's root goes first here.
"""

from __future__ import annotations

import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
if str(_HERE.parent) not in sys.path:
    sys.path.insert(0, str(_HERE.parent))

import streamlit as st  # noqa: E402 - the path comes first
from streamlit.elements.lib.mutable_popover_container import PopoverContainer  # noqa: E402

from core import explained  # noqa: E402
from core.errors import ArmscopeError, Denied, StoreAway, StoreDamaged, Unidentified  # noqa: E402
from core.flows.context import Context  # noqa: E402
from core.flows.queries import Frame  # noqa: E402
from core.records.actor import may  # noqa: E402
from core.settings import Server  # noqa: E402
from dashboard import actions, queries, uploads, who, wording  # noqa: E402
from dashboard.figures import theme  # noqa: E402
from dashboard.open_files import DRAWING  # noqa: E402
from dashboard.pages import FLEET, PRESENT  # noqa: E402
from dashboard.reading import Reading, begin, context_of, under_own_name, unspoken  # noqa: E402
from dashboard.widgets import address, parts, results  # noqa: E402
from dashboard.widgets.frame import filters, window  # noqa: E402
from dashboard.widgets.frame.search import search_field  # noqa: E402
from dashboard.widgets.frame.status import no_access, role_badge, show_flashes, status, undo_last  # noqa: E402
from dashboard.widgets.frame.window import FRAME, picture, style  # noqa: E402
from dashboard.widgets.keys import keys_button  # noqa: E402
from dashboard.widgets.parts import (  # noqa: E402
    both_ends,
    panel,
    small,
)


def main() -> None:
    """Run once per rerun: address and colours first, then the frame, then the page in its panel."""
    look = theme.tokens(st.context.theme.type)
    st.set_page_config(
        page_title="armscope", page_icon=picture("icon"), layout="wide", initial_sidebar_state="collapsed"
    )
    st.logo(picture(f"logo-{look.name}"), size="medium")
    address.arrive()
    uploads.hear_import()  # before anything is read: what it brought in is part of this rerun
    try:
        context, first, default = _arrived()
    except ArmscopeError as problem:
        if isinstance(problem, Denied | Unidentified) and who.people_sign_in():
            st.navigation(parts.every(), position="hidden")
            no_access()
        else:
            _cannot_open(problem)
        return
    shown = parts.shown_to(context, n_learners=len(first.learners))
    page = st.navigation(shown, position="top")
    address.put_back(page.url_path)
    is_slide = page.url_path == PRESENT.name
    style(look, is_slide=is_slide)  # before the frame, which no slide shows
    with st.container(
        horizontal=True, vertical_alignment="center", gap="small", key=FRAME, wrap=not window.compact()
    ):
        may_create = may(context.actor, "settings", None)
        chosen = filters.pickers(first, default, now_ms=context.clock(), may_create=may_create)
        begin(
            Reading(
                context=context,
                session=who.session_here() if who.people_sign_in() else None,
                frame=first,
                view=chosen.view,
                tokens=look,
                compact=window.compact(),
            )
        )
        if is_slide:
            status()
        else:
            _top_bar(context, first, chosen.behind, page.url_path)
    show_flashes()
    above = results.begin()
    if chosen.created is not None:
        with chosen.created:
            results.result(actions.NEW_LEARNER)
    with panel("This page", still="the other pages still work"):
        page.run()
    results.finish(above)
    if not is_slide:
        _footer(context, first)
    actions.page_has_reloaded()


def _arrived() -> tuple[Context, Frame, str]:
    """Return the reader's context, its frame, and the learner of an address without one.

    An unreadable learner does not block a named one that is readable.
    """
    mine = context_of()
    try:
        first = queries.frame_of(mine)
        learner = filters.requested_learner(first.learners, first.learner)
    except (StoreAway, StoreDamaged):
        learner = filters.requested_learner(queries.known_learners(mine), mine.learner)
        if learner == mine.learner:
            raise
    else:
        if learner == first.learner:
            return under_own_name(mine.of(learner)), first, unspoken(mine)
    there = context_of(learner)
    return under_own_name(there), queries.frame_of(there), unspoken(mine)


def _top_bar(context: Context, frame: Frame, behind: PopoverContainer | None, page: str) -> None:
    """Show the search; at the right undo, age of the data and person, in a narrow window ``behind`` its button."""
    search_field(page)
    if behind is None:
        st.space("stretch")
    undo_last()
    status()
    role_badge(context, frame, behind)


def _footer(context: Context, frame: Frame) -> None:
    located = context.store.location
    location = wording.literal(located.short if isinstance(located, Server) else frame.database)
    read = "" if frame.server is None else f" Read from: {explained.server(frame.server)}."
    facts = f"Data in {location}.{read} All times are UTC."
    st.space("small")
    with both_ends():
        st.markdown(small(facts), width="content")
        keys_button()


def _cannot_open(problem: ArmscopeError) -> None:
    """Show why the data can't be opened and the next step; the page of all learners where others are readable."""
    page = st.navigation(parts.every(), position="hidden")
    other = queries.learner_that_opens() if isinstance(problem, StoreAway | StoreDamaged) else None
    if other is not None and page.url_path == FLEET.name:
        address.take_along(address.LEARNER, other)
        st.rerun()
    st.title("The data cannot be opened.", anchor=False)
    st.markdown(f":gray[{wording.literal(problem.problem)}]")
    with st.container(border=True):
        st.markdown(f"**What to do.** {wording.literal(problem.next_step)}")
        st.button("Retry", type="primary", icon=":material/refresh:")
    if other is not None:
        parts.link(FLEET, "Other learners can be opened: all of them")


with DRAWING:
    main()
