"""Savings page: four figures with intervals, savings over time, and what is missing where no claim holds.

The chart over time is in per cent, tokens, or money where a price is set. The choice is in the address.
"""

from __future__ import annotations

from typing import Final, Literal

import streamlit as st

from core.maths.statistics.savings import Savings, recommended_rate
from core.maths.statistics.savings.plan import runs_until
from core.maths.statistics.savings.sums import MIN_FOR_FIGURE
from dashboard import pages, wording
from dashboard.figures.chart import Chart
from dashboard.figures.savings_time import money_time, savings_time, tokens_time
from dashboard.reading import pictured_once, reading
from dashboard.sentences import savings as sentences
from dashboard.widgets.charts import time_chart
from dashboard.widgets.fields import choice
from dashboard.widgets.parts import command, empty, section
from dashboard.wording import Words

UNIT: Final = "unit"

Unit = Literal["percent", "tokens", "money"]
_WORDS: Final[dict[Unit, str]] = {"percent": "%", "tokens": "Tokens", "money": "Money"}

_FINE = "✓ fine"
_ENOUGH = "✓ enough"


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
    unit = choice("Unit", {one: _WORDS[one] for one in units}, "percent", key=UNIT)
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


def what_is_missing(saved: Savings) -> None:
    """Draw the whole page while there is no figure."""
    here = reading()
    settings = here.frame.settings
    rate = saved.recommended_rate or recommended_rate(here.frame.n_arms) or 0.1
    overall = saved.overall
    empty(
        sentences.savings(saved),
        "The picture appears here as soon as both groups have at least 2 runs with known token usage.",
        rows={
            "needed": ["phase", "baseline rate", "selected runs", "baseline runs"],
            "now": [
                settings.phase,
                wording.percent(settings.baseline_rate, 0),
                wording.count(overall.selected.n_known),
                wording.count(overall.baseline.n_known),
            ],
            "which is": [
                _FINE if settings.phase == "active" else _warning("nothing is selected while passive"),
                _FINE if settings.baseline_rate > 0 else _warning("no run can become a baseline run"),
                _group(overall.selected.n_known),
                _group(overall.baseline.n_known),
            ],
        },
        to_do=_to_do(saved, rate),
        shell=_command(rate),
        elsewhere=(pages.SETTINGS, Words("Or change it here"))
        if here.may("settings") and _is_set_off()
        else None,
    )


def _is_set_off() -> bool:
    """Return whether a setting prevents it."""
    settings = reading().frame.settings
    return settings.phase == "passive" or settings.baseline_rate == 0


def _group(n_known: int) -> str:
    return _ENOUGH if n_known >= MIN_FOR_FIGURE else _warning("at least 2 are needed")


def _warning(words: str) -> str:
    return f":yellow[:material/warning:] {words}"


def _to_do(saved: Savings, rate: float) -> Words:
    frame = reading().frame
    share = wording.percent(rate, 0)
    if frame.settings.phase == "passive":
        return Words("**Switch the learner to active**; from then on armscope chooses the arms of each run.")
    if frame.settings.baseline_rate == 0:
        return (
            f"**Set the baseline rate to {share}**, the recommendation for "
            f"{wording.things(frame.n_arms, 'arm')}. {_how_long(saved, rate)}"
        )
    if saved.left_out.imported:
        return (
            f"**Let armscope choose the arms of new runs.** The {wording.count(saved.left_out.imported)} "
            "imported runs were not drawn by armscope; they cannot be compared. "
            f"{_how_long(saved, frame.settings.baseline_rate)}"
        )
    return (
        "**Let your agent ask armscope** what goes into its prompt; every run it records counts here. "
        f"{_how_long(saved, frame.settings.baseline_rate)}"
    )


def _how_long(saved: Savings, rate: float) -> Words:
    """After how many runs there is a first figure, and a good one."""
    first = f"After about {wording.count(max(2 / rate, 2))} runs there is a first figure"
    if saved.variation is None:
        return f"{first}."
    target = saved.need.target_points
    n_runs = runs_until(target, variation=saved.variation, baseline_rate=rate)
    if n_runs is None:
        return f"{first}."
    about = wording.count(float(f"{n_runs:.2g}"))
    return f"{first}; if runs vary as those so far, after about {about} it is good to ± {target:g} points."


def _command(rate: float) -> str:
    settings = reading().frame.settings
    if settings.phase == "passive":
        return command("settings set phase active")
    if settings.baseline_rate == 0:
        return command(f"settings set baseline_rate {rate:.2f}")
    return command("select --json")
