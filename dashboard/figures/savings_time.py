"""Savings up to each day: a line in its 95% ribbon with the last value at its end.

Three figures share one drawing: savings in per cent, tokens saved by all selected runs, and their money.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from core.columns import Floats, Ints
from core.maths.statistics.savings import MoneySaved, SavingsOverTime, TotalSaved
from core.records.saving import WeekSaved
from core.records.times import DAY_MS, HOUR_MS
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.chart import Chart, Trace, chart_of, joined, round_ticks, scatter, single
from dashboard.figures.distributions import thousands
from dashboard.figures.theme import SELECTS, Tokens, day_axis

_MAX_DAYS: Final = 400
_HEIGHT_PX: Final = 252
_ROOMY: Final = 1_000


@dataclass(frozen=True, kw_only=True)
class _Path:
    """A cumulative figure by day and its wording; ``floor`` and ``ceiling`` bound the axis."""

    name: str
    axis: str
    day: Ints
    value: Floats
    lower: Floats
    upper: Floats
    n_baseline: Ints
    n_selected: Ints
    wording_of: Callable[[float], str]
    limits: Callable[[float, float], str]
    end: Callable[[float], str]
    tick: Callable[[float], str]
    weeks: Sequence[WeekSaved] = ()
    floor: float = -np.inf
    ceiling: float = np.inf


def savings_time(
    over: SavingsOverTime, look: Tokens, *, weeks: Sequence[WeekSaved] = (), compact: bool = False
) -> Chart:
    """Return cumulative savings in per cent, and each week by itself; the line breaks where there are none."""
    path = _Path(
        name="savings",
        axis="savings, %",
        day=over.day,
        value=over.saved_percent,
        lower=over.lower,
        upper=over.upper,
        n_baseline=over.n_baseline,
        n_selected=over.n_selected,
        wording_of=lambda value: wording.percent(value / 100),
        limits=wording.percent_interval,
        end=lambda value: wording.percent(value / 100),
        tick=lambda value: wording.signed_minus(f"{value:g}"),
        floor=-100.0,
        ceiling=100.0,
        weeks=weeks,
    )
    return _drawing(path, look, compact)


def tokens_time(total: TotalSaved, over: SavingsOverTime, look: Tokens, *, compact: bool = False) -> Chart:
    """Return tokens that all selected runs saved up to each day."""
    words, limits = wording.count, wording.count_interval
    path = _total(total, over, name="tokens saved", axis="tokens saved", words=words, limits=limits)
    return _drawing(path, look, compact)


def money_time(money: MoneySaved, over: SavingsOverTime, look: Tokens, *, compact: bool = False) -> Chart:
    """Return the figure of the saved tokens' cost at the prices set."""
    words = partial(wording.money, currency=money.currency)
    limits = partial(wording.money_interval, currency=money.currency)
    path = _total(
        money.total, over, name="money saved", axis="saved, at the prices set", words=words, limits=limits
    )
    # In the same words as the page, as long as there is room.
    return _drawing(
        replace(path, end=lambda amount: words(amount, decimals=None if abs(amount) < _ROOMY else 0)),
        look,
        compact,
    )


def _total(
    total: TotalSaved,
    over: SavingsOverTime,
    *,
    name: str,
    axis: str,
    words: Callable[[float], str],
    limits: Callable[[float, float], str],
) -> _Path:
    return _Path(
        name=name,
        axis=axis,
        day=total.day,
        value=total.path,
        lower=total.lower,
        upper=total.upper,
        n_baseline=over.n_baseline,
        n_selected=over.n_selected,
        wording_of=words,
        limits=limits,
        end=_short,
        tick=_short,
    )


def _short(value: float) -> str:
    """Return an amount where room is scarce, to three digits.

    >>> _short(15_263_170.0), _short(-4_120.0), _short(0.0213), _short(0.0)
    ('15.3 M', '−4.12 k', '0.0213', '0')
    """
    rounded = float(f"{value:.3g}")
    return wording.signed_minus(f"-{thousands(-rounded)}" if rounded < 0 else thousands(rounded))


