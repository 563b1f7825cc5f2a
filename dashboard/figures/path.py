"""An arm's path → its mean in a 95% ribbon by day, broken at resets; and some arms → daily shares around a change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from core import explained
from core.columns import Ints
from core.flows.queries import ArmPath, ChangeEvidence, DayShare, EvidenceArm, HistoryMark
from core.maths.statistics.path import Path
from core.records.arm import ArmType
from core.records.judgement import RecentMean
from core.records.times import DAY_MS
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.chart import Cell, Chart, Trace, chart_of, joined, scatter, upright
from dashboard.figures.theme import SELECTS, Tokens, day_axis
from dashboard.wording import Words

MAX_LETTERS: Final = 8
_HEIGHT_PX: Final = 326
_MARGIN: Final = (44, 56, 30, 46)
_MAX_DAYS: Final = 400
_APART: Final = 0.035
"""Marks closer than this part of the days shown share a letter."""
_ALPHABET: Final = Words("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_WEIGHTS: Final = {"reset": 2, "definition": 2, "setting": 1, "model": 1}
ROW_PX: Final = 66
_TOP_PX, _BOTTOM_PX = 24, 42
_NAME_PX: Final = 20
"""Height of the line with the name and the counts, above each row's points."""


@dataclass(frozen=True)
class Lettered:
    """A letter over the chart with its event, in order of time."""

    letter: Words
    marks: tuple[HistoryMark, ...]

    @property
    def day(self) -> int:
        return self.marks[0].at_ms // DAY_MS


def lettered(arm_path: ArmPath) -> tuple[tuple[Lettered, ...], int]:
    """Return the events with their letters, resets first, and the number of marks without one."""
    days = max(len(arm_path.path), 2)
    groups: list[list[HistoryMark]] = []
    for mark in arm_path.marks:
        near = groups and (mark.at_ms - groups[-1][0].at_ms) / DAY_MS <= _APART * days
        if near:
            groups[-1].append(mark)
        else:
            groups.append([mark])
    by_weight = sorted(
        groups, key=lambda group: (max(_WEIGHTS[mark.kind] for mark in group), group[0].at_ms), reverse=True
    )
    heaviest = sorted(by_weight[:MAX_LETTERS], key=lambda group: group[0].at_ms)
    events = tuple(Lettered(_ALPHABET[at], tuple(group)) for at, group in enumerate(heaviest))
    return events, len(arm_path.marks) - sum(len(one.marks) for one in events)


def arm_path(
    history: ArmPath,
    key: str,
    arm_type: ArmType,
    look: Tokens,
    *,
    change: RecentMean | None = None,
    compact: bool = False,
) -> Chart:
    """Return mean and interval at the end of each day; every epoch is a line of its own.

    A red line marks the hour of a change, with the shares before and since.
    """
    shown = _thinned(history.path)
    letters, _ = lettered(history)
    mark = look.types[arm_type].mark
    first, last = int(history.path.day[0]), int(history.path.day[-1])
    broken = [] if change is None or not first <= change.since_ms / DAY_MS <= last + 1 else [change]
    layout = theme.layout(
        look,
        height=_HEIGHT_PX,
        margin=(34, 52, *_MARGIN[2:]) if compact else _MARGIN,
        xaxis=day_axis(look, history.path.day),
        **({} if compact else SELECTS),
        yaxis=theme.probability_axis(look, "" if compact else "mean") | {"range": [0, 1.005]},
        shapes=[*(_upright(one, look) for one in letters), *(_break(one.since_ms, look) for one in broken)],
        annotations=[
            *(_above(look, f"<b>{one.letter}</b>", one.day) for one in letters),
            *(_moment(one, history.path, look) for one in broken),
            *_last(history.path, look),
        ],
    )
    cuts = np.flatnonzero(np.diff(history.path.epoch[shown])) + 1
    stretches = [segment for segment in np.split(shown, cuts) if len(segment)]  # the places of each epoch
    traces = [
        _ribbon(history.path, stretches, mark),
        *_lonely(history.path, stretches, mark),
        _line(history.path, stretches, mark),
        _end(history.path, mark, look),
    ]
    alt = "".join([_alt(history, key), *(f" A red line: {_broke(one)}." for one in broken)])
    return chart_of(traces, layout, alt=alt, table=_table(history.path, shown))


def _break(since_ms: int, look: Tokens, **more: object) -> dict[str, Any]:
    line = {"color": look.red, "width": 1.4, "dash": "6px,4px"}
    return upright(since_ms / DAY_MS, line, **more)


