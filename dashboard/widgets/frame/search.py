"""Search field: one for all pages. Enter leads to the page of hits, whose words are in the address."""

from __future__ import annotations

from typing import Final, Literal

import streamlit as st

from dashboard import pages
from dashboard.widgets import navigation
from dashboard.widgets.address import SEARCH_WORDS
from dashboard.widgets.frame.window import compact

FIELD: Final = "search_field"
"""The key that focuses it, "/", is in the script of the browser, by this name."""
_PENDING: Final = "armscope searched"
_WIDTH_PX: Final = 170


def search_field(page: str) -> None:
    """Draw the field in the frame; in a narrow window only the way to the page of hits, which has it."""
    if not compact():
        _field(page, width=_WIDTH_PX)
    elif page != pages.SEARCH.name:
        navigation.link_by_icon(pages.SEARCH, "Search", ":material/search:")


def page_field() -> None:
    """Draw the field on the page of hits."""
    _field(pages.SEARCH.name, width="stretch")


def _field(page: str, *, width: int | Literal["stretch"]) -> None:
    """Draw the field, and go to the page of hits once words were sent; ``page`` is the present one."""
    words = st.query_params.get(SEARCH_WORDS, "") if page == pages.SEARCH.name else ""
    is_new = st.session_state.pop(_PENDING, False)
    if not is_new and st.session_state.get(FIELD) != words:
        st.session_state[FIELD] = words
    typed = st.text_input(
        "Search arms, runs, sessions and more",
        key=FIELD,
        type="search",
        placeholder="Search  /",
        label_visibility="collapsed",
        width=width,
        on_change=_send,
    ).strip()
    if is_new and typed != words:
        navigation.go(pages.SEARCH, **{SEARCH_WORDS: typed})


def _send() -> None:
    st.session_state[_PENDING] = True
