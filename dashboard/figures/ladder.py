"""An interval ladder: a line per interval, the type's symbol at its mean, names left, numbers right.

`rungs` and `beside` are its pieces; the densities figure uses the same ladder. `dumbbells` has two means with their
intervals in a row: the first open, the second filled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from core.records.arm import ARM_TYPES
from core.records.sides import ComparedArm
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.arms import ArmRow, hover, spoken, table
from dashboard.figures.chart import Cell, Chart, Trace, chart_of, joined, scatter
from dashboard.figures.theme import Tokens

ROW_PX: Final = 26
COMPACT_ROW_PX: Final = 42
_NAME_ABOVE_PX: Final = 19
"""Distance of a name above its line on a phone."""
_TRUTH_PX: Final = 14

NUMBER_SHIFTS: Final = {"mean": 47, "95% interval": 126, "pulls": 179}
"""Right edges of the number columns, in px from the chart's right end."""

_NAME_PX: Final = 250
_NUMBERS_PX: Final = 110
_TOP_PX, _BOTTOM_PX = 12, 46
_BESIDE: Final = 0.15
"""Distance of each side's interval from the middle of its row."""


def ladder(arms: Sequence[ArmRow], look: Tokens, *, compact: bool = False) -> Chart:
    """Return the ladder on its own, as the overview shows the most and least used arms."""
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
    traces = [
        intervals(
            [(at, row.lower, row.upper) for at, row in enumerate(arms) if row.type == kind],
            look.types[kind].mark,
            shift,
            yaxis=yaxis,
        )
        for kind in ARM_TYPES
    ]
    return [trace for trace in traces if len(trace["x"])] + [
        _means(arms, look, yaxis, shift),
        *_truths(arms, look, yaxis, shift),
    ]


def intervals(
    limits: Sequence[tuple[int, float | None, float | None]], colour: str, shift: float, **more: str
) -> Trace:
    """Return a line in each row whose limits are known, ``shift`` below the middle of the row."""
    known = [(at, lower, upper) for at, lower, upper in limits if lower is not None and upper is not None]
    return scatter(
        "lines",
        joined([[lower, upper] for _, lower, upper in known]),
        joined([[at + shift] * 2 for at, *_ in known]),
        **more,
        line={"color": colour, "width": theme.LADDER_LINE_PX},
    )


def _means(arms: Sequence[ArmRow], look: Tokens, yaxis: str, shift: float) -> Trace:
    kinds = [look.types[row.type] for row in arms]
    return scatter(
        "markers",
        [row.mean for row in arms],
        np.arange(len(arms)) + shift,
        yaxis=yaxis,
        marker=theme.mark(
            look,
            [kind.symbol for kind in kinds],
            [kind.size + 1 for kind in kinds],
            [kind.mark for kind in kinds],
        ),
        hover=[hover(row) for row in arms],
        customdata=list(range(len(arms))),
        cliponaxis=False,
    )


def _truths(arms: Sequence[ArmRow], look: Tokens, yaxis: str, shift: float) -> list[Trace]:
    """Return planted values of a demo: a short upright stroke in text colour."""
    known = [(index, row.truth) for index, row in enumerate(arms) if row.truth is not None]
    if not known:
        return []
    return [
        scatter(
            "markers",
            [truth for _, truth in known],
            [index + shift for index, _ in known],
            yaxis=yaxis,
            marker={
                "symbol": "line-ns-open",
                "size": _TRUTH_PX,
                "color": look.text,
                "line": {"width": 2, "color": look.text},
            },
            cliponaxis=False,
        )
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


def dumbbells(arms: Sequence[ComparedArm], look: Tokens, *, compact: bool = False) -> Chart:
    """Return two means with their intervals per arm: A open above, B filled below; on a phone the name is above."""
    row_px = COMPACT_ROW_PX + 12 if compact else COMPACT_ROW_PX
    marks = [look.types[wording.type_of(one.arm)] for one in arms]
    traces: list[Trace] = []
    for is_a in (True, False):
        sides = [one.a if is_a else one.b for one in arms]
        shift = (-_BESIDE if is_a else _BESIDE) + (_BESIDE if compact else 0.0)
        limits = [(place, side.lower, side.upper) for place, side in enumerate(sides)]
        points = scatter(
            "markers",
            [side.mean for side in sides],
            np.arange(len(arms)) + shift,
            marker={
                "size": [mark.size for mark in marks],
                "symbol": [f"{mark.symbol}-open" if is_a else mark.symbol for mark in marks],
                "color": [mark.mark for mark in marks],
                "line": {"width": 2 if is_a else 1, "color": [mark.mark for mark in marks]},
                "opacity": 1,
            },
            hover=[_hover(one) for one in arms],
            customdata=list(range(len(arms))),
            cliponaxis=False,
        )
        traces += [intervals(limits, look.ghost, shift), points]
    side = 12 if compact else _NAME_PX
    layout = theme.layout(
        look,
        height=_TOP_PX + _BOTTOM_PX + row_px * len(arms),
        margin=(side, side if compact else _NUMBERS_PX, _TOP_PX, _BOTTOM_PX),
        xaxis=theme.probability_axis(look, "mean and 95% interval: open A, filled B"),
        yaxis=rung_axis(look, len(arms)),
        annotations=[
            label for place, one in enumerate(arms) for label in _labels(place, one, look, compact=compact)
        ],
    )
    return chart_of(traces, layout, alt=_alt(arms), table=_table(arms))


def _labels(place: int, one: ComparedArm, look: Tokens, *, compact: bool) -> list[dict[str, object]]:
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
        f"{letter}: mean {wording.mean(side.mean)}, 95% interval {wording.interval(side.lower, side.upper)}, "
        f"used in {wording.count(side.n_used)} of {wording.count(side.n_in)} prompts"
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
        "95% interval A": [wording.interval(one.a.lower, one.a.upper) for one in arms],
        "95% interval B": [wording.interval(one.b.lower, one.b.upper) for one in arms],
        "used A": [one.a.n_used for one in arms],
        "prompts A": [one.a.n_in for one in arms],
        "used B": [one.b.n_used for one in arms],
        "prompts B": [one.b.n_in for one in arms],
    }
