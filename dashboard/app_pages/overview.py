"""Page of the overview: one sentence from the data, attention list, key figures, bands, best and worst arms."""

from __future__ import annotations

import streamlit as st

from core.maths.statistics.overview import Overview
from dashboard import queries
from dashboard.figures import bands as band_figure
from dashboard.figures.arms import ranked_rows
from dashboard.figures.bands import bands
from dashboard.figures.ladder import ladder
from dashboard.pages import STEPS
from dashboard.reading import pictured_once, reading
from dashboard.sentences import overview as sentences
from dashboard.widgets import experiments, trials
from dashboard.widgets.charts import chart
from dashboard.widgets.opening import arm_chart
from dashboard.widgets.overview import attention, carried, changes
from dashboard.widgets.parts import compacted, link, muted, no_arms, panel, section, sentence, small_table


def page() -> None:
    here = reading()
    overview = queries.overview()
    stored = carried.machine()
    if overview.n_arms == 0 and (stored is None or here.frame.n_arms):
        no_arms("The overview")
        return
    is_imported = sentences.is_imported(overview)
    if stored is not None and is_imported:
        carried.first(stored)
    else:
        sentence(sentences.overview(overview, queries.savings()), here.tokens)
        compacted(None, here.frame.unpriced)
        if not is_imported:
            with panel("The saving"):
                attention.saving(overview)
        elif stored is None:
            carried.missing()
    if overview.n_arms > 0:
        st.space("xsmall")
        _learned(overview)
    if stored is not None and not is_imported:
        st.space("small")
        with panel("What agents carry"):
            carried.table(stored)
    if here.frame.is_demo and not here.presenting:
        link(STEPS, "First steps")
        experiments.play_on()


def _learned(overview: Overview) -> None:
    here = reading()
    left, right = st.columns([7, 5], gap="large")
    with left, panel("Needs attention"):
        attention.head()
        trials.used_and_harming(experiments_too=False)
        attention.rows(overview)
    with right, panel("What changed"):
        changes.head()
        changes.rows()
    st.space("xsmall")
    with panel("Key figures"):
        attention.cards(overview)
    st.space("small")
    left, right = st.columns([5, 7], gap="large")
    with left, panel("How sure are we?"):
        section("How sure are we?")
        selects = not sentences.is_imported(overview)
        st.markdown(sentences.bands(overview.bands, here.frame.settings.min_pulls, selects=selects))
        chart(pictured_once("bands", lambda: bands(overview.bands, here.tokens)), key="bands")
        small_table(band_figure.table(overview.bands), alt="Arms by confidence band")
    with right, panel("Most and least used"):
        ranked = ranked_rows(sorted([*overview.top, *overview.bottom], key=lambda arm: arm.rank))
        figure = pictured_once("ladder", lambda: ladder(ranked, here.tokens, compact=here.compact))
        note = f"mean and 95% interval, {overview.ranked_min_pulls} pulls or more"
        section("Most and least used", note, table=figure.table, key="ladder")
        if ranked:
            arm_chart(figure, [row.key for row in ranked], key="ladder")
        else:
            muted(f"No arm has {overview.ranked_min_pulls} pulls yet; they appear here then.")


page()