def _moment(change: RecentMean, path: Path, look: Tokens) -> dict[str, Any]:
    """Return the words of the change, on the side of its line that has more room."""
    at = change.since_ms / DAY_MS
    is_late = at > (int(path.day[0]) + int(path.day[-1])) / 2
    side = {"xanchor": "right", "xshift": -6} if is_late else {"xanchor": "left", "xshift": 6}
    return theme.label(
        look,
        _broke(change),
        x=at,
        y=0.02,
        yref="paper",
        yanchor="bottom",
        color=look.red,
        bgcolor=look.page,
        **side,
    )


def _broke(change: RecentMean) -> Words:
    shares = [explained.of_hundred(one) for one in (change.mean_before, change.mean)]
    when = wording.minute(change.since_ms, year_of_ms=change.since_ms)
    return Words(f"{when}: {shares[0]} → {shares[1]} of 100")


def _thinned(path: Path) -> Ints:
    """Return every day, or evenly spaced ones over long spans, with both sides of each break and the last day."""
    steps = np.round(np.linspace(0, len(path) - 1, min(len(path), _MAX_DAYS))).astype(np.int64)
    breaks = np.flatnonzero(np.diff(path.epoch))
    return np.unique(np.concatenate([steps, breaks, breaks + 1]))


def _ribbon(path: Path, stretches: Sequence[Ints], mark: str) -> Trace:
    """Return one closed shape per epoch: there and along the upper limits, back along the lower ones."""
    return scatter(
        "lines",
        joined([np.concatenate([path.day[at], path.day[at][::-1]]) for at in stretches]),
        joined([np.concatenate([path.upper[at], path.lower[at][::-1]]) for at in stretches]),
        line={"width": 0, "color": mark, "simplify": False},
        fill="toself",
        fillcolor=theme.faded(mark, theme.RIBBON),
    )


def _lonely(path: Path, stretches: Sequence[Ints], mark: str) -> list[Trace]:
    """Return an epoch of a single day has no ribbon to speak of: its interval is an upright bar."""
    places = [int(at[0]) for at in stretches if len(at) == 1]
    if not places:
        return []
    bar = scatter(
        "lines",
        joined([[path.day[at]] * 2 for at in places]),
        joined([[path.lower[at], path.upper[at]] for at in places]),
        line={"width": 8, "color": theme.faded(mark, theme.RIBBON)},
    )
    dot = scatter("markers", path.day[places], path.mean[places], marker={"size": 6, "color": mark})
    return [bar, dot]


def _line(path: Path, stretches: Sequence[Ints], mark: str) -> Trace:
    hovers: list[str] = []
    for at in stretches:
        hovers += [*(_hover(path, int(index)) for index in at), ""]
    return scatter(
        "lines",
        joined([path.day[at] for at in stretches]),
        joined([path.mean[at] for at in stretches]),
        line={"color": mark, "width": theme.TIME_LINE_PX, "simplify": False},
        hover=hovers[:-1],
        connectgaps=False,
    )


def _end(path: Path, mark: str, look: Tokens) -> Trace:
    return scatter(
        "markers",
        path.day[-1:],
        path.mean[-1:],
        marker={"size": 10, "color": mark, "line": {"width": 1, "color": look.page}},
        hover=[_hover(path, len(path) - 1)],
        cliponaxis=False,
    )


def _upright(one: Lettered, look: Tokens) -> dict[str, Any]:
    """Return a thin line: solid for a reset in force, dashed for what left the belief alone."""
    is_break = any(mark.kind == "reset" and not mark.undone for mark in one.marks)
    line = {"color": look.guide, "width": 1, "dash": "solid" if is_break else "3px,3px"}
    return upright(one.day, line)


def _above(look: Tokens, words: str, day: float, **more: object) -> dict[str, Any]:
    return theme.label(look, words, x=day, y=1, yref="paper", yanchor="bottom", yshift=2, **more)


def _last(path: Path, look: Tokens) -> list[dict[str, Any]]:
    value = wording.mean(float(path.mean[-1]))
    return [
        theme.label(
            look,
            f"<b>{value}</b>",
            x=int(path.day[-1]),
            y=float(path.mean[-1]),
            xanchor="left",
            xshift=10,
        )
    ]


def _hover(path: Path, at: int) -> str:
    span = wording.interval(float(path.lower[at]), float(path.upper[at]))
    lines = f"<b>{wording.day(int(path.day[at]) * DAY_MS)}</b><br>"
    lines += f"mean {wording.mean(float(path.mean[at]))}, 95% interval {span}"
    return f"{lines}<br>{wording.things(int(path.pulls[at]), 'pull')} in this epoch"


