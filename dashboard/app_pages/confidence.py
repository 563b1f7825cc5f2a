"""Page of confidence: arms by type and band, and the pulls that each needs for the next band."""

from __future__ import annotations

import streamlit as st

from dashboard import queries
from dashboard.figures.bands import bands_by_type
from dashboard.reading import pictured_once, reading
from dashboard.sentences import confidence as sentences
from dashboard.widgets import confidence
from dashboard.widgets.charts import band_legend, chart
from dashboard.widgets.parts import how_it_is_computed, muted, no_arms, panel, section, sentence


def page() -> None:
    here = reading()
    known = queries.confidence()
    if known.n_arms == 0:
        no_arms("What is known of the arms")
        return
    sentence(sentences.confidence(known), here.tokens)
    muted("Bands count pulls, intervals say how sure.")
    st.space("xsmall")
    left, right = st.columns([5, 7], gap="large")
    with left, panel("Arms by type and band"):
        figure = pictured_once("types", lambda: bands_by_type(known.by_type, here.tokens))
        section("Arms by type and pulls", table=figure.table, key="types")
        chart(figure, key="types")
        band_legend(here.tokens)
    with right, panel("What the arms need"):
        confidence.needs(known)
        confidence.unread()
    how_it_is_computed("savings", "confidence")


page()
