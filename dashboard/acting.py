"""Writes: one flow per act, its answer or its error as a flash that the next rerun shows as text.

Acts run in callbacks, before the page is drawn again, so the page that follows already shows the effect.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import streamlit as st

from core.errors import ArmscopeError
from core.flows.reset import reset
from core.flows.reward import reward
from core.flows.undo import redo, undo
from core.records.arm import ArmType
from core.records.reset import Target
from dashboard import loading, wording

_FLASHES: Final = "armscope flashes"
_LAST_TAKEN: Final = "armscope last taken back"
_DOUBLE_CLICK_S: Final = 0.8


@dataclass(frozen=True, kw_only=True)
class Flash:
    """What an act says afterwards; ``act`` is the id that takes it back. The text is Markdown, escaped."""

    text: str
    failed: bool = False
    act: str | None = None


@dataclass(frozen=True, kw_only=True)
class RewardForm:
    """One filled-in form; ``key`` belongs to the form, not to the click, so sending it twice counts once."""

    arm: str
    value: float
    reason: str | None = None
    run: str | None = None
    correct: bool = False
    key: str = field(default_factory=lambda: uuid.uuid4().hex)


def send_reward(form: RewardForm, after: Callable[[], None]) -> None:
    """Send the form as it was drawn; ``after`` empties it once the reward stands."""

    def act() -> Flash:
        answer = reward(
            loading.reading().desk,
            form.arm,
            form.value,
            run=form.run,
            reason=form.reason,
            correct=form.correct,
            key=form.key,
        )
        after()
        name = wording.literal(wording.short_name(form.arm))
        rounded = " The reward was rounded to millionths." if answer.rounded else ""
        return Flash(
            text=f"{name} rewarded {form.value:g}; its mean is now {wording.mean(answer.mean)}.{rounded}",
            act=answer.id,
        )

    _tried("The reward was not sent.", act)


def send_reset(
    *,
    arms: tuple[str, ...],
    types: tuple[ArmType, ...],
    target: Target,
    reason: str | None,
    after: Callable[[], None],
) -> None:
    """Reset the arms; ``after`` empties the form once the reset stands."""

    def act() -> Flash:
        answer = reset(loading.reading().desk, arms=arms, types=types, target=target, reason=reason)
        after()
        done = f"{wording.things(answer.reset_count, 'arm')} reset. Nothing is lost: undo is below."
        return Flash(text=done, act=answer.id)

    _tried("Nothing was reset.", act)


def take_back(act_id: str, *, again: bool = False) -> None:
    """Undo an act, or let it stand ``again``; the second half of a double click does not turn it round."""
    last_id, last_s = st.session_state.get(_LAST_TAKEN, ("", 0.0))
    if act_id == last_id and time.monotonic() - last_s < _DOUBLE_CLICK_S:
        return

    def act() -> Flash:
        desk = loading.reading().desk
        if again:
            redo(desk, act_id)
        else:
            undo(desk, act_id)
        st.session_state[_LAST_TAKEN] = (act_id, time.monotonic())
        return Flash(text="Done again." if again else "Undone. The record stays, its effect is gone.")

    _tried("Nothing was done again." if again else "Nothing was undone.", act)


def flashes() -> list[Flash]:
    """What happened since the last rerun, once."""
    waiting: list[Flash] = st.session_state.pop(_FLASHES, [])
    return waiting


def _tried(otherwise: str, act: Callable[[], Flash]) -> None:
    try:
        flash = act()
    except ArmscopeError as problem:
        flash = Flash(text=f"{otherwise} {wording.literal(str(problem))}", failed=True)
    st.session_state.setdefault(_FLASHES, []).append(flash)
