"""One arm's belief now, at an earlier moment and before any observation → three densities over one interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from core.columns import Floats
from core.maths.posterior import beta
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.arms import ArmRow
from dashboard.figures.chart import Chart, Trace, chart_of, scatter
from dashboard.figures.densities import between, curve, curve_line
from dashboard.figures.theme import Tokens

_HEIGHT_PX: Final = 326
_MARGIN: Final = (16, 16, 30, 46)
_GROUND: Final = 0.09
"""Room under the ground for the interval, as a part of the height above it."""
_HEADROOM: Final = 1.16
_PRIOR_AT_MOST: Final = 1.6
"""A prior that rises without end at 0 or 1 is cut; the belief itself never is."""
_LABEL_HEIGHTS: Final = 0.07
"""Labels closer than this part of the height would touch."""
_LABEL_WIDTH: Final = 0.3

Curve = tuple[Floats, Floats]
Earlier = tuple[float, float, str]
"""Alpha and beta at an earlier moment, and what to call it."""


class _Shapes(NamedTuple):
    """The curves of a picture, and the height it ends at."""

    now: Curve
    was: Curve | None
    prior: Curve
    top: float


def _shapes(row: ArmRow, earlier: Earlier | None) -> _Shapes:
    now, prior = curve(row.alpha, row.beta), curve(row.prior_alpha, row.prior_beta)
    was = None if earlier is None else curve(earlier[0], earlier[1])
    top = max(float(one[1].max(initial=0)) for one in (now, was) if one is not None)
    top = max(top, min(float(prior[1].max(initial=0)), _PRIOR_AT_MOST * top), 1.0)
    return _Shapes(now, was, prior, top * _HEADROOM)


def then_now(row: ArmRow, earlier: Earlier | None, look: Tokens, *, ghost: str = "prior") -> Chart:
    """Return density of one arm now over its interval; ``earlier`` is (alpha, beta, what to call it).

    ``ghost`` is what to call that which this epoch started from.
    """
    shapes = _shapes(row, earlier)
    layout = theme.layout(
        look,
        height=_HEIGHT_PX,
        margin=_MARGIN,
        xaxis=theme.probability_axis(look),
        yaxis=theme.axis(look, range=[-_GROUND * shapes.top, shapes.top], showticklabels=False),
        annotations=_names(row, shapes, earlier, look, ghost),
    )
    return chart_of(
        _traces(row, shapes, look), layout, alt=_alt(row, earlier, ghost), table=_table(row, earlier, ghost)
    )


def _traces(row: ArmRow, shapes: _Shapes, look: Tokens) -> list[Trace]:
    now, was, prior, top = shapes
    mark, pulls = look.types[row.type].mark, wording.things(row.pulls, "pull")
    inside, height = between(row, points=81)
    shade = curve_line(
        inside, np.minimum(height, top), mark, 0, "solid"
    )  # it may rise without end at 0 and 1
    shade |= {"fill": "tozeroy", "fillcolor": theme.faded(mark, theme.SHADE)}
    ground = -_GROUND / 2 * top
    traces = [shade, curve_line(*prior, look.ghost, 1.5, "2px,3px")]
    if was is not None:
        traces.append(curve_line(*was, mark, 1.6, "9px,6px"))
    return [
        *traces,
        curve_line(*now, mark, 2.6, "solid"),
        curve_line(
            np.array([row.lower, row.upper]), np.array([ground, ground]), mark, theme.LADDER_LINE_PX, "solid"
        ),
        scatter(
            "markers",
            [row.mean],
            [ground],
            marker=theme.mark(look, look.types[row.type].symbol, look.types[row.type].size + 1, mark),
            hover=[f"<b>now</b><br>{row.words}<br>{pulls}, confidence {wording.BAND_WORDS[row.band]}"],
            cliponaxis=False,
        ),
    ]


def _names(
    row: ArmRow, shapes: _Shapes, earlier: Earlier | None, look: Tokens, ghost: str
) -> list[dict[str, Any]]:
    """Return each curve's name where it can be read; later names move up from those already placed."""
    now, was, prior, top = shapes
    at, peak = _peak(now)
    notes = [
        theme.label(
            look,
            f"<b>now {wording.mean(row.mean)}</b>",
            x=at,
            y=min(peak, top * 0.95),
            yanchor="bottom",
            yshift=3,
            xanchor="left" if at < 0.1 else "right" if at > 0.9 else "center",
        )
    ]
    places = _Places(top, [(at, peak)])
    if was is not None and earlier is not None:
        mean = earlier[0] / (earlier[0] + earlier[1])
        x, y = _peak(was)
        goes_right = (0.25 <= x <= 0.75 and x >= at) or x < 0.25
        side = "left" if goes_right else "right"
        name = _named(look, f"{earlier[2]} {wording.mean(mean)}", x, places.free(x, y), side)
        notes.append({**name, "xshift": 12 if goes_right else -12})
    x = 0.015 if at > 0.5 else 0.985
    y = places.free(x, float(np.interp(x, *prior)))
    text = f"{ghost} {wording.beta(row.prior_alpha, row.prior_beta)}"
    notes.append(_named(look, text, x, y, "left" if x < 0.5 else "right"))
    low, high = wording.interval(row.lower, row.upper).split("–")
    for limit, end, anchor, shift in ((low, row.lower, "right", -8), (high, row.upper, "left", 8)):
        inward = end < 0.08 if anchor == "right" else end > 0.92
        notes.append(
            theme.label(
                look,
                limit,
                size=theme.AXIS_PX,
                x=end,
                y=-_GROUND / 2 * top,
                xanchor={"right": "left", "left": "right"}[anchor] if inward else anchor,
                xshift=-shift if inward else shift,
                yshift=-10 if inward else 0,
            )
        )
    return notes


