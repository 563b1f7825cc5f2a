"""Who: the person of a session: the machine's user, or, where people sign in, whoever the session's cookie says.

Streamlit reads the cookie once, when a page connects. Whether it still holds is asked here, of the members, in every
rerun and before every act: its age, whether they signed out anywhere, whether they are members, and as what.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import streamlit as st

from core.errors import Unidentified
from core.flows.context import Context
from core.flows.identity import actor_of_session, is_member
from core.records.actor import Actor
from core.records.member import Session, session_of
from dashboard.sentences.sign_in import Standing
from dashboard.sign_in import SignIn, auth_file, read_sign_in, session_ms

NOBODY: Final = Actor(name="nobody", role=None)


def people_sign_in() -> bool:
    """Whether people sign in here; else whoever looks is the machine's user."""
    return auth_file() is not None


def sign_in_here() -> SignIn | None:
    """How they do."""
    file = auth_file()
    return None if file is None else read_sign_in(file, port=int(st.get_option("server.port")))


def session_here() -> Session | None:
    """What the identity provider said of whoever has this page open; None for who did not sign in."""
    claims = st.user.to_dict()
    return session_of(claims) if claims.get("is_logged_in") is True else None


def acting(context: Context, session: Session | None) -> Context:
    """The same for the person of a session; raises `Unidentified` for who is none that may come."""
    if session is None:
        raise Unidentified("Whoever acts must sign in, got nobody.", next_step="Sign in.")
    actor = actor_of_session(context.store, session, now_ms=context.clock(), session_ms=session_ms())
    return replace(context, actor=actor)


def actor_now(context: Context, session: Session) -> Actor:
    """Who acts in a session now; `NOBODY`, who may do nothing, once it is over."""
    try:
        return acting(context, session).actor
    except Unidentified:
        return NOBODY


def standing(context: Context, session: Session | None) -> Standing:
    """Why a session is none that holds."""
    if session is None:
        return "out"
    return "over" if is_member(context.store, session) else "unknown"
