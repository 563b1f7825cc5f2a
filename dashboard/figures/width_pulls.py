"""Confidence → interval width against pulls, with the documented widths as boxes and the exact curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from core.columns import Floats, Ints
from core.maths.posterior import beta
from core.maths.posterior.bands import TYPICAL_WIDTHS
from core.maths.statistics.confidence import Confidence, ReferenceCurve
from core.records.arm import ARM_TYPES, BAND_FLOORS, BANDS, ArmType, Band
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.chart import Chart, Trace, chart_of, scatter
from dashboard.figures.theme import Tokens

MAX_MARKS: Final = 1_500
_CROWD: Final = 300
"""More marks than this cover one another: they are small then, and let others through."""
_CROWD_MARK_PX: Final = 5
_TOP: Final = 0.95
_DASHES: Final = ("solid", "dash")
_HEIGHT_PX: Final = 384
_CONTINUED_POINTS: Final = 40


def width_pulls(known: Confidence, look: Tokens, *, compact: bool = False) -> Chart:
    """Return width of the 95% interval against pulls, on a log axis; arms without pulls have no place on it."""
    places = apart(known)
    most = max(int(known.pulls.max(initial=0)), 100)
    right = float(np.log10(most)) + 0.08
    curves = [curve for curve in known.curves if len(curve.pulls)]
    traces = [_curve(curve, most, _DASHES[at % 2], look) for at, curve in enumerate(curves)]
    dotted = {"color": look.chart_accent, "width": 1.5, "dash": "dot", "simplify": False}
    traces += [
        scatter("lines", *medians(known), line=dotted),
        *(_marks(known, places, kind, look) for kind in ARM_TYPES),
    ]
    layout = theme.layout(
        look,
        height=_HEIGHT_PX,
        margin=(42, 12, 4, 46) if compact else (46, 74, 4, 46),
        xaxis=_pulls_axis(look, right),
        yaxis=theme.axis(
            look,
            grid=True,
            title="width of the 95% interval",
            range=[0, _TOP],
            **theme.ticks([0, 0.25, 0.5, 0.75], ["0", "0.25", "0.50", "0.75"]),
        ),
        shapes=_boxes(look, right),
        annotations=[*_band_names(look, right), *([] if compact else _ends(curves, most, look))],
    )
    n_observed = int((known.pulls > 0).sum())
    n_wider = int((known.wider & (known.pulls > 0)).sum())
    alt = (
        f"Width of the 95% interval against pulls for {wording.things(n_observed, 'arm')}; "
        f"{wording.count(n_wider)} of them are wider than the documented width of their band. {_spoken(known)}"
    )
    return chart_of(
        [trace for trace in traces if len(trace["x"])], layout, alt=alt, table=_table(known, places)
    )


def apart(known: Confidence, at_most: int = MAX_MARKS) -> Ints:
    """Places of the observed arms to draw: those that would fall on the same few pixels are drawn once.

    Should that leave too many still, an even sample of them.
    """
    observed = np.flatnonzero(known.pulls > 0)
    if len(observed) <= at_most:
        return observed
    across = np.round(np.log10(known.pulls[observed]) * 80).astype(np.int64)
    up = np.round(known.width[observed] * 120).astype(np.int64)
    kinds = np.array([ARM_TYPES.index(known.types[int(index)]) for index in observed])
    _, first = np.unique(np.stack([across, up, kinds]), axis=1, return_index=True)
    distinct = observed[np.sort(first)]
    if len(distinct) <= at_most:
        return distinct
    return distinct[np.unique(np.round(np.linspace(0, len(distinct) - 1, at_most)).astype(np.int64))]


def _pulls_axis(look: Tokens, right: float) -> dict[str, Any]:
    ticks = [tick for tick in (1, 5, 20, 50, 100, 500, 2_000, 10_000, 100_000) if np.log10(tick) <= right]
    return theme.axis(
        look,
        title="pulls, log scale",
        type="log",
        range=[-0.07, right],
        **theme.ticks(ticks, [wording.count(tick) for tick in ticks]),
    )


def _boxes(look: Tokens, right: float) -> list[dict[str, Any]]:
    shapes: list[dict[str, Any]] = []
    for left, end, name in _spans(right):
        low, high = TYPICAL_WIDTHS[name] or (0.0, 0.0)
        box = {"type": "rect", "xref": "x", "yref": "y", "layer": "below", "line": {"width": 0}}
        shapes.append(
            {**box, "x0": left, "x1": end, "y0": low, "y1": min(high, _TOP), "fillcolor": look.gray_ground}
        )
        line = {"color": look.grid, "width": 1}
        shapes.append({**box, "type": "line", "x0": end, "x1": end, "y0": 0, "y1": _TOP, "line": line})
    return shapes


def _spans(right: float) -> list[tuple[float, float, Band]]:
    """Return left and right end (in pulls) and name of each band with pulls."""
    floors = [float(floor) for floor in BAND_FLOORS[1:]]
    ends = [*floors[1:], 10.0**right]
    starts = [10.0**-0.07, *floors[1:]]
    return list(zip(starts, ends, BANDS[1:], strict=True))


def _band_names(look: Tokens, right: float) -> list[dict[str, Any]]:
    return [
        theme.label(
            look,
            wording.BAND_WORDS[name],
            color=look.muted,
            size=theme.AXIS_PX,
            x=float(np.log10(left) + np.log10(end)) / 2,
            y=1,
            yref="paper",
            yanchor="top",
            yshift=-4,
        )
        for left, end, name in _spans(right)
    ]


def _continued(curve: ReferenceCurve, most: int) -> tuple[Floats, Floats]:
    """Return pulls and widths of a curve from 1 to the axis' end; past its own end by the same posterior."""
    shown = (curve.pulls >= 1) & (curve.pulls <= most)
    pulls, width = curve.pulls[shown].astype(np.float64), curve.width[shown]
    if not len(pulls) or pulls[-1] >= most:
        return pulls, width
    more = np.geomspace(pulls[-1], most, _CONTINUED_POINTS)[1:]
    lower, upper = beta.interval(curve.mean * (more + 2), (1 - curve.mean) * (more + 2))
    return np.concatenate([pulls, more]), np.concatenate([width, upper - lower])


