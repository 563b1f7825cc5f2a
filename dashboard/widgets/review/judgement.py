"""Judgement: a level by one digit, or a score by hand; its effect; submit and next by Ctrl + Enter.

The browser holds a level and the feedback (``browser.js``). After a pause it asks for the effect, and the server
stores the draft. So one key sends a choice in one script run.
"""

from __future__ import annotations

from functools import partial
from typing import Final, Literal, get_args

import streamlit as st

from core.errors import ArmscopeError
from core.maths.evaluate import grade
from core.records.evaluation import MAX_FEEDBACK_CHARS, EvaluationOutcome
from core.records.review import MAX_REASON_CHARS, Draft, ReviewItem
from core.records.times import MINUTE_MS
from dashboard import reviews, wording
from dashboard.reading import reading
from dashboard.sentences import review as sentences
from dashboard.widgets.fields import lazy_popover
from dashboard.widgets.keys import JUDGE_BAR, JUDGE_EFFECT, SEND, SEND_HERE
from dashboard.widgets.parts import both_ends, paragraphs, section, small, small_table
from dashboard.widgets.results import result
from dashboard.widgets.review import open_item
from dashboard.widgets.review.open_item import Open
from dashboard.wording import Markdown, Words

JUDGE_HERE: Final = "judge-here"
"""Key of what holds the text that reaches the server when one stops typing."""
LEVELS: Final = "judge levels"
"""Key of what a digit chooses in."""
_HELD: Final[Literal["ignore"]] = "ignore"
"""The browser holds a change until something is sent."""
PUT_OFF: Final = "S"
LATER: Final = "L"
_OUTCOMES: Final[tuple[EvaluationOutcome, ...]] = get_args(EvaluationOutcome)


def judgement() -> None:
    """Show the form: levels, feedback, acts, effect and rubric. Sending it is one script run, a level none."""
    known = open_item.now()
    if known is None or known.item is None:
        return
    is_compact = reading().compact
    with both_ends():
        st.header(f"Judgement {small(_held(known.item))}", anchor=False, width="content")
        _skip(known)
    st.markdown(sentences.judges(known.item, reading().frame.settings.evaluation_credit))
    with st.container(border=True, key=JUDGE_HERE, gap="small"):
        for line in open_item.messages():
            st.markdown(f":gray[:material/info:] {line}")
        if not is_compact:
            _levels(known)
        st.text_area(
            "Feedback, optional",
            key=open_item.feedback_key(known),
            height=68,
            max_chars=MAX_FEEDBACK_CHARS,
            placeholder="What would have made it better?",
            on_change=_HELD,
        )
        if not is_compact:
            _acts(known)
        _effect(known)
        _by_hand(known)
    result(open_item.HERE)
    _rubric(known.item)
    if is_compact:
        with st.container(key=JUDGE_BAR, gap="small"):
            _levels(known)
            _acts(known)
    else:
        st.markdown(small(f"1 to {len(known.item.levels)} choose a level, U takes the last judgement back."))


def _held(item: ReviewItem) -> Words:
    now_ms = reading().context.clock()
    if item.hold_until_ms > now_ms:
        minutes = -(-(item.hold_until_ms - now_ms) // MINUTE_MS)
        return f"reserved for you for {minutes} min"
    return Words("not reserved for you now")


def _levels(known: Open) -> None:
    """Draw a button for each level, with its digit. The browser holds the choice until something is sent."""
    item = known.item
    if item is None:
        return
    with_key = not reading().compact
    words = {
        index: sentences.level_words(index, level, with_key=with_key)
        for index, level in enumerate(item.levels, 1)
    }
    with st.container(key=LEVELS):
        st.pills(
            "Level",
            list(words),
            format_func=lambda index: words[index],
            key=open_item.level_key(known),
            on_change=_HELD,
            label_visibility="collapsed",
        )


@st.fragment
def _effect(known: Open) -> None:
    """Show what the choice comes to, below the buttons, so that nothing moves; while one types, it alone is drawn."""
    known = open_item.now() or known
    if known.item is None:
        return
    _comes_to(known.item, open_item.typed(known))
    with st.container(key=JUDGE_EFFECT):
        st.button(
            "Show the effect",
            type="tertiary",
            key=f"effect {known.key}",
            on_click=open_item.keep,
            args=(known.key,),
        )
    if known.item.meanwhile and not known.problem:
        st.markdown(f":orange[:material/info:] {sentences.meanwhile(known.item)}")
    if known.problem:
        st.markdown(f":red[:material/error: {wording.literal(known.problem)}]")


def _by_hand(known: Open) -> None:
    """Draw outcome and score, folded: a level has both."""
    draft = open_item.typed(known)
    is_used = draft.level is None and (draft.outcome is not None or draft.score is not None)
    with st.expander("Score by hand", expanded=is_used, key=f"by hand {known.key}"):
        left, right = st.columns(2)
        keep = partial(open_item.by_hand, known.key)
        with left:
            st.segmented_control(
                "Outcome",
                _OUTCOMES,
                key=open_item.outcome_key(known),
                format_func=str.capitalize,
                on_change=keep,
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


def _comes_to(item: ReviewItem, draft: Draft) -> None:
    """Draw grade, blockers and what it would move, before it is sent, under the choice's name."""
    if draft.outcome is None or draft.score is None:
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
    words: Markdown = sentences.judged(draft.outcome, draft.score)
    if draft.level is not None:
        words = f"{wording.literal(item.levels[draft.level - 1].words)}: {words}"
    paragraphs("  \n".join((f"**{words}**", *lines)), small(_moves(item, draft.outcome, draft.score)))


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
        for words, key, returns in (("Put off", PUT_OFF, False), ("Later", LATER, True)):
            st.button(
                words,
                key=f"{words.lower()} {known.key}",
                shortcut=key,
                on_click=open_item.put_off,
                args=(known.key, returns),
            )


def _skip(known: Open) -> None:
    behind = lazy_popover("Skip", key=f"skip {known.key}")
    if behind is None:
        return
    with behind:
        why = st.text_input(
            "Why can’t it be judged?", key=f"skip why {known.key}", max_chars=MAX_REASON_CHARS
        )
        st.button(
            "Skip it",
            key=f"skip it {known.key}",
            disabled=not why.strip(),
            on_click=open_item.skip,
            args=(known.key, why),
        )


def _rubric(item: ReviewItem) -> None:
    """By what it is judged: criteria and examples, and what each level means; without a rubric, what that means."""
    if not item.rubric_version:
        st.markdown(small(sentences.NO_RUBRIC))
        return
    section("Rubric", wording.literal(wording.plain(item.rubric_version)))
    known = item.rubric
    if known is None:
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
