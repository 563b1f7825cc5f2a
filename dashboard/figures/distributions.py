"""Size classes of token counts → two smoothed distributions, baseline over selected, on one axis."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from core.columns import Floats, Ints
from core.maths.statistics.savings import ClassFigures, Savings, TokenDistribution
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.chart import Chart, Trace, chart_of, scatter, single
from dashboard.figures.theme import Tokens
from dashboard.wording import Words

_POINTS: Final = 240
_LEAST_OCTAVES: Final = 1 / 4
"""Two size classes; nothing finer can be seen, so nothing is smoothed less."""
_ROOM: Final = 1.25
_SHOWN_SHARE: Final = 0.995
_SHOWN_MEDIANS: Final = 8.0
"""Drawn range in medians; a larger one lets a few runaway runs press all others to the left."""
_NAME_ENDS: Final = 0.7
"""A mean further right has its name on its left, or a phone would cut it off."""


def distributions(saved: Savings, look: Tokens, *, compact: bool = False) -> Chart:
    """Return tokens per run of both groups, each with its mean."""
    spread = saved.distribution
    end = _right_end(saved)
    beyond = _words_beyond(spread, end)
    x = np.linspace(0, end, _POINTS)[1:]
    groups = (
        (saved.overall.selected, smoothed(spread, spread.n_selected, x), 0.0),
        (saved.overall.baseline, smoothed(spread, spread.n_baseline, x), 1.0),
    )
    traces = [trace for figures, height, floor in groups for trace in _ridge(figures, x, height, floor, look)]
    layout = theme.layout(
        look,
        height=252,
        margin=(8, 8, 12, 44) if compact else (100, 8, 12, 44),
        xaxis=_token_axis(look, end, f"tokens per run{beyond}"),
        yaxis=theme.axis(look, range=[-0.02, 2 + _ROOM - 1], showticklabels=False),
        annotations=[
            *[note for figures, _, floor in groups for note in _names(figures, floor, look, compact)],
            *[note for figures, height, floor in groups for note in _mean(figures, x, height, floor, look)],
        ],
    )
    alt = (
        "Distribution of tokens per run: "
        + "; ".join(f"{figures.run_class}, {_spoken(figures)}" for figures, _, _ in reversed(groups))
        + f"{beyond}."
    )
    return chart_of(traces, layout, alt=alt, table=_table(spread))


def smoothed(spread: TokenDistribution, counts: Ints, x: Floats) -> Floats:
    """Return density per token at ``x``, from counts by size class, scaled to a greatest height of 1.

    A Gaussian kernel on log2 of the tokens, by Silverman's rule, never narrower than two size classes.
    """
    total = float(counts.sum())
    if total == 0:
        return np.zeros_like(x)
    at = np.log2(np.sqrt(np.maximum(spread.lower, 1) * spread.upper))
    weight = np.asarray(counts, dtype=np.float64) / total
    centre = float(weight @ at)
    deviation = float(np.sqrt(weight @ (at - centre) ** 2))
    band = max(0.9 * deviation * total**-0.2, _LEAST_OCTAVES)
    steps = (np.log2(x)[:, None] - at[None, :]) / band
    height: Floats = (np.exp(-0.5 * steps**2) @ weight) / x
    peak = float(height.max(initial=0.0))
    return height / peak if peak > 0 else height


def _right_end(saved: Savings) -> float:
    """Return the right end: beyond 99.5% of the runs of both groups, or beyond some medians and both means."""
    spread = saved.distribution
    both = spread.n_baseline + spread.n_selected
    if both.sum() == 0:
        return 1.0
    passed = np.cumsum(both) / both.sum()
    last, median = (float(spread.upper[np.searchsorted(passed, share)]) for share in (_SHOWN_SHARE, 0.5))
    means = (saved.overall.baseline.mean_tokens or 0.0, saved.overall.selected.mean_tokens or 0.0)
    return 1.05 * min(last, max(_SHOWN_MEDIANS * median, *means))


def _words_beyond(spread: TokenDistribution, end: float) -> str:
    """Return the number of runs to the right of the drawn range; empty for very few."""
    both = spread.n_baseline + spread.n_selected
    beyond = both[spread.lower >= end].sum() / max(both.sum(), 1)
    return f" ({wording.percent(beyond, 0)} of runs lie farther right)" if beyond > 1 - _SHOWN_SHARE else ""


def _token_axis(look: Tokens, end: float, title: str) -> dict[str, Any]:
    raw = end / 5
    power = 10.0 ** np.floor(np.log10(max(raw, 1.0)))
    step = float(power * next(factor for factor in (1, 2, 5, 10) if factor * power >= raw))
    ticks = [float(tick) for tick in np.arange(0, end, step)]
    return theme.axis(
        look,
        grid=True,
        title=title,
        range=[0, end],
        **theme.ticks(ticks, [thousands(tick) for tick in ticks]),
    )


def thousands(tokens: float) -> Words:
    """Return an axis label.

    >>> thousands(0), thousands(500), thousands(10_000), thousands(2_000_000)
    ('0', '500', '10 k', '2 M')
    """
    if tokens >= 1_000_000:
        return f"{tokens / 1_000_000:g} M"
    return f"{tokens / 1_000:g} k" if tokens >= 1_000 else f"{tokens:g}"


def _ridge(figures: ClassFigures, x: Floats, height: Floats, floor: float, look: Tokens) -> list[Trace]:
    colour = look.runs[figures.run_class]
    dash = "8px,6px" if figures.run_class == "baseline" else "solid"
    ground = scatter("lines", [x[0], x[-1]], [floor, floor], line={"width": 0})
    ridge = scatter(
        "lines",
        x,
        floor + height * 0.86,
        line={"color": colour, "width": theme.CURVE_PX, "dash": dash, "simplify": False},
        fill="tonexty",
        fillcolor=theme.faded(colour, 0.24),
    )
    traces: list[Trace] = [ground, ridge]
    if figures.mean_tokens is not None:
        top = float(np.interp(figures.mean_tokens, x, height)) * 0.86
        mean = figures.mean_tokens
        traces.append({**ground, "x": single([mean, mean]), "y": single([floor, floor + top])})
        traces[-1]["line"] = {"color": colour, "width": 2}
    return traces


def _names(figures: ClassFigures, floor: float, look: Tokens, compact: bool) -> list[dict[str, Any]]:
    runs = wording.things(figures.n_known, "run")
    side = {"x": 1 if compact else 0, "xanchor": "right"}
    position: dict[str, Any] = {"xref": "paper", "y": floor + (0.45 if compact else 0), **side}
    shift = 0 if compact else -12
    return [
        theme.label(look, figures.run_class, yshift=26, xshift=shift, **position),
        theme.label(look, runs, yshift=9, xshift=shift, color=look.muted, **position),
    ]


def _mean(
    figures: ClassFigures, x: Floats, height: Floats, floor: float, look: Tokens
) -> list[dict[str, Any]]:
    """Return the mean, written above its line on the side where the distribution falls away, if it fits."""
    if figures.mean_tokens is None:
        return []
    top = float(np.interp(figures.mean_tokens, x, height)) * 0.86
    rises = figures.mean_tokens < float(x[int(height.argmax())]) or figures.mean_tokens > _NAME_ENDS * x[-1]
    return [
        theme.label(
            look,
            f"mean {wording.count(figures.mean_tokens)}",
            x=figures.mean_tokens,
            y=floor + top,
            xanchor="right" if rises else "left",
            xshift=-6 if rises else 6,
            yanchor="bottom",
        )
    ]


def _spoken(figures: ClassFigures) -> str:
    if figures.mean_tokens is None:
        return f"{wording.things(figures.n_known, 'run')}, no mean"
    return f"{wording.things(figures.n_known, 'run')}, mean {wording.count(figures.mean_tokens)} tokens"


def _table(spread: TokenDistribution) -> dict[str, list[str | int | float]]:
    filled = np.flatnonzero(spread.n_baseline + spread.n_selected)
    return {
        "tokens from": [wording.count(spread.lower[at]) for at in filled],
        "to below": [wording.count(spread.upper[at]) for at in filled],
        "baseline runs": [int(spread.n_baseline[at]) for at in filled],
        "selected runs": [int(spread.n_selected[at]) for at in filled],
    }
