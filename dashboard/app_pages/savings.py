"""Savings: baseline against selected runs, with intervals; or why nothing can be claimed yet."""

from __future__ import annotations

import streamlit as st

from dashboard import loading, sentences
from dashboard.figures.distributions import distributions
from dashboard.figures.savings_time import savings_time
from dashboard.figures.strata import strata
from dashboard.widgets import no_savings, savings_figures
from dashboard.widgets.chart import chart
from dashboard.widgets.panel import panel
from dashboard.widgets.words import muted, section, sentence


def page() -> None:
    here = loading.reading()
    saved = loading.savings()
    if saved.overall.saved_percent.value is None:
        no_savings.what_is_missing(saved)
        return
    sentence(sentences.savings(saved), here.tokens)
    muted(sentences.savings_numbers(saved))
    st.space("xsmall")
    with panel("Savings in figures"):
        savings_figures.row(saved)
    st.space("small")
    left, right = st.columns(2, gap="large")
    with left, panel("Tokens per run"):
        drawn = loading.pictured_once(
            "tokens", lambda: distributions(saved, here.tokens, compact=here.compact)
        )
        section("Tokens per run", "smoothed, equal heights", table=drawn.table, key="tokens")
        chart(drawn, key="tokens")
    with right, panel("Savings over time"):
        drawn = loading.pictured_once(
            "time", lambda: savings_time(saved.over_time, here.tokens, compact=here.compact)
        )
        section("Savings over time", "cumulative, band: 95% interval", table=drawn.table, key="time")
        chart(drawn, key="time")
    st.space("small")
    with panel("The same by model and channel"):
        drawn = loading.pictured_once("strata", lambda: strata(saved, here.tokens, compact=here.compact))
        note = "dotted line: all runs; a row needs 2 runs in each group"
        section("The same by model and channel", note, table=drawn.table, key="strata")
        chart(drawn, key="strata")
    n_arms, rate = here.frame.n_arms, here.frame.settings.baseline_rate
    st.markdown(sentences.share_words(saved, configured=rate, n_arms=n_arms))
    muted("Runs of one session influence each other, so the true interval may be wider.")


page()
