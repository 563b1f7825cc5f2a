"""Stacked bars of counts by confidence band, one per arm type.

The depth of blue-grey means the amount of evidence. The number is inside; gaps separate the pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.maths.statistics.confidence import TypeBands
from core.records.arm import BANDS
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.chart import Chart, Trace, chart_of
from dashboard.figures.theme import Tokens

_GAP_PX: Final = 1.5
_ROW_PX: Final = 34


def bands_by_type(types: Sequence[TypeBands], look: Tokens) -> Chart:
    """Return one bar per arm type, its length the number of arms."""
    shown = [of_type for of_type in types if of_type.n_arms]
    room = max((of_type.n_arms for of_type in shown), default=1)
    names = [of_type.type for of_type in shown]
    traces = [
        _piece(band, [of_type.counts[band] for of_type in shown], names, look, room=room)
        for band in range(len(BANDS))
    ]
    layout = theme.layout(
        look,
        height=_ROW_PX * max(len(shown), 1) + 8,
        margin=(78, 2, 4, 4),
        barmode="stack",
        bargap=0.35,
        xaxis=theme.axis(look, range=[0, room], showticklabels=False),
        yaxis=theme.axis(look, autorange="reversed", showticklabels=False, type="category"),
        annotations=[
            theme.label(look, name, xref="paper", x=0, xanchor="right", xshift=-10, y=name) for name in names
        ],
    )
    spoken = "; ".join(f"{of_type.type} {_spoken(of_type.counts)}" for of_type in shown)
    return chart_of(
        traces, layout, alt=f"Arms by type and confidence band: {spoken}.", table=_type_table(shown)
    )


def _piece(band: int, counts: Sequence[int], names: Sequence[str], look: Tokens, *, room: int) -> Trace:
    words = wording.BAND_WORDS[BANDS[band]]
    return {
        "type": "bar",
        "orientation": "h",
        "x": list(counts),
        "y": list(names),
        "text": [wording.count(count) if _fits(count, room) else "" for count in counts],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "none",
        "textfont": {"color": look.band_text[band], "size": theme.CHART_PX},
        "marker": {"color": look.bands[band], "line": {"width": _GAP_PX, "color": look.page}},
        "hovertext": [f"<b>{words}</b><br>{wording.things(count, 'arm')}" for count in counts],
        "hoverinfo": "text",
    }


def _fits(count: int, room: int) -> bool:
    """Return whether a number fits inside its piece of a bar about 430 px long."""
    return count > 0 and count / room * 430 >= 7 * len(wording.count(count)) + 2


def _spoken(counts: Sequence[int]) -> str:
    return ", ".join(
        f"{wording.count(count)} {wording.BAND_WORDS[band]}"
        for band, count in zip(BANDS, counts, strict=True)
    )


def _type_table(types: Sequence[TypeBands]) -> dict[str, list[str | int | float]]:
    cells: dict[str, list[str | int | float]] = {"type": [of_type.type for of_type in types]}
    for band, name in enumerate(BANDS):
        cells[wording.BAND_WORDS[name]] = [of_type.counts[band] for of_type in types]
    return cells
