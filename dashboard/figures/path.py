"""An arm's path → its mean in a 95% ribbon by day, broken at resets, with letters above what happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from core import explained
from core.columns import Ints
from core.flows.queries import ArmPath, HistoryMark
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
    by_weight = sorted(groups, key=lambda group: (_weight(group), group[0].at_ms), reverse=True)
    heaviest = sorted(by_weight[:MAX_LETTERS], key=lambda group: group[0].at_ms)
    events = tuple(Lettered(_ALPHABET[at], tuple(group)) for at, group in enumerate(heaviest))
    return events, len(arm_path.marks) - sum(len(one.marks) for one in events)


def _weight(group: Sequence[HistoryMark]) -> int:
    return max({"reset": 2, "definition": 2, "setting": 1, "model": 1}[mark.kind] for mark in group)


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
    broken = [] if change is None or not _is_within(history.path, change) else [change]
    layout = theme.layout(
        look,
        height=_HEIGHT_PX,
        margin=(34, 52, *_MARGIN[2:]) if compact else _MARGIN,
        xaxis=day_axis(look, history.path.day),
        **({} if compact else SELECTS),
        yaxis=theme.axis(
            look,
            grid=True,
            title="" if compact else "mean",
            range=[0, 1.005],
            **theme.ticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.50", "0.75", "1"]),
        ),
        shapes=[*(_upright(one, look) for one in letters), *(_break(one, look) for one in broken)],
        annotations=[
            *(_letter(one, look) for one in letters),
            *(_moment(one, history.path, look) for one in broken),
            *_last(history.path, look),
        ],
    )
    stretches = _stretches(history.path, shown)
    traces = [
        _ribbon(history.path, stretches, mark),
        *_lonely(history.path, stretches, mark),
        _line(history.path, stretches, mark),
        _end(history.path, mark, look),
    ]
    alt = "".join([_alt(history, key), *(f" A red line: {_broke(one)}." for one in broken)])
    return chart_of(traces, layout, alt=alt, table=_table(history.path, shown))


def _is_within(path: Path, change: RecentMean) -> bool:
    return int(path.day[0]) <= change.since_ms / DAY_MS <= int(path.day[-1]) + 1


def _break(change: RecentMean, look: Tokens) -> dict[str, Any]:
    """Return an upright red line at the hour of the change."""
    at = change.since_ms / DAY_MS
    line = {"color": look.red, "width": 1.4, "dash": "6px,4px"}
    return upright(at, line)


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


def _stretches(path: Path, shown: Ints) -> list[Ints]:
    """Return the places of each epoch, in the order of time."""
    cuts = np.flatnonzero(np.diff(path.epoch[shown])) + 1
    return [segment for segment in np.split(shown, cuts) if len(segment)]


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


def _letter(one: Lettered, look: Tokens) -> dict[str, Any]:
    return theme.label(look, f"<b>{one.letter}</b>", x=one.day, y=1, yref="paper", yanchor="bottom", yshift=2)


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
