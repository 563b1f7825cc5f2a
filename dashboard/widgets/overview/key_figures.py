"""Key figures: the saving with its guardrail and picture, and five cards; green and red never mean better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import streamlit as st

from core.records.arm import MICRO
from core.statistics.overview import FigureName, Overview
from dashboard import pages, queries, sentences
from dashboard.figures.saving import saved_share
from dashboard.figures.saving import saving as picture_of
from dashboard.figures.spark import spark
from dashboard.reading import pictured_once, reading
from dashboard.widgets.charts import chart
from dashboard.widgets.navigation import how_it_is_computed, link
from dashboard.widgets.overview.attention import ICONS
from dashboard.widgets.words import muted, paragraphs

_LAST_DAYS: Final = 60


def saving(overview: Overview) -> None:
    """Draw the failures, what the month saved, and one picture of the saving; without an interval what is missing."""
    here = reading()
    shown = saved_share(overview.savings, overview.money)
    if shown is None:
        muted(sentences.pending(overview.savings, rate=here.frame.settings.baseline_rate))
        return
    left, right = st.columns([5, 7], gap="large", vertical_alignment="center")
    with left:
        _beside(overview)
    with right:
        picture = pictured_once("saving", lambda: picture_of(shown, here.tokens, compact=here.compact))
        chart(picture, key="saving")


def _beside(overview: Overview) -> None:
    here = reading()
    guardrail = sentences.failures(overview.savings)
    colour = here.tokens.severities[guardrail.severity]
    icon = f':color[:material/{ICONS[guardrail.severity]}:]{{foreground="{colour}"}}'
    months = queries.months()
    paragraphs(
        f"{icon}&ensp;{guardrail.words}",
        *(() if months is None else (sentences.month(months, here.pages.clock()),)),
    )
    with st.container(horizontal=True, gap="small"):
        how_it_is_computed("savings", "savings")
        if months is not None and not months[0].is_money and here.may("settings"):
            link(pages.SETTINGS, "Set prices")


def row(overview: Overview) -> None:
    """Five in a row, two on a phone."""
    cards = st.grid(5, min_column_width=160)
    for figure in overview.figures:
        label, value, change = sentences.figure_card(figure, overview)
        with cards.container(border=True, height="stretch", gap="small", key=f"figure {figure.name}"):
            st.metric(
                label,
                value,
                change,
                delta_color="off",
                delta_arrow="off",
                delta_description=None
                if change is None or figure.name == "saved_percent"
                else "in 7 days"
                if reading().compact
                else "last 7 days of data",
            )
            _line(overview, figure.name)


def _line(overview: Overview, name: FigureName) -> None:
    """Draw the values by day behind a figure; nothing where there are none to draw."""
    pulls_micro = overview.series.pulls_micro
    series = {
        "runs": overview.series.runs,
        "arms_in_use": overview.series.arms_in_use,
        "pulls": None if pulls_micro is None else pulls_micro / MICRO,
        "tokens_per_selected_run": overview.series.tokens_per_selected_run,
        "tokens_per_run": overview.series.tokens_per_run,
        "saved_percent": overview.series.saved_percent,
    }.get(name)
    if series is None:
        return
    known = np.asarray(series, dtype=np.float64)[-_LAST_DAYS:]
    known = known[np.isfinite(known)]
    if len(known) > 1:
        values: Sequence[float] = known.tolist()
        st.html(spark(values, reading().tokens, alt=sentences.by_day(name, values)))
