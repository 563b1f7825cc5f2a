"""Two sides → a dumbbell per arm: its mean in the first open, in the second filled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.records.sides import ComparedArm
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.chart import Cell, Chart, Trace, chart_of, joined, single
from dashboard.figures.theme import Tokens

_ROW_PX: Final = 26
_COMPACT_ROW_PX: Final = 42
_NAME_PX: Final = 250
_NUMBERS_PX: Final = 110
_TOP_PX, _BOTTOM_PX = 12, 46


def dumbbells(arms: Sequence[ComparedArm], look: Tokens, *, compact: bool = False) -> Chart:
    """Return a row per arm on the axis from 0 to 1; a narrow window has the names above the lines."""
    row_px = _COMPACT_ROW_PX if compact else _ROW_PX
    places = list(range(len(arms)))
    marks = [look.types[wording.type_of(one.arm)] for one in arms]
    lines: Trace = {
        "type": "scatter",
        "mode": "lines",
        "x": joined([[one.a.mean, one.b.mean] for one in arms]),
        "y": joined([[place, place] for place in places]),
        "line": {"width": 2, "color": look.ghost},
        "hoverinfo": "skip",
    }
    points: list[Trace] = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": single([one.a.mean if is_a else one.b.mean for one in arms]),
            "y": single(places),
            "marker": {
                "size": [mark.size for mark in marks],
                "symbol": [f"{mark.symbol}-open" if is_a else mark.symbol for mark in marks],
                "color": [mark.mark for mark in marks],
                "line": {"width": 2 if is_a else 1, "color": [mark.mark for mark in marks]},
            },
            "hovertext": [_hover(one) for one in arms],
            "hoverinfo": "text",
            "cliponaxis": False,
        }
        for is_a in (True, False)
    ]
    side = 12 if compact else _NAME_PX
    layout = theme.layout(
        look,
        height=_TOP_PX + _BOTTOM_PX + row_px * len(arms),
        margin=(side, side if compact else _NUMBERS_PX, _TOP_PX, _BOTTOM_PX),
        xaxis=theme.probability_axis(look, "mean: open A, filled B"),
        yaxis=theme.axis(look, range=[len(arms) - 0.4, -0.6], showticklabels=False),
        annotations=[
            label for place, one in enumerate(arms) for label in _labels(place, one, look, compact=compact)
        ],
    )
    return chart_of([lines, *points], layout, alt=_alt(arms), table=_table(arms))


def _labels(place: int, one: ComparedArm, look: Tokens, *, compact: bool) -> list[dict[str, object]]:
    """Return the name left of the line and the numbers right of it, or both above it."""
    lift = {"y": place, "yanchor": "bottom" if compact else "middle", "yshift": 6 if compact else 0}
    name = wording.plot_literal(wording.cut_middle(wording.short_name(one.arm), 24 if compact else 34))
    before, after = wording.means(one.a.mean, one.b.mean)
    ends = {"xref": "paper", **lift}
    return [
        theme.label(
            look, name, x=0, xanchor="left" if compact else "right", xshift=0 if compact else -12, **ends
        ),
        theme.label(
            look,
            f"{before} → {after}",
            x=1,
            xanchor="right" if compact else "left",
            xshift=0 if compact else 12,
            color=look.muted,
            **ends,
        ),
    ]


def _hover(one: ComparedArm) -> str:
    name = wording.plot_literal(wording.cut_middle(wording.short_name(one.arm), 48))
    sides = [
        f"{letter}: mean {wording.mean(side.mean)}, used in {wording.count(side.n_used)} of "
        f"{wording.count(side.n_in)} prompts"
        for letter, side in (("A", one.a), ("B", one.b))
    ]
    return "<br>".join([f"<b>{name}</b>", *sides])


def _alt(arms: Sequence[ComparedArm]) -> str:
    moved = "; ".join(
        f"{wording.short_name(one.arm)} {wording.mean(one.a.mean)} and {wording.mean(one.b.mean)}"
        for one in arms[:5]
    )
    return f"Mean of {wording.things(len(arms), 'arm')} in A and in B. The largest differences: {moved}."


def _table(arms: Sequence[ComparedArm]) -> dict[str, Sequence[Cell]]:
    return {
        "arm": [wording.plain(wording.short_name(one.arm)) for one in arms],
        "mean A": [round(one.a.mean, 6) for one in arms],
        "mean B": [round(one.b.mean, 6) for one in arms],
        "used A": [one.a.n_used for one in arms],
        "prompts A": [one.a.n_in for one in arms],
        "used B": [one.b.n_used for one in arms],
        "prompts B": [one.b.n_in for one in arms],
    }
