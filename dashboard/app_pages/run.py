"""Run: why each arm was in its prompt or left out, what was seen of it, and what would have flipped it."""

from __future__ import annotations

import streamlit as st

from dashboard import loading, sentences
from dashboard.widgets import run_story
from dashboard.widgets.panel import panel
from dashboard.widgets.run_tables import decision_table
from dashboard.widgets.words import muted, section, sentence


def page() -> None:
    here = loading.reading()
    story = run_story.wanted()
    if story is None:
        return
    sentence(sentences.run(story), here.tokens)
    muted(sentences.run_facts(story, year_of_ms=here.frame.last_at_ms))
    run_story.ways_on(story)
    with panel("The run in figures"):
        run_story.figures(story)
    with panel("The verdict"):
        run_story.verdict(story)
    st.space("small")
    with panel("Why in, why out", still="the facts above still hold"):
        section("Why in, why out", sentences.selection_note(story))
        if story.arms:
            decision_table(story)
        else:
            muted("No arm was put to the test.")
    with panel("What people said"):
        run_story.by_hand(story)
    with panel("Where they were recognised"):
        run_story.excerpts(story)
    with panel("What the prompt said of tools left out"):
        run_story.guidance(story)


page()
