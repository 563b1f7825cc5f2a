"""Signing in: the page for a visitor without access, and the way in."""

from __future__ import annotations

import streamlit as st

from core.errors import ArmscopeError, Unidentified
from dashboard import actions, who, wording
from dashboard.reading import opened
from dashboard.sentences import sign_in as sentences
from dashboard.sign_in import session_ms


def cannot_come_in() -> None:
    """Show why the visitor has no access, and the next step."""
    session = who.session_here()
    message = _message()
    st.title(message.title, anchor=False)
    st.markdown(wording.literal(message.text))
    for line in message.lines:
        st.code(line, language=None, wrap_lines=True)
    with st.container(horizontal=True):
        for index, name in enumerate(_providers()):
            st.button(
                sentences.button(name, is_first=session is None),
                type="secondary" if index else "primary",
                icon=":material/login:",
                key=f"sign in {name}",
                on_click=st.login,
                args=(name,),
            )
        if session is not None:
            st.button("Sign out", icon=":material/logout:", key="sign out", on_click=actions.leave)


def _message() -> sentences.SignInMessage:
    session, context = who.session_here(), opened()
    try:
        return sentences.no_role(who.acting(context, session).actor.name)
    except Unidentified:
        return sentences.next_step(who.standing(context, session), session, session_ms())


def _providers() -> tuple[str, ...]:
    """Return the identity providers; none if the file has become invalid."""
    try:
        sign_in = who.sign_in_here()
    except ArmscopeError:
        return ()
    return () if sign_in is None else sign_in.providers
