"""Ways: the pages, and links to them that keep the filters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import streamlit as st
from streamlit.navigation.page import Page

from dashboard.widgets.filters import in_url

PageName = Literal["overview", "posteriors", "confidence", "savings", "rewards", "reset"]

_FOLDER: Final = Path(__file__).resolve().parent.parent / "app_pages"
_TITLES: Final[dict[PageName, str]] = {
    "overview": "Overview",
    "posteriors": "Posteriors",
    "confidence": "Confidence",
    "savings": "Savings",
    "rewards": "Rewards",
    "reset": "Reset",
}


def page(name: PageName) -> Page:
    """A page by name, the same object for navigation and links."""
    return st.Page(_FOLDER / f"{name}.py", title=_TITLES[name], url_path=name, default=name == "overview")


def way(name: PageName, words: str, **more: str | Sequence[str]) -> None:
    """A link with an arrow that takes the filters along; ``more`` adds to the address."""
    st.page_link(
        page(name),
        label=words,
        icon=":material/arrow_forward:",
        icon_position="right",
        query_params={**in_url(), **more},
    )
