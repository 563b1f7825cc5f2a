"""Savings up to each day → a line in its 95% ribbon, the last value written at its end."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from core.columns import Floats, Ints
from core.statistics.savings import SavingsOverTime
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.drawn import Drawn, Trace, drawn, single
from dashboard.figures.theme import Tokens

_DAY_MS: Final = 86_400_000
_MAX_DAYS: Final = 400
_TICKS: Final = 4


def savings_time(path: SavingsOverTime, look: Tokens, *, compact: bool = False) -> Drawn:
    """Cumulative savings in per cent; the line breaks where they cannot be computed."""
    shown = _thinned(path)
    low, high = _range(path, shown)
    layout = theme.layout(
        look,
        height=252,
        margin=(44, 56, 12, 44) if compact else (52, 66, 12, 44),
        xaxis=_day_axis(look, path.day[shown]),
        yaxis=theme.axis(look, grid=True, title="savings, %", range=[low, high], nticks=5),
        shapes=[_zero(look)],
        annotations=_last(path, shown, look),
    )
    days = path.day[shown].astype(np.float64)
    traces = [
        *_ribbon(path, shown, days, look),
        _line(path, shown, days, look),
        _end(path, shown, days, look),
    ]
    return drawn(traces, layout, alt=_alt(path, shown), table=_table(path, shown))


def _thinned(path: SavingsOverTime) -> Ints:
    """Every day, or evenly spaced ones over long spans; the last is always among them."""
    steps = np.linspace(0, len(path.day) - 1, min(len(path.day), _MAX_DAYS))
    return np.unique(np.round(steps).astype(np.int64))


def _range(path: SavingsOverTime, shown: Ints) -> tuple[float, float]:
    """From zero, or below the line, to above it.

    The ribbon of the first days is wide enough to squeeze everything after it, so it counts only where it is
    at most thrice as wide as at the end; where it is wider, the frame cuts it.
    """
    lower, upper, middle = path.lower[shown], path.upper[shown], path.saved_percent[shown]
    width = upper - lower
    known = np.isfinite(width)
    telling = known & (width <= 3 * width[known][-1]) if known.any() else known
    values = np.concatenate([middle[np.isfinite(middle)], lower[telling], upper[telling]])
    if not len(values):
        return 0.0, 1.0
    low = max(min(float(values.min()), 0.0), -100.0)
    high = max(min(float(values.max()), 100.0), 1.0)
    room = (high - low) * 0.06
    return low - (room if low < 0 else 0.0), high + room


def _day_axis(look: Tokens, days: Ints) -> dict[str, Any]:
    if not len(days):
        return theme.axis(look, title="day, UTC")
    first, last = int(days[0]), int(days[-1])
    ticks = np.unique(np.linspace(first, last, min(_TICKS, last - first + 1)).astype(np.int64))
    return theme.axis(
        look,
        title="day, UTC",
        range=[first - 0.02 * (last - first) - 0.5, last + 0.02 * (last - first) + 0.5],
        tickmode="array",
        tickvals=[int(tick) for tick in ticks],
        ticktext=[wording.day(int(tick) * _DAY_MS, year_of_ms=last * _DAY_MS) for tick in ticks],
    )


def _zero(look: Tokens) -> dict[str, Any]:
    line = {"color": look.guide, "width": 1}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 0, "y1": 0, "line": line}


def _ribbon(path: SavingsOverTime, shown: Ints, days: Floats, look: Tokens) -> list[Trace]:
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


def _line(path: SavingsOverTime, shown: Ints, days: Floats, look: Tokens) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": single(days),
        "y": single(path.saved_percent[shown]),
        "line": {"color": look.chart_accent, "width": theme.TIME_LINE_PX, "simplify": False},
        "hovertext": [_hover(path, int(at)) for at in shown],
        "hoverinfo": "text",
        "connectgaps": False,
    }


def _known(path: SavingsOverTime, shown: Ints) -> Ints:
    return shown[np.isfinite(path.saved_percent[shown])]


def _end(path: SavingsOverTime, shown: Ints, days: Floats, look: Tokens) -> Trace:
    known = np.flatnonzero(np.isfinite(path.saved_percent[shown]))[-1:]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": single(days[known]),
        "y": single(path.saved_percent[shown][known]),
        "marker": {"size": 8, "color": look.chart_accent, "line": {"width": 1, "color": look.page}},
        "hoverinfo": "skip",
        "cliponaxis": False,
    }


def _last(path: SavingsOverTime, shown: Ints, look: Tokens) -> list[dict[str, Any]]:
    known = _known(path, shown)
    if not len(known):
        return []
    last = int(known[-1])
    value = wording.percent(float(path.saved_percent[last]) / 100)
    return [
        theme.label(
            look,
            f"<b>{value}</b>",
            x=float(path.day[last]),
            y=float(path.saved_percent[last]),
            xanchor="left",
            xshift=9,
        )
    ]


def _hover(path: SavingsOverTime, at: int) -> str:
    value = float(path.saved_percent[at])
    if not np.isfinite(value):
        return ""
    said = f"<b>{wording.day(int(path.day[at]) * _DAY_MS)}</b><br>savings {wording.percent(value / 100)}"
    lower, upper = float(path.lower[at]), float(path.upper[at])
    if np.isfinite(lower) and np.isfinite(upper):
        said += f", 95% interval {wording.percent_interval(lower, upper)}"
    groups = f"{wording.count(path.n_baseline[at])} baseline, {wording.count(path.n_selected[at])} selected"
    return f"{said}<br>{groups} runs"


def _alt(path: SavingsOverTime, shown: Ints) -> str:
    known = _known(path, shown)
    if not len(known):
        return "Savings over time: no day has enough runs yet."
    first, last = int(known[0]), int(known[-1])
    return (
        f"Cumulative savings from {wording.day(int(path.day[first]) * _DAY_MS)} "
        f"({wording.percent(float(path.saved_percent[first]) / 100)}) to "
        f"{wording.day(int(path.day[last]) * _DAY_MS)} "
        f"({wording.percent(float(path.saved_percent[last]) / 100)}), with a 95% interval as a ribbon."
    )


def _table(path: SavingsOverTime, shown: Ints) -> dict[str, list[str | int | float]]:
    return {
        "day, UTC": [wording.day(int(path.day[at]) * _DAY_MS) for at in shown],
        "savings": [_percent(float(path.saved_percent[at])) for at in shown],
        "95% interval": [_limits(float(path.lower[at]), float(path.upper[at])) for at in shown],
        "baseline runs": [int(path.n_baseline[at]) for at in shown],
        "selected runs": [int(path.n_selected[at]) for at in shown],
    }


def _percent(value: float) -> str:
    return wording.percent(value / 100) if np.isfinite(value) else wording.MISSING


def _limits(lower: float, upper: float) -> str:
    known = np.isfinite(lower) and np.isfinite(upper)
    return wording.percent_interval(lower, upper) if known else wording.MISSING
