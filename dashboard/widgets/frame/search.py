"""Search: the field of every page, and the table of hits of all kinds. A click on a row opens its page.

Enter leads to the page of hits, whose words are in the address.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal
from urllib.parse import parse_qsl, urlsplit

import streamlit as st

from core.explained.runs import HITS
from core.records.search import SearchHit
from dashboard import pages, wording
from dashboard.sentences import search as sentences
from dashboard.widgets import address, parts
from dashboard.widgets.address import SEARCH_WORDS
from dashboard.widgets.frame.window import compact
from dashboard.widgets.opening import opened, opening_records

FIELD: Final = "search_field"
"""The key that focuses it, "/", is in the script of the browser, by this name."""
_PENDING: Final = "armscope searched"
_WIDTH_PX: Final = 170

_PHONE: Final = {"kind": 84, "name": 264}
_PAGES: Final = {page.name: page for page in pages.PAGES}


def search_field(page: str) -> None:
    """Draw the field in the frame; in a narrow window only the way to the page of hits, which has it."""
    if not compact():
        _field(page, width=_WIDTH_PX)
    elif page != pages.SEARCH.name:
        parts.link_by_icon(pages.SEARCH, "Search", ":material/search:")


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
        parts.go(pages.SEARCH, **{SEARCH_WORDS: typed})


def _send() -> None:
    st.session_state[_PENDING] = True


def hits(matches: Sequence[SearchHit]) -> None:
    """Draw a row for each hit, in the order of kinds."""
    table = HITS.only("kind", "name", "about", "at", "text").but(name=sentences.name)
    hit = opening_records(
        table.filled(matches),
        matches,
        _PHONE,
        name="search",
        rest="kind",
        alt=f"{wording.things(len(matches), 'hit')} by kind, with name and time",
        cache_key=tuple((one.kind, one.id, one.excerpt) for one in matches),
        at_most_px=900,
    )
    if hit is not None:
        _open(hit)


def _open(hit: SearchHit) -> None:
    opened()
    page = urlsplit(hit.link)
    names = {name: value for name, value in parse_qsl(page.query) if name != address.LEARNER}
    parts.go(_PAGES[page.path], **names)
