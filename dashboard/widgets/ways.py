"""Ways: the pages, and links to them that keep the filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NoReturn

import streamlit as st
from streamlit.navigation.page import Page

from dashboard.configuration import PACKAGE
from dashboard.widgets import address

PageName = Literal[
    "overview",
    "posteriors",
    "arm",
    "confidence",
    "savings",
    "runs",
    "run",
    "rewards",
    "reset",
    "data",
    "settings",
]

OPEN_TO_ALL: Final[tuple[PageName, ...]] = (
    "overview",
    "posteriors",
    "arm",
    "confidence",
    "savings",
    "runs",
    "run",
)
"""Pages without administration, in the order of the navigation; a presentation has these and no others."""
_HIDDEN: Final = frozenset({"arm", "run"})
"""Pages one comes to by a link only: they need to be told what to show."""
_FOLDER: Final = PACKAGE / "app_pages"
_MADE: Final = "armscope pages"
_TITLES: Final[dict[PageName, str]] = {
    "overview": "Overview",
    "posteriors": "Posteriors",
    "arm": "Arm",
    "confidence": "Confidence",
    "savings": "Savings",
    "runs": "Runs",
    "run": "Run",
    "rewards": "Rewards",
    "reset": "Reset",
    "data": "Data",
    "settings": "Settings",
}


def page(name: PageName) -> Page:
    """A page by name, the same object for navigation and links; made once in a session, as it looks for its file."""
    made: dict[PageName, Page] = st.session_state.setdefault(_MADE, {})
    if name not in made:
        made[name] = _made(name)
    return made[name]


def _made(name: PageName) -> Page:
    return st.Page(
        _FOLDER / f"{name}.py",
        title=_TITLES[name],
        url_path=name,
        default=name == "overview",
        visibility="hidden" if name in _HIDDEN else "visible",
    )


def left_out(name: PageName) -> Page:
    """A page that a presentation leaves out: at its address stands why, and the way on."""

    def said() -> None:
        st.title(f"{_TITLES[name]} is no part of a presentation.", anchor=False)
        st.markdown(":gray[Nothing is changed while presenting. Behind “Presenting” it is switched off.]")
        way("overview", "Overview")

    return st.Page(said, title=_TITLES[name], url_path=name, visibility="hidden")


def go(name: PageName, **more: str | Sequence[str]) -> NoReturn:
    """Go to a page at once; ``more`` is its address, to which the frame adds the filters.

    What a widget is bound to can't be given along, and the filters' widgets put themselves there again.
    """
    st.switch_page(page(name), query_params=more)


def way(name: PageName, words: str, **more: str | Sequence[str]) -> None:
    """A link with an arrow that takes the filters along; ``more`` adds to the address."""
    st.page_link(
        page(name),
        label=words,
        icon=":material/arrow_forward:",
        icon_position="right",
        query_params={**address.kept(), **more},
    )
