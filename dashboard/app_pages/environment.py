"""Page of one environment: rewards, their spread over time, pattern and findings."""

from __future__ import annotations

import streamlit as st

from dashboard import sentences
from dashboard.reading import reading
from dashboard.widgets import progress
from dashboard.widgets.environment import contest, design, scale, story
from dashboard.widgets.navigation import how_it_is_computed
from dashboard.widgets.panel import panel
from dashboard.widgets.words import muted, sentence


def page() -> None:
    here = reading()
    seen = story.wanted()
    if seen is None:
        return
    sentence(sentences.environment(seen), here.tokens)
    muted(sentences.averages_line(seen.summary))
    story.links(seen)
    with panel("The environment in figures"):
        story.figures(seen)
    st.space("small")
    left, right = st.columns(2, gap="large")
    with left, panel("What episodes came to"):
        story.spread(seen)
    with right, panel("Success over time"):
        progress.going_on(seen)
    left, right = st.columns(2, gap="large")
    with left, panel("Pattern"):
        design.pattern(seen)
    with right, panel("What may be wrong"):
        design.findings(seen)
    with panel("Models on the same tasks"):
        contest.contest(seen)
    with panel("Groups"):
        story.groups(seen)
    with panel("Scale"):
        scale.form(seen)
    how_it_is_computed("environments", "understand-rewards")


page()
