"""Page of the review: one item after another with evidence and rubric; also pairs, many at once, queues."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from core.records.review import QueueRow
from dashboard import reviews
from dashboard.reading import reading
from dashboard.sentences import review as sentences
from dashboard.who import own_name
from dashboard.widgets.keys import JUDGE_SIDE
from dashboard.widgets.parts import both_ends, gray, muted, no_arms, panel, sentence
from dashboard.widgets.review import asking, making, open_item, queue
from dashboard.widgets.review.evidence import evidence, shown_pair, side_by_side
from dashboard.widgets.review.judgement import judgement


def page() -> None:
    rows = reviews.all_queues()
    if reading().frame.n_arms == 0 and not rows:
        no_arms("Review")
        return
    how = queue.way()
    if how == "one":
        one_by_one(rows)
        return
    open_item.let_go()
    if how == "pairs":
        two()
    elif how == "many":
        sentence(("One judgement of many, as one act.",), reading().tokens)
        queue.modes()
        with panel("Many at once"):
            asking.many()
    else:
        sentence(sentences.queues(rows), reading().tokens)
        queue.modes()
        with panel("Active queues"):
            making.queues_by_state(rows)
        left, right = st.columns(2, gap="large")
        with left, panel("A new queue"):
            making.new_queue()
        with right:
            with panel("Who judges"):
                making.people(rows)
            with panel("Browsers without sign-in", still="the queues still work"):
                queue.browsers()


def one_by_one(rows: Sequence[QueueRow]) -> None:
    if queue.is_renamed():
        muted("The page is read again under the new name.")
        return
    row = queue.chosen(rows)
    known = None if row is None else open_item.opened(row.progress)
    if row is None or known is None:
        queue.modes()
        queue.none()
        return
    queue.say_where(known)
    actor = reading().context.actor
    with both_ends():
        sentence(sentences.review(known.progress, actor), reading().tokens)
        note = sentences.queue_note(known.progress, row, year_of_ms=reading().context.clock())
        st.markdown(gray(note), width="content")
    st.progress(known.progress.judged_by_me / max(known.progress.total, 1))
    if whose := sentences.whose(actor, own_name()):
        muted(whose)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        queue.modes()
        queue.picker(rows, row)
        st.space("stretch")
        queue.browser_name()
        queue.last()
    if known.item is None:
        queue.nothing_left(known.progress)
        return
    left, right = st.columns([7, 5], gap="large")
    with left, panel("Evidence", still="the form still works"):
        evidence(known.item)
    with right, st.container(key=JUDGE_SIDE), panel("Judgement"):
        judgement()


def two() -> None:
    shown = shown_pair()
    left = "Which of two answers is better?" if shown else "No pair is left for you."
    sentence((left,), reading().tokens)
    queue.modes()
    if shown is None:
        muted(
            "A pair is two answers to one instruction whose texts are kept and that you have not compared yet."
        )
        return
    with panel("Pair"):
        side_by_side(shown)


page()
