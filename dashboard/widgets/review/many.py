"""Many at once: one judgement of all matches, frozen and counted before confirmation."""

from __future__ import annotations

from typing import Final, get_args

import streamlit as st

from core.records.evaluation import EvaluationOutcome
from core.records.judging import MAX_FEEDBACK_CHARS
from dashboard import actions, reviews, wording
from dashboard.actions import Flash
from dashboard.sentences import review as sentences
from dashboard.widgets.results import result
from dashboard.widgets.review.asking import Counted, asks_fields, counted, forget
from dashboard.widgets.words import muted, section
from dashboard.wording import Markdown

_NAME: Final = "batch"
_DONE: Final = "batch done"
_OUTCOMES: Final[tuple[EvaluationOutcome, ...]] = get_args(EvaluationOutcome)


def many() -> None:
    """Show the matches, the judgement, and the button with the number."""
    left, right = st.columns([7, 5], gap="large")
    with left:
        section("What to judge", "counted and frozen before it is sent")
        with st.container(border=True):
            known = counted(_NAME, asks_fields(_NAME, folded=None), batch=True)
    with right:
        section("Judgement", "the same of all")
        with st.container(border=True):
            _judgement(known)
    _done()


def _judgement(known: Counted | None) -> None:
    outcome = st.segmented_control("Outcome", _OUTCOMES, key=f"{_NAME} outcome", format_func=str.capitalize)
    score = st.number_input(
        "How sure, 0 to 1" if outcome == "failure" else "Score, 0 to 1",
        0.0,
        1.0,
        value=None,
        step=0.05,
        key=f"{_NAME} score",
        placeholder="none yet",
    )
    feedback = st.text_area(
        "Feedback, optional", key=f"{_NAME} feedback", height=80, max_chars=MAX_FEEDBACK_CHARS
    )
    versions = [row.rubric.version for row in reviews.known_rubrics()]
    rubric = st.selectbox(
        "Rubric",
        ["", *versions],
        key=f"{_NAME} rubric",
        format_func=lambda version: wording.plain(version) or "none",
    )
    n = 0 if known is None else known.proposal.n
    st.button(
        f"Judge {wording.things(n, 'item')} {sentences.judged(outcome, score)}"
        if n and outcome
        else "Judge them",
        type="primary",
        key=f"{_NAME} send",
        disabled=known is None or outcome is None or score is None,
        on_click=_send,
        args=(known, outcome, score, feedback, rubric),
    )
    if not n or outcome is None or score is None:
        muted("Count first, and choose outcome and score.")
    result("many")


def _send(
    known: Counted | None, outcome: EvaluationOutcome, score: float, feedback: str, rubric: str
) -> None:
    if known is None:
        return

    def act() -> Flash:
        answer = reviews.judge_batch(
            known.asks,
            known.proposal.token,
            outcome=outcome,
            score=score,
            feedback=feedback.strip() or None,
            rubric=rubric or None,
        )
        forget(_NAME)
        st.session_state[_DONE] = answer.acts
        done: Markdown = f"{wording.things(answer.n, 'item')} judged {sentences.judged(outcome, score)}."
        return Flash(text=f"{done} {sentences.replaced(answer.replaced)}" if answer.replaced else done)

    actions.tried("Nothing was judged.", act, at="many")


def _done() -> None:
    """Draw the button that takes back all judgements of the last batch."""
    acts: tuple[str, ...] = st.session_state.get(_DONE, ())
    if not acts:
        return
    st.button(
        f"Take {wording.things(len(acts), 'judgement')} back",
        icon=":material/undo:",
        key=f"{_NAME} undo {acts[0]}",
        on_click=_take_back,
        args=(acts,),
    )


def _take_back(acts: tuple[str, ...]) -> None:
    def act() -> Flash:
        n = reviews.take_back(acts)
        st.session_state.pop(_DONE, None)
        return Flash(text=f"{wording.things(n, 'judgement')} taken back.")

    actions.tried("Nothing was taken back.", act, at="many")
