"""Change: arms that became more or less used lately, since when, and with what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from core.columns import ArmColumns, Floats, MixDays, RecentDays
from core.maths.statistics.change.shifts import (
    NEAR_DAYS,
    NOTHING,
    Shift,
    explained,
    shifts,
    unexplained,
)
from core.maths.statistics.change.splits import (
    FALSE_ALARM,
    MIN_AFTER,
    MIN_BEFORE,
    MIN_CHANGE,
    WINDOW_DAYS,
    Splits,
    apart_by_chance,
    splits,
)
from core.maths.statistics.change.together import TOGETHER_DAYS, Poisoned, gone, together
from core.records.arm import MICRO
from core.records.times import DAY_MS

CauseKind = Literal["mix_changed", "new_model", "fell_together"]

MANY: Final = 3
"""Number of arms that changed within days of one another from which one row names them."""

LEAST_SHARE: Final = 0.1
"""Change of a share of runs, or share of a new model, that can move an arm's mean by so much as is named."""

MONTH_DAYS: Final = range(28, 32)
_NEAR_DAYS: Final = 7
_LONGEST: Final = 10
"""Days of a fall up to which the month before is asked for one like it."""
_SURE: Final = 0.01
_AROUND: Final = 14
HISTORY_DAYS: Final = MONTH_DAYS[-1] + WINDOW_DAYS + _AROUND
"""Days of the data that show whether a fall came back a month before."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Arms whose changes have one cause, since a time (UTC).

    ``name`` is the channel or model (``of``) whose share of runs went from ``before`` to ``after``; "" where all that
    is known is the day.
    """

    kind: CauseKind
    shifts: tuple[Shift, ...]
    since_ms: int
    of: Literal["model", "channel", ""] = ""
    name: str = ""
    before: float = 0.0
    after: float = 0.0

    @property
    def arms(self) -> tuple[str, ...]:
        return tuple(shift.arm for shift in self.shifts)


def causes(mixed: Sequence[Shift], mix: MixDays | None, alone: Sequence[Shift]) -> tuple[Cause, ...]:
    """Return what several changes have in common: another mix of runs or a new model, then days of many changes.

    Parameters
    ----------
    mixed : sequence of Shift
        Changes of all runs together that no stratum has.
    mix : MixDays or None
        Runs by day, model and channel, of the same time; None where no arm is in ``mixed``.
    alone : sequence of Shift
        Changes within strata; those with rivals are explained.

    Returns
    -------
    tuple of Cause
        Of the mix only where a share of runs changed by a tenth.
    """
    of_mix = None if mix is None or not mixed else _of_mix(mixed, mix)
    many = _by_day([shift for shift in alone if not shift.rivals])
    of_days = [
        Cause(kind="fell_together", shifts=group, since_ms=_common_day(group) * DAY_MS)
        for group in many
        if len(group) >= MANY
    ]
    return tuple(of_days) if of_mix is None else (of_mix, *of_days)


