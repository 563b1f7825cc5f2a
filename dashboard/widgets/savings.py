"""Savings page: four figures with intervals, savings over time, and what is missing where no claim holds.

The chart over time is in per cent, tokens, or money where a price is set. The choice is in the address.
"""

from __future__ import annotations

from typing import Final, Literal

import streamlit as st

from core.explained.arms import SAVINGS
from core.maths.statistics.savings import ClassFigures, Savings, recommended_rate
from core.maths.statistics.savings.plan import runs_until
from core.maths.statistics.savings.sums import MIN_FOR_FIGURE
from dashboard import pages, wording
from dashboard.figures.chart import Chart
from dashboard.figures.savings_time import money_time, savings_time, tokens_time
from dashboard.reading import pictured_once, reading
from dashboard.sentences import savings as sentences
from dashboard.sentences.achieved import percent_words, solved_table, weeks_table
from dashboard.sentences.gain import blocks, headline, takes
from dashboard.sentences.money import months_table
from dashboard.widgets.charts import time_chart
from dashboard.widgets.fields import choice
from dashboard.widgets.parts import command, empty, literal_cells, muted, section, small_table
from dashboard.wording import Markdown, Words

UNIT: Final = "unit"

Unit = Literal["percent", "tokens", "money"]
_WORDS: Final[dict[Unit, str]] = {"percent": "%", "tokens": "Tokens", "money": "Money"}

_FINE = "✓ fine"
_ENOUGH = "✓ enough"


def row(saved: Savings) -> None:
    """Draw cost where bills are known, tokens, success, errors, and baseline runs still needed."""
    rows = _cards(saved)
    cards = st.grid(len(rows), min_column_width=160)
    for label, value, below, help_text in rows:
        cards.metric(
            label,
            wording.literal(value),
            None if below is None else wording.literal(below),
            delta_color="off",
            delta_arrow="off",
            help=help_text,
            border=True,
            height="stretch",
        )


def _cards(saved: Savings) -> list[tuple[Words, str, str | None, Words]]:
    overall, need = saved.overall, saved.need
    tokens = overall.tokens_saved
    baseline, selected = overall.columns.error_rate
    half = need.half_width_points
    return [
        *sentences.cost_card(saved.money),
        (
            Words("Tokens saved per run"),
            wording.count(tokens.value),
            sentences.amount_limits(tokens),
            Words(
                "Mean tokens of baseline runs minus selected runs, at the same mix of models and channels; below: "
                "95% interval."
            ),
        ),
        sentences.success_card(saved.outcome),
        (
            Words("Error rate"),
            wording.percent(selected),
            None if baseline is None else f"{wording.percent(baseline)} in baseline runs",
            Words(
                "Share of selected runs that ended with an error; the table below has the interval of the difference."
            ),
        ),
        (
            Words("Baseline runs needed"),
            wording.count(need.n_more),
            None if half is None else f"tokens saved: ± {half:.1f} points now",
            f"How many more until the interval of the tokens saved is ± {need.target_points:g} points; what success "
            "takes is another number.",
        ),
    ]


def over_time(saved: Savings) -> None:
    """Draw the head with the choice of unit, and the figure."""
    head = st.container()
    units: list[Unit] = ["percent", "tokens"] if saved.money is None else ["money", "percent", "tokens"]
    first: Unit = "money" if saved.money is not None and saved.money.is_known else "percent"
    unit = choice("Unit", {one: _WORDS[one] for one in units}, first, key=UNIT)
    figure = pictured_once(("time", unit), lambda: _picture(saved, unit))
    with head:
        note = sentences.path_note(saved, saved.weeks if unit == "percent" else ())
        section("Savings over time", note, table=figure.table, key="time")
    time_chart(figure, key="time")


def by_month(saved: Savings) -> None:
    """Draw the months, whose sums make the total, and the cost of a solved task."""
    of = Words(", of all policies" if saved.policies[1:] else "")
    section("By month", f"mean run × selected runs = saved; the months add up{of}")
    small_table(literal_cells(months_table(saved)), alt="Savings of each month, and in all")
    if saved.weeks:
        section("By week", "each week by itself, counted up to a cap, for one look")
        small_table(weeks_table(saved.weeks), alt="Savings of each of the latest weeks")
    if saved.solved is not None:
        currency = "" if saved.money is None else saved.money.currency
        section("Cost per solved task", "all cost of a group by its runs with an outcome above 0.9")
        table = literal_cells(solved_table(saved.solved, currency))
        small_table(table, alt="Cost per solved task of both groups")


