"""Undoing: any act taken back, or done again."""

from __future__ import annotations

import time
from typing import Final

import streamlit as st

from core.flows.undo import redo, undo
from dashboard.acting.flashes import Flash, tried
from dashboard.reading import reading

_LAST_TAKEN: Final = "armscope last taken back"
_DOUBLE_CLICK_S: Final = 0.8


def take_back(act_id: str, *, again: bool = False) -> None:
    """Undo an act, or let it stand ``again``; the second half of a double click does not turn it round.

    A person turns it round after having seen what it did; until the page is drawn nobody has.
    """
    last_id, shown_s = st.session_state.get(_LAST_TAKEN, ("", 0.0))
    if act_id == last_id and (shown_s is None or time.monotonic() - shown_s < _DOUBLE_CLICK_S):
        return

    def act() -> Flash:
        context = reading().context
        if again:
            redo(context, act_id)
        else:
            undo(context, act_id)
        st.session_state[_LAST_TAKEN] = (act_id, None)
        return Flash(text="Done again." if again else "Undone. The record stays, its effect is gone.")

    tried("Nothing was done again." if again else "Nothing was undone.", act)


def page_is_drawn() -> None:
    """Note that what the last act did can be seen from now on."""
    last_id, shown_s = st.session_state.get(_LAST_TAKEN, ("", 0.0))
    if shown_s is None:
        st.session_state[_LAST_TAKEN] = (last_id, time.monotonic())
