"""Page of confidence: arms by type and band, missing pulls, interval width against pulls, unread observations."""

from __future__ import annotations

import streamlit as st

from dashboard import queries
from dashboard.figures.bands import bands_by_type
from dashboard.figures.width_pulls import width_pulls
from dashboard.reading import pictured_once, reading
from dashboard.sentences import confidence as sentences
from dashboard.widgets import confidence
from dashboard.widgets.charts import band_legend, chart, table_once, type_legend
from dashboard.widgets.parts import how_it_is_computed, muted, no_arms, panel, section, sentence


def page() -> None:
    here = reading()
    known = queries.confidence()
    if known.n_arms == 0:
        no_arms("What is known of the arms")
        return
    sentence(sentences.confidence(known), here.tokens)
    st.space("xsmall")
    left, right = st.columns([5, 7], gap="large")
    with left:
        with panel("Arms by type and band"):
            figure = pictured_once("types", lambda: bands_by_type(known.by_type, here.tokens))
            section("Arms by type and band", table=figure.table, key="types")
            band_legend(here.tokens)
            chart(figure, key="types")
        with panel("What the arms need"):
            confidence.needs(known)
    with right:
        with panel("Interval width against pulls"):
            figure = pictured_once("widths", lambda: width_pulls(known, here.tokens, compact=here.compact))
            section("Interval width against pulls", table=figure.table, key="widths")
            st.markdown(
                "Grey boxes: typical width of each band, as documented. They hold for means near 0 or 1; an arm "
                "near 0.5 is **wider than its band says**, as the solid curve shows."
            )
            chart(figure, key="widths")
            type_legend(here.tokens)
            muted(sentences.wider(known))
        with panel("Bands as measured"):
            section("Bands as measured", "width of the exact 95% interval")
            alt = "Bands with their measured and documented widths"
            table_once("bands measured", lambda: sentences.bands_measured(known), alt=alt)
        with panel("Unread observations"):
            confidence.unread()
    how_it_is_computed("savings", "pulls")


page()