def _common_day(fallen: Sequence[Shift]) -> int:
    days = Counter(shift.since_ms // DAY_MS for shift in fallen)
    return max(days, key=lambda one: (days[one], -one))


def _of_mix(fallen: Sequence[Shift], mix: MixDays) -> Cause | None:
    day = _common_day(fallen)
    arrived = [
        (first, name, after)
        for name, first, before, after in _shares(mix, "model", day)
        if name and before < LEAST_SHARE / 10 <= LEAST_SHARE <= after and abs(first - day) <= _NEAR_DAYS
    ]
    if arrived:
        first, name, after = max(arrived, key=lambda one: one[2])
        return Cause(
            kind="new_model",
            shifts=tuple(fallen),
            since_ms=first * DAY_MS,
            of="model",
            name=name,
            after=after,
        )
    moved = [
        (abs(after - before), after - before, of, name, before, after)
        for of in ("channel", "model")
        for name, _, before, after in _shares(mix, of, day)
    ]
    if not moved:
        return None
    size, _, of, name, before, after = max(moved, key=lambda one: (round(one[0], 9), one[1]))
    if size < LEAST_SHARE:
        return None
    return Cause(
        kind="mix_changed",
        shifts=tuple(fallen),
        since_ms=day * DAY_MS,
        of="model" if of == "model" else "channel",
        name=name,
        before=before,
        after=after,
    )


def _shares(mix: MixDays, of: str, day: int) -> list[tuple[str, int, float, float]]:
    """Return each model or channel with its first day, and its shares of the runs before a day and since."""
    names = np.array(mix.model if of == "model" else mix.channel, dtype=np.str_)
    later = mix.day >= day
    n_before, n_after = (max(int(mix.n[part].sum()), 1) for part in (~later, later))
    return [
        (
            str(name),
            int(mix.day[names == name].min()),
            float(mix.n[(names == name) & ~later].sum() / n_before),
            float(mix.n[(names == name) & later].sum() / n_after),
        )
        for name in np.unique(names)
    ]


def _by_day(fallen: Sequence[Shift]) -> list[tuple[Shift, ...]]:
    """Return the changes in groups within two days of the day that most share, the largest group first."""
    groups: list[tuple[Shift, ...]] = []
    left = list(fallen)
    while left:
        near = [
            [other for other in left if abs(other.since_ms - one.since_ms) <= TOGETHER_DAYS * DAY_MS]
            for one in left
        ]
        group = max(near, key=len)
        groups.append(tuple(group))
        left = [shift for shift in left if shift not in group]
    return groups


def passing(columns: ArmColumns, falls: Sequence[Shift], days: RecentDays, end_day: int) -> tuple[str, ...]:
    """Return the arms whose fall needs no look: it is over, or it came and went a month before as well.

    All arms that fell within days of one another are added up by day.

    Parameters
    ----------
    columns : ArmColumns of n_arms
        Counts of every arm, sorted by id.
    falls : sequence of Shift
        Arms that fell.
    days : RecentDays
        Sums by day, `HISTORY_DAYS` back from the last day of the data.
    end_day : int
        The last day of the data, in days since 1970 UTC.

    Returns
    -------
    tuple of str
        Ids of arms.
    """
    return tuple(
        shift.arm
        for group in _by_day(falls)
        if _is_passing(group, [columns.places[shift.arm] for shift in group], days, end_day)
        for shift in group
    )


def _is_passing(group: Sequence[Shift], places: Sequence[int], days: RecentDays, end_day: int) -> bool:
    start = end_day - HISTORY_DAYS + 1
    mine = np.isin(days.arm, places) & (days.day >= start) & (days.day <= end_day)
    good, bad = np.zeros((2, HISTORY_DAYS))
    np.add.at(good, days.day[mine] - start, days.success_micro[mine] / MICRO)
    np.add.at(bad, days.day[mine] - start, days.failure_micro[mine] / MICRO)
    since = min(shift.since_ms for shift in group) // DAY_MS - start
    n_before = sum(shift.n_before for shift in group)
    before = sum(shift.mean_before * shift.n_before for shift in group) / max(n_before, 1)
    n = good + bad
    return _is_over(good, n, since, before) or _was_seen(good, n, since, before)


def _is_over(good: Floats, n: Floats, since: int, before: float) -> bool:
    """Return whether the mean is what it was before for two days or longer, and surely above that of the fall."""
    for back in range(since + 1, len(n) - 1):
        n_low, n_back = n[since:back].sum(), n[back:].sum()
        if min(n_low, n_back) < MIN_AFTER:
            continue
        low, now = good[since:back].sum() / n_low, good[back:].sum() / n_back
        if now >= before - (before - low) / 4 and _lower(
            good[since:back], n[since:back], good[back:], n[back:]
        ):
            return True
    return False


def _was_seen(good: Floats, n: Floats, since: int, before: float) -> bool:
    """Return whether the same days a month before were as low, between days that were not."""
    length = len(n) - since
    n_after = n[since:].sum()
    if length > _LONGEST or not n_after:
        return False
    half_way = (before + good[since:].sum() / n_after) / 2
    for month in MONTH_DAYS:
        first = since - month
        last = first + length
        if first < _AROUND:
            continue
        days = np.r_[first - _AROUND : first, since - _AROUND : since]
        around, n_around = good[days], n[days]
        seen, n_seen = good[first:last], n[first:last]
        is_low = seen.sum() <= half_way * n_seen.sum() and seen[-1] <= half_way * n_seen[-1]
        came_back = around.sum() > half_way * n_around.sum()
        if n_seen[-1] and is_low and came_back and _lower(seen, n_seen, around, n_around):
            return True
    return False


def _lower(good: Floats, n: Floats, other_good: Floats, other_n: Floats) -> bool:
    """Return whether the mean of some days is surely below that of others."""
    sums = [np.array([max(part.sum(), 0.0)]) for part in (good, n, other_good, other_n)]
    if sums[0][0] * sums[3][0] >= sums[2][0] * sums[1][0]:
        return False
    return bool(apart_by_chance(*sums)[0] <= _SURE)


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Arms that changed, surest first, and arms of one type that fell together; no arm is in both.

    ``causes`` name why several changed. Arms of a day on which many changed are in ``shifts`` too; those that another
    mix or model moved are not, because they did not change within any.
    """

    shifts: tuple[Shift, ...] = ()
    poisoned: tuple[Poisoned, ...] = ()
    causes: tuple[Cause, ...] = ()

    def among(self, arms: Collection[str]) -> Changes:
        """Return the changes of some arms; a group is of one type and stays whole."""
        parts = [
            replace(cause, shifts=tuple(shift for shift in cause.shifts if shift.arm in arms))
            for cause in self.causes
        ]
        return Changes(
            shifts=tuple(shift for shift in self.shifts if shift.arm in arms),
            poisoned=tuple(group for group in self.poisoned if group.arms[0] in arms),
            causes=tuple(cause for cause in parts if cause.shifts),
        )


NOTHING_CHANGED: Final = Changes()
