"""Page of one environment: totals, success over time, patterns, findings, models, groups and scale."""

from __future__ import annotations

import streamlit as st

from dashboard.reading import reading
from dashboard.sentences import rewards as sentences
from dashboard.widgets import environment as widgets
from dashboard.widgets.parts import how_it_is_computed, muted, panel, sentence


def page() -> None:
    here = reading()
    environment = widgets.requested()
    if environment is None:
        return
    sentence(sentences.environment(environment), here.tokens)
    muted(sentences.averages_line(environment.summary))
    widgets.links(environment)
    with panel("Several attempts"):
        widgets.attempts(environment)
    st.space("small")
    left, right = st.columns(2, gap="large")
    with left, panel("Totals of the episodes"):
        widgets.spread(environment)
    with right, panel("Success over time"):
        widgets.success_over_time(environment)
    left, right = st.columns(2, gap="large")
    with left, panel("Pattern"):
        widgets.pattern(environment)
    with right, panel("What may be wrong"):
        widgets.findings(environment)
    with panel("Models on the same tasks"):
        widgets.contest(environment)
    with panel("Groups"):
        widgets.groups(environment)
    with panel("Scale"):
        widgets.scale_form(environment)
    how_it_is_computed("environments", "understand-rewards")


page()