def _drawing(path: _Path, look: Tokens, compact: bool) -> Chart:
    shown = _thinned(path)
    low, high = _range(path, shown)
    ticks = round_ticks(low, high)
    zero = {"color": look.guide, "width": 1}
    layout = theme.layout(
        look,
        height=_HEIGHT_PX,
        margin=(52, 60, 12, 44) if compact else (62, 70, 12, 44),
        xaxis=day_axis(look, path.day[shown]),
        **({} if compact else SELECTS),
        yaxis=theme.axis(
            look,
            grid=True,
            title=path.axis,
            range=[low, high],
            **theme.ticks(ticks, [path.tick(tick) for tick in ticks]),
        ),
        shapes=[{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 0, "y1": 0, "line": zero}],
        annotations=_last(path, shown, look),
    )
    days = path.day[shown].astype(np.float64)
    traces = [
        *_ribbon(path, shown, days, look),
        *_weeks(path, look),
        _line(path, shown, days, look),
        _end(path, shown, days, look),
    ]
    return chart_of(traces, layout, alt=_alt(path, shown), table=_table(path, shown))


def _thinned(path: _Path) -> Ints:
    """Return every day, or evenly spaced ones over long spans; the last is always among them."""
    steps = np.linspace(0, len(path.day) - 1, min(len(path.day), _MAX_DAYS))
    return np.unique(np.round(steps).astype(np.int64))


def _range(path: _Path, shown: Ints) -> tuple[float, float]:
    """From zero, or below the line, to above it.

    The ribbon of the first days is wide enough to squeeze everything after it, so it counts only where it is
    at most thrice as wide as at the end; where it is wider, the frame cuts it.
    """
    lower, upper, middle = path.lower[shown], path.upper[shown], path.value[shown]
    width = upper - lower
    known = np.isfinite(width)
    narrow = known & (width <= 3 * width[known][-1]) if known.any() else known
    values = np.concatenate([middle[np.isfinite(middle)], lower[narrow], upper[narrow]])
    if not len(values):
        return 0.0, 1.0
    low = max(min(float(values.min()), 0.0), path.floor)
    high = min(max(float(values.max()), 0.0), path.ceiling)
    if high - low < 1e-9:
        return 0.0, 1.0
    room = (high - low) * 0.06
    return low - (room if low < 0 else 0.0), high + room


def _ribbon(path: _Path, shown: Ints, days: Floats, look: Tokens) -> list[Trace]:
    known = np.isfinite(path.lower[shown]) & np.isfinite(path.upper[shown])
    edge = {
        "type": "scatter",
        "mode": "lines",
        "x": single(days[known]),
        "line": {"width": 0, "simplify": False},
        "hoverinfo": "skip",
    }
    fill = theme.faded(look.chart_accent, theme.RIBBON)
    return [
        {**edge, "y": single(path.lower[shown][known])},
        {**edge, "y": single(path.upper[shown][known]), "fill": "tonexty", "fillcolor": fill},
    ]


def _weeks(path: _Path, look: Tokens) -> list[Trace]:
    known = [(one, one.saved_percent.value) for one in path.weeks if one.saved_percent.value is not None]
    if not known:
        return []
    x = [one.start_hour / 24 + 3.5 for one, _ in known]
    limits = [(at, one.saved_percent.limits) for at, (one, _) in zip(x, known, strict=True)]
    pieces = [(at, between) for at, between in limits if between is not None]
    hover = [
        f"<b>week from {wording.day(one.start_hour * HOUR_MS)}</b><br>{wording.percent(value / 100)}"
        f"{'' if one.saved_percent.limits is None else f', {wording.percent_interval(*one.saved_percent.limits)}'}"
        for one, value in known
    ]
    bars = [
        scatter(
            "lines",
            joined([[at, at] for at, _ in pieces]),
            joined([list(between) for _, between in pieces]),
            line={"color": look.gray, "width": 1.5, "simplify": False},
            connectgaps=False,
        )
    ]
    marks = scatter(
        "markers",
        np.array(x),
        np.array([value for _, value in known]),
        marker={"size": 7, "color": look.page, "line": {"width": 1.5, "color": look.gray}},
        hover=hover,
    )
    return [*(bars if pieces else []), marks]


