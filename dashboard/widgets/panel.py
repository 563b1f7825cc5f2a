"""Panel: a part of a page that can fail alone.

A failing panel becomes one bordered line (what failed, what still works, Retry) and the rest of the page stays.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from core.errors import ArmscopeError
from dashboard import wording

log = logging.getLogger(__name__)


@contextmanager
def panel(name: str, *, still: str = "the rest of the page still works") -> Iterator[None]:
    """Draw inside; ``name`` and ``still`` are our own words ("Savings over time")."""
    slot = st.empty()
    try:
        with slot.container(gap="small"):
            yield
    except ArmscopeError as problem:
        with slot.container(border=True):
            _line(name, f"{wording.literal(str(problem))}", still)
    except Exception:
        log.exception("panel %s failed", name)
        with slot.container(border=True):
            _line(name, "The log of the server has the details.", still)


def _line(name: str, why: str, still: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(
            f":red[:material/error:] **{name} could not be shown.** {why} :gray[{still.capitalize()}.]"
        )
        st.space("stretch")
        st.button("Retry", type="tertiary", icon=":material/refresh:", key=f"retry {name}")