def _alt(history: ArmPath, key: str) -> str:
    path = history.path
    first, last = (wording.day(int(path.day[at]) * DAY_MS) for at in (0, -1))
    n_resets = int(np.count_nonzero(np.diff(path.epoch)))
    broken = "" if not n_resets else f", started again {wording.things(n_resets, 'time')}"
    return (
        f"Mean of {wording.short_name(key)} by day from {first} ({wording.mean(float(path.mean[0]))}) to {last} "
        f"({wording.mean(float(path.mean[-1]))}){broken}, with its 95% interval as a ribbon."
    )


def _table(path: Path, shown: Ints) -> dict[str, Sequence[Cell]]:
    newest = int(path.day[-1]) * DAY_MS
    epochs = {int(epoch): number for number, epoch in enumerate(dict.fromkeys(path.epoch.tolist()), 1)}
    places = shown[::-1]
    return {
        "day, UTC": [wording.day(int(path.day[at]) * DAY_MS, year_of_ms=newest) for at in places],
        "mean": [wording.mean(float(path.mean[at]), 3) for at in places],
        "95% interval": [wording.interval(float(path.lower[at]), float(path.upper[at])) for at in places],
        "pulls": [int(path.pulls[at]) for at in places],
        "in runs": [int(path.inclusions[at]) for at in places],
        "epoch": [epochs[int(path.epoch[at])] for at in places],
    }


def evidence_rows(evidence: ChangeEvidence, look: Tokens, *, compact: bool = False) -> Chart:
    """Return a row per arm on one axis of days; the change is one red dashed line through all of them."""
    n, when = len(evidence.arms), wording.minute(evidence.since_ms, year_of_ms=evidence.since_ms)
    days = np.unique([one.day for arm in evidence.arms for one in arm.days]).astype(np.int64)
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
    return chart_of(
        traces,
        theme.layout(
            look,
            height=_TOP_PX + _BOTTOM_PX + inner,
            margin=(24, 16, _TOP_PX, _BOTTOM_PX),
            xaxis={**day_axis(look, days), "anchor": f"y{n}" if n > 1 else "y"},
            **axes,
            **({} if compact else SELECTS),
            shapes=[_break(evidence.since_ms, look, layer="below")],
            annotations=[*labels, _above(look, when, evidence.since_ms / DAY_MS, color=look.red)],
        ),
        alt=_rows_alt(evidence),
        table=_rows_table(evidence),
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
        hover=[_hover_of(one) for one in arm.days],
    )
    return [bars, points]


def _place(one: DayShare, days: Sequence[DayShare], since_ms: int) -> float:
    """Return the middle of a day, or of its part before or after the change."""
    if sum(other.day == one.day for other in days) < 2:
        return one.day + 0.5
    at = since_ms / DAY_MS
    return (at + one.day + 1) / 2 if one.is_after else (one.day + at) / 2


def _words(arm: EvidenceArm, top: float, look: Tokens, *, compact: bool) -> list[dict[str, Any]]:
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


def _hover_of(one: DayShare) -> str:
    share = one.share
    lines = f"<b>{wording.day(one.day * DAY_MS)}</b><br>"
    lines += f"used in {wording.count(share.n_used)} of {wording.things(share.n, 'observation')}"
    return f"{lines}<br>95% interval {wording.interval(*share.interval)}"


def _rows_alt(evidence: ChangeEvidence) -> str:
    arms = "; ".join(
        f"{wording.short_name(one.arm)}: used in {one.before.n_used} of {one.before.n} before, "
        f"{one.after.n_used} of {one.after.n} since"
        for one in evidence.arms
    )
    return (
        "Share of observations in which each arm was used, by day with 95% intervals. "
        f"A dashed line marks {wording.minute(evidence.since_ms)}. {arms}."
    )


def _rows_table(evidence: ChangeEvidence) -> dict[str, Sequence[Cell]]:
    rows = [(arm, one) for arm in evidence.arms for one in reversed(arm.days)]
    return {
        "arm": [wording.plain(wording.short_name(arm.arm)) for arm, _ in rows],
        "day, UTC": [wording.day(one.day * DAY_MS) for _, one in rows],
        "side": ["since" if one.is_after else "before" for _, one in rows],
        "used": [one.share.n_used for _, one in rows],
        "observations": [one.share.n for _, one in rows],
        "95% interval": [wording.interval(*one.share.interval) for _, one in rows],
    }
