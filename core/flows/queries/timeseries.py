"""Timeseries: what happened by hour or day."""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec
import numpy as np

from core.columns import ArmColumns, Ints
from core.errors import InvalidInput
from core.flows.context import Context
from core.records.arm import MICRO
from core.records.times import DAY_HOURS, DAY_MS, HOUR_MS
from core.statistics.convergence import means_over_time
from core.store import reads
from core.store.transaction import Snapshot

Metric = Literal["tokens", "pulls", "convergence"]
Window = Literal["1h", "1d"]
METRICS: tuple[Metric, ...] = get_args(Metric)
WINDOWS: tuple[Window, ...] = get_args(Window)

_PLACES: Final[dict[Window, tuple[Literal["hour", "day"], int, int]]] = {
    "1h": ("hour", HOUR_MS, 14 * DAY_HOURS),
    "1d": ("day", DAY_MS, 366),
}
"""What a window is called, how long it is, and how many of them are looked at, up to the newest."""
_ARMS: Final = 24
"""Arms with a path of their own; more lines nobody tells apart."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A window that begins at ``t`` (milliseconds since 1970 UTC) with what is told of it; None = unknown. Of tokens
    ``runs`` says of how many runs; ``arm`` whose the figure is, where it is one arm's.
    """

    t: int
    value: float | None
    runs: int | None = None
    arm: str | None = None


def timeseries(context: Context, metric: Metric = "tokens", window: Window = "1d") -> tuple[Point, ...]:
    """Windows in which something happened, the earliest first: the last 14 days by hour, or 366 days by day.

    ``tokens``: what runs used; None where no run of the window says. ``pulls``: observations of all arms, whatever
    became of them. ``convergence``: the posterior mean of each of the 24 arms with the most pulls after each window
    in which it learned, in its present epoch.
    """
    _check(metric, METRICS)
    _check(window, WINDOWS)
    with context.reading() as snapshot:
        if metric == "convergence":
            return _convergence(snapshot, window)
        return _tokens(snapshot, window) if metric == "tokens" else _pulls(snapshot, window)


def _check(given: str, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        raise InvalidInput(
            f"A timeseries must be one of {', '.join(allowed)} there, got {given[:40]!r}.",
            next_step=f"Ask for one of metric={'|'.join(METRICS)} and window={'|'.join(WINDOWS)}.",
        )


def _since(snapshot: Snapshot, columns: ArmColumns, window: Window) -> int:
    """The first window that is looked at; the newest is that of the newest run or observation."""
    _, length_ms, n_windows = _PLACES[window]
    newest = reads.totals(snapshot).last_at_ms or 0
    learned = int(columns.last_at_ms.max()) if len(columns) else 0
    return max(max(newest, learned) // length_ms - n_windows + 1, 0)


def _tokens(snapshot: Snapshot, window: Window) -> tuple[Point, ...]:
    place, length_ms, _ = _PLACES[window]
    found = reads.usage_series(snapshot, place, _since(snapshot, reads.arm_columns(snapshot), window))
    return tuple(
        Point(t=at * length_ms, value=float(tokens) if known else None, runs=runs)
        for at, runs, known, tokens in zip(*(part.tolist() for part in found), strict=True)
    )


def _pulls(snapshot: Snapshot, window: Window) -> tuple[Point, ...]:
    place, length_ms, _ = _PLACES[window]
    since = _since(snapshot, reads.arm_columns(snapshot), window)
    at, pulls_micro = reads.pulls_series(snapshot, place, since)
    rows = zip(at.tolist(), pulls_micro.tolist(), strict=True)
    return tuple(Point(t=one * length_ms, value=pulls / MICRO) for one, pulls in rows)


def _convergence(snapshot: Snapshot, window: Window) -> tuple[Point, ...]:
    length_ms = _PLACES[window][1]
    columns = reads.arm_columns(snapshot)
    most = np.argsort(-columns.pulls, kind="stable")[:_ARMS]
    since = _since(snapshot, columns, window)
    read = _days if window == "1d" else _hours
    at, place, success, failure = read(snapshot, columns, most, since)
    means = means_over_time(columns, place, success, failure)
    rows = zip(at.tolist(), place.tolist(), means.tolist(), strict=True)
    return tuple(Point(t=one * length_ms, value=mean, arm=columns.keys[arm]) for one, arm, mean in rows)


def _days(snapshot: Snapshot, columns: ArmColumns, places: Ints, since: int) -> tuple[Ints, ...]:
    found = reads.recent_days(snapshot, columns, since_day=since)
    wanted = np.isin(found.place, places) & (found.day >= since)
    order = np.flatnonzero(wanted)[np.lexsort((found.place[wanted], found.day[wanted]))]
    parts = (found.day, found.place, found.success_micro, found.failure_micro)
    return tuple(part[order] for part in parts)


def _hours(snapshot: Snapshot, columns: ArmColumns, places: Ints, since: int) -> tuple[Ints, ...]:
    newest = since + _PLACES["1h"][2]
    found = reads.arm_hours(snapshot, columns, places, since_ms=since * HOUR_MS, until_ms=newest * HOUR_MS)
    return found.hour, found.place, found.success_micro, found.failure_micro