def _curve(curve: ReferenceCurve, most: int, dash: str, look: Tokens) -> Trace:
    line = {"color": look.guide, "width": 1.5, "dash": dash, "simplify": False, "shape": "spline"}
    return scatter("lines", *_continued(curve, most), line=line)


def _ends(curves: Sequence[ReferenceCurve], most: int, look: Tokens) -> list[dict[str, Any]]:
    """Return each curve's name at its end, never two on one line."""
    notes: list[dict[str, Any]] = []
    for at, curve in enumerate(sorted(curves, key=lambda of: of.mean)):
        _, width = _continued(curve, most)
        position: dict[str, Any] = {"xref": "paper", "x": 1, "xanchor": "left", "y": float(width[-1])}
        position |= {"xshift": 6, "yshift": 8 - 16 * at}
        name = f"mean {curve.mean:g}"
        notes.append(theme.label(look, name, color=look.muted, size=theme.AXIS_PX, **position))
    return notes


def medians(known: Confidence) -> tuple[Floats, Floats]:
    """Return pulls (the middle of each class on a log axis) and the median width of their arms."""
    path = known.convergence
    held = path.pulls_from > 0
    first = path.pulls_from[held].astype(np.float64)
    last = np.minimum(path.pulls_to[held], max(int(known.pulls.max(initial=1)), 1)).astype(np.float64)
    return np.sqrt(first * np.maximum(first, last)), path.median_width[held]


def _spoken(known: Confidence) -> str:
    pulls, width = medians(known)
    if len(pulls) < 2:
        return ""
    return (
        f"Their median falls from {width[0]:.2f} at {wording.count(pulls[0])} to {width[-1]:.2f} at "
        f"{wording.count(pulls[-1])} pulls."
    )


def _marks(known: Confidence, places: Ints, kind: ArmType, look: Tokens) -> Trace:
    own = [int(index) for index in places if known.types[int(index)] == kind]
    tokens = look.types[kind]
    crowded = len(places) > _CROWD
    return scatter(
        "markers",
        known.pulls[own],
        known.width[own],
        marker={
            "symbol": tokens.symbol,
            "size": _CROWD_MARK_PX if crowded else tokens.size,
            "color": tokens.mark,
            "line": {"width": 0 if crowded else 1, "color": look.page},
            "opacity": 0.6 if crowded else 1,
        },
        hover=[_hover(known, index) for index in own],
        cliponaxis=False,
    )


def _hover(known: Confidence, index: int) -> str:
    name = wording.plot_literal(wording.short_name(known.keys[index]))
    band = wording.BAND_WORDS[BANDS[int(known.band[index])]]
    wider = "<br>wider than its band suggests" if known.wider[index] else ""
    pulls = wording.things(int(known.pulls[index]), "pull")
    return f"<b>{name}</b><br>interval {known.width[index]:.2f} wide<br>{pulls}, confidence {band}{wider}"


def _table(known: Confidence, places: Ints) -> dict[str, list[str | int | float]]:
    shown = [int(index) for index in places]
    return {
        "type": [known.types[index] for index in shown],
        "arm": [wording.plain(known.keys[index]) for index in shown],
        "pulls": [int(known.pulls[index]) for index in shown],
        "interval width": [f"{known.width[index]:.3f}" for index in shown],
        "confidence": [wording.band(BANDS[int(known.band[index])]) for index in shown],
        "wider than its band": ["yes" if known.wider[index] else "no" for index in shown],
    }
