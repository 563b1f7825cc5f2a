"""Page of one environment: totals, success over time, patterns, findings, models, groups and scale."""

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
    environment = story.requested()
    if environment is None:
        return
    sentence(sentences.environment(environment), here.tokens)
    muted(sentences.averages_line(environment.summary))
    story.links(environment)
    with panel("The environment in figures"):
        story.figures(environment)
    st.space("small")
    left, right = st.columns(2, gap="large")
    with left, panel("Totals of the episodes"):
        story.spread(environment)
    with right, panel("Success over time"):
        progress.success_over_time(environment)
    left, right = st.columns(2, gap="large")
    with left, panel("Pattern"):
        design.pattern(environment)
    with right, panel("What may be wrong"):
        design.findings(environment)
    with panel("Models on the same tasks"):
        contest.contest(environment)
    with panel("Groups"):
        story.groups(environment)
    with panel("Scale"):
        scale.form(environment)
    how_it_is_computed("environments", "understand-rewards")


page()
