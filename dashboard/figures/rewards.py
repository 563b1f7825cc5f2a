"""Figures of an environment: distribution of totals, success over time, and models on the same tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from core.flows.queries import EnvironmentStory, ModelComparison, ModelPair
from core.maths.statistics.rewards.progress import EpisodeSegment
from core.maths.statistics.rewards.spread import Bar
from core.records.estimate import Estimate
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.chart import Cell, Chart, Trace, chart_of, joined, scatter, single, upright, with_room
from dashboard.figures.ladder import COMPACT_ROW_PX, ROW_PX, intervals, rung_axis
from dashboard.figures.theme import Tokens
from dashboard.wording import Words

_NAME_CHARS: Final = 24
_QUARTERS: Final = (0, 0.25, 0.5, 0.75, 1)


# Distribution


def distribution(story: EnvironmentStory, look: Tokens, *, compact: bool = False) -> Chart:
    """Return episodes by total: raw below, on the declared scale above; the threshold as a dashed line."""
    scale, bars = story.summary.scale, story.distribution
    ends = [end for bar in bars for end in (bar.lo, bar.hi)]
    low, high = with_room([scale.lo, scale.hi, scale.threshold, *ends], 0.03)
    span = high - low
    least = 0.012 * span
    widths = [max((bar.hi - bar.lo) * 0.94, least) for bar in bars]
    base = "total" if scale.base == "total" else "final reward"
    trace: Trace = {
        "type": "bar",
        "x": single([(bar.lo + bar.hi) / 2 for bar in bars]),
        "y": single([bar.n for bar in bars]),
        "width": single(widths),
        "marker": {
            "color": [
                look.other_arms if None in {bar.normalised_lo, bar.normalised_hi} else look.chart_accent
                for bar in bars
            ],
            "line": {"width": 0},
        },
        "hovertext": [f"<b>{_range(bar)}</b><br>{wording.things(bar.n, 'episode')}" for bar in bars],
        "hoverinfo": "text",
    }
    normalised: Trace = scatter("lines", [scale.lo, scale.hi], [0, 0], xaxis="x2", line={"width": 0})
    layout = theme.layout(
        look,
        height=270,
        margin=(42, 16, 48, 46),
        xaxis=theme.axis(look, title=f"{base}, raw", range=[low, high], nticks=5 if compact else 9),
        xaxis2=theme.axis(
            look,
            title="on the scale",
            overlaying="x",
            side="top",
            range=[low, high],
            tickmode="array",
            tickvals=[scale.lo + part * (scale.hi - scale.lo) for part in _QUARTERS],
            ticktext=["0", "0.25", "0.50", "0.75", "1"]
            if (scale.hi - scale.lo) > span / 4
            else ["0", "", "", "", "1"],
        ),
        yaxis=theme.axis(look, grid=True, title="" if compact else "episodes", rangemode="tozero", nticks=4),
        shapes=[upright(scale.threshold, {"color": look.guide, "width": 1, "dash": "3px,3px"})],
        annotations=[
            theme.label(
                look,
                f"success above {wording.paid(scale.threshold)}",
                x=scale.threshold,
                y=1,
                yref="paper",
                yanchor="top",
                xanchor="right" if scale.threshold > low + span / 2 else "left",
                xshift=-5 if scale.threshold > low + span / 2 else 5,
                size=theme.AXIS_PX,
                color=look.muted,
                bgcolor=look.page,
            )
        ],
    )
    most = max(bars, key=lambda bar: bar.n, default=None)
    common = "" if most is None else f"; most often {_range(most)}, {wording.things(most.n, 'episode')}"
    alt = (
        f"How many episodes came to which {base}: {wording.things(sum(bar.n for bar in bars), 'episode')} with a "
        f"reward{common}."
    )
    return chart_of([trace, normalised], layout, alt=alt, table=_distribution_table(bars))


def _range(bar: Bar) -> str:
    low = wording.paid(bar.lo)
    return low if bar.lo == bar.hi else f"{low} to {wording.paid(bar.hi)}"


def _distribution_table(bars: Sequence[Bar]) -> dict[str, Sequence[Cell]]:
    def at(value: float | None) -> str:
        return "outside" if value is None else f"{value:.3f}"

    return {
        "raw": [_range(bar) for bar in bars],
        "on the scale": [
            at(bar.normalised_lo)
            if bar.lo == bar.hi
            else f"{at(bar.normalised_lo)} to {at(bar.normalised_hi)}"
            for bar in bars
        ],
        "episodes": [bar.n for bar in bars],
    }


# How it goes on


def progress(story: EnvironmentStory, look: Tokens, *, compact: bool = False) -> Chart:
    """Return the success rate of consecutive segments of equally many episodes, each with its 95% interval."""
    stretches = [one for one in story.progress.stretches if one.success.value is not None]
    known = [(float(index), one.success) for index, one in enumerate(stretches)]
    n_ticks = 3 if compact else 5
    ticks = np.unique(np.linspace(0, len(stretches) - 1, min(n_ticks, len(stretches))).astype(np.int64))
    layout = theme.layout(
        look,
        height=250,
        margin=(44, 30, 12, 46),
        xaxis=theme.axis(
            look,
            title="began, UTC",
            range=[-0.5, len(stretches) - 0.5],
            **theme.ticks(ticks.tolist(), _begins([stretches[index] for index in ticks.tolist()])),
        ),
        yaxis=theme.axis(
            look,
            grid=True,
            title="" if compact else "share of successes",
            range=[-0.02, 1.02],
            **theme.ticks(list(_QUARTERS), ["0%", "25%", "50%", "75%", "100%"]),
        ),
    )
    traces = [_limits(known, look), _points(known, stretches, look)]
    alt = (
        f"Share of successes in {wording.things(len(stretches), 'segment')} of episodes in the order of "
        f"time, each with its 95% interval"
    )
    if stretches:
        first, last = (wording.percent(one.success.value or 0.0, 0) for one in (stretches[0], stretches[-1]))
        alt += f": {first} at first, {last} at last"
    return chart_of(traces, layout, alt=f"{alt}.", table=_progress_table(stretches))


def _begins(stretches: Sequence[EpisodeSegment]) -> list[Words]:
    """Return labels for the beginnings of spans: days where they differ, else minutes."""
    year = stretches[-1].last_ms if stretches else None
    days = [wording.day(one.first_ms, year_of_ms=year) for one in stretches]
    if len(set(days)) == len(days):
        return days
    return [wording.minute(one.first_ms, year_of_ms=year).replace(" ", "\u00a0") for one in stretches]


def _limits(known: Sequence[tuple[float, Estimate]], look: Tokens) -> Trace:
    bars = [(at, estimate.limits) for at, estimate in known if estimate.limits is not None]
    return scatter(
        "lines",
        joined([[at, at] for at, _ in bars]),
        joined([limits for _, limits in bars]),
        line={"color": theme.faded(look.chart_accent, 0.45), "width": 5},
    )


def _points(
    known: Sequence[tuple[float, Estimate]], stretches: Sequence[EpisodeSegment], look: Tokens
) -> Trace:
    return scatter(
        "lines+markers",
        [at for at, _ in known],
        [estimate.value or 0.0 for _, estimate in known],
        line={"color": look.chart_accent, "width": theme.TIME_LINE_PX},
        marker={"size": 9, "color": look.chart_accent, "line": {"width": 1, "color": look.page}},
        hover=[
            f"<b>{_span(one)}</b><br>{_share(one.success)}<br>{wording.things(one.n, 'episode')}"
            for one in stretches
        ],
    )


def _span(one: EpisodeSegment) -> str:
    first, last = (wording.day(at_ms, year_of_ms=one.last_ms) for at_ms in (one.first_ms, one.last_ms))
    return first if first == last else f"{first} to {last}"


def _share(estimate: Estimate) -> str:
    words = f"success {wording.percent(estimate.value, 0)}"
    return words if estimate.limits is None else f"{words}, 95% interval {_percents(estimate)}"


def _progress_table(stretches: Sequence[EpisodeSegment]) -> dict[str, Sequence[Cell]]:
    return {
        "days, UTC": [_span(one) for one in stretches],
        "episodes": [one.n for one in stretches],
        "success": [wording.percent(one.success.value or 0.0, 0) for one in stretches],
        "95% interval": [_percents(one.success) for one in stretches],
        "average": [
            wording.MISSING if one.average.value is None else wording.signed_minus(f"{one.average.value:.3f}")
            for one in stretches
        ],
    }


def _percents(estimate: Estimate) -> str:
    if estimate.limits is None:
        return wording.MISSING
    return wording.percent_interval(estimate.limits[0] * 100, estimate.limits[1] * 100, 0)


# Models on the same tasks


def pairs(comparison: ModelComparison, look: Tokens, *, compact: bool = False) -> Chart:
    """Return every two models: the paired difference with its 95% interval, against 0."""
    shown = comparison.pairs
    ends = [0.0, *(end for pair in shown for end in _numbers(pair.difference))]
    row_px = COMPACT_ROW_PX if compact else ROW_PX + 6
    layout = theme.layout(
        look,
        height=row_px * len(shown) + 64,
        margin=(8, 8, 10, 54) if compact else (330, 150, 10, 54),
        xaxis=theme.axis(
            look,
            grid=True,
            title=f"difference of {'average' if comparison.compared == 'reward' else 'success rate'}, "
            "first less second",
            range=with_room(ends, 0.08),
            nticks=5,
        ),
        yaxis=rung_axis(look, len(shown)),
        shapes=[upright(0, {"color": look.guide, "width": 1}, layer="below")],
        annotations=_beside(shown, look, row_px, compact=compact),
    )
    shift = 0.2 if compact else 0.0
    known = [(row, pair.difference) for row, pair in enumerate(shown) if pair.difference.value is not None]
    lines = intervals([(row, one.lower, one.upper) for row, one in known], look.chart_accent, shift)
    marks: Trace = scatter(
        "markers",
        [one.value or 0.0 for _, one in known],
        [row + shift for row, _ in known],
        marker={
            "size": 11,
            "symbol": ["circle" if shown[row].apart else "circle-open" for row, _ in known],
            "color": look.chart_accent,
            "line": {"width": 2, "color": look.chart_accent},
        },
        hover=[f"<b>{_both(shown[row])}</b><br>{_difference(shown[row])}" for row, _ in known],
    )
    spoken = "; ".join(f"{pair.one} less {pair.other} {_difference(pair)}" for pair in shown)
    alt = f"Models on the same tasks, with 95% intervals: {wording.plain(spoken)}."
    return chart_of([lines, marks], layout, alt=alt, table=pairs_table(comparison))


def _numbers(estimate: Estimate) -> list[float]:
    return [value for value in (estimate.lower, estimate.value, estimate.upper) if value is not None]


def _difference(pair: ModelPair) -> str:
    estimate = pair.difference
    if estimate.value is None:
        return "no difference can be estimated"
    return f"{wording.change(estimate.value, 3)}{_between(estimate)}"


def _between(estimate: Estimate) -> str:
    if estimate.lower is None or estimate.upper is None:
        return ""
    low, high = wording.outwards(estimate.lower, estimate.upper, 3)
    return f", {wording.signed_minus(f'{low:.3f} to {high:.3f}')}"


def _both(pair: ModelPair) -> str:
    return " − ".join(
        wording.plot_literal(wording.cut_middle(wording.plain(name), _NAME_CHARS))
        for name in (pair.one, pair.other)
    )


def _beside(shown: Sequence[ModelPair], look: Tokens, row_px: int, *, compact: bool) -> list[dict[str, Any]]:
    names = [_both(pair) for pair in shown]
    numbers = [_difference(pair) for pair in shown]
    position: dict[str, Any] = {"yref": "y", "row_px": row_px}
    if compact:
        return [
            theme.column(look, names, x=0, xanchor="left", yshift=19, down=0.2, **position),
            theme.column(
                look, numbers, x=1, xanchor="right", yshift=19, down=0.2, color=look.muted, **position
            ),
        ]
    return [
        theme.column(look, names, x=0, xanchor="right", xshift=-12, **position),
        theme.column(look, numbers, x=1, xanchor="right", xshift=150, color=look.muted, **position),
    ]


def pairs_table(comparison: ModelComparison) -> dict[str, Sequence[Cell]]:
    """Return the same, and how sure it is with all pairs at once."""
    return {
        "model": [wording.plain(pair.one) for pair in comparison.pairs],
        "less": [wording.plain(pair.other) for pair in comparison.pairs],
        "common tasks": [pair.n_tasks for pair in comparison.pairs],
        "difference": [wording.change(pair.difference.value, 3) for pair in comparison.pairs],
        "95% interval": [
            _between(pair.difference).removeprefix(", ") or wording.MISSING for pair in comparison.pairs
        ],
        "chance if equal (Holm)": [
            wording.MISSING if pair.adjusted is None else _chance(pair.adjusted) for pair in comparison.pairs
        ],
    }


def _chance(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