class _Places:
    """Positions of names; a new name moves up where it would touch another."""

    def __init__(self, top: float, taken: list[tuple[float, float]]) -> None:
        self._top, self._taken = top, taken

    def free(self, x: float, y: float) -> float:
        y = min(y, self._top * 0.9)
        step = _LABEL_HEIGHTS * self._top
        while any(abs(y - other) < step and abs(x - at) < _LABEL_WIDTH for at, other in self._taken):
            y += step / 4
        self._taken.append((x, y))
        return y


def _named(look: Tokens, text: str, x: float, y: float, side: str) -> dict[str, Any]:
    return theme.label(look, text, color=look.muted, x=x, y=y, yanchor="bottom", yshift=3, xanchor=side)


def _peak(shape: Curve) -> tuple[float, float]:
    index = int(shape[1].argmax())
    return float(shape[0][index]), float(shape[1][index])


def _alt(row: ArmRow, earlier: Earlier | None, ghost: str) -> str:
    text = f"Density of {wording.short_name(row.key)} now: {row.words}"
    if earlier is not None:
        text += f"; {earlier[2]} its mean was {wording.mean(earlier[0] / (earlier[0] + earlier[1]))}"
    return f"{text}; {ghost} {wording.beta(row.prior_alpha, row.prior_beta)} dotted."


def _table(row: ArmRow, earlier: Earlier | None, ghost: str) -> dict[str, Sequence[str]]:
    beliefs = [("now", row.alpha, row.beta)]
    if earlier is not None:
        beliefs.append((earlier[2], earlier[0], earlier[1]))
    beliefs.append((ghost, row.prior_alpha, row.prior_beta))
    limits = [beta.interval(a, b) for _, a, b in beliefs]
    return {
        "when": [name for name, _, _ in beliefs],
        "belief": [wording.beta(a, b) for _, a, b in beliefs],
        "mean": [wording.mean(a / (a + b), 3) for _, a, b in beliefs],
        "95% interval": [wording.interval(float(low), float(high)) for low, high in limits],
    }
