"""Window: its width, and the display modes of the address and the switch."""

from __future__ import annotations

from typing import Final

import streamlit as st

from dashboard.widgets.address import COMPACT, PRESENT

WIDTH_COOKIE: Final = "armscope-width"
NARROW_PX: Final = 700
_NARROW: Final = "armscope narrow"


def presenting() -> bool:
    """Return whether the page is presented to an audience: read-only, without administration."""
    return _switched_on(PRESENT)


def compact() -> bool:
    """Return whether charts are drawn narrow: by the switch, else by the width of the window."""
    if COMPACT in st.session_state or COMPACT in st.query_params:
        return _switched_on(COMPACT)
    return is_narrow()


def is_narrow() -> bool:
    """Return whether the window is as narrow as a phone's: by the width in a cookie, else by the browser's headers.

    Cookie and headers came with the connection, so they are read once in a session.
    """
    if _NARROW not in st.session_state:
        st.session_state[_NARROW] = _says_narrow()
    return bool(st.session_state[_NARROW])


def _says_narrow() -> bool:
    width: object = st.context.cookies.get(WIDTH_COOKIE)
    if isinstance(width, str) and width.isdecimal():
        return int(width) < NARROW_PX
    headers = st.context.headers
    return headers.get("Sec-Ch-Ua-Mobile") == "?1" or "Mobile" in (headers.get("User-Agent") or "")


def _switched_on(key: str) -> bool:
    if key in st.session_state:
        return bool(st.session_state[key])
    return st.query_params.get(key, "").lower() == "true"