def _line(path: _Path, shown: Ints, days: Floats, look: Tokens) -> Trace:
    return scatter(
        "lines",
        days,
        path.value[shown],
        line={"color": look.chart_accent, "width": theme.TIME_LINE_PX, "simplify": False},
        hover=[_hover(path, int(at)) for at in shown],
        connectgaps=False,
    )


def _known(path: _Path, shown: Ints) -> Ints:
    return shown[np.isfinite(path.value[shown])]


def _end(path: _Path, shown: Ints, days: Floats, look: Tokens) -> Trace:
    known = np.flatnonzero(np.isfinite(path.value[shown]))[-1:]
    return scatter(
        "markers",
        days[known],
        path.value[shown][known],
        marker={"size": 8, "color": look.chart_accent, "line": {"width": 1, "color": look.page}},
        cliponaxis=False,
    )


def _last(path: _Path, shown: Ints, look: Tokens) -> list[dict[str, Any]]:
    known = _known(path, shown)
    if not len(known):
        return []
    last = int(known[-1])
    return [
        theme.label(
            look,
            f"<b>{wording.plot_literal(path.end(float(path.value[last])))}</b>",
            x=float(path.day[last]),
            y=float(path.value[last]),
            xanchor="left",
            xshift=9,
        )
    ]


def _hover(path: _Path, at: int) -> str:
    value = float(path.value[at])
    if not np.isfinite(value):
        return ""
    words = wording.plot_literal(path.wording_of(value))
    lines = f"<b>{wording.day(int(path.day[at]) * DAY_MS)}</b><br>{path.name} {words}"
    lower, upper = float(path.lower[at]), float(path.upper[at])
    if np.isfinite(lower) and np.isfinite(upper):
        lines += f", 95% interval {wording.plot_literal(path.limits(lower, upper))}"
    groups = f"{wording.count(path.n_baseline[at])} baseline, {wording.count(path.n_selected[at])} selected"
    return f"{lines}<br>{groups} runs"


def _alt(path: _Path, shown: Ints) -> str:
    known = _known(path, shown)
    if not len(known):
        return f"{path.name.capitalize()} over time: no day has enough runs yet."
    first, last = int(known[0]), int(known[-1])
    return (
        f"Cumulative {path.name} from {wording.day(int(path.day[first]) * DAY_MS)} "
        f"({path.wording_of(float(path.value[first]))}) to "
        f"{wording.day(int(path.day[last]) * DAY_MS)} "
        f"({path.wording_of(float(path.value[last]))}), with a 95% interval as a ribbon."
    )


def _table(path: _Path, shown: Ints) -> dict[str, list[str | int | float]]:
    return {
        "day, UTC": [wording.day(int(path.day[at]) * DAY_MS) for at in shown],
        path.name: [
            path.wording_of(float(path.value[at])) if np.isfinite(path.value[at]) else wording.MISSING
            for at in shown
        ],
        "95% interval": [_limits(path, float(path.lower[at]), float(path.upper[at])) for at in shown],
        "baseline runs": [int(path.n_baseline[at]) for at in shown],
        "selected runs": [int(path.n_selected[at]) for at in shown],
    }


def _limits(path: _Path, lower: float, upper: float) -> str:
    known = np.isfinite(lower) and np.isfinite(upper)
    return path.limits(lower, upper) if known else wording.MISSING
