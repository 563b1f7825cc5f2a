"""Reward form: arm, outcome, run, kind and reason; its effect before it is sent; sent once, however often clicked.

The form is no `st.form`, so that its effect follows every change. The idempotency key belongs to the form as it
stands on the page; a new one begins when the reward is recorded. The button carries the key in its own identity,
so that a second click on it finds it gone, and the one after it stays off until something in the form changes: the
second half of a slow double click is no second reward.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final, Literal

import streamlit as st

from core.errors import ArmscopeError
from core.flows.look import RewardPreview
from core.records.observation import MAX_REASON_CHARS, OUTCOME_REWARDS
from dashboard import acting, loading, sentences, wording
from dashboard.acting import RewardForm
from dashboard.figures.before_after import before_after
from dashboard.widgets.address import REWARDS_ARM, REWARDS_RUN
from dashboard.widgets.chart import chart
from dashboard.widgets.keys import SEND
from dashboard.widgets.picker import one_arm
from dashboard.widgets.words import muted, small_table

Outcome = Literal["accepted", "partial", "rejected", "number"]

OUTCOME: Final = "reward_outcome"
NUMBER: Final = "reward"
KIND: Final = "reward_kind"
WHY: Final = "reward reason"
_KEY: Final = "reward form key"
_LAST: Final = "reward form as it was left"
_OUTCOMES: Final[tuple[Outcome, ...]] = ("accepted", "partial", "rejected", "number")
_KINDS: Final = ("Feedback", "Correction")
_OUTCOME_WORDS: Final[dict[Outcome, str]] = {
    "accepted": "Accepted",
    "partial": "Partial",
    "rejected": "Rejected",
    "number": "A number",
}


@dataclass(frozen=True, kw_only=True)
class Filled:
    """The form as it stands; ``form`` is None while no arm is chosen."""

    form: RewardForm | None
    preview: RewardPreview | None = None
    problem: ArmscopeError | None = None


def fields() -> Filled:
    """Draw the form and its button; the button works only where the preview does."""
    with st.container(border=True):
        one_arm(loading.everything().columns, key=REWARDS_ARM)
        _value_field()
        _run_fields()
        st.text_area("Why", key=WHY, height=80, max_chars=MAX_REASON_CHARS, placeholder="optional")
        filled = _previewed(_as_it_stands())
        _send(filled)
    return filled


def _value_field() -> None:
    outcome = st.segmented_control(
        "Outcome",
        _OUTCOMES,
        default="accepted",
        required=True,
        format_func=lambda name: _OUTCOME_WORDS[name],
        key=OUTCOME,
        bind="query-params",
    )
    if outcome == "number":
        st.number_input(
            "Reward, 0 to 1", 0.0, 1.0, value=0.5, step=0.05, format="%.2f", key=NUMBER, bind="query-params"
        )


def _run_fields() -> None:
    left, right = st.columns(2)
    run = left.text_input("Run, optional", key=REWARDS_RUN, bind="query-params", placeholder="number or id")
    right.segmented_control(
        "This is",
        _KINDS,
        default="Feedback",
        required=True,
        key=KIND,
        bind="query-params",
        disabled=not _run_of(run),
        help="Feedback adds an observation; a correction replaces the automatic one of that run.",
    )


def _run_of(typed: str | None) -> str | None:
    """A run's number or id as typed; numbers may carry their thousands commas.

    >>> _run_of(" 2,871 "), _run_of("a,b"), _run_of("")
    ('2871', 'a,b', None)
    """
    text = (typed or "").strip()
    bare = text.replace(",", "")
    return (bare if bare.isdecimal() else text) or None


def _as_it_stands() -> RewardForm | None:
    """The form from the fields' own state, None while it is not complete.

    The button's callback asks again: a key may send the form in the moment in which it commits a field.
    """
    state = st.session_state
    outcome: Outcome = state.get(OUTCOME, "accepted")
    arm: str | None = state.get(REWARDS_ARM)
    value = state.get(NUMBER) if outcome == "number" else OUTCOME_REWARDS[outcome]
    if arm is None or value is None:
        return None
    run = _run_of(state.get(REWARDS_RUN))
    return RewardForm(
        arm=arm,
        value=value,
        reason=(state.get(WHY) or "").strip() or None,
        run=run,
        correct=run is not None and state.get(KIND) == "Correction",
        key=_form_key(),
    )


def _previewed(form: RewardForm | None) -> Filled:
    if form is None:
        return Filled(form=None)
    try:
        preview = loading.preview_reward(form.arm, form.value, run=form.run, correct=form.correct)
    except ArmscopeError as problem:
        return Filled(form=form, problem=problem)
    return Filled(form=form, preview=preview)


def _send(filled: Filled) -> None:
    form = filled.form
    is_new = st.session_state.get(_LAST) != _fields_now()
    ready = form is not None and filled.problem is None and is_new and loading.reading().may("reward")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Send reward",
            type="primary",
            shortcut=SEND,
            key=f"send {_form_key()}",
            disabled=not ready,
            on_click=_sent,
            args=(_form_key(),),
        )
        st.markdown(
            f":gray[{_beside(form) if is_new else 'sent; change anything to send another'}]", width="content"
        )
    st.markdown(":small[:gray[Ctrl + Enter sends, from any field.]]")


def _sent(key: str) -> None:
    """Send the form, unless its key was used up: then this is a second click on a form that is gone."""
    form = _as_it_stands()
    if form is not None and key == form.key:
        acting.send_reward(form, _begin_again)


def _beside(form: RewardForm | None) -> str:
    if form is None:
        return "choose an arm first"
    if form.run is None:
        return "counts in the arm's present epoch"
    return f"counts in the epoch of run {wording.literal(form.run)}"


def _form_key() -> str:
    if _KEY not in st.session_state:
        st.session_state[_KEY] = uuid.uuid4().hex
    return str(st.session_state[_KEY])


def _begin_again() -> None:
    """A new form: a new key, no reason, no run; the arm and the outcome stay."""
    st.session_state[_KEY] = uuid.uuid4().hex
    st.session_state[WHY] = ""
    st.session_state[REWARDS_RUN] = ""
    st.session_state[_LAST] = _fields_now()


def _fields_now() -> tuple[object, ...]:
    """What the person has filled in."""
    return tuple(
        st.session_state.get(field) for field in (REWARDS_ARM, OUTCOME, NUMBER, REWARDS_RUN, KIND, WHY)
    )


def effect(filled: Filled) -> None:
    """Before and after: a picture, a table, and one sentence; or why it cannot be sent."""
    if filled.problem is not None:
        with st.container(border=True):
            st.markdown(f":red[:material/error:] {wording.literal(str(filled.problem))}")
        return
    if filled.form is None or filled.preview is None:
        muted("Choose an arm, and its belief before and after appears here.")
        return
    look = loading.reading().tokens
    before, after = filled.preview.before, filled.preview.after
    arm = filled.form.arm
    drawn = before_after(
        arm, wording.type_of(arm), (before.alpha, before.beta), (after.alpha, after.beta), look
    )
    chart(drawn, key="effect")
    small_table(
        sentences.effect_table(before, after, n_arms=filled.preview.n_arms),
        alt="Belief before and after the reward",
    )
    if filled.preview.in_present_epoch:
        muted(sentences.effect(before.mean, after.mean, (before.rank, after.rank)))
    else:
        muted(
            "That run belongs to an epoch that a reset has ended: the reward is kept there, not in this belief."
        )
