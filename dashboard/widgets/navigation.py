"""Navigation: the pages as Streamlit takes them, and links that keep the filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NoReturn

import streamlit as st
from streamlit.navigation.page import Page as StreamlitPage

from core.errors import Denied
from core.flows.context import Context
from dashboard import actions, wording
from dashboard.configuration import PACKAGE
from dashboard.pages import HELP, OVERVIEW, PAGES, Page
from dashboard.widgets import address
from dashboard.wording import Markdown

_FOLDER: Final = PACKAGE / "app_pages"
_PAGES: Final = "armscope pages"


def shown_to(context: Context, *, presenting: bool, n_learners: int) -> dict[str, list[StreamlitPage]]:
    """Return the navigation by group.

    The address of a page that the visitor may not see, or that a presentation leaves out, shows the reason. A page
    about several learners is in no menu of a person with one.
    """
    has_many = n_learners > 1 or context.may("members")
    if presenting:
        # An address copied from a colleague is one of ours as well.
        return {"": [page_of(page, has_many) if page.is_presented else _left_out(page) for page in PAGES]}
    shown: dict[str, list[StreamlitPage]] = {}
    for page in PAGES:
        if context.may(page.needs):
            shown.setdefault(page.group, []).append(page_of(page, has_many))
        else:
            shown.setdefault("", []).append(_closed(context, page))
    return shown


def every() -> list[StreamlitPage]:
    """Return all pages, for where none can be shown: the address of any is none the less one of ours."""
    return [page_of(page) for page in PAGES]


def page_of(page: Page, has_many: bool = True) -> StreamlitPage:
    """Return the same object for navigation and links; made once in a session, as it looks for its file."""
    pages: dict[tuple[str, bool], StreamlitPage] = st.session_state.setdefault(_PAGES, {})
    is_hidden = page.is_hidden or (page.is_of_many and not has_many)
    if (page.name, is_hidden) not in pages:
        pages[page.name, is_hidden] = st.Page(
            _FOLDER / f"{page.name}.py",
            title=page.title,
            url_path=page.name,
            default=page == OVERVIEW,
            visibility="hidden" if is_hidden else "visible",
        )
    return pages[page.name, is_hidden]


def _left_out(page: Page) -> StreamlitPage:
    """Return a page that a presentation leaves out: it shows the reason, and a link."""

    def show_reason() -> None:
        st.title(f"{page.title} is no part of a presentation.", anchor=False)
        st.markdown(":gray[Nothing is changed while presenting. Behind “Presenting” it is switched off.]")
        link(OVERVIEW, "Overview")

    return st.Page(show_reason, title=page.title, url_path=page.name, visibility="hidden")


def _closed(context: Context, page: Page) -> StreamlitPage:
    """Return a page for others: it is in no menu, and shows who may open it."""

    def show_reason() -> None:
        st.title(f"{page.title} is not open to you.", anchor=False)
        try:
            context.permit(page.needs)
        except Denied as problem:
            actions.note_refusal(problem)
            st.markdown(f":gray[{wording.literal(str(problem))}]")
        link(OVERVIEW, "Overview")

    return st.Page(show_reason, title=page.title, url_path=page.name, visibility="hidden")


def go(page: Page, **more: str | Sequence[str]) -> NoReturn:
    """Go to a page at once; ``more`` is its address, to which the frame adds the filters.

    What a widget is bound to can't be given along, and the filters' widgets put themselves there again.
    """
    st.switch_page(page_of(page), query_params=more)


def link(page: Page, words: Markdown, **more: str | Sequence[str]) -> None:
    """Draw a link with an arrow that takes the filters along; ``more`` adds to the address."""
    st.page_link(
        page_of(page),
        label=words,
        icon=":material/arrow_forward:",
        icon_position="right",
        query_params={**address.lasting_values(), **more},
    )


def link_by_icon(page: Page, words: Markdown, icon: str) -> None:
    """Draw a link of an icon alone, which takes the filters along; ``words`` name it to who hovers or listens."""
    st.page_link(
        page_of(page), label="", icon=icon, help=words, query_params=address.lasting_values(), width="content"
    )


def how_it_is_computed(topic: str, part: str) -> None:
    """Draw a link to the paragraph of the guide that explains the numbers beside it."""
    link(HELP, "How it is computed", **{address.HELP_TOPIC: topic, address.HELP_PART: part})
