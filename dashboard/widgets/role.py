"""Role: who is acting, where the data are, presentation mode and the compact drawing."""

from __future__ import annotations

from typing import Final

import streamlit as st

from core.flows.look import Frame
from core.records.actor import Actor
from dashboard.widgets.filters import COMPACT, PRESENT

WIDTH_COOKIE: Final = "armscope-width"
NARROW_PX: Final = 700


def presenting() -> bool:
    """Whether the page is shown to an audience: read-only, no administration."""
    return _switched_on(PRESENT)


def compact() -> bool:
    """Narrow drawing: by the switch, else by the window."""
    if COMPACT in st.session_state or COMPACT in st.query_params:
        return _switched_on(COMPACT)
    return _is_narrow()


def _is_narrow() -> bool:
    """Whether the window is a phone's: by its width where the browser says it, else by its word for itself."""
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
    """The role as a button; behind it the person, the data's place and two switches."""
    label = "Presenting" if presenting() else actor.role.capitalize()
    with st.popover(label, type="tertiary", icon=":material/person:", key="role popover"):
        st.text(f"{actor.name}, {actor.role}")
        st.text(f"Data: {frame.database}")
        st.toggle("Presentation mode", key=PRESENT, bind="query-params", help="Read-only, no administration")
        st.toggle("Compact charts", value=_is_narrow(), key=COMPACT, bind="query-params")
        st.markdown(":small[:gray[Light or dark: menu ⋮, Settings.]]")
