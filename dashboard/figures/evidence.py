"""Evidence of some arms → daily shares with their intervals, one row each, and the change as one red line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from core.flows.queries import ChangeEvidence, DayShare, EvidenceArm
from core.records.times import DAY_MS
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.chart import Cell, Chart, Trace, chart_of, joined, scatter, upright
from dashboard.figures.theme import SELECTS, Tokens, day_axis

ROW_PX: Final = 66
_TOP_PX, _BOTTOM_PX = 24, 42
_NAME_PX: Final = 20
"""Height of the line with the name and the counts, above each row's points."""


def evidence_rows(evidence: ChangeEvidence, look: Tokens, *, compact: bool = False) -> Chart:
    """Return a row per arm on one axis of days; the change is one red dashed line through all of them."""
    n = len(evidence.arms)
    days = np.unique([one.day for arm in evidence.arms for one in arm.days]).astype(np.int64)
    height = _TOP_PX + _BOTTOM_PX + n * ROW_PX
    inner = n * ROW_PX
    traces: list[Trace] = []
    axes: dict[str, Any] = {}
    labels: list[dict[str, Any]] = []
    for index, arm in enumerate(evidence.arms):
        top = 1 - index * ROW_PX / inner
        domain = [max(0.0, top - ROW_PX / inner), top - _NAME_PX / inner]
        name = "" if index == 0 else str(index + 1)
        axes[f"yaxis{name}"] = theme.axis(
            look, grid=True, domain=domain, range=[-0.1, 1.1], tickvals=[0, 1], ticktext=["0", "1"]
        )
        traces += _row(arm, evidence.since_ms, f"y{name}", look)
        labels += _words(arm, top, look, compact=compact)
    at = evidence.since_ms / DAY_MS
    return chart_of(
        traces,
        theme.layout(
            look,
            height=height,
            margin=(24, 16, _TOP_PX, _BOTTOM_PX),
            xaxis={**day_axis(look, days), "anchor": f"y{n}" if n > 1 else "y"},
            **axes,
            **({} if compact else SELECTS),
            shapes=[_break(at, look)],
            annotations=[*labels, _moment(evidence.since_ms, at, look)],
        ),
        alt=_alt(evidence),
        table=_table(evidence),
    )


def _row(arm: EvidenceArm, since_ms: int, axis: str, look: Tokens) -> list[Trace]:
    tokens = look.types[wording.type_of(arm.arm)]
    places = [_place(one, arm.days, since_ms) for one in arm.days]
    bars: Trace = scatter(
        "lines",
        joined([[place, place] for place in places]),
        joined([one.share.interval for one in arm.days]),
        yaxis=axis,
        line={"width": 2, "color": theme.faded(tokens.mark, 0.5)},
    )
    points: Trace = scatter(
        "markers",
        places,
        [one.share.value for one in arm.days],
        yaxis=axis,
        marker={"size": 7, "color": tokens.mark, "line": {"width": 1, "color": look.page}},
        hover=[_hover(one) for one in arm.days],
    )
    return [bars, points]


def _place(one: DayShare, days: Sequence[DayShare], since_ms: int) -> float:
    """Return the middle of a day, or of its part before or after the change."""
    if sum(other.day == one.day for other in days) < 2:
        return one.day + 0.5
    at = since_ms / DAY_MS
    return (at + one.day + 1) / 2 if one.is_after else (one.day + at) / 2


def _words(arm: EvidenceArm, top: float, look: Tokens, *, compact: bool) -> list[dict[str, Any]]:
    """Return the name at the left, and the counts before and after at the right."""
    row = {"xref": "paper", "yref": "paper", "y": top, "yanchor": "top"}
    name = wording.cut_middle(wording.short_name(arm.arm), 24 if compact else 48)
    return [
        theme.label(look, f"<b>{wording.plot_literal(name)}</b>", **row, x=0, xanchor="left"),
        theme.label(look, _counts(arm), **row, x=1, xanchor="right", color=look.muted, bgcolor=look.page),
    ]


def _counts(arm: EvidenceArm) -> str:
    (n_before, before), (n_after, after) = arm.before, arm.after
    counts = [wording.count(one) for one in (before, n_before, after, n_after)]
    return "{} of {} → <b>{} of {}</b>".format(*counts)


def _break(at: float, look: Tokens) -> dict[str, Any]:
    line = {"color": look.red, "width": 1.5, "dash": "5px,4px"}
    return upright(at, line, layer="below")


def _moment(since_ms: int, at: float, look: Tokens) -> dict[str, Any]:
    words = wording.minute(since_ms, year_of_ms=since_ms)
    return theme.label(look, words, x=at, y=1, yref="paper", yanchor="bottom", yshift=2, color=look.red)


def _hover(one: DayShare) -> str:
    share = one.share
    lines = f"<b>{wording.day(one.day * DAY_MS)}</b><br>"
    lines += f"used in {wording.count(share.n_used)} of {wording.things(share.n, 'observation')}"
    return f"{lines}<br>95% interval {wording.interval(*share.interval)}"


def _alt(evidence: ChangeEvidence) -> str:
    arms = "; ".join(
        f"{wording.short_name(one.arm)}: used in {one.before.n_used} of {one.before.n} before, "
        f"{one.after.n_used} of {one.after.n} since"
        for one in evidence.arms
    )
    return (
        "Share of observations in which each arm was used, by day with 95% intervals. "
        f"A dashed line marks {wording.minute(evidence.since_ms)}. {arms}."
    )


def _table(evidence: ChangeEvidence) -> dict[str, Sequence[Cell]]:
    rows = [(arm, one) for arm in evidence.arms for one in reversed(arm.days)]
    return {
        "arm": [wording.plain(wording.short_name(arm.arm)) for arm, _ in rows],
        "day, UTC": [wording.day(one.day * DAY_MS) for _, one in rows],
        "side": ["since" if one.is_after else "before" for _, one in rows],
        "used": [one.share.n_used for _, one in rows],
        "observations": [one.share.n for _, one in rows],
        "95% interval": [wording.interval(*one.share.interval) for _, one in rows],
    }
