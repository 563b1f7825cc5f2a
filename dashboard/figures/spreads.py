"""Spread of scores → a row for each rater or version: how many scores lie in each tenth, and their mean.

A dot's area is the share of that row's scores; nothing is jittered, so that the same evaluations draw the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from core.maths.statistics.bias import N_BINS, GroupSpread
from core.records.evaluation import LABELS
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.agreement import figure
from dashboard.figures.chart import Chart, Trace, chart_of, scatter, single
from dashboard.figures.ladder import COMPACT_ROW_PX, intervals, rung_axis
from dashboard.figures.theme import Tokens
from dashboard.wording import Words

MOST_ROWS: Final = 12
_ROW_PX: Final = 32
_DOT_PX: Final = 26
_LEAST_PX: Final = 4
_HEAD_PX: Final = 26


@dataclass(frozen=True, kw_only=True)
class SpreadRow:
    """A row: the name of a rater or version (foreign text), and the spread of its scores."""

    name: str
    spread: GroupSpread


def spreads(rows: Sequence[SpreadRow], look: Tokens, *, of: Words, compact: bool = False) -> Chart:
    """Return scores by tenths with their mean; ``of`` is the plural noun of a row, which ends in s."""
    shown = rows[:MOST_ROWS]
    row_px = COMPACT_ROW_PX + 6 if compact else _ROW_PX
    shift = 0.2 if compact else 0.0
    layout = theme.layout(
        look,
        height=row_px * max(len(shown), 1) + _HEAD_PX + 44,
        margin=(14, 14, _HEAD_PX, 44) if compact else (150, 132, _HEAD_PX, 44),
        xaxis=theme.probability_axis(look, "score that was given"),
        yaxis=rung_axis(look, len(shown)),
        annotations=_beside(shown, look, row_px, compact=compact),
    )
    spoken = "; ".join(
        f"{wording.plain(one.name)} {wording.count(one.spread.n)} judged, "
        f"{wording.percent(one.spread.success.value, 0)} success, {mean(one.spread)}"
        for one in shown[:6]
    )
    alt = f"Scores of {wording.things(len(shown), of[:-1], of)}: {spoken}."
    limits = [(row, one.spread.score.lower, one.spread.score.upper) for row, one in enumerate(shown)]
    lines = intervals(limits, look.chart_accent, shift)
    traces = [_dots(shown, look, shift), lines, _means(shown, look, shift)]
    return chart_of(traces, layout, alt=alt, table=_table(rows))


def _dots(shown: Sequence[SpreadRow], look: Tokens, shift: float) -> Trace:
    cells = [
        (index, row, count / max(one.spread.n_scored, 1), count, one.name)
        for row, one in enumerate(shown)
        for index, count in enumerate(one.spread.bins)
        if count
    ]
    return scatter(
        "markers",
        [(index + 0.5) / N_BINS for index, *_ in cells],
        [row + shift for _, row, *_ in cells],
        marker={
            "symbol": "circle",
            "size": single([max(_DOT_PX * np.sqrt(share), _LEAST_PX) for _, _, share, *_ in cells]),
            "color": look.other_arms,
            "line": {"width": 0},
            "opacity": 1,
        },
        hover=[
            f"<b>{wording.plot_literal(name)}</b><br>{_tenth(index)}: {wording.count(count)} of their scores"
            for index, _, _, count, name in cells
        ],
        cliponaxis=False,
    )


def _tenth(index: int) -> str:
    """
    >>> _tenth(0), _tenth(9)
    ('0 to below 0.1', '0.9 to 1')
    """
    end = "1" if index == N_BINS - 1 else f"below {(index + 1) / N_BINS:g}"
    return f"{index / N_BINS:g} to {end}"


def _means(shown: Sequence[SpreadRow], look: Tokens, shift: float) -> Trace:
    known = [
        (row, one, one.spread.score.value)
        for row, one in enumerate(shown)
        if one.spread.score.value is not None
    ]
    return scatter(
        "markers",
        [value for *_, value in known],
        [row + shift for row, *_ in known],
        marker=theme.mark(look, "diamond", 10, look.chart_accent),
        hover=[f"<b>{wording.plot_literal(one.name)}</b><br>{mean(one.spread)}" for _, one, _ in known],
        cliponaxis=False,
    )


def mean(spread: GroupSpread) -> str:
    """Return the mean score with its interval, in words."""
    score = spread.score
    if score.value is None:
        return "no mean score"
    if score.lower is None or score.upper is None:
        return f"mean score {score.value:.2f}"
    return f"mean score {score.value:.2f}, 95% interval {wording.interval(score.lower, score.upper)}"


def _beside(shown: Sequence[SpreadRow], look: Tokens, row_px: int, *, compact: bool) -> list[dict[str, Any]]:
    if not shown:
        return []
    names = [wording.plot_literal(wording.cut_middle(wording.plain(one.name), 24)) for one in shown]
    counts = [wording.count(one.spread.n) for one in shown]
    shares = [wording.percent(one.spread.success.value, 0) for one in shown]
    position: dict[str, Any] = {"yref": "y", "row_px": row_px}
    if compact:
        position |= {"yshift": 21, "down": 0.2}
        both = [f"{count}, {share} success" for count, share in zip(counts, shares, strict=True)]
        return [
            theme.column(look, names, x=0, xanchor="left", **position),
            theme.column(look, both, x=1, xanchor="right", color=look.muted, **position),
        ]
    head: dict[str, Any] = {"xref": "paper", "yref": "paper", "x": 1, "y": 1, "xanchor": "right"}
    more: dict[str, Any] = {"yanchor": "bottom", "yshift": 3, "color": look.muted, "size": theme.AXIS_PX}
    return [
        theme.column(look, names, x=0, xanchor="right", xshift=-18, **position),
        theme.column(look, counts, x=1, xanchor="right", xshift=60, **position),
        theme.column(look, shares, x=1, xanchor="right", xshift=126, color=look.muted, **position),
        theme.label(look, "judged", xshift=60, **head, **more),
        theme.label(look, "success", xshift=126, **head, **more),
    ]


def _table(rows: Sequence[SpreadRow]) -> dict[str, list[str | int | float]]:
    cells: dict[str, list[str | int | float]] = {
        "by": [wording.plain(one.name) for one in rows],
        "judged": [one.spread.n for one in rows],
        "success": [wording.percent(one.spread.success.value, 0) for one in rows],
        "mean score": [figure(one.spread.score.value) for one in rows],
        "95% interval": [wording.interval(one.spread.score.lower, one.spread.score.upper) for one in rows],
    }
    for index, label in enumerate(LABELS):
        cells[label] = [one.spread.labels[index] for one in rows]
    return cells
