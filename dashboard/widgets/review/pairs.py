"""Pairs: two answers to one instruction side by side; A, B or equal, by a key."""

from __future__ import annotations

from typing import Final

import streamlit as st

from core.records.review import Pair
from dashboard import actions, reviews, wording
from dashboard.actions import Flash
from dashboard.reading import reading
from dashboard.reviews import Preferred
from dashboard.sentences.texts import how_to_keep
from dashboard.widgets.results import refusal
from dashboard.widgets.review.evidence import texts_of
from dashboard.widgets.words import gray, muted, section

_PAIR: Final = "review pair"
_WHICH: Final[tuple[tuple[str, str, Preferred], ...]] = (
    ("A is better", "A", "first"),
    ("B is better", "B", "second"),
    ("Equal", "E", "equal"),
)
_TALL_PX: Final = 300


def now() -> Pair | None:
    """Return the pair on the page; a new one where none is."""
    known: Pair | None = st.session_state.get(_PAIR)
    if known is None:
        known = st.session_state[_PAIR] = reviews.next_pair()
    return known


def pair(shown: Pair) -> None:
    """Draw the instruction, both answers, and three buttons."""
    section("Task", f"{wording.things(shown.n_left, 'pair')} left; their sides are random")
    with st.container(border=True, gap="xsmall"):
        if shown.instruction is None:
            muted(how_to_keep(keeps=reading().frame.settings.keep_texts))
        else:
            texts_of(f"pair {shown.first} task", shown.instruction)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        for words, letter, chosen in _WHICH:
            st.button(
                words,
                key=f"prefer {chosen} {shown.first} {shown.second}",
                shortcut=letter,
                on_click=_prefer,
                args=(shown, chosen),
            )
        if not reading().compact:
            st.markdown(gray("U takes the last one back."), width="content")
    refusal("pairs")
    for column, name, content in zip(
        st.columns(2, gap="medium"), "AB", (shown.first_response, shown.second_response), strict=True
    ):
        with column:
            section(wording.literal(name))
            with st.container(border=True, height=_TALL_PX, gap="xsmall", key=f"pair {name}"):
                if content is None:
                    muted("Not kept.")
                else:
                    texts_of(f"pair {shown.first} {shown.second} {name}", content)


def _prefer(shown: Pair, chosen: Preferred) -> None:
    if st.session_state.get(_PAIR) != shown:
        return

    def act() -> Flash:
        answer = reviews.prefer(shown, chosen, rubric=None, feedback=None)
        st.session_state.pop(_PAIR, None)
        words = {"first": "A preferred.", "second": "B preferred.", "equal": "Equal."}[chosen]
        return Flash(text=words, act=answer.id)

    actions.tried("Nothing was recorded.", act, at="pairs")
