"""Page of one run: why each arm was included or left out, its evidence, and what would have changed the choice."""

from __future__ import annotations

import streamlit as st

from dashboard import sentences
from dashboard.reading import reading
from dashboard.widgets.navigation import how_it_is_computed
from dashboard.widgets.panel import panel
from dashboard.widgets.run import decisions, judging, story
from dashboard.widgets.words import muted, section, sentence


def page() -> None:
    here = reading()
    told = story.wanted()
    if told is None:
        return
    sentence(sentences.run(told), here.tokens)
    muted(sentences.run_facts(told, year_of_ms=here.frame.last_at_ms))
    story.links(told)
    with panel("The run in figures"):
        story.figures(told)
    with panel("The verdict"):
        story.verdict(told)
    st.space("small")
    with panel("Why in, why out", still="the facts above still hold"):
        section("Why in, why out", sentences.selection_note(told))
        if told.arms:
            decisions.table(told)
        else:
            muted("No arm was put to the test.")
    if judging.may_judge(told):
        with panel("Judge"):
            judging.panel_of(told)
    with panel("What people said"):
        story.by_hand(told)
    with panel("Evaluations"):
        story.evaluations(told)
    with panel("Where they were recognised"):
        story.excerpts(told)
    with panel("What the prompt said of tools left out"):
        story.guidance(told)
    how_it_is_computed("savings", "detection")


page()
