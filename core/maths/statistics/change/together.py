"""Fallen arms and their hours → which fell to nothing or by one factor together, as a broken detector makes them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import scipy

from core.columns import ArmColumns, ArmHours, Bools, Floats, Ints, RecentDays
from core.maths.statistics.change.shifts import NOTHING, Shift
from core.maths.statistics.change.splits import (
    FALSE_ALARM,
    MIN_AFTER,
    WINDOW_DAYS,
    apart_by_chance,
    likelihood_ratio,
)
from core.records.arm import MICRO, ArmType, arm_type
from core.records.times import DAY_MS, HOUR_MS

TOGETHER_DAYS: Final = 2
"""Arms of one type that fell to nothing within so many days of one another fell together."""


_AROUND: Final = 14
"""Days before a fall with which those since are compared."""
_ELSEWHERE: Final = 0.02
"""Chance of one test of arms of other types to find a change where there is none."""
_LEAST: Final = 0.01

_MANY: Final = 3
_HALVED: Final = 0.5
_UNLIKE: Final = 0.001


@dataclass(frozen=True, kw_only=True)
class Poisoned:
    """Arms of one type that fell together: two or more to nothing, or most of the type by one factor.

    A broken detector looks like this. ``n_after`` observations of all of them since ``since_ms`` (UTC), the latest of
    their falls, add up to ``reward``.
    """

    type: ArmType
    shifts: tuple[Shift, ...]
    since_ms: int
    n_after: int
    reward: float

    @property
    def arms(self) -> tuple[str, ...]:
        return tuple(shift.arm for shift in self.shifts)

    @property
    def n_before(self) -> int:
        return sum(shift.n_before for shift in self.shifts)

    @property
    def mean_before(self) -> float:
        return sum(shift.mean_before * shift.n_before for shift in self.shifts) / max(self.n_before, 1)


def gone(shift: Shift, hours: ArmHours) -> Shift:
    """Return the shift from the hour since which a fallen arm earned next to nothing, if there is one.

    ``hours`` are the arm's since it fell. Of the hours since which it did, and for sure less than between the fall
    and then (Fisher's exact test, all of them together), it is the one with the largest likelihood ratio: of a break
    in the middle of a day, the healthy half would hide it.

    Parameters
    ----------
    shift : Shift
        An arm's change.
    hours : ArmHours
        Sums of the arm by hour.

    Returns
    -------
    Shift
        The one given, where there is no such hour.
    """
    inside = hours.hour * HOUR_MS >= shift.since_ms
    good, n = _since(hours.success_micro[inside]), _since((hours.success_micro + hours.failure_micro)[inside])
    at = np.flatnonzero((n >= MIN_AFTER) & (good <= NOTHING * n))
    if not shift.fell or shift.mean_before <= NOTHING or not len(at):
        return shift
    meanwhile = n[0] - n[at]
    good_meanwhile = np.clip(good[0] - good[at], 0, meanwhile)
    fewer = apart_by_chance(good[at], n[at], good_meanwhile, meanwhile) / 2 * len(at) <= FALSE_ALARM
    n_before = shift.n_before + meanwhile
    good_before = np.minimum(shift.mean_before * shift.n_before + good_meanwhile, n_before)
    sure = fewer | (at == 0)
    if not sure.any():
        return shift
    best = int(np.argmax(np.where(sure, likelihood_ratio(good[at], n[at], good_before, n_before), -np.inf)))
    return replace(
        shift,
        since_ms=int(hours.hour[inside][at[best]]) * HOUR_MS,
        mean_before=float(good_before[best] / n_before[best]),
        mean_after=float(good[at[best]] / n[at[best]]),
        n_before=round(float(n_before[best])),
        n_after=round(float(n[at[best]])),
    )


def together(
    shifts: Sequence[Shift],
    columns: ArmColumns,
    hours: ArmHours,
    tested: Collection[str] = (),
    days: RecentDays | None = None,
) -> tuple[Poisoned, ...]:
    """Return the arms of one type that fell together, the largest group first.

    They lie within two days of one another. Two arms are a group where both fell to nothing. So are three or more
    that fell by one factor of at most one half, where they are most of the ``tested`` arms of their type and few arms
    of other types fell then. A detector is one type's; a poorer agent or a month's end is everyone's. It is no group
    where arms of other types changed on that day, up or down: then the work or the agent changed as well.

    Parameters
    ----------
    shifts : sequence of Shift
        All arms that changed.
    columns : ArmColumns of n_arms
        Counts of every arm, sorted by id.
    hours : ArmHours
        Sums by hour of the arms that fell.
    tested : collection of str, optional
        Arms that could have been named.
    days : RecentDays or None, optional
        Sums of all arms by day, the same observations. None: other types are not looked at.

    Returns
    -------
    tuple of Poisoned
        One for each group.
    """
    falls = [shift for shift in shifts if shift.fell]
    groups = []
    for group in _near(falls):
        lost = [shift for shift in group if shift.to_nothing]
        if _is_broken(group, falls, tested):
            groups.append(group)
        else:
            groups += [near for near in _near(lost) if len(near) > 1]
    if days is not None:
        groups = [group for group in groups if not _is_elsewhere(group, shifts, columns, days)]
    poisoned = [_poisoned(group, columns, hours) for group in groups]
    return tuple(sorted(poisoned, key=lambda group: -len(group.arms)))


def _near(falls: Sequence[Shift]) -> list[list[Shift]]:
    """Return the falls of each type in groups that begin within two days of the first."""
    groups: list[list[Shift]] = []
    for shift in sorted(falls, key=lambda one: (arm_type(one.arm), one.since_ms, one.arm)):
        first = groups[-1][0] if groups else None
        if (
            first is not None
            and arm_type(first.arm) == arm_type(shift.arm)
            and shift.since_ms - first.since_ms <= TOGETHER_DAYS * DAY_MS
        ):
            groups[-1].append(shift)
        else:
            groups.append([shift])
    return groups


def _is_broken(group: Sequence[Shift], falls: Sequence[Shift], tested: Collection[str]) -> bool:
    """Return whether most arms of one type, and few others, fell by one factor."""
    if len(group) < _MANY:
        return False
    mine, first = arm_type(group[0].arm), group[0].since_ms
    n_alike = sum(arm_type(arm) == mine for arm in tested)
    n_others = len(tested) - n_alike
    others = [
        shift
        for shift in falls
        if arm_type(shift.arm) != mine and abs(shift.since_ms - first) <= TOGETHER_DAYS * DAY_MS
    ]
    return 2 * len(group) >= n_alike and 4 * len(others) <= n_others and _by_one_factor(group)


def _is_elsewhere(
    group: Sequence[Shift], shifts: Sequence[Shift], columns: ArmColumns, days: RecentDays
) -> bool:
    """Return whether arms of other types changed on the day of a group, too.

    These are whole types, and single arms where the group fell by a part. Before are the 14 days up to then.
    Chi-squares are divided by how much more than binomial the days differ. Arms that changed on another of these days
    don't count.
    """
    first = min(shift.since_ms for shift in group) // DAY_MS
    start, mine = first - _AROUND, arm_type(group[0].arm)
    elsewhen = {
        shift.arm
        for shift in shifts
        if shift.since_ms // DAY_MS > start and abs(shift.since_ms // DAY_MS - first) > TOGETHER_DAYS
    }
    types = np.array(columns.types, dtype=np.str_)
    counted = np.array([key not in elsewhen for key in columns.keys]) & (types != mine) & (types != "section")
    sums = _Beside.of(columns, days, start, first).where(counted)
    _, of_type = np.unique(types[counted], return_inverse=True)
    is_partial = not all(shift.to_nothing for shift in group)
    return sums.changed(of_type) or (is_partial and sums.changed(np.arange(int(counted.sum()))))


@dataclass(frozen=True)
class _Beside:
    """Successes and observations of some arms by day, shape (2, n_arms, n_days), and on both sides of a day.

    ``sides`` has the shape (2, 2, n_arms): before, and since. Before are 14 days, or all earlier ones where fewer are
    read by day.
    """

    by_day: Floats
    sides: Floats
    n_days_before: int

    @classmethod
    def of(cls, columns: ArmColumns, days: RecentDays, start: int, first: int) -> _Beside:
        last = max(int(days.day.max(initial=first)), first)
        has_all, start = start > last - WINDOW_DAYS, max(start, last - WINDOW_DAYS + 1)
        inside = days.day >= start
        by_day = np.zeros((2, len(columns), last - start + 1))
        for grid, amount in zip(
            by_day, (days.success_micro, days.success_micro + days.failure_micro), strict=True
        ):
            np.add.at(grid, (days.arm[inside], days.day[inside] - start), amount[inside] / MICRO)
        totals = np.array([columns.success_micro, columns.success_micro + columns.failure_micro]) / MICRO
        since = by_day[:, :, first - start :].sum(2)
        before = by_day[:, :, : first - start].sum(2) if has_all else totals - since
        sides = np.stack((before, since), axis=1)
        for good, n in (by_day, sides):
            np.clip(good, 0, n, out=good)
        return cls(by_day, sides, first - start)

    def where(self, chosen: Bools) -> _Beside:
        """Return the sums of the chosen arms."""
        return replace(self, by_day=self.by_day[:, chosen], sides=self.sides[..., chosen])

    def changed(self, group: Ints) -> bool:
        """Return whether the mean of a group of arms changed (chi-square of all groups)."""
        mean = self.sides[0].sum(0) / np.maximum(self.sides[1].sum(0), 1)
        known = (self.sides[1] >= MIN_AFTER).all(axis=0) & (mean > 0) & (mean < 1)
        if not known.any():
            return False
        one, mean = self.where(known), mean[known]
        (good, n), (good_side, n_side) = one.by_day, one.sides
        moved = good_side[1] - n_side[1] * mean
        variance = mean * (1 - mean) * n_side[0] * n_side[1] / n_side.sum(0)
        own = np.clip(good_side / n_side, _LEAST, 1 - _LEAST)
        by_day = np.repeat(own, [one.n_days_before, n.shape[1] - one.n_days_before], axis=0).T
        off, spread = good - n * by_day, n * by_day * (1 - by_day)
        names, at = np.unique(group[known], return_inverse=True)
        is_of = (at == np.arange(len(names))[:, None]).astype(np.float64)
        moved, variance, off, spread = (is_of @ part for part in (moved, variance, off, spread))
        is_day = spread > 0
        n_free = int(is_day.sum()) - 2 * len(moved)
        wider = (off[is_day] ** 2 / spread[is_day]).sum() / n_free if n_free > 0 else 1.0
        ratio = (moved**2 / variance).sum() / max(wider, 1.0)
        return bool(ratio > scipy.special.chdtri(len(moved), _ELSEWHERE))


def _by_one_factor(group: Sequence[Shift]) -> bool:
    """Return whether all means fell to one share of what they were, at most a half (chi-square, .001)."""
    before, after = (
        np.array([getattr(shift, name) for shift in group]) for name in ("mean_before", "mean_after")
    )
    n_before, n_after = (
        np.array([getattr(shift, name) for shift in group]) for name in ("n_before", "n_after")
    )
    factor = float((after * n_after).sum() / (before * n_after).sum())
    if factor > _HALVED:
        return False
    expected = factor * before
    variance = expected * (1 - expected) / n_after + factor**2 * before * (1 - before) / n_before
    apart = ((after - expected) ** 2 / np.maximum(variance, 1 / n_after**2)).sum()
    return bool(apart <= scipy.special.chdtri(len(group) - 1, _UNLIKE))


def _poisoned(group: Sequence[Shift], columns: ArmColumns, hours: ArmHours) -> Poisoned:
    """Return a group from the hour after its last reward, if most of the evidence lies since then. The break is
    seldom at the full hour, and a person may have rewarded an arm since. All arms get the one break. It is an earlier
    one where an arm's zeros until then can't be luck.
    """
    since_ms = max(shift.since_ms for shift in group)
    mine = hours.of(*(columns.places[shift.arm] for shift in group))
    inside = mine.hour * HOUR_MS >= since_ms
    hour, good, n = (
        mine.hour[inside],
        mine.success_micro[inside],
        (mine.success_micro + mine.failure_micro)[inside],
    )
    rewarded = hour[good > 0]
    later = hour > (rewarded[-1] if len(rewarded) else -1)
    if 2 * n[later].sum() >= n.sum() and later.any():
        since_ms, good, n = int(hour[later][0]) * HOUR_MS, good[later], n[later]
    own = {shift.arm: hours.of(columns.places[shift.arm]) for shift in group}
    first_ms = min(
        [since_ms, *(shift.since_ms for shift in group if _earlier(shift, own[shift.arm], since_ms))]
    )
    if first_ms < since_ms:
        since_ms, inside = first_ms, mine.hour * HOUR_MS >= first_ms
        good, n = mine.success_micro[inside], (mine.success_micro + mine.failure_micro)[inside]
    return Poisoned(
        type=arm_type(group[0].arm),
        shifts=tuple(
            _from(shift, own[shift.arm], since_ms) for shift in sorted(group, key=lambda shift: shift.arm)
        ),
        since_ms=since_ms,
        n_after=round(int(n.sum()) / MICRO),
        reward=int(good.sum()) / MICRO,
    )


def _earlier(shift: Shift, hours: ArmHours, since_ms: int) -> bool:
    """Return whether an arm earned nothing from its own break until the group's, which chance seldom does."""
    n, good = _between(hours, shift.since_ms, since_ms)
    return n > 0 and good <= NOTHING * n and (1 - shift.mean_before) ** n <= FALSE_ALARM / 10


def _from(shift: Shift, hours: ArmHours, since_ms: int) -> Shift:
    """Return the shift with another time of its break; observations between both change sides."""
    n, good = _between(hours, min(shift.since_ms, since_ms), max(shift.since_ms, since_ms))
    if since_ms < shift.since_ms:
        n, good = -n, -good
    n_before, n_after = shift.n_before + n, shift.n_after - n
    if min(n_before, n_after) <= 0:
        return shift
    return replace(
        shift,
        since_ms=since_ms,
        mean_before=min(max((shift.mean_before * shift.n_before + good) / n_before, 0.0), 1.0),
        mean_after=min(max((shift.mean_after * shift.n_after - good) / n_after, 0.0), 1.0),
        n_before=round(n_before),
        n_after=round(n_after),
    )


def _between(hours: ArmHours, from_ms: int, to_ms: int) -> tuple[float, float]:
    """Return the observations and the rewards of an arm in a span."""
    inside = (hours.hour * HOUR_MS >= from_ms) & (hours.hour * HOUR_MS < to_ms)
    good = float(hours.success_micro[inside].sum() / MICRO)
    return good + float(hours.failure_micro[inside].sum() / MICRO), good


def _since(amount: Ints) -> Floats:
    """Return the sums from each hour on."""
    return np.asarray(amount[::-1].cumsum()[::-1] / MICRO, dtype=np.float64)
