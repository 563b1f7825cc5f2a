"""Result of an act as a state at its control: what was done with its undo, or in full why it was refused."""

from __future__ import annotations

from typing import Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import actions
from dashboard.actions import Result
from dashboard.pages import Page
from dashboard.reading import reading
from dashboard.widgets.navigation import link
from dashboard.wording import Words

_DRAWN: Final = "armscope results drawn"


def result(at: str, *, onward: tuple[Page, Words] | None = None) -> None:
    """Draw the result of a control's last act, until the next act or page; ``onward`` is the next step after it."""
    st.session_state.setdefault(_DRAWN, set()).add(at)
    last = actions.result()
    if last is not None and last.at == at:
        _draw(last, onward)


def refusal(at: str) -> None:
    """Draw the refusal of a control's last act. Its success is shown elsewhere."""
    last = actions.result()
    if last is not None and last.flash.failed:
        result(at)


def begin() -> DeltaGenerator:
    """Return the container above a page, for a refusal that no control shows."""
    st.session_state[_DRAWN] = set()
    return st.container()


def finish(above: DeltaGenerator) -> None:
    """Draw a refusal above the page if no control of it did."""
    last = actions.result()
    if last is not None and last.flash.failed and last.at not in st.session_state[_DRAWN]:
        with above:
            _draw(last, None)


def _draw(last: Result, onward: tuple[Page, Words] | None) -> None:
    flash = last.flash
    severity = reading().tokens.severities["critical" if flash.failed else "info"]
    icon = "error" if flash.failed else "check_circle"
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="result of the act"):
        st.markdown(
            f':color[:material/{icon}:]{{foreground="{severity}"}}&ensp;{flash.text}', width="content"
        )
        if flash.act is not None and not flash.failed:
            st.button(
                "Undo",
                type="tertiary",
                icon=":material/undo:",
                key=f"undo result {flash.act}",
                on_click=actions.take_back,
                args=(flash.act,),
                kwargs={"at": last.at},
            )
        if onward is not None and not flash.failed:
            link(*onward)
