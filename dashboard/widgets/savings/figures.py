"""Figures of savings: four numbers with their intervals, none in green or red, and savings over time.

The figure over time is in per cent, in tokens, or in money where a price is set; the choice is in the address.
"""

from __future__ import annotations

from typing import Final, Literal

import streamlit as st

from core.statistics.savings import Savings
from dashboard import sentences, wording
from dashboard.figures.chart import Chart
from dashboard.figures.savings_time import money_time, savings_time, tokens_time
from dashboard.reading import pictured_once, reading
from dashboard.widgets.charts import time_chart
from dashboard.widgets.words import section
from dashboard.wording import Words

UNIT: Final = "unit"

Unit = Literal["percent", "tokens", "money"]
_WORDS: Final[dict[Unit, str]] = {"percent": "%", "tokens": "Tokens", "money": "Money"}


def row(saved: Savings) -> None:
    """Draw tokens saved, duration, error rate, baseline runs still needed."""
    cards = st.grid(4, min_column_width=160)
    for label, value, below, help_text in _cards(saved):
        cards.metric(
            label,
            value,
            below,
            delta_color="off",
            delta_arrow="off",
            help=help_text,
            border=True,
            height="stretch",
        )


def _cards(saved: Savings) -> list[tuple[Words, Words, Words | None, Words]]:
    overall, need = saved.overall, saved.need
    tokens, duration = overall.tokens_saved, overall.duration_saved_percent
    selected, baseline = overall.selected.error_rate, overall.baseline.error_rate
    more = need.n_more
    half = need.half_width_points
    return [
        (
            Words("Tokens saved per run"),
            wording.MISSING if tokens.value is None else wording.count(tokens.value),
            sentences.amount_limits(tokens),
            Words(
                "Mean tokens of baseline runs minus selected runs, at the same mix of models and channels; below: "
                "95% interval."
            ),
        ),
        (
            Words("Duration"),
            wording.MISSING if duration.value is None else wording.change(-duration.value, 1, "%"),
            sentences.amount_limits(duration, negative=True, percent=True),
            Words("How much longer or shorter selected runs take than baseline runs; below: 95% interval."),
        ),
        (
            Words("Error rate"),
            wording.MISSING if selected is None else wording.percent(selected),
            None if baseline is None else f"{wording.percent(baseline)} in baseline runs",
            Words(
                "Share of selected runs that ended with an error; the table below has the interval of the difference."
            ),
        ),
        (
            Words("Baseline runs needed"),
            wording.MISSING if more is None else wording.count(more),
            None if half is None else f"± {half:.1f} points now",
            f"How many more until the interval of the savings is ± {need.target_points:g} points.",
        ),
    ]


def over_time(saved: Savings) -> None:
    """Draw the head with the choice of unit, and the figure."""
    head = st.container()
    units: list[Unit] = ["percent", "tokens"] if saved.money is None else ["percent", "tokens", "money"]
    choice = st.segmented_control(
        "Unit",
        units,
        default="percent",
        required=True,
        format_func=lambda unit: _WORDS.get(unit, ""),
        key=UNIT,
        bind="query-params",
        label_visibility="collapsed",
    )
    unit = next((name for name in units if name == choice), units[0])
    figure = pictured_once(("time", unit), lambda: _picture(saved, unit))
    with head:
        section("Savings over time", sentences.path_note(saved), table=figure.table, key="time")
    time_chart(figure, key="time")


def _picture(saved: Savings, unit: Unit) -> Chart:
    here = reading()
    if unit == "money" and saved.money is not None:
        return money_time(saved.money.total, saved.over_time, here.tokens, compact=here.compact)
    if unit == "tokens":
        return tokens_time(saved.tokens, saved.over_time, here.tokens, compact=here.compact)
    return savings_time(saved.over_time, here.tokens, compact=here.compact)
