"""Timeseries: tokens, pulls and posterior means by hour or day."""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec
import numpy as np

from core.columns import ArmColumns, Ints
from core.errors import InvalidInput
from core.flows.context import Context
from core.maths.statistics.confidence import means_over_time
from core.records.arm import MICRO
from core.records.times import DAY_HOURS, DAY_MS, HOUR_MS
from core.store import reads
from core.store.transaction import Snapshot

SeriesMetric = Literal["tokens", "pulls", "convergence"]
Window = Literal["1h", "1d"]
METRICS: tuple[SeriesMetric, ...] = get_args(SeriesMetric)
WINDOWS: tuple[Window, ...] = get_args(Window)

_WINDOW_SIZES: Final[dict[Window, tuple[Literal["hour", "day"], int, int]]] = {
    "1h": ("hour", HOUR_MS, 14 * DAY_HOURS),
    "1d": ("day", DAY_MS, 366),
}
"""Name, length and maximum number of each window, up to the newest."""
_ARMS: Final = 24
"""Maximum number of arms with a path. More lines can't be distinguished."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """Value of a window that begins at ``t`` (milliseconds since 1970 UTC); None = unknown.

    ``runs`` counts the runs behind a token sum. ``arm`` is set if the value belongs to one arm.
    """

    t: int
    value: float | None
    runs: int | None = None
    arm: str | None = None


def timeseries(context: Context, metric: SeriesMetric = "tokens", window: Window = "1d") -> tuple[Point, ...]:
    """List windows with activity, the earliest first: the last 14 days by hour, or 366 days by day.

    ``tokens``: usage of runs; None if no run of the window states it. ``pulls``: observations of all arms, later
    undone or not. ``convergence``: posterior mean after each window with observations, in the present epoch, of the
    24 arms with the most pulls.
    """
    _check(metric, METRICS)
    _check(window, WINDOWS)
    with context.reading() as snapshot:
        if metric == "convergence":
            return _convergence(snapshot, window)
        return _tokens(snapshot, window) if metric == "tokens" else _pulls(snapshot, window)


def _check(value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidInput(
            f"A timeseries must be one of {', '.join(allowed)} there, got {value[:40]!r}.",
            next_step=f"Ask for one of metric={'|'.join(METRICS)} and window={'|'.join(WINDOWS)}.",
        )


def _since(snapshot: Snapshot, columns: ArmColumns, window: Window) -> int:
    """Return the first window. The newest window is that of the newest run or observation."""
    _, length_ms, n_windows = _WINDOW_SIZES[window]
    newest = reads.totals(snapshot).last_at_ms or 0
    learned = int(columns.last_at_ms.max()) if len(columns) else 0
    return max(max(newest, learned) // length_ms - n_windows + 1, 0)


def _tokens(snapshot: Snapshot, window: Window) -> tuple[Point, ...]:
    unit, length_ms, _ = _WINDOW_SIZES[window]
    series = reads.usage_series(snapshot, unit, _since(snapshot, reads.arm_columns(snapshot), window))
    return tuple(
        Point(t=at * length_ms, value=float(tokens) if known else None, runs=runs)
        for at, runs, known, tokens in zip(*(part.tolist() for part in series), strict=True)
    )


def _pulls(snapshot: Snapshot, window: Window) -> tuple[Point, ...]:
    unit, length_ms, _ = _WINDOW_SIZES[window]
    since = _since(snapshot, reads.arm_columns(snapshot), window)
    at, pulls_micro = reads.pulls_series(snapshot, unit, since)
    rows = zip(at.tolist(), pulls_micro.tolist(), strict=True)
    return tuple(Point(t=one * length_ms, value=pulls / MICRO) for one, pulls in rows)


def _convergence(snapshot: Snapshot, window: Window) -> tuple[Point, ...]:
    length_ms = _WINDOW_SIZES[window][1]
    columns = reads.arm_columns(snapshot)
    most = np.argsort(-columns.pulls, kind="stable")[:_ARMS]
    since = _since(snapshot, columns, window)
    read = _days if window == "1d" else _hours
    at, arm_index, success, failure = read(snapshot, columns, most, since)
    means = means_over_time(columns, arm_index, success, failure)
    rows = zip(at.tolist(), arm_index.tolist(), means.tolist(), strict=True)
    return tuple(Point(t=one * length_ms, value=mean, arm=columns.keys[arm]) for one, arm, mean in rows)


def _days(snapshot: Snapshot, columns: ArmColumns, arm_indexes: Ints, since: int) -> tuple[Ints, ...]:
    days = reads.recent_days(snapshot, columns, since_day=since)
    matches = np.isin(days.arm, arm_indexes) & (days.day >= since)
    order = np.flatnonzero(matches)[np.lexsort((days.arm[matches], days.day[matches]))]
    parts = (days.day, days.arm, days.success_micro, days.failure_micro)
    return tuple(part[order] for part in parts)


def _hours(snapshot: Snapshot, columns: ArmColumns, arm_indexes: Ints, since: int) -> tuple[Ints, ...]:
    newest = since + _WINDOW_SIZES["1h"][2]
    hours = reads.arm_hours(
        snapshot, columns, arm_indexes, since_ms=since * HOUR_MS, until_ms=newest * HOUR_MS
    )
    return hours.hour, hours.arm, hours.success_micro, hours.failure_micro
