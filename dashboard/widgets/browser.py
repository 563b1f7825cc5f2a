"""Browser identity, and the name that a browser gives itself where people do not sign in."""

from __future__ import annotations

import hashlib
import uuid
from typing import Final
from urllib.parse import unquote

import streamlit as st

BROWSER_COOKIE: Final = "armscope-browser"
NAME_COOKIE: Final = "armscope-name"
"""Set by ``browser.js`` from the field on the page Review."""
MAX_NAME: Final = 40
_SESSION: Final = "armscope browser"


def browser() -> str:
    """Return the browser's identifier; without cookies, the session's."""
    known = st.context.cookies.get(BROWSER_COOKIE)
    if isinstance(known, str) and known:
        return known
    return str(st.session_state.setdefault(_SESSION, uuid.uuid4().hex))


def own_name() -> str:
    """Return the name that this browser gave itself, or an empty text."""
    return _cleaned(unquote(st.context.cookies.get(NAME_COOKIE) or ""))


def label() -> str:
    """Return a browser's own name, if any, and an id that no other has; empty without cookies."""
    known = st.context.cookies.get(BROWSER_COOKIE)
    if not isinstance(known, str) or not known:
        return ""
    digest = hashlib.blake2b(known.encode(), digest_size=3).hexdigest()
    return f"{own_name()} {digest}".strip()


def _cleaned(name: str) -> str:
    r"""
    >>> _cleaned(" Kim\x00 "), _cleaned("x" * 50) == "x" * 40
    ('Kim', True)
    """
    return "".join(char for char in name if char.isprintable()).strip()[:MAX_NAME].strip()
