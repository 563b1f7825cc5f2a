"""Four figures of the savings page; each with its interval in the small line, none in green or red."""

from __future__ import annotations

import streamlit as st

from core.statistics.savings import Savings
from dashboard import sentences, wording


def row(saved: Savings) -> None:
    """Tokens saved, duration, error rate, baseline runs still needed."""
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


def _cards(saved: Savings) -> list[tuple[str, str, str | None, str]]:
    overall, need = saved.overall, saved.need
    tokens, duration = overall.tokens_saved, overall.duration_saved_percent
    selected, baseline = overall.selected.error_rate, overall.baseline.error_rate
    more = need.n_more
    half = need.half_width_points
    return [
        (
            "Tokens saved per run",
            wording.MISSING if tokens.value is None else wording.count(tokens.value),
            sentences.amount_limits(tokens),
            "Mean tokens of baseline runs minus selected runs, at the same mix of models and channels; below: "
            "95% interval.",
        ),
        (
            "Duration",
            wording.MISSING if duration.value is None else wording.change(-duration.value, 1, "%"),
            sentences.amount_limits(duration, negative=True, percent=True),
            "How much longer or shorter selected runs take than baseline runs; below: 95% interval.",
        ),
        (
            "Error rate",
            wording.MISSING if selected is None else wording.percent(selected),
            None if baseline is None else f"{wording.percent(baseline)} in baseline runs",
            "Share of selected runs that ended with an error; the table below has the interval of the difference.",
        ),
        (
            "Baseline runs needed",
            wording.MISSING if more is None else wording.count(more),
            None if half is None else f"± {half:.1f} points now",
            f"How many more until the interval of the savings is ± {need.target_points:g} points.",
        ),
    ]
