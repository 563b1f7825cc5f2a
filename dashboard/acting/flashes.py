"""Flashes: what acts have to say on the page that follows them, once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import streamlit as st

from core.errors import ArmscopeError
from dashboard import wording

_FLASHES: Final = "armscope flashes"
_LAST_ACT: Final = "armscope last act"


@dataclass(frozen=True, kw_only=True)
class Flash:
    """What an act says afterwards; ``act`` is the id that takes it back. The text is Markdown, escaped."""

    text: str
    failed: bool = False
    act: str | None = None


def flashes() -> list[Flash]:
    """What happened since the last rerun, once."""
    waiting: list[Flash] = st.session_state.pop(_FLASHES, [])
    return waiting


def say(flash: Flash) -> None:
    """Have it shown by the next rerun."""
    st.session_state.setdefault(_FLASHES, []).append(flash)


def tried(
    otherwise: str, act: Callable[[], Flash], *, told: Callable[[ArmscopeError], bool] = lambda _: False
) -> None:
    """Do it, and say what came of it; an error begins with ``otherwise``, our own words.

    Nothing is said of an error that is ``told`` elsewhere.
    """
    try:
        flash = act()
    except ArmscopeError as problem:
        if told(problem):
            return
        flash = failure(otherwise, problem)
    if not flash.failed:
        st.session_state[_LAST_ACT] = flash.act
    say(flash)


def last_act() -> str | None:
    """The id of what this person did last here, while it can be taken back."""
    act: str | None = st.session_state.get(_LAST_ACT)
    return act


def failure(otherwise: str, problem: ArmscopeError) -> Flash:
    """What did not happen, and why."""
    return Flash(text=f"{otherwise} {wording.literal(str(problem))}", failed=True)
