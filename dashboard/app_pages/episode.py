"""Page of one episode: rewards step by step, its runs, and their possible credit."""

from __future__ import annotations

import streamlit as st

from dashboard import sentences
from dashboard.reading import reading
from dashboard.widgets.episode import credit, steps, story
from dashboard.widgets.panel import panel
from dashboard.widgets.words import muted, sentence


def page() -> None:
    here = reading()
    seen = story.wanted()
    if seen is None:
        return
    sentence(sentences.episode(seen), here.tokens)
    muted(sentences.episode_facts(seen, year_of_ms=here.frame.last_at_ms))
    story.links(seen)
    with panel("The episode in figures"):
        story.figures(seen)
    st.space("small")
    with panel("Reward by step", still="the table below still works"):
        steps.picture(seen)
    with panel("Its steps", still="the picture above still works"):
        steps.table(seen)
    with panel("What a step was asked and answered"):
        steps.texts(seen)
    with panel("Parts"):
        story.parts(seen)
    with panel("Credit"):
        credit.credit(seen)
    with panel("Runs made in it"):
        story.runs(seen)


page()
