"""A panel: a part of a page that can fail alone.

A failed panel becomes one bordered line (what failed, what still works, Retry). The rest of the page stays.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st
from streamlit.cursor import LockedCursor
from streamlit.delta_generator import DeltaGenerator

from core.errors import ArmscopeError
from dashboard import wording
from dashboard.wording import Markdown, Words

log = logging.getLogger(__name__)


@contextmanager
def panel(name: Markdown, *, still: Words = Words("the rest of the page still works")) -> Iterator[None]:
    """Draw inside; ``name`` and ``still`` are our own words ("Savings over time")."""
    # A container, and no `st.empty()` that it then fills: when the server's messages are sent between the two, the
    # browser takes the panel out of the page and makes another, and the focus in a table or field of it is gone.
    container = st.container(gap="small")
    try:
        with container:
            yield
    except ArmscopeError as problem:
        _take_out(container)
        _line(name, f"{wording.literal(str(problem))}", still)
    except Exception:
        log.exception("panel %s failed", name)
        _take_out(container)
        _line(name, "The log of the server has the details.", still)


def _take_out(container: DeltaGenerator) -> None:
    """Empty a container with its content."""
    within = container._cursor
    if within is None:  # a script without a page
        return
    *around, index = within.parent_path
    cursor = LockedCursor(root_container=within.root_container, parent_path=tuple(around), index=index)
    DeltaGenerator(root_container=within.root_container, cursor=cursor, parent=container._parent).empty()


def _line(name: Markdown, why: Markdown, still: Words) -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        st.markdown(
            f":red[:material/error:] **{name} could not be shown.** {why} :gray[{still.capitalize()}.]"
        )
        st.space("stretch")
        st.button("Retry", type="tertiary", icon=":material/refresh:", key=f"retry {name}")
