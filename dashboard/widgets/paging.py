"""Paging: older rows of a table, and the neighbours of an object; the position is in the address."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from dashboard.widgets import address
from dashboard.wording import Markdown, Words


def neighbour(words: Markdown, icon: str, parameters: Mapping[str, str | None]) -> None:
    """Show a link to a neighbour, by the parameters of its address; ``None`` first = no neighbour.

    A link from a page to itself would leave the address unchanged, so this writes it.
    """
    there_is = next(iter(parameters.values())) is not None
    st.button(
        words,
        key=words,
        icon=icon,
        disabled=not there_is,
        on_click=address.say if there_is else None,
        args=(parameters,),
    )


def paging(
    name: str,
    onward: str | None,
    *,
    at_newest: bool,
    words: tuple[Words, Words] = (Words("Older"), Words("Newest")),
) -> None:
    """Draw the links to older rows and to the newest, or as named; nothing where everything is on the page."""
    if onward is None and at_newest:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button(
            words[0],
            key=f"older {name}",
            icon=":material/chevron_right:",
            icon_position="right",
            disabled=onward is None,
            on_click=_go,
            args=(name, onward),
        )
        if not at_newest:
            st.button(words[1], key=f"newest {name}", type="tertiary", on_click=_go, args=(name, None))


def _go(name: str, value: str | None) -> None:
    """Put a place into the address, or take it out."""
    if value is not None:
        st.query_params[name] = value
    elif name in st.query_params:
        del st.query_params[name]
