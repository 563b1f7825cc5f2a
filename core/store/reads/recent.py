"""Recent sums of every arm, by day, in its present epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np

from core.columns import UNKNOWN, ArmColumns, ArmHours, Ints, RecentDays
from core.records.arm import MICRO
from core.records.times import DAY_HOURS, HOUR_MS
from core.store.engine import Row
from core.store.reads.arms import places_by_number
from core.store.reads.arrays import ints
from core.store.transaction import Snapshot

_DAYS: Final = (  # arms first: the days of each are one seek
    "SELECT d.arm_no, d.epoch, d.day, d.success_micro, d.failure_micro"
    " FROM posterior p CROSS JOIN arm_day d WHERE d.learner_id = p.learner_id AND d.arm_no = p.arm_no"
    " AND d.epoch = p.epoch AND d.{days} AND p.learner_id = ?"
    f" AND p.pulls + p.part_micro / {MICRO} >= ?"
)
_UNTIL: Final = (
    "SELECT arm_no, epoch, hour / ?, sum(success_micro), sum(failure_micro)"
    " FROM arm_hour WHERE learner_id = ? AND {hours} GROUP BY 1, 2, 3"
)
_HISTORY: Final = (
    "SELECT arm_no, epoch, day, success_micro, failure_micro FROM arm_day"
    " WHERE learner_id = ? AND day >= ? AND arm_no IN ({})"
)


def recent_days(
    snapshot: Snapshot,
    columns: ArmColumns,
    *,
    since_day: int,
    until_ms: int | None = None,
    min_pulls: int = 1,
) -> RecentDays:
    """Days from ``since_day`` on, and what has no time, of arms with at least ``min_pulls`` in their epoch.

    ``columns`` are of the same moment; as of a time (by full hours) the hours are added up instead of the days.
    """
    queries = (
        _now(snapshot, since_day, min_pulls)
        if until_ms is None
        else _as_of(snapshot, since_day, until_ms // HOUR_MS)
    )
    parts, at = snapshot.together(
        lambda: snapshot.together(*queries), lambda: places_by_number(snapshot, columns)
    )
    arm_no, epoch, day, *amounts = (ints(first + second) for first, second in zip(*parts, strict=True))
    index = at[arm_no] if len(arm_no) else arm_no
    is_known = index != UNKNOWN
    is_known[is_known] = columns.epoch[index[is_known]] == epoch[is_known]
    success, failure = (amount[is_known] for amount in amounts)
    return RecentDays(
        arm=index[is_known],
        day=day[is_known],
        success_micro=success,
        failure_micro=failure,
    )


def history_days(
    snapshot: Snapshot, columns: ArmColumns, places: Ints, at: Ints, *, since_day: int
) -> RecentDays:
    """Return the days of a few arms from one on; ``at`` maps arm numbers to columns."""
    numbers = np.flatnonzero(np.isin(at, places)).tolist() if len(places) else []
    rows = snapshot.connection.rows_in(_HISTORY, [snapshot.learner_id, since_day], numbers)
    arm_no, epoch, day, success, failure = map(ints, zip(*rows, strict=True) if rows else [()] * 5)
    arm = at[arm_no] if len(arm_no) else arm_no
    now = columns.epoch[arm] == epoch
    return RecentDays(arm=arm[now], day=day[now], success_micro=success[now], failure_micro=failure[now])


def arm_hours(
    snapshot: Snapshot,
    columns: ArmColumns,
    places: Ints,
    *,
    since_ms: int,
    until_ms: int,
    at: Ints | None = None,
) -> ArmHours:
    """Return the hours of these arms between two times, in the epochs of the columns.

    ``at`` maps arm numbers to columns, where the caller has it already.
    """
    at = places_by_number(snapshot, columns) if at is None else at
    numbers = np.flatnonzero(np.isin(at, places)).tolist() if len(places) else []
    hours = range(since_ms // HOUR_MS, -(-until_ms // HOUR_MS))
    rows = _hours_of(snapshot, numbers, hours) if numbers else []
    hour, arm_no, epoch, success, failure = map(ints, zip(*rows, strict=True) if rows else [()] * 5)
    index = at[arm_no] if len(arm_no) else arm_no
    order = np.argsort(hour, kind="stable")
    order = order[columns.epoch[index[order]] == epoch[order]]
    return ArmHours(
        arm=index[order], hour=hour[order], success_micro=success[order], failure_micro=failure[order]
    )


def _hours_of(snapshot: Snapshot, numbers: Sequence[int], hours: Sequence[int]) -> list[Row]:
    return snapshot.connection.rows_in(
        "SELECT hour, arm_no, epoch, success_micro, failure_micro FROM arm_hour WHERE learner_id = ?"
        f" AND arm_no IN ({','.join('?' * len(numbers))}) AND hour IN ({{}})",
        [snapshot.learner_id, *numbers],
        hours,
    )


def _now(snapshot: Snapshot, since_day: int, min_pulls: int) -> list[Callable[[], list[list[int]]]]:
    return [
        partial(_columns, snapshot, _DAYS.replace("{days}", days), [bound, snapshot.learner_id, min_pulls])
        for days, bound in (("day >= ?", since_day), ("day = ?", UNKNOWN))
    ]


def _columns(snapshot: Snapshot, sql: str, values: list[int]) -> list[list[int]]:
    return snapshot.connection.columns(sql, values)


def _as_of(snapshot: Snapshot, since_day: int, until_hour: int) -> list[Callable[[], list[list[int]]]]:
    learner = snapshot.learner_id
    dated = [DAY_HOURS, learner, since_day * DAY_HOURS, until_hour]
    return [
        partial(_columns, snapshot, _UNTIL.replace("{hours}", "hour >= ? AND hour < ?"), dated),
        # -1 divided by 24 is 0 in SQL: an hour that stays one is an unknown one
        partial(_columns, snapshot, _UNTIL.replace("{hours}", "hour = ?"), [1, learner, UNKNOWN]),
    ]
