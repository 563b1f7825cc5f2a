"""Comparisons → a ladder of savings: all runs, counted in three ways, then each model and each channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from core.maths.statistics.savings import Comparison, Estimate, Savings
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.chart import Chart, Trace, chart_of, round_ticks, scatter, upright
from dashboard.figures.ladder import COMPACT_ROW_PX, ROW_PX, intervals, rung_axis
from dashboard.figures.theme import Tokens

MAX_STRATA: Final = 24
_WIDEST: Final = 150.0
_FIGURE_PX: Final = 110
_SIZES_PX: Final = 88
_DIGIT_PX: Final = 7
_GAP_PX: Final = 14
_BESIDE_PX: Final = 8


@dataclass(frozen=True, kw_only=True)
class Stratum:
    """One row: a name (foreign text), its savings in per cent with limits, and both group sizes.

    ``is_whole``: it is of all runs.
    """

    name: str
    is_whole: bool
    value: float
    lower: float | None
    upper: float | None
    n_baseline: int
    n_selected: int


def strata(saved: Savings, look: Tokens, *, compact: bool = False) -> Chart:
    """Return the savings of all runs in three ways, of each model and of each channel."""
    shown = rows(saved)
    row_px = COMPACT_ROW_PX if compact else ROW_PX
    low, high = _range(shown)
    # As far from the figures as the longest cell of group sizes needs.
    longest = max((len(_sizes(row)) for row in shown), default=0)
    sizes_px = _FIGURE_PX + max(_SIZES_PX, _DIGIT_PX * longest + _GAP_PX)
    ticks = round_ticks(low, high)
    layout = theme.layout(
        look,
        height=row_px * max(len(shown), 1) + 28 + 44,
        margin=(10, 10, 28, 44) if compact else (112, sizes_px + _BESIDE_PX, 28, 44),
        xaxis=theme.axis(
            look,
            grid=True,
            title="savings, %",
            range=[low, high],
            **theme.ticks(ticks, [wording.signed_minus(f"{tick:g}") for tick in ticks]),
        ),
        yaxis=rung_axis(look, len(shown)),
        shapes=_guides(shown, low, look),
        annotations=[
            *[
                note
                for at, row in enumerate(shown)
                for note in _texts(row, at, look, sizes_px, compact=compact)
            ],
            *([] if compact else _heads(look, sizes_px)),
        ],
    )
    spoken = "; ".join(f"{wording.plain(row.name)} {_figure(row)}" for row in shown[:4])
    alt = f"Savings with 95% interval in {wording.things(len(shown), 'row')}: {spoken}."
    shift = 0.2 if compact else 0.0
    traces = [*_lines(shown, look, shift), _marks(shown, look, shift)]
    return chart_of(traces, layout, alt=alt, table=_table(shown))


def rows(saved: Savings) -> tuple[Stratum, ...]:
    """Return rows of all runs in three ways, then models, then channels; a lone group has no row.

    Models and channels are counted as the figure that is named first.
    """
    whole = saved.overall
    ways = (
        (whole.saved_percent, "mean run"),
        (whole.typical_percent, "typical run"),
        (whole.capped_percent, "up to the cap"),
    )
    strata = [_stratum(whole, estimate, name, is_whole=True) for estimate, name in ways]
    for parts, unknown in ((saved.by_model, "unknown model"), (saved.by_channel, "unknown channel")):
        if len(parts) > 1:
            strata += [_part(part, whole, (part.model or part.channel) or unknown) for part in parts]
    return tuple(row for row in strata if row is not None)[:MAX_STRATA]


def _part(part: Comparison, whole: Comparison, name: str) -> Stratum | None:
    estimate = part.saved_percent if whole.is_narrow else part.capped_percent
    return _stratum(part, estimate, name, is_whole=False)


def _stratum(part: Comparison, estimate: Estimate, name: str, *, is_whole: bool) -> Stratum | None:
    if estimate.value is None:
        return None
    return Stratum(
        name=name,
        is_whole=is_whole,
        value=estimate.value,
        lower=estimate.lower,
        upper=estimate.upper,
        n_baseline=part.n_compared[0],
        n_selected=part.n_compared[1],
    )


def _range(shown: Sequence[Stratum]) -> tuple[float, float]:
    known = [limit for row in shown for limit in (row.value, row.lower, row.upper) if limit is not None]
    low, high = min([0.0, *known]), max([1.0, *known])
    room = (high - low) * 0.05
    return max(low - (room if low < 0 else 0.0), -_WIDEST), min(high + room, 100.0)


def _guides(shown: Sequence[Stratum], low: float, look: Tokens) -> list[dict[str, Any]]:
    guides = []
    if shown:
        dotted = {"color": look.guide, "width": 1.5, "dash": "dot"}
        guides.append(upright(shown[0].value, dotted, layer="below"))
    if low < 0:
        guides.append(upright(0, {"color": look.guide, "width": 1}, layer="below"))
    return guides


def _colour(is_whole: bool, look: Tokens) -> str:
    return look.chart_accent if is_whole else look.runs["baseline"]


def _lines(shown: Sequence[Stratum], look: Tokens, shift: float) -> list[Trace]:
    traces = [
        intervals(
            [(at, row.lower, row.upper) for at, row in enumerate(shown) if row.is_whole == is_whole],
            _colour(is_whole, look),
            shift,
        )
        for is_whole in (True, False)
    ]
    return [trace for trace in traces if len(trace["x"])]


def _marks(shown: Sequence[Stratum], look: Tokens, shift: float) -> Trace:
    return scatter(
        "markers",
        [row.value for row in shown],
        np.arange(len(shown)) + shift,
        marker=theme.mark(
            look,
            ["diamond" if row.is_whole else "circle" for row in shown],
            [12 if row.is_whole else 10 for row in shown],
            [_colour(row.is_whole, look) for row in shown],
        ),
        hover=[f"<b>{wording.plot_literal(row.name)}</b><br>{_words_of(row)}" for row in shown],
        cliponaxis=False,
    )


def _texts(row: Stratum, at: int, look: Tokens, sizes_px: int, *, compact: bool) -> list[dict[str, Any]]:
    name = wording.plot_literal(wording.cut_middle(row.name, 18 if not compact else 26))
    name = f"<b>{name}</b>" if row.is_whole else name
    if compact:
        position: dict[str, Any] = {"xref": "paper", "y": at + 0.2, "yshift": 19}
        return [
            theme.label(look, name, x=0, xanchor="left", **position),
            theme.label(look, _figure(row), x=1, xanchor="right", **position),
        ]
    right: dict[str, Any] = {"xref": "paper", "x": 1, "xanchor": "right", "y": at}
    return [
        theme.label(look, name, xref="paper", x=0, xanchor="right", xshift=-12, y=at),
        theme.label(look, _figure(row), xshift=_FIGURE_PX, **right),
        theme.label(look, _sizes(row), color=look.muted, xshift=sizes_px, **right),
    ]


def _heads(look: Tokens, sizes_px: int) -> list[dict[str, Any]]:
    head: dict[str, Any] = {"xref": "paper", "yref": "paper", "x": 1, "y": 1, "xanchor": "right"}
    more: dict[str, Any] = {"yanchor": "bottom", "yshift": 5, "color": look.muted, "size": theme.AXIS_PX}
    return [
        theme.label(look, "savings, %", xshift=_FIGURE_PX, **head, **more),
        theme.label(look, "base / sel. runs", xshift=sizes_px, **head, **more),
    ]


def _figure(row: Stratum) -> str:
    value = wording.signed_minus(f"{row.value:.1f}")
    if row.lower is None or row.upper is None:
        return value
    low, high = wording.outwards(row.lower, row.upper, 1)
    return f"{value} [{wording.signed_minus(f'{low:.1f}')}, {wording.signed_minus(f'{high:.1f}')}]"


def _sizes(row: Stratum) -> str:
    return f"{wording.count(row.n_baseline)} / {wording.count(row.n_selected)}"


def _words_of(row: Stratum) -> str:
    value = f"savings {wording.percent(row.value / 100)}"
    if row.lower is not None and row.upper is not None:
        value += f", 95% interval {wording.percent_interval(row.lower, row.upper)}"
    return (
        f"{value}<br>{wording.count(row.n_baseline)} baseline, {wording.count(row.n_selected)} selected runs"
    )


def _table(shown: Sequence[Stratum]) -> dict[str, list[str | int | float]]:
    return {
        "runs": [wording.plain(row.name) for row in shown],
        "savings, % [95% interval]": [_figure(row) for row in shown],
        "baseline runs": [row.n_baseline for row in shown],
        "selected runs": [row.n_selected for row in shown],
    }
