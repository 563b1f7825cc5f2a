"""Browser: what tells the one that a page is open in from others."""

from __future__ import annotations

import uuid
from typing import Final

import streamlit as st

BROWSER_COOKIE: Final = "armscope-browser"
_SESSION: Final = "armscope browser"


def browser() -> str:
    """What this browser is known by; where it keeps no cookies, what this session is known by."""
    known = st.context.cookies.get(BROWSER_COOKIE)
    if isinstance(known, str) and known:
        return known
    return str(st.session_state.setdefault(_SESSION, uuid.uuid4().hex))
