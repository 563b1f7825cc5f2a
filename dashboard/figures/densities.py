"""Rows → posterior densities over their ladder, on one shared axis from 0 to 1; and one belief before and after.

Chosen arms are never cut, and keep their true height unless one would press the others flat: then all are square
roots, and the picture says so. The other arms are one grey set of lines, which the frame may cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from core.columns import Floats
from core.maths.posterior import beta
from core.records.arm import ARM_TYPES, ArmType
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.arms import METHOD_WORDS, ArmRow, Method, spoken, table
from dashboard.figures.chart import Chart, Trace, chart_of, joined, scatter, single
from dashboard.figures.ladder import COMPACT_ROW_PX, NUMBER_SHIFTS, ROW_PX, beside, rung_axis, rungs
from dashboard.figures.theme import Tokens

MAX_CHOSEN: Final = 12
MAX_OTHERS: Final = 60
"""Most grey lines; beyond this an even sample by mean represents the rest."""

_CURVE_POINTS: Final = 161
_REST_POINTS: Final = 72
_CURVES_PX: Final = 258
_COMPACT_CURVES_PX: Final = 210
_GAP_PX: Final = 34
_LABEL_PX: Final = 15
_HEADROOM: Final = 1.14
_TALL: Final = 6.0
"""A peak so many times as high as the middle one would press the others onto the axis: all heights are roots then."""
_BOTH_PX: Final = 272
_LINE_PX: Final = 18
_END: Final = 0.32
"""Nearer to an end of the axis than this part of it a name beside its peak would be cut off on a phone."""
_MAGNIFIED: Final = 0.3
"""Beliefs that lie on so little of the axis are shown on that part alone, or one would hide the other."""
_AROUND: Final = 6
"""Standard deviations on either side that are shown then."""

_Curve = tuple[Floats, Floats]


def densities(
    arms: Sequence[ArmRow],
    others: Sequence[tuple[float, float]],
    look: Tokens,
    *,
    compact: bool = False,
    n_others: int | None = None,
    method: Method = "exact",
) -> Chart:
    """Return densities of the chosen arms over their ladder; ``others`` are (alpha, beta) of the grey rest."""
    curves = [curve(row.alpha, row.beta) for row in arms]
    priors = sorted({(row.prior_alpha, row.prior_beta) for row in arms})
    traces = [
        *_background(others, look.other_arms, width=1, dash="solid"),
        *_background(priors, look.ghost, width=1.5, dash="2px,3px"),
        *_shades(arms, look),
        *_lines(arms, curves, look),
    ]
    rooted = _is_pressed(curves)
    if rooted:
        traces = [{**trace, "y": np.sqrt(trace["y"])} for trace in traces]
        curves = [(x, np.sqrt(height)) for x, height in curves]
    traces += rungs(arms, look, yaxis="y2", compact=compact)
    top = max((float(np.max(height, initial=0)) for _, height in curves), default=1.0) * _HEADROOM or 1.0
    layout = _layout(arms, curves, look, top=top, compact=compact, method=method, rooted=rooted)
    grey = len(others) if n_others is None else n_others
    alt = (
        f"Posterior densities of {wording.things(len(arms), 'arm')} above a ladder of their 95% intervals, "
        f"axis from 0 to 1, the other {wording.things(grey, 'arm')} in grey: {spoken(arms)}."
    )
    return chart_of(traces, layout, alt=alt, table=table(arms))


def _is_pressed(curves: Sequence[_Curve]) -> bool:
    """Return whether one curve is so high that the others become indistinguishable."""
    peaks = [float(np.max(height, initial=0)) for _, height in curves]
    return bool(peaks) and max(peaks) > _TALL * float(np.median(peaks))


def curve(alpha: float, beta_: float, *, points: int = _CURVE_POINTS) -> _Curve:
    """Return abscissas and heights of one density, closer together where it bends.

    Points lie within five standard deviations of the mean, with the whole axis sparsely around them. An
    infinite height at an end (a parameter below 1) is left out there; it has no place on any axis.
    """
    total = alpha + beta_
    centre = alpha / total
    spread = 5 * float(np.sqrt(centre * (1 - centre) / (total + 1)))
    near = np.linspace(max(centre - spread, 0.0), min(centre + spread, 1.0), points - 20)
    x = np.unique(np.concatenate([np.linspace(0.0, 1.0, 21), near]))
    height = np.asarray(beta.density(alpha, beta_, x), dtype=np.float64)
    finite = np.isfinite(height)
    return x[finite], height[finite]


def _background(
    beliefs: Sequence[tuple[float, float]], colour: str, *, width: float, dash: str
) -> list[Trace]:
    curves = [curve(alpha, beta_, points=_REST_POINTS) for alpha, beta_ in beliefs]
    return [_line(curves, colour, width=width, dash=dash)] if curves else []


def _shades(arms: Sequence[ArmRow], look: Tokens) -> list[Trace]:
    """Return the area between the interval's limits, never beyond them; one trace per arm type.

    Each piece begins and ends on the ground and the pieces are joined along it: Plotly bridges the gaps of a
    filled trace with a wedge.
    """
    traces = []
    for kind in ARM_TYPES:
        own = [between(row) for row in arms if row.type == kind]
        if own:
            trace = _line(own, look.types[kind].mark, width=0, dash="solid")
            trace["x"] = single(np.concatenate([x for x, _ in own]))
            trace["y"] = single(np.concatenate([height for _, height in own]))
            shade = theme.faded(look.types[kind].mark, theme.SHADE)
            traces.append({**trace, "fill": "tozeroy", "fillcolor": shade})
    return traces


def between(row: ArmRow, *, points: int = 61) -> _Curve:
    """Return the piece of a curve between the limits, from the ground and back to it."""
    x = np.linspace(row.lower, row.upper, points)
    height = np.asarray(beta.density(row.alpha, row.beta, x), dtype=np.float64)
    x, height = x[np.isfinite(height)], height[np.isfinite(height)]
    return np.concatenate([x[:1], x, x[-1:]]), np.concatenate([[0.0], height, [0.0]])[: len(x) + 2]


def _lines(arms: Sequence[ArmRow], curves: Sequence[_Curve], look: Tokens) -> list[Trace]:
    traces = []
    for kind in ARM_TYPES:
        own = [curve for row, curve in zip(arms, curves, strict=True) if row.type == kind]
        if own:
            traces.append(_line(own, look.types[kind].mark, width=theme.CURVE_PX, dash="solid"))
    return traces


def curve_line(x: Floats, height: Floats, colour: str, width: float, dash: str) -> Trace:
    """Return one density as a line; a height without end is left out."""
    finite = np.isfinite(height)
    line = {"color": colour, "width": width, "dash": dash, "simplify": False}
    return scatter("lines", x[finite], height[finite], line=line)


def _line(curves: Sequence[_Curve], colour: str, *, width: float, dash: str) -> Trace:
    return scatter(
        "lines",
        joined([x for x, _ in curves]),
        joined([height for _, height in curves]),
        line={"color": colour, "width": width, "dash": dash, "simplify": False},
    )


def _layout(
    arms: Sequence[ArmRow],
    curves: Sequence[_Curve],
    look: Tokens,
    *,
    top: float,
    compact: bool,
    method: Method,
    rooted: bool,
) -> dict[str, Any]:
    row_px = COMPACT_ROW_PX if compact else ROW_PX
    curves_px = _COMPACT_CURVES_PX if compact else _CURVES_PX
    rows_px = row_px * max(len(arms), 1)
    area = curves_px + _GAP_PX + rows_px
    margin = (10, 10, 26, 46) if compact else (249, 191, 26, 46)
    split = (rows_px + _GAP_PX) / area
    title = (
        "probability of being used"
        if compact
        else "probability that the arm is used when it is in the prompt"
    )
    return theme.layout(
        look,
        height=area + margin[2] + margin[3],
        margin=margin,
        xaxis=theme.probability_axis(look, title, anchor="y2"),
        yaxis=theme.axis(look, range=[0, top], domain=[split, 1], showticklabels=False, layer="below traces"),
        yaxis2=rung_axis(look, len(arms), domain=[0, rows_px / area], anchor="x"),
        annotations=[
            *_peaks(arms, curves, look, top=top, curves_px=curves_px),
            *beside(
                arms,
                look,
                compact=compact,
                columns=("mean", "95% interval", "pulls"),
                numbered=True,
                yref="y2",
            ),
            *_heads(look, compact=compact, at=(rows_px + 8) / area, method=method, rooted=rooted),
        ],
    )


def _peaks(
    arms: Sequence[ArmRow],
    curves: Sequence[_Curve],
    look: Tokens,
    *,
    top: float,
    curves_px: int,
) -> list[dict[str, Any]]:
    """Return the row number at each peak; a number that would cover another moves up."""
    placed: list[tuple[float, float]] = []
    notes = []
    peaks = [(float(x[height.argmax()]), float(height.max())) for x, height in curves]
    for at in sorted(range(len(arms)), key=lambda index: peaks[index][1]):
        x, height = peaks[at]
        y_px = height / top * curves_px + 9
        while any(abs(x - other) < 0.02 and abs(y_px - other_px) < _LABEL_PX for other, other_px in placed):
            y_px += 3
        placed.append((x, y_px))
        y_px = min(y_px, curves_px - 4)
        notes.append(
            theme.label(
                look,
                f"<b>{at + 1}</b>",
                color=look.types[arms[at].type].text,
                x=min(max(x, 0.006), 0.994),
                y=round(y_px / curves_px * top, 6),
                yanchor="middle",
            )
        )
    return notes


def _heads(look: Tokens, *, compact: bool, at: float, method: Method, rooted: bool) -> list[dict[str, Any]]:
    way = "" if method == "exact" else f", {METHOD_WORDS[method]}"
    note = f"shaded: 95% interval{way} · dotted: prior{' · heights: square roots' if rooted else ''}"
    if not compact:
        note = f"numbers match the rows below · {note} · grey: other arms"
    above: dict[str, Any] = {"xref": "paper", "yref": "paper", "color": look.muted, "size": theme.AXIS_PX}
    heads = [theme.label(look, note, x=0, y=1, xanchor="left", yanchor="bottom", yshift=4, **above)]
    if compact:
        return heads
    heads.append(theme.label(look, "density", x=0, y=1, xanchor="right", yanchor="top", xshift=-12, **above))
    heads += [
        theme.label(look, name, x=1, y=at, xanchor="right", yanchor="bottom", xshift=shift, **above)
        for name, shift in NUMBER_SHIFTS.items()
    ]
    return heads


def sample(pairs: Sequence[tuple[float, float]], at_most: int = MAX_OTHERS) -> list[tuple[float, float]]:
    """At most so many of the grey arms, evenly by mean, so that the picture does not depend on their order.

    >>> sample([(1.0, 1.0), (1.0, 3.0), (3.0, 1.0)], at_most=2)
    [(1.0, 3.0), (3.0, 1.0)]
    """
    by_mean = sorted(pairs, key=lambda pair: (pair[0] / (pair[0] + pair[1]), pair))
    if len(by_mean) <= at_most:
        return by_mean
    return [by_mean[int(index)] for index in np.round(np.linspace(0, len(by_mean) - 1, at_most))]


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
        height=_BOTH_PX,
        margin=(16, 16, 22, 46),
        xaxis=_axis(look, low, high),
        yaxis=theme.axis(look, range=[0, top], showticklabels=False),
        annotations=_both_names(was, now, means, top, look, shown=(low, high)),
    )
    name = wording.short_name(key)
    alt = f"Belief in {name}: mean {wording.mean(means[0])} before, {wording.mean(means[1])} after."
    return chart_of(traces, layout, alt=alt, table=_moved(before, after, means))


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


def _both_names(
    was: _Curve,
    now: _Curve,
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
        _beside_peak(f"<b>after {after}</b>", (now_at, now_y), anchors[0], look, look.text),
        _beside_peak(f"before {before}", (was_at, was_y), anchors[1], look, look.muted, lower_px=lower_px),
    ]


def _peak(curve: _Curve, top: float) -> tuple[float, float]:
    """Return the peak of a curve, and the highest position for its name."""
    x, height = curve
    peak = int(height.argmax())
    return float(x[peak]), min(float(height[peak]), top * 0.94)


def _beside_peak(
    text: str, at: tuple[float, float], side: str, look: Tokens, colour: str, *, lower_px: int = 0
) -> dict[str, Any]:
    shift = -14 if side == "right" else 14
    return theme.label(
        look, text, color=colour, x=at[0], y=at[1], xanchor=side, xshift=shift, yshift=6 - lower_px
    )


def _moved(
    before: tuple[float, float], after: tuple[float, float], means: tuple[float, float]
) -> dict[str, list[str | int | float]]:
    return {
        "what": ["belief", "mean"],
        "before": [wording.beta(*before), wording.mean(means[0], 3)],
        "after": [wording.beta(*after), wording.mean(means[1], 3)],
    }
