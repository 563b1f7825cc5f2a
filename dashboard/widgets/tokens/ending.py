"""Ending a token: at once, in every process, and for good; so it asks first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from core.records.token import TokenRow
from dashboard import actions, administration, wording
from dashboard.actions import Flash
from dashboard.reading import reading
from dashboard.sentences import tokens as sentences
from dashboard.widgets.results import refusal
from dashboard.widgets.words import muted, paragraphs, section

DOING: Final = "tokens_do"
MAKE: Final = "make"
REVOKE: Final = "revoke"
_WORDS: Final = {MAKE: "Make", REVOKE: "Revoke"}
_CHOSEN: Final = "token to end"
_SURE: Final = "token sure"
_NAME_CHARS: Final = 40


def doing() -> str:
    """Show the choice between making and revoking a token."""
    return st.segmented_control(
        "What to do",
        list(_WORDS),
        default=MAKE,
        required=True,
        format_func=lambda one: _WORDS[one],
        key=DOING,
        bind="query-params",
        label_visibility="collapsed",
    )


def begin_with(one: TokenRow) -> None:
    """Choose a token of the list."""
    st.session_state[DOING] = REVOKE
    st.session_state[_CHOSEN] = one.id


def chosen(rows: Sequence[TokenRow]) -> TokenRow | None:
    """Return the token that is to end, if one is chosen."""
    now_ms = reading().context.clock()
    live = {one.id: one for one in rows if sentences.is_in_force(one, now_ms)}
    if not live:
        muted("No token is active.")
        return None
    picked = st.selectbox(
        "Token",
        list(live),
        index=None,
        format_func=lambda one: f"{wording.plain(live[one].name)} ({one})" if one in live else one,
        key=_CHOSEN,
        placeholder="choose a token",
    )
    return None if picked is None else live.get(picked)


def what_it_does(one: TokenRow | None) -> None:
    """Show the consequence, and the button, which is disabled until the person confirms."""
    section("What it will do", "nothing is changed yet")
    if one is None:
        muted("Choose the token to revoke.")
        return
    name, now_ms = (
        wording.literal(wording.cut_middle(wording.plain(one.name), _NAME_CHARS)),
        reading().context.clock(),
    )
    with st.container(border=True):
        paragraphs(
            f"Any program with **{name}** is refused from its next request on, in every process: "
            f"{sentences.scopes(one)} in {wording.literal(sentences.where(one.learners))}. "
            f"Last used: {sentences.used(one, now_ms)}.",
            "Its acts stay, under its name.",
        )
        sure = st.checkbox(f"End {name} for good; no undo restores it", key=f"{_SURE} {one.id}")
        st.button(
            f"Revoke {name}",
            type="primary",
            key="revoke token",
            disabled=not sure,
            on_click=_revoke,
            args=(one.id, name),
        )
        refusal("token")


def _revoke(token: str, name: str) -> None:
    """Once more on the server: a click without the tick ends nothing."""
    if not st.session_state.get(f"{_SURE} {token}"):
        return

    def act() -> Flash:
        administration.revoke_token(token)
        st.session_state.pop(_CHOSEN, None)
        return Flash(text=f"{wording.literal(name)} is revoked, for good.")

    actions.tried("Nothing was revoked.", act, at="token")
