"""Two beliefs → before dashed and grey, after solid with its interval shaded."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from core.columns import Floats
from core.maths.posterior import beta
from core.records.arm import ArmType
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.chart import Chart, chart_of
from dashboard.figures.densities import curve, curve_line
from dashboard.figures.theme import Tokens

_HEIGHT_PX: Final = 272
_LINE_PX: Final = 18
_END: Final = 0.32
"""Nearer to an end of the axis than this part of it a name beside its peak would be cut off on a phone."""
_MAGNIFIED: Final = 0.3
"""Beliefs that lie on so little of the axis are shown on that part alone, or one would hide the other."""
_AROUND: Final = 6
"""Standard deviations on either side that are shown then."""

Curve = tuple[Floats, Floats]


def before_after(
    key: str,
    arm_type: ArmType,
    before: tuple[float, float],
    after: tuple[float, float],
    look: Tokens,
) -> Chart:
    """Return density of one arm before and after an act; both are (alpha, beta)."""
    was, now = curve(*before), curve(*after)
    top = max(float(was[1].max(initial=0)), float(now[1].max(initial=0))) * 1.18 or 1.0
    mark = look.types[arm_type].mark
    lower, upper = (float(np.squeeze(limit)) for limit in beta.interval(*after))
    inside = np.linspace(lower, upper, 81)
    traces = [
        curve_line(inside, beta.density(after[0], after[1], inside), mark, 0, "solid")
        | {"fill": "tozeroy", "fillcolor": theme.faded(mark, theme.SHADE)},
        curve_line(*was, look.runs["baseline"], 2, "8px,6px"),
        curve_line(*now, mark, 2.6, "solid"),
    ]
    means = (before[0] / sum(before), after[0] / sum(after))
    low, high = _shown(before, after)
    layout = theme.layout(
        look,
        height=_HEIGHT_PX,
        margin=(16, 16, 22, 46),
        xaxis=_axis(look, low, high),
        yaxis=theme.axis(look, range=[0, top], showticklabels=False),
        annotations=_names(was, now, means, top, look, shown=(low, high)),
    )
    name = wording.short_name(key)
    alt = f"Belief in {name}: mean {wording.mean(means[0])} before, {wording.mean(means[1])} after."
    return chart_of(traces, layout, alt=alt, table=_table(before, after, means))


def _shown(*beliefs: tuple[float, float]) -> tuple[float, float]:
    """Return the part of the axis to show: where the beliefs lie, if that is little of it.

    >>> _shown((2.0, 3.0), (2.0, 4.0)), [round(end, 2) for end in _shown((793.0, 563.0), (793.0, 564.0))]
    ((0.0, 1.0), [0.5, 0.67])
    """
    ends = []
    for alpha, beta_ in beliefs:
        mean = alpha / (alpha + beta_)
        around = _AROUND * (mean * (1 - mean) / (alpha + beta_ + 1)) ** 0.5
        ends += [mean - around, mean + around]
    low, high = max(min(ends), 0.0), min(max(ends), 1.0)
    return (low, high) if high - low < _MAGNIFIED else (0.0, 1.0)


def _axis(look: Tokens, low: float, high: float) -> dict[str, Any]:
    if (low, high) == (0.0, 1.0):
        return theme.probability_axis(look)
    title = "probability of being used, magnified"
    return theme.axis(look, grid=True, title=title, range=[low, high], nticks=6, tickformat=".2f")


def _names(
    was: Curve,
    now: Curve,
    means: tuple[float, float],
    top: float,
    look: Tokens,
    *,
    shown: tuple[float, float],
) -> list[dict[str, Any]]:
    """Return each name on the free side of its peak; near an end both names share the other side."""
    (now_at, now_y), (was_at, was_y) = (_peak(curve, top) for curve in (now, was))
    anchors = ("right", "left") if now_at <= was_at else ("left", "right")
    lower_px, room = 0, _END * (shown[1] - shown[0])
    if max(now_at, was_at) > shown[1] - room or min(now_at, was_at) < shown[0] + room:
        near_one = max(now_at, was_at) > shown[1] - room
        anchors = ("right", "right") if near_one else ("left", "left")
        now_at = was_at = min(now_at, was_at) if near_one else max(now_at, was_at)
        was_y, lower_px = now_y, _LINE_PX
    before, after = wording.means(*means)
    return [
        _name(f"<b>after {after}</b>", (now_at, now_y), anchors[0], look, look.text),
        _name(f"before {before}", (was_at, was_y), anchors[1], look, look.muted, lower_px=lower_px),
    ]


def _peak(curve: Curve, top: float) -> tuple[float, float]:
    """Return the peak of a curve, and the highest position for its name."""
    x, height = curve
    peak = int(height.argmax())
    return float(x[peak]), min(float(height[peak]), top * 0.94)


def _name(
    text: str, at: tuple[float, float], side: str, look: Tokens, colour: str, *, lower_px: int = 0
) -> dict[str, Any]:
    shift = -14 if side == "right" else 14
    return theme.label(
        look, text, color=colour, x=at[0], y=at[1], xanchor=side, xshift=shift, yshift=6 - lower_px
    )


def _table(
    before: tuple[float, float], after: tuple[float, float], means: tuple[float, float]
) -> dict[str, list[str | int | float]]:
    return {
        "what": ["belief", "mean"],
        "before": [wording.beta(*before), wording.mean(means[0], 3)],
        "after": [wording.beta(*after), wording.mean(means[1], 3)],
    }
