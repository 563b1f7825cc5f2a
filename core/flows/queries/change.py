"""Change: which arms became more or less useful lately; from the rollups, and from runs where these say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from core.columns import ArmColumns, ArmHours
from core.records.times import DAY_MS
from core.records.view import View
from core.statistics import change
from core.store import reads
from core.store.transaction import Snapshot

_MOST_EXPLAINED: Final = 20
"""So many falls are asked for rivals, the surest first: where more arms fell, it was no rival."""


def changes_in(snapshot: Snapshot, columns: ArmColumns, view: View, end_ms: int | None) -> change.Changes:
    """Arms that changed, with the rivals of those that fell, and which fell to nothing together.

    ``columns`` are of all arms at the view's end, ``end_ms`` is where the data end by then (None: nothing is dated).
    """
    if end_ms is None:
        return change.Changes()
    days = reads.recent_days(
        snapshot,
        columns,
        since_day=end_ms // DAY_MS - change.WINDOW_DAYS + 1,
        until_ms=view.until_ms,
        min_pulls=change.MIN_BEFORE + change.MIN_AFTER,
    )
    split = change.splits(columns, days)
    sessions = reads.arm_sessions(snapshot, columns, split.place[split.suspects], until_ms=view.until_ms)
    found = change.shifts(columns, split, sessions)
    hours = _hours(snapshot, columns, [shift for shift in found if shift.fell], view, end_ms)
    found = tuple(change.gone(shift, hours.of(columns.places[shift.arm])) for shift in found)
    poisoned = change.together(found, columns, hours)
    taken = {arm for group in poisoned for arm in group.arms}
    alone = [shift for shift in found if shift.arm not in taken]
    explained = [_explained(snapshot, columns, view, shift) for shift in alone[:_MOST_EXPLAINED]]
    return change.Changes(shifts=(*explained, *alone[_MOST_EXPLAINED:]), poisoned=poisoned)


def _hours(
    snapshot: Snapshot, columns: ArmColumns, falls: Sequence[change.Shift], view: View, end_ms: int
) -> ArmHours:
    """The hours of fallen arms since the first of them fell."""
    return reads.arm_hours(
        snapshot,
        columns,
        np.array([columns.places[shift.arm] for shift in falls], dtype=np.int64),
        since_ms=min((shift.since_ms for shift in falls), default=end_ms),
        until_ms=end_ms + 1 if view.until_ms is None else view.until_ms,
    )


def _explained(snapshot: Snapshot, columns: ArmColumns, view: View, shift: change.Shift) -> change.Shift:
    """The same with its rivals."""
    if not shift.fell:
        return shift
    day = shift.since_ms // DAY_MS
    joined = reads.joined_arms(
        snapshot,
        columns,
        shift.arm,
        days=(day - change.NEAR_DAYS, day + change.NEAR_DAYS),
        since_ms=shift.since_ms,
        until_ms=view.until_ms,
    )
    return replace(shift, rivals=change.rivals(shift, joined))