def by_part(saved: Savings) -> None:
    """Draw the models and the channels by themselves where there are several, each with its own word."""
    table = SAVINGS.but(saved=lambda one: percent_words(one.shown))
    of_channel = table.but(model=lambda one: one.channel or "unknown")
    parts = [(Words("model"), saved.by_model, table), (Words("channel"), saved.by_channel, of_channel)]
    for column, (part, rows, table) in zip(st.columns(2, gap="large"), parts, strict=True):
        if len(rows) > 1:
            with column:
                section(f"By {part}", "savings of tokens, with 95% intervals")
                cells = map(list, zip(*(map(wording.plain, row) for row in table.cells(rows)), strict=True))
                shown = dict(zip((part, *table.heads[1:]), cells, strict=True))
                small_table(literal_cells(shown), alt=f"Savings by {part}")


def _picture(saved: Savings, unit: Unit) -> Chart:
    here = reading()
    if unit == "money" and saved.money is not None:
        return money_time(saved.money, saved.over_time, here.tokens, compact=here.compact)
    if unit == "tokens":
        return tokens_time(saved.tokens, saved.over_time, here.tokens, compact=here.compact)
    return savings_time(saved.over_time, here.tokens, weeks=saved.weeks, compact=here.compact)


def what_is_missing(saved: Savings) -> None:
    """Draw the whole page while there is no figure."""
    here = reading()
    settings = here.frame.settings
    rate = saved.recommended_rate or recommended_rate(here.frame.n_arms) or 0.1
    overall = saved.overall
    to_do, by_setting = _to_do(saved, rate)
    if assigned := sentences.assigned_words(saved.assigned_runs, saved.assigned_share):
        muted(assigned)
    empty(
        headline(saved),
        "The picture appears here as soon as both groups have at least 2 runs with known token usage. "
        f"{takes(settings.baseline_rate or rate)}",
        rows={
            "needed": ["phase", "baseline rate", "selected runs", "baseline runs"],
            "now": [
                settings.phase,
                wording.percent(settings.baseline_rate, 0),
                _known(overall.selected),
                _known(overall.baseline),
            ],
            "which is": [
                _FINE if settings.phase == "active" else _warning("nothing is selected while passive"),
                _FINE if settings.baseline_rate > 0 else _warning("no run can become a baseline run"),
                _group(overall.selected.n_known),
                _group(overall.baseline.n_known),
            ],
        },
        to_do=to_do,
        shell=command(by_setting or "select --json"),
        elsewhere=(pages.SETTINGS, Words("Or change it here"))
        if here.may("settings") and by_setting
        else None,
    )


def _known(group: ClassFigures) -> str:
    """Return the runs of a group, and how many of them say their tokens."""
    n = wording.count(group.n_runs)
    return n if group.n_known == group.n_runs else f"{n}, tokens known of {wording.count(group.n_known)}"


def _group(n_known: int) -> str:
    return _ENOUGH if n_known >= MIN_FOR_FIGURE else _warning("at least 2 are needed")


def _warning(words: str) -> str:
    return f":yellow[:material/warning:] {words}"


def _to_do(saved: Savings, rate: float) -> tuple[Markdown, str]:
    """Return the next step, and the command that changes the setting in its way; "" without one."""
    frame = reading().frame
    share = wording.percent(rate, 0)
    if frame.settings.phase == "passive":
        words: Markdown = Words(
            "**Switch the learner to active**; from then on armscope chooses the arms of each run."
        )
        return words, "settings set phase active"
    if frame.settings.baseline_rate == 0:
        words = (
            f"**Set the baseline rate to {share}**, the recommendation for "
            f"{wording.things(frame.n_arms, 'arm')}. {_how_long(saved, rate)}"
        )
        return words, f"settings set baseline_rate {rate:.2f}"
    if saved.left_out.imported:
        words = (
            f"**Let armscope choose the arms of new runs.** The {wording.count(saved.left_out.imported)} "
            "imported runs were not drawn by armscope; they cannot be compared."
        )
        return words, ""
    if blocked := blocks(saved.overall):
        return blocked, ""
    words = (
        "**Let your agent ask armscope** what goes into its prompt; every run it records counts here. "
        f"{_how_long(saved, frame.settings.baseline_rate)}"
    )
    return words, ""


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
