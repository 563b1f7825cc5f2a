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
    episode = story.requested()
    if episode is None:
        return
    sentence(sentences.episode(episode), here.tokens)
    muted(sentences.episode_facts(episode, year_of_ms=here.frame.last_at_ms))
    story.finding(episode)
    story.links(episode)
    with panel("The episode in figures"):
        story.figures(episode)
    st.space("small")
    with panel("Reward by step", still="the table below still works"):
        steps.picture(episode)
    with panel("Its steps", still="the picture above still works"):
        steps.table(episode)
    with panel("What a step was asked and answered"):
        steps.texts(episode)
    with panel("Conversation", still="the steps above still hold"):
        story.conversations(episode)
    with panel("Parts"):
        story.parts(episode)
    with panel("Credit"):
        credit.credit(episode)
    with panel("Runs made in it"):
        story.runs(episode)


page()
