"""Browser identity."""

from __future__ import annotations

import uuid
from typing import Final

import streamlit as st

BROWSER_COOKIE: Final = "armscope-browser"
_SESSION: Final = "armscope browser"


def browser() -> str:
    """Return the browser's identifier; without cookies, the session's."""
    known = st.context.cookies.get(BROWSER_COOKIE)
    if isinstance(known, str) and known:
        return known
    return str(st.session_state.setdefault(_SESSION, uuid.uuid4().hex))
