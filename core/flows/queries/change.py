"""Arms that became more or less useful lately, from the rollups and from the runs of suspects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

import numpy as np

from core.columns import ArmColumns, ArmHours, Ints, LedgerSums
from core.records.times import DAY_MS
from core.records.view import View
from core.statistics import change
from core.statistics.sources import automatic_columns
from core.store import reads
from core.store.transaction import Snapshot

_MOST_EXPLAINED: Final = 20
"""Maximum number of falls that are searched for rivals, the surest first. If more arms fell, no rival is the cause.
"""


Beside = TypeVar("Beside")


def changes_in(
    snapshot: Snapshot,
    columns: ArmColumns,
    view: View,
    end_ms: int | None,
    beside: Callable[[LedgerSums], Beside],
) -> tuple[change.Changes, LedgerSums, Beside]:
    """Return the arms that changed, with the ledger rows of all arms, which do not count: automatic ones alone do.

    ``beside`` reads what depends on these rows, in round trips that are needed anyway. Falls have rivals, and groups
    fell together. ``columns`` hold all arms at the view's end. ``end_ms`` is the end of the data by then (None:
    nothing is dated).
    """
    until_ms = view.until_ms
    if end_ms is None:
        ledger = reads.ledger_sums(snapshot, columns, until_ms=until_ms)
        return change.Changes(), ledger, beside(ledger)
    end_day = (end_ms if until_ms is None else end_ms - 1) // DAY_MS
    since_day = end_day - change.HISTORY_DAYS + 1
    days, walk, ledger, by_hand = snapshot.together(
        lambda: reads.recent_days(
            snapshot,
            columns,
            since_day=end_day - change.WINDOW_DAYS + 1,
            until_ms=until_ms,
            min_pulls=change.MIN_BEFORE + change.MIN_AFTER,
        ),
        lambda: reads.walk(snapshot, columns, until_ms=until_ms),
        lambda: reads.ledger_sums(snapshot, columns, until_ms=until_ms),
        lambda: reads.given(snapshot, since_ms=since_day * DAY_MS, until_ms=until_ms),
    )
    given = by_hand.hours(snapshot, columns, walk.at)
    seen = automatic_columns(columns, ledger)

    def changed() -> change.Changes:
        split = change.splits(seen, days.less(given))
        sessions = reads.arm_sessions(snapshot, columns, split.arm[split.suspects], walk)
        shifts = change.shifts(seen, split, sessions)
        mixed = change.unexplained(seen, split, sessions, shifts)
        falls = [shift for shift in shifts if shift.fell]
        hours, past, mix, first = snapshot.together(
            lambda: _hours(snapshot, columns, falls, end_ms + 1 if until_ms is None else until_ms, walk),
            lambda: reads.history_days(
                snapshot, columns, _places(columns, falls), walk.at, since_day=since_day
            ),
            lambda: reads.mix_days(snapshot, end_day - 2 * change.WINDOW_DAYS, until_ms) if mixed else None,
            lambda: reads.first_days(snapshot) if falls else {},
        )
        hours, past = hours.less(given), past.less(given)
        passing = [
            shift.arm
            for group in change.by_day(falls)
            if change.is_passing(group, _places(columns, group).tolist(), past, end_day)
            for shift in group
        ]
        shifts = tuple(
            change.gone(shift, hours.of(columns.places[shift.arm]))
            for shift in shifts
            if shift.arm not in passing
        )
        tested = [columns.keys[arm] for arm in split.arm[split.n_tested > 0].tolist()]
        poisoned = change.together(shifts, columns, hours, tested)
        taken = {arm for group in poisoned for arm in group.arms}
        alone = [shift for shift in shifts if shift.arm not in taken]
        explained = snapshot.together(
            *[partial(_explained, snapshot, columns, walk, first, shift) for shift in alone[:_MOST_EXPLAINED]]
        )
        alone[:_MOST_EXPLAINED] = explained
        causes = [] if mix is None else [change.of_mix(mixed, mix)]
        many = change.by_day([shift for shift in alone if not shift.rivals])
        causes += [change.fell_together(group) for group in many if len(group) >= change.MANY]
        return change.Changes(
            shifts=tuple(alone),
            poisoned=poisoned,
            causes=tuple(cause for cause in causes if cause is not None),
        )

    found, read_beside = snapshot.together(changed, lambda: beside(ledger))
    return found, ledger, read_beside


def _places(columns: ArmColumns, shifts: Sequence[change.Shift]) -> Ints:
    return np.array([columns.places[shift.arm] for shift in shifts], dtype=np.int64)


def _hours(
    snapshot: Snapshot,
    columns: ArmColumns,
    falls: Sequence[change.Shift],
    until_ms: int,
    walk: reads.Walk,
) -> ArmHours:
    """Return the hours of fallen arms since the first of them fell."""
    return reads.arm_hours(
        snapshot,
        columns,
        _places(columns, falls),
        since_ms=min((shift.since_ms for shift in falls), default=until_ms),
        until_ms=until_ms,
        at=walk.at,
    )


def _explained(
    snapshot: Snapshot,
    columns: ArmColumns,
    walk: reads.Walk,
    first: Mapping[int, int],
    shift: change.Shift,
) -> change.Shift:
    """Add its rivals to a fall."""
    if not shift.fell:
        return shift
    day = shift.since_ms // DAY_MS
    joined = reads.joined_arms(
        snapshot,
        columns,
        shift.arm,
        days=(day - change.NEAR_DAYS, day + change.NEAR_DAYS),
        since_ms=shift.since_ms,
        walk=walk,
        first=first,
    )
    return replace(shift, rivals=change.rivals(shift, joined))
