"""Scale of an environment: the one in force, a form that shows its effect before it is sent, and all declarations."""

from __future__ import annotations

from typing import Any, Final

import streamlit as st

from core.errors import ArmscopeError
from core.flows.queries import EnvironmentStory
from core.records.episode import BASES, Scale
from dashboard import actions, queries, wording
from dashboard.reading import reading
from dashboard.sentences import rewards
from dashboard.sentences.episode import threshold
from dashboard.widgets.results import result
from dashboard.widgets.words import muted, section, small
from dashboard.wording import Words

_FIELDS: Final = ("lo", "hi", "threshold", "base", "step_lo", "step_hi")
_KEY: Final = "scale "


def form(story: EnvironmentStory) -> None:
    """Show the form of a scale, and how many episodes it makes a success."""
    one = story.summary
    section(
        "Scale", f"in force: {rewards.scale_words(one.scale, declared=one.declared)}, {_threshold(story)}"
    )
    if not reading().may("settings"):
        return
    _guess(story)
    with st.container(border=True):
        scale = _fields(story)
        try:
            answer = queries.preview_declare(one.environment, scale)
        except ArmscopeError as problem:
            st.markdown(f":red[:material/error:] {wording.literal(str(problem))}")
            answer = None
        if answer is not None:
            st.markdown(rewards.scale_effect(answer, is_known=one.success is not None))
            if rewards.keeps_threshold(answer):
                question = f"Success is still above {answer.scale.threshold:g}, as before. Is that meant?"
                st.markdown(f":orange[:material/warning:] {question}")
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button(
                "Declare this scale",
                type="primary",
                icon=":material/check:",
                key="declare scale",
                disabled=answer is None or answer.scale == answer.before,
                on_click=actions.declare_scale,
                args=(one.environment, scale),
            )
            st.markdown(
                small("Nothing is sent yet. Rewards stay as they were paid, and it can be undone."),
                width="content",
            )
        result("scale")


def _threshold(story: EnvironmentStory) -> Words:
    return f"success {threshold(story.summary.scale)}"


def _guess(story: EnvironmentStory) -> None:
    """Offer a scale that holds all totals, where some lie outside the one in force; with its evidence."""
    guess = story.summary.guess
    if guess is None:
        return
    reach = f"{wording.paid(guess.lowest)} to {wording.paid(guess.highest)}"
    ends = wording.signed_minus(f"{guess.lo:g} to {guess.hi:g}")
    muted(
        f"{wording.count(guess.n_outside)} of {wording.things(guess.n, 'episode')} with a reward lie outside: they "
        f"reach from {reach}. All would lie on {ends}."
    )
    st.button(
        f"Fill in {ends}",
        key="fill in the guess",
        type="tertiary",
        icon=":material/edit:",
        on_click=_fill_in,
        args=(
            story.summary.environment,
            {
                "lo": guess.lo,
                "hi": guess.hi,
                "threshold": _moved(story.summary.scale, guess.lo, guess.hi),
            },
        ),
    )


def _moved(scale: Scale, lo: float, hi: float) -> float:
    """Return the threshold of a scale at the same share of other ends.

    >>> _moved(Scale(lo=0, hi=1, threshold=0.9), 0, 100)
    90.0
    """
    share = (scale.threshold - scale.lo) / (scale.hi - scale.lo)
    return round(lo + share * (hi - lo), 6)


def _fill_in(environment: str, values: dict[str, Any]) -> None:
    for name, value in values.items():
        st.session_state[_key(environment, name)] = value


def _fields(story: EnvironmentStory) -> dict[str, Any]:
    """Draw the fields and return their values; each starts with the value in force."""
    environment, scale = story.summary.environment, story.summary.scale
    if (
        st.session_state.get(_key(environment, "seen")) != scale
        or _key(environment, "lo") not in st.session_state
    ):
        # The scale in force has changed, or the fields were not drawn meanwhile: fill them in again.
        _fill_in(environment, {name: getattr(scale, name) for name in _FIELDS})
        st.session_state[_key(environment, "seen")] = scale
    values: dict[str, Any] = {}
    first, second = st.container(horizontal=True), st.container(horizontal=True)
    with first:
        for name, words in (
            ("lo", "Lowest total or final reward"),
            ("hi", "Highest"),
            ("threshold", "Success is above"),
        ):
            values[name] = st.number_input(words, key=_key(environment, name), format="%.6g", step=0.1)
    with second:
        values["base"] = st.segmented_control(
            "Success goes by",
            BASES,
            required=True,
            format_func=lambda name: "The total" if name == "total" else "The final reward",
            key=_key(environment, "base"),
        )
        for name, words in (("step_lo", "Lowest payment of a step"), ("step_hi", "Highest")):
            values[name] = st.number_input(words, key=_key(environment, name), format="%.6g", step=0.1)
    return values


def _key(environment: str, name: str) -> str:
    return f"{_KEY}{name} {environment}"
