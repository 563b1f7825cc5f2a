"""An interval ladder: a line per interval, the type's symbol at its mean, names left, numbers right.

`rungs` and `beside` are its pieces; the densities figure uses the same ladder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from core.records.arm import ARM_TYPES
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.arms import ArmRow, hover, spoken, table
from dashboard.figures.chart import Chart, Trace, chart_of, joined, single
from dashboard.figures.theme import Tokens

ROW_PX: Final = 26
COMPACT_ROW_PX: Final = 42
_NAME_ABOVE_PX: Final = 19
"""Distance of a name above its line on a phone."""
_TRUTH_PX: Final = 14


def ladder(arms: Sequence[ArmRow], look: Tokens, *, compact: bool = False) -> Chart:
    """Return the ladder on its own, as the overview shows the best and worst arms."""
    row_px = COMPACT_ROW_PX if compact else ROW_PX
    margin = (8, 8, 4, 44) if compact else (214, 134, 4, 44)
    layout = theme.layout(
        look,
        height=row_px * max(len(arms), 1) + margin[2] + margin[3],
        margin=margin,
        xaxis=theme.probability_axis(look),
        yaxis=rung_axis(look, len(arms)),
        annotations=beside(arms, look, compact=compact, columns=("mean", "95% interval")),
    )
    alt = f"Mean and 95% interval of {wording.things(len(arms), 'arm')}: {spoken(arms)}."
    return chart_of(rungs(arms, look, compact=compact), layout, alt=alt, table=table(arms))


def rung_axis(look: Tokens, n_rows: int, **more: object) -> dict[str, Any]:
    """Return the vertical axis of a ladder: first row on top, no labels of its own."""
    return theme.axis(look, range=[n_rows - 0.5, -0.5], showticklabels=False) | more


def rungs(arms: Sequence[ArmRow], look: Tokens, *, yaxis: str = "y", compact: bool = False) -> list[Trace]:
    """Return intervals, one trace per type, then the means of all arms in one trace, then planted values."""
    shift = 0.2 if compact else 0.0
    traces = [_intervals(arms, kind, look, yaxis, shift) for kind in ARM_TYPES]
    return [trace for trace in traces if len(trace["x"])] + [
        _means(arms, look, yaxis, shift),
        *_truths(arms, look, yaxis, shift),
    ]


def _intervals(arms: Sequence[ArmRow], kind: str, look: Tokens, yaxis: str, shift: float) -> Trace:
    own = [(index, row) for index, row in enumerate(arms) if row.type == kind]
    mark = {token: value.mark for token, value in look.types.items()}
    return {
        "type": "scatter",
        "mode": "lines",
        "x": joined([[row.lower, row.upper] for _, row in own]),
        "y": joined([[index + shift] * 2 for index, _ in own]),
        "yaxis": yaxis,
        "line": {"color": next(value for name, value in mark.items() if name == kind), "width": 3},
        "hoverinfo": "skip",
    }


def _means(arms: Sequence[ArmRow], look: Tokens, yaxis: str, shift: float) -> Trace:
    kinds = [look.types[row.type] for row in arms]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": single([row.mean for row in arms]),
        "y": single(np.arange(len(arms)) + shift),
        "yaxis": yaxis,
        "marker": {
            "symbol": [kind.symbol for kind in kinds],
            "size": [kind.size + 1 for kind in kinds],
            "color": [kind.mark for kind in kinds],
            "line": {"width": 1, "color": look.page},
            "opacity": 1,
        },
        "hovertext": [hover(row) for row in arms],
        "hoverinfo": "text",
        "customdata": list(range(len(arms))),
        "cliponaxis": False,
    }


def _truths(arms: Sequence[ArmRow], look: Tokens, yaxis: str, shift: float) -> list[Trace]:
    """Return planted values of a demo: a short upright stroke in text colour."""
    known = [(index, row.truth) for index, row in enumerate(arms) if row.truth is not None]
    if not known:
        return []
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "x": single([truth for _, truth in known]),
            "y": single([index + shift for index, _ in known]),
            "yaxis": yaxis,
            "marker": {
                "symbol": "line-ns-open",
                "size": _TRUTH_PX,
                "color": look.text,
                "line": {"width": 2, "color": look.text},
            },
            "hoverinfo": "skip",
            "cliponaxis": False,
        }
    ]


def beside(
    arms: Sequence[ArmRow],
    look: Tokens,
    *,
    compact: bool,
    columns: tuple[str, ...],
    numbered: bool = False,
    yref: str = "y",
) -> list[dict[str, Any]]:
    """Return names and numbers of every row, placed by pixel beside (or, on a phone, above) its line."""
    if not arms:
        return []
    if compact:
        return _above(arms, look, numbered=numbered, yref=yref)
    return _side_labels(arms, look, columns=columns, numbered=numbered, yref=yref)


NUMBER_SHIFTS: Final = {"mean": 47, "95% interval": 126, "pulls": 179}
"""Right edges of the number columns, in px from the chart's right end."""


def _side_labels(
    arms: Sequence[ArmRow], look: Tokens, *, columns: tuple[str, ...], numbered: bool, yref: str
) -> list[dict[str, Any]]:
    left: dict[str, Any] = {"x": 0, "xanchor": "right", "yref": yref, "row_px": ROW_PX}
    right: dict[str, Any] = {**left, "x": 1}
    names = [wording.plot_literal(wording.short_name(row.key)) for row in arms]
    notes = [theme.column(look, names, xshift=-34 if numbered else -12, **left)]
    if numbered:
        notes.append(theme.column(look, _numbers(arms, look), xshift=-12, **left))
    texts = {
        "mean": [wording.mean(row.mean) for row in arms],
        "95% interval": [wording.interval(row.lower, row.upper) for row in arms],
        "pulls": [wording.count(row.pulls) for row in arms],
    }
    for name in columns:
        colour = look.text if name == "mean" else look.muted
        notes.append(theme.column(look, texts[name], color=colour, xshift=NUMBER_SHIFTS[name], **right))
    return notes


def _numbers(arms: Sequence[ArmRow], look: Tokens) -> list[str]:
    """Return the rows' numbers, bold, in the colour of the arm's type."""
    return [
        f'<span style="color:{look.types[row.type].text}"><b>{at}</b></span>'
        for at, row in enumerate(arms, 1)
    ]


def _above(arms: Sequence[ArmRow], look: Tokens, *, numbered: bool, yref: str) -> list[dict[str, Any]]:
    position: dict[str, Any] = {"yref": yref, "row_px": COMPACT_ROW_PX, "yshift": _NAME_ABOVE_PX, "down": 0.2}
    names = [wording.plot_literal(wording.short_name(row.key)) for row in arms]
    means = [wording.mean(row.mean) for row in arms]
    spans = [wording.interval(row.lower, row.upper) for row in arms]
    notes = [
        theme.column(look, names, x=0, xanchor="left", xshift=12 if numbered else 0, **position),
        theme.column(look, means, x=1, xanchor="right", xshift=-66, **position),
        theme.column(look, spans, x=1, xanchor="right", color=look.muted, **position),
    ]
    if numbered:
        notes.append(theme.column(look, _numbers(arms, look), x=0, xanchor="left", **position))
    return notes
