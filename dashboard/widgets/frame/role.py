"""Role: who is acting, where the data are, presentation mode and the compact drawing."""

from __future__ import annotations

from typing import Final

import streamlit as st

from core.flows.look import Frame
from core.records.actor import Actor
from dashboard import loading
from dashboard.report import gather, rendered, report
from dashboard.widgets.address import COMPACT, PRESENT
from dashboard.widgets.fold import in_use, opened
from dashboard.widgets.frame import tour

WIDTH_COOKIE: Final = "armscope-width"
NARROW_PX: Final = 700
_NARROW: Final = "armscope narrow"


def presenting() -> bool:
    """Whether the page is shown to an audience: read-only, no administration."""
    return _switched_on(PRESENT)


def compact() -> bool:
    """Narrow drawing: by the switch, else by the window."""
    if COMPACT in st.session_state or COMPACT in st.query_params:
        return _switched_on(COMPACT)
    return _is_narrow()


def _is_narrow() -> bool:
    """Whether the window is a phone's: by its width where the browser says it, else by its word for itself.

    Both came with the connection, so they are read once in a session.
    """
    if _NARROW not in st.session_state:
        st.session_state[_NARROW] = _says_narrow()
    return bool(st.session_state[_NARROW])


def _says_narrow() -> bool:
    width = st.context.cookies.get(WIDTH_COOKIE, "")
    if width.isdecimal():
        return int(width) < NARROW_PX
    headers = st.context.headers
    return headers.get("Sec-Ch-Ua-Mobile") == "?1" or "Mobile" in (headers.get("User-Agent") or "")


def _switched_on(key: str) -> bool:
    if key in st.session_state:
        return bool(st.session_state[key])
    return st.query_params.get(key, "").lower() == "true"


def role_badge(actor: Actor, frame: Frame) -> None:
    """The role as a button; behind it the person, the data's place, two switches, the report, the first steps."""
    label = "Presenting" if presenting() else actor.role.capitalize()
    behind = opened(label, icon=":material/person:", key="role popover")
    with behind:
        if behind.open or in_use(PRESENT):
            st.toggle(
                "Presentation mode", key=PRESENT, bind="query-params", help="Read-only, no administration"
            )
        if behind.open or compact() != _is_narrow():
            st.toggle("Compact charts", value=_is_narrow(), key=COMPACT, bind="query-params")
        if not behind.open:
            return
        st.text(f"{actor.name}, {actor.role}")
        st.text(f"Data: {frame.database}")
        _report_button()
        st.button("First steps", type="tertiary", icon=":material/explore:", key="tour", on_click=tour.begin)
        st.markdown(":small[:gray[Light or dark: menu ⋮, Settings.]]")


def _report_button() -> None:
    """What the pages say now, with these filters, as a file; made when it is asked for."""
    here = loading.reading()

    def frozen() -> bytes:
        return rendered(report(gather(here.desk, here.view)))

    st.download_button(
        "Report, frozen",
        frozen,
        file_name=f"armscope-revision-{here.frame.revision}.html",
        mime="text/html",
        type="tertiary",
        icon=":material/description:",
        on_click="ignore",
        help="One HTML file that opens without a network; every number names its question.",
        key="report",
    )
