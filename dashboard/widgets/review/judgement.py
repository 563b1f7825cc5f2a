"""Judgement: a level by one digit, or outcome and score; its effect; submit and next by Ctrl + Enter."""

from __future__ import annotations

from functools import partial
from typing import Final, Literal, get_args

import streamlit as st

from core.errors import ArmscopeError
from core.evaluate import grade
from core.records.evaluation import EvaluationOutcome
from core.records.judging import MAX_FEEDBACK_CHARS
from core.records.review import MAX_REASON_CHARS, Draft, ReviewItem
from core.records.times import MINUTE_MS
from dashboard import reviews, wording
from dashboard.reading import reading
from dashboard.sentences import review as sentences
from dashboard.widgets.keys import SEND
from dashboard.widgets.popover import lazy_popover
from dashboard.widgets.review import open_item
from dashboard.widgets.review.open_item import Open
from dashboard.widgets.sending import SEND_HERE
from dashboard.widgets.words import both_ends, gray, paragraphs, section, small, small_table
from dashboard.wording import Markdown, Words

JUDGE_HERE: Final = "judge-here"
"""Key of what holds the text that reaches the server when one stops typing."""
_RUBRIC_PX: Final = 150
"""Height of the rubric beside the evidence on a page of 900 px. In one column nothing is cut."""
SKIP: Final = "S"
LATER: Final = "L"
_OUTCOMES: Final[tuple[EvaluationOutcome, ...]] = get_args(EvaluationOutcome)


@st.fragment
def judgement() -> None:
    """Show the form; while the reviewer fills it in, only the form is drawn again."""
    if open_item.moved_on():
        st.rerun(scope="app")
    known = open_item.now()
    if known is None or known.item is None:
        return
    with both_ends():
        st.header(f"Judgement {small(_held(known.item))}", anchor=False, width="content")
        _skip(known)
    with st.container(border=True, key=JUDGE_HERE, gap="small"):
        for line in open_item.messages():
            st.markdown(f":gray[:material/info:] {line}")
        draft = open_item.typed(known)
        _levels(known, draft)
        _fields(known, draft)
        _comes_to(known.item, draft)
        if known.item.meanwhile and not known.problem:
            st.markdown(f":orange[:material/info:] {sentences.meanwhile(known.item)}")
        if known.problem:
            st.markdown(f":red[:material/error: {wording.literal(known.problem)}]")
        _acts(known)


def _held(item: ReviewItem) -> Words:
    now_ms = reading().context.clock()
    if item.hold_until_ms > now_ms:
        minutes = -(-(item.hold_until_ms - now_ms) // MINUTE_MS)
        return f"reserved for you for {minutes} min"
    return Words("not reserved for you now")


def _levels(known: Open, draft: Draft) -> None:
    """Draw a button for each level, with its digit."""
    item = known.item
    if item is None:
        return
    with st.container(horizontal=True, gap="xsmall"):
        for index, level in enumerate(item.levels, 1):
            is_chosen = draft.level == index
            words = sentences.level_words(level)
            st.button(
                f"**{words}**" if is_chosen else words,
                key=open_item.level_key(known, index),
                icon=":material/check:" if is_chosen else None,
                shortcut=str(index),
                on_click=open_item.choose,
                args=(known.key, index),
            )


def _fields(known: Open, draft: Draft) -> None:
    keep = partial(open_item.keep, known.key)
    left, right = st.columns(2)
    with left:
        st.segmented_control(
            "Outcome", _OUTCOMES, key=open_item.outcome_key(known), format_func=str.capitalize, on_change=keep
        )
    with right:
        st.number_input(
            "How sure, 0 to 1" if draft.outcome == "failure" else "Score, 0 to 1",
            0.0,
            1.0,
            value=None,
            step=0.05,
            format="%.2f",
            key=open_item.score_key(known),
            placeholder="none yet",
            on_change=keep,
        )
    st.text_area(
        "Feedback, optional",
        key=open_item.feedback_key(known),
        height=68,
        max_chars=MAX_FEEDBACK_CHARS,
        placeholder="What would have made it better?",
        on_change=keep,
    )


def _comes_to(item: ReviewItem, draft: Draft) -> None:
    """Draw grade, blockers and what it would move, before it is sent."""
    if draft.outcome is None or draft.score is None:
        paragraphs(gray("Choose a level to see its effect."), "&nbsp;")
        return
    here = reading()
    thresholds = here.frame.settings.thresholds
    graded = grade(
        draft.outcome,
        draft.score,
        rater=here.context.actor.name,
        model=None,
        rubric=item.rubric_version or None,
        thresholds=thresholds,
    )
    lines = sentences.grade_lines(graded, draft.score, thresholds)
    paragraphs("  \n".join(lines), small(_moves(item, draft.outcome, draft.score)))


def _moves(item: ReviewItem, outcome: EvaluationOutcome, score: float) -> Markdown:
    try:
        return Markdown(sentences.moves(reviews.effect_of(item, outcome, score)))
    except ArmscopeError as problem:
        return wording.literal(problem.problem)


def _acts(known: Open) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key=SEND_HERE):
        st.button(
            "Send all the same" if known.anyway else "Submit and next",
            type="primary",
            shortcut=SEND,
            key=f"submit {known.key}",
            on_click=open_item.send,
            args=(known.key,),
        )
        st.button(
            "Skip", key=f"skip {known.key}", shortcut=SKIP, on_click=open_item.skip, args=(known.key, False)
        )
        st.button(
            "Later", key=f"later {known.key}", shortcut=LATER, on_click=open_item.skip, args=(known.key, True)
        )


def _skip(known: Open) -> None:
    """Show the form for an item that can't be judged."""
    behind = lazy_popover("Set aside", key=f"aside {known.key}")
    if behind is None:
        return
    with behind:
        why = st.text_input(
            "Why can’t it be judged?", key=f"aside why {known.key}", max_chars=MAX_REASON_CHARS
        )
        st.button(
            "Set it aside",
            key=f"set aside {known.key}",
            disabled=not why.strip(),
            on_click=open_item.mark_skipped,
            args=(known.key, why),
        )


def rubric(item: ReviewItem) -> None:
    """By what it is judged: criteria and examples, and what each level means."""
    keys = f"keys 1 to {len(item.levels)}, {SKIP} skip, {LATER} later, Ctrl + Enter sends"
    name = wording.literal(wording.plain(item.rubric_version)) if item.rubric_version else "none named"
    section("Rubric", f"{name} · {keys}")
    height: Literal["content"] | int = "content" if reading().compact else _RUBRIC_PX
    with st.container(border=True, height=height, gap="xsmall", key="review rubric"):
        _criteria(item)


def _criteria(item: ReviewItem) -> None:
    known = item.rubric
    if item.rubric_version and known is None:
        st.markdown(small("This version has no definition: these are the usual levels."))
    if known is not None and known.title:
        st.markdown(f"**{wording.literal(wording.plain(known.title))}**")
    for criterion in () if known is None else known.criteria:
        words = f" {wording.literal(wording.plain(criterion.words))}" if criterion.words else ""
        example = f" {small(wording.literal(wording.plain(criterion.example)))}" if criterion.example else ""
        st.markdown(f"**{wording.literal(wording.plain(criterion.name))}**{words}{example}")
    examples = [(index, level) for index, level in enumerate(item.levels, 1) if level.example]
    if examples:
        small_table(
            {
                "level": [
                    f"{index} {wording.literal(wording.plain(level.words))}" for index, level in examples
                ],
                "example": [wording.literal(wording.plain(level.example)) for _, level in examples],
            },
            alt="Levels with their examples",
        )
