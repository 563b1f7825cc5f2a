"""The person of a session: the user of this machine, who signed in, or a browser by its own name.

Streamlit reads the cookie once, when a page connects. Every rerun and every act checks here whether it still holds:
its age, a sign-out anywhere, the membership, and the roles.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import replace
from typing import Final
from urllib.parse import unquote

import streamlit as st

from core.errors import Unidentified
from core.flows.context import Context
from core.flows.identity import actor_of_session, is_member
from core.records.actor import Actor
from core.records.member import Session, session_of
from dashboard.sentences.sign_in import SignInState
from dashboard.sign_in import SignIn, auth_file, read_sign_in, session_ms

NO_USER: Final = Actor(name="nobody", role=None)

BROWSER_COOKIE: Final = "armscope-browser"
NAME_COOKIE: Final = "armscope-name"
"""Set by ``browser.js`` from the field on the page Review."""
MAX_NAME: Final = 40
_SESSION: Final = "armscope browser"


def people_sign_in() -> bool:
    """Return whether people sign in here; otherwise every visitor is the machine's user."""
    return auth_file() is not None


def sign_in_here() -> SignIn | None:
    """Return the sign-in settings."""
    file = auth_file()
    return None if file is None else read_sign_in(file, port=int(st.get_option("server.port")))


def session_here() -> Session | None:
    """Return the identity provider's claims about this page's visitor; None without sign-in."""
    claims = st.user.to_dict()
    return session_of(claims) if claims.get("is_logged_in") is True else None


def acting(context: Context, session: Session | None) -> Context:
    """Return the same for the person of a session; raises `Unidentified` for who is none that may come."""
    if session is None:
        raise Unidentified("This action needs a signed-in user, got none.", next_step="Sign in.")
    actor = actor_of_session(context.store, session, now_ms=context.clock(), session_ms=session_ms())
    return replace(context, actor=actor)


def actor_now(context: Context, session: Session) -> Actor:
    """Return the present actor of a session; an actor without any role once it has ended."""
    try:
        return acting(context, session).actor
    except Unidentified:
        return NO_USER


def sign_in_state(context: Context, session: Session | None) -> SignInState:
    """Return why a session does not hold."""
    if session is None:
        return "out"
    return "over" if is_member(context.store, session) else "unknown"


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
