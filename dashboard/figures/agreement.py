"""Agreement → three interval bars: outcome, label and score, on one axis with Krippendorff's words under it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from core.flows.queries import AgreementReport
from core.maths.statistics.agreement import Agreement
from core.records.agreement import RELIABLE, TENTATIVE
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.chart import Chart, Trace, chart_of, scatter
from dashboard.figures.ladder import COMPACT_ROW_PX, ROW_PX, intervals, rung_axis
from dashboard.figures.theme import Tokens
from dashboard.wording import Words

_STEP: Final = 0.25
_ROOM_PX: Final = 10
_ZONES: Final = (
    (-1.0, TENTATIVE, "low"),
    (TENTATIVE, RELIABLE, "tentative"),
    (RELIABLE, 1.0, "reliable"),
)
_Rows = Sequence[tuple[str, Agreement]]
"""What is agreed on, and how far; the coarsest first."""
_WHY: Final = {"no_pairs": "no shared judgements", "no_variation": "undefined: all say the same"}


def agreement(report: AgreementReport, look: Tokens, *, compact: bool = False) -> Chart:
    """Return alpha with its interval on outcome, label and score."""
    shown = (("outcome", report.outcome), ("label", report.label), ("score", report.score))
    low = _low(shown)
    row_px = COMPACT_ROW_PX if compact else ROW_PX + 6
    ticks = np.arange(low, 1 + _STEP / 2, _STEP).tolist()
    layout = theme.layout(
        look,
        height=row_px * len(shown) + _ROOM_PX + 62,
        margin=(8, 8, _ROOM_PX, 62) if compact else (64, 118, _ROOM_PX, 62),
        xaxis=theme.axis(
            look,
            grid=True,
            range=[low, 1],
            **theme.ticks(
                ticks, ["0" if tick == 0 else "1" if tick == 1 else figure(tick) for tick in ticks]
            ),
        ),
        yaxis=rung_axis(look, len(shown)),
        shapes=[
            line
            for limit in (0.0, TENTATIVE, RELIABLE)
            if limit > low
            for line in _limits(limit, len(shown), look, compact=compact)
        ],
        annotations=[*_words(low, look), *_beside(shown, low, look, row_px, compact=compact)],
    )
    values = "; ".join(f"{name} {alpha_words(one)}" for name, one in shown)
    alt = f"Krippendorff's alpha with 95% interval: {values}."
    shift = 0.2 if compact else 0.0
    return chart_of(_traces(shown, look, shift), layout, alt=alt, table=_table(shown))


def figure(value: float | None) -> Words:
    """Return an alpha, which may be below 0; None is unknown.

    >>> figure(0.7), figure(-0.25), figure(None)
    ('0.70', '−0.25', '–')
    """
    return wording.MISSING if value is None else wording.signed_minus(f"{value:.2f}")


def span(result: Agreement) -> Words:
    """Return the limits of its interval, rounded outwards; – without one."""
    if result.lower is None or result.upper is None:
        return wording.MISSING
    low, high = wording.outwards(result.lower, result.upper, 2)
    return wording.signed_minus(f"{max(low, -1.0):.2f} to {min(high, 1.0):.2f}")


def alpha_words(result: Agreement) -> str:
    """Return an agreement in words: its figure, interval and word, or why there is none."""
    if result.alpha is None:
        return _WHY.get(result.missing or "no_pairs", "none")
    if result.word is None:
        return f"{figure(result.alpha)}, too few for an interval"
    return f"{figure(result.alpha)}, {span(result)}, {result.word}"


def _low(shown: _Rows) -> float:
    """Return the start of the axis: 0, or the quarter below the lowest value."""
    known = [value for _, one in shown for value in (one.alpha, one.lower) if value is not None]
    return max(float(np.floor(min([0.0, *known]) / _STEP) * _STEP), -1.0)


def _limits(at: float, n_rows: int, look: Tokens, *, compact: bool) -> list[dict[str, Any]]:
    """Return a limit as one line; in a narrow window as one line per bar, below its name and numbers."""
    dash = "solid" if at == 0 else "dot"
    stretches = [(row - 0.02, row + 0.45) for row in range(n_rows)] if compact else [(n_rows - 0.5, -0.5)]
    return [
        {
            "type": "line",
            "y0": start,
            "y1": end,
            "x0": at,
            "x1": at,
            "layer": "below",
            "line": {"color": look.guide, "width": 1, "dash": dash},
        }
        for start, end in stretches
    ]


def _words(low: float, look: Tokens) -> list[dict[str, Any]]:
    position: dict[str, Any] = {"yref": "paper", "y": 0, "yanchor": "top", "xanchor": "center"}
    return [
        theme.label(
            look,
            word,
            x=(max(left, low) + right) / 2,
            yshift=-40 if word == "tentative" else -24,  # its stretch is narrower than the word
            color=look.muted,
            size=theme.AXIS_PX,
            **position,
        )
        for left, right, word in _ZONES
    ]


def _beside(shown: _Rows, low: float, look: Tokens, row_px: int, *, compact: bool) -> list[dict[str, Any]]:
    names = [name for name, _ in shown]
    numbers = ["" if one.alpha is None else figure(one.alpha) for _, one in shown]
    spans = ["" if one.lower is None else span(one) for _, one in shown]
    position: dict[str, Any] = {"yref": "y", "row_px": row_px}
    missing = [
        theme.label(
            look,
            alpha_words(one),
            x=low,
            y=row + (0.2 if compact else 0),
            xanchor="left",
            xshift=6,
            color=look.muted,
        )
        for row, (_, one) in enumerate(shown)
        if one.alpha is None
    ]
    if compact:
        position |= {"yshift": 19, "down": 0.2}
        both = [f"{number}   {limits}" for number, limits in zip(numbers, spans, strict=True)]
        return [
            theme.column(look, names, x=0, xanchor="left", **position),
            theme.column(look, both, x=1, xanchor="right", **position),
            *missing,
        ]
    return [
        theme.column(look, names, x=0, xanchor="right", xshift=-12, **position),
        theme.column(look, numbers, x=1, xanchor="right", xshift=38, **position),
        theme.column(look, spans, x=1, xanchor="right", xshift=116, color=look.muted, **position),
        *missing,
    ]


def _traces(shown: _Rows, look: Tokens, shift: float) -> list[Trace]:
    known = [(row, bar, bar[1].alpha) for row, bar in enumerate(shown) if bar[1].alpha is not None]
    limits = [(row, one.lower, one.upper) for row, (_, one), _ in known]
    lines = intervals(limits, look.chart_accent, shift)
    marks: Trace = scatter(
        "markers",
        [value for *_, value in known],
        [row + shift for row, *_ in known],
        marker=theme.mark(look, "circle", 11, look.chart_accent),
        hover=[
            f"<b>{name}</b><br>alpha {alpha_words(one)}<br>"
            f"{wording.things(one.n_items, 'thing')} judged by two or more"
            for _, (name, one), _ in known
        ],
        cliponaxis=False,
    )
    return [lines, marks]


def _table(shown: _Rows) -> dict[str, list[str | int | float]]:
    return {
        "on": [name for name, _ in shown],
        "alpha": [figure(one.alpha) for _, one in shown],
        "95% interval": [span(one) for _, one in shown],
        "in words": [one.word or alpha_words(one) for _, one in shown],
        "exactly the same": [wording.percent(one.raw, 0) for _, one in shown],
        "judged by two or more": [one.n_items for _, one in shown],
    }
