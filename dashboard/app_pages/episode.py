"""Page of one episode: rewards step by step, its runs, and the share of the rewards that they can be given."""

from __future__ import annotations

import streamlit as st

from dashboard.reading import reading
from dashboard.sentences import episode as sentences
from dashboard.widgets import episode as widgets
from dashboard.widgets.parts import muted, panel, sentence


def page() -> None:
    here = reading()
    episode = widgets.requested()
    if episode is None:
        return
    sentence(sentences.episode(episode), here.tokens)
    muted(sentences.episode_facts(episode, year_of_ms=here.frame.last_at_ms))
    widgets.finding(episode)
    widgets.links(episode)
    with panel("The episode in figures"):
        widgets.figures(episode)
    st.space("small")
    with panel("Reward by step", still="the table below still works"):
        widgets.picture(episode)
    with panel("Its steps", still="the picture above still works"):
        widgets.step_table(episode)
    with panel("What a step was asked and answered"):
        widgets.step_texts(episode)
    with panel("Conversation", still="the steps above still hold"):
        widgets.conversations(episode)
    with panel("Parts"):
        widgets.parts(episode)
    with panel("Credit"):
        widgets.credit(episode)
    with panel("Runs made in it"):
        widgets.runs(episode)


page()
