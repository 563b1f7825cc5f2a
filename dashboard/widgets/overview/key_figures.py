"""Key figures: five cards with value, change and a neutral line by day; green and red never mean better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import streamlit as st

from core.records.arm import MICRO
from core.statistics.overview import FigureName, Overview
from dashboard import sentences
from dashboard.figures.spark import spark
from dashboard.reading import reading

_LAST_DAYS: Final = 60


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
                delta_description="last 7 days of data"
                if change is not None and figure.name != "saved_percent"
                else None,
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
