"""Daily sums of every arm → arms whose usefulness fell lately, since when, and which fell to nothing together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import xlogy
from scipy.stats import hypergeom

from core.columns import UNKNOWN, ArmColumns, Bools, Floats, Ints, RecentDays, RecentHours
from core.records.arm import MICRO, ArmType
from core.records.times import DAY_MS, HOUR_MS

WINDOW_DAYS: Final = 14
"""A fall is looked for at the beginning of each of the last so many days of the data."""

FALSE_ALARM: Final = 0.01
"""At most this often does one look at a learner in which nothing changed name any arm at all."""

MIN_BEFORE: Final = 10
MIN_AFTER: Final = 5
MIN_FALL: Final = 0.1
"""With many observations a fall of a hundredth can be told for sure; it needs nobody's look."""

NOTHING: Final = 0.05
"""An arm whose mean since then is at most this has fallen to nothing."""

TOGETHER_DAYS: Final = 2
"""Arms of one type that fell to nothing within so many days of one another fell together."""

_MAY_COUNT: Final = 4.0
"""Twice the log-likelihood ratio under which no exact test is worth its time: none would be below .01."""


@dataclass(frozen=True, kw_only=True)
class Fall:
    """An arm that is less useful since a day (days since 1970 UTC) than before in the same epoch.

    ``prob`` is how often observations without a change would fall apart so far or farther at that day.
    """

    place: int
    since_day: int
    mean_before: float
    mean_after: float
    n_before: int
    n_after: int
    prob: float


@dataclass(frozen=True, kw_only=True)
class Poisoned:
    """Two or more arms of one type that fell to nothing together: a broken detector looks like this.

    ``n_after`` observations of all of them since ``since_ms`` (UTC), the latest of their falls, add up to
    ``reward``.
    """

    type: ArmType
    places: tuple[int, ...]
    since_ms: int
    n_after: int
    reward: float


@dataclass(frozen=True, kw_only=True)
class Changes:
    """``falls`` alone, surest first, and arms that fell together; no arm is in both. ``n_tests`` were made."""

    falls: tuple[Fall, ...]
    poisoned: tuple[Poisoned, ...]
    n_tests: int


@dataclass(frozen=True, kw_only=True)
class _Splits:
    """One row per arm, one column per day of the window: sums since the beginning of that day, and before it."""

    place: Ints
    day: Ints
    n_after: Floats
    good_after: Floats
    n_before: Floats
    good_before: Floats
    pulls_after: Ints
    pulls_before: Ints
    tested: Bools


def changes(columns: ArmColumns, sums: RecentDays, *, false_alarm: float = FALSE_ALARM) -> Changes:
    """Arms that fell in the last 14 days of the data, and which of them fell to nothing together.

    Each day on which an arm was observed parts its epoch in two. Given how many observations there are on both
    sides and how many of all were successes, every order of them is equally likely if nothing changed, so the
    successes since that day are hypergeometric: Fisher's exact test, one-sided (R. A. Fisher, *Statistical
    Methods for Research Workers*, 1934, section 21.02). All days of all arms share one false-alarm rate
    (Bonferroni), which makes it an upper bound: days of one arm overlap. The day said is the one with the
    largest likelihood ratio, or the first sure one since which the arm earned next to nothing. Fractional sums
    are rounded against a fall. Observations of one session are not independent; where that matters, the rate is
    larger.

    >>> from core.columns import ArmColumns, RecentDays
    >>> def ints(*values: int) -> Ints:
    ...     return np.array(values, dtype=np.int64)
    >>> arm = ArmColumns(keys=("tool:fs:Read",), types=("tool",), prior_alpha_micro=ints(3_000_000),
    ...     prior_beta_micro=ints(1_000_000), base_alpha_micro=ints(3_000_000), base_beta_micro=ints(1_000_000),
    ...     success_micro=ints(80_000_000), failure_micro=ints(50_000_000), pulls=ints(130),
    ...     inclusions=ints(130), token_cost=ints(300), epoch=ints(0), last_at_ms=ints(0))
    >>> sums = RecentDays(place=ints(0), day=ints(20_000), pulls=ints(30), success_micro=ints(0),
    ...     failure_micro=ints(30_000_000))
    >>> fall = changes(arm, sums).falls[0]
    >>> fall.since_day, fall.mean_before, fall.mean_after, fall.n_after
    (20000, 0.8, 0.0, 30)
    """
    splits = _splits(columns, sums)
    n_tests = int(splits.tested.sum())
    if n_tests == 0:
        return Changes(falls=(), poisoned=(), n_tests=0)
    falls = _falls(splits, false_alarm / n_tests)
    poisoned = _together(columns, falls, splits)
    taken = {place for group in poisoned for place in group.places}
    alone = sorted((fall for fall in falls if fall.place not in taken), key=lambda fall: fall.prob)
    return Changes(falls=tuple(alone), poisoned=poisoned, n_tests=n_tests)


def _splits(columns: ArmColumns, sums: RecentDays) -> _Splits:
    """The last days of the data; an earlier day than these counts as before, an unknown one not at all."""
    dated = sums.day != UNKNOWN
    end = int(sums.day.max(initial=UNKNOWN))
    day = np.arange(end - WINDOW_DAYS + 1, end + 1)
    recent = dated & (sums.day >= day[0])
    place, row = np.unique(sums.place[recent], return_inverse=True)
    column = sums.day[recent] - day[0]

    def since(amount: Ints) -> Ints:
        grid = np.zeros((len(place), WINDOW_DAYS), dtype=np.int64)
        grid[row, column] = amount[recent]
        return np.asarray(grid[:, ::-1].cumsum(axis=1)[:, ::-1], dtype=np.int64)

    def before(total: Ints, amount: Ints, after: Ints) -> Ints:
        undated = np.zeros(len(columns), dtype=np.int64)
        np.add.at(undated, sums.place[~dated], amount[~dated])
        return np.asarray((total - undated)[place][:, None] - after, dtype=np.int64)

    good, bad, pulls = since(sums.success_micro), since(sums.failure_micro), since(sums.pulls)
    good_before = before(columns.success_micro, sums.success_micro, good)
    bad_before = before(columns.failure_micro, sums.failure_micro, bad)
    observed = np.zeros((len(place), WINDOW_DAYS), dtype=np.bool_)
    observed[row, column] = sums.pulls[recent] > 0
    n_after, n_before = (good + bad) / MICRO, (good_before + bad_before) / MICRO
    return _Splits(
        place=place,
        day=day,
        n_after=n_after,
        good_after=np.clip(good / MICRO, 0, np.maximum(n_after, 0)),
        n_before=n_before,
        good_before=np.clip(good_before / MICRO, 0, np.maximum(n_before, 0)),
        pulls_after=pulls,
        pulls_before=before(columns.pulls, sums.pulls, pulls),
        tested=observed & (n_after >= MIN_AFTER) & (n_before >= MIN_BEFORE),
    )


def _falls(splits: _Splits, at_most: float) -> list[Fall]:
    """Of each arm the likeliest day at which it fell for sure, or the first since which it earned nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_after = splits.good_after / splits.n_after
        mean_before = splits.good_before / splits.n_before
        ratio = _likelihood_ratio(splits)
    worth = splits.tested & (mean_before - mean_after >= MIN_FALL) & (ratio >= _MAY_COUNT)
    prob = np.ones(worth.shape)
    prob[worth] = _exact(splits, worth)
    sure = prob <= at_most
    gone = sure & (mean_after <= NOTHING)
    found = []
    for row in np.flatnonzero(sure.any(axis=1)).tolist():
        likeliest = int(np.argmax(np.where(sure[row], ratio[row], -np.inf)))
        at = int(np.argmax(gone[row])) if gone[row].any() else likeliest
        found.append(
            Fall(
                place=int(splits.place[row]),
                since_day=int(splits.day[at]),
                mean_before=float(mean_before[row, at]),
                mean_after=float(mean_after[row, at]),
                n_before=int(splits.pulls_before[row, at]),
                n_after=int(splits.pulls_after[row, at]),
                prob=float(prob[row, at]),
            )
        )
    return found


def _likelihood_ratio(splits: _Splits) -> Floats:
    """Twice the log of how much likelier two means make the observations than one mean."""

    def log_likelihood(good: Floats, n: Floats) -> Floats:
        bad = np.maximum(n - good, 0)
        return np.asarray(xlogy(good, good / n) + xlogy(bad, bad / n), dtype=np.float64)

    apart = log_likelihood(splits.good_after, splits.n_after)
    apart = apart + log_likelihood(splits.good_before, splits.n_before)
    one = log_likelihood(splits.good_after + splits.good_before, splits.n_after + splits.n_before)
    return np.asarray(np.nan_to_num(2 * (apart - one)), dtype=np.float64)


def _exact(splits: _Splits, worth: Bools) -> Floats:
    """Chance of so few successes after the day, all of them given."""
    n_after, n_before = np.floor(splits.n_after[worth]), np.floor(splits.n_before[worth])
    good_after = np.minimum(np.ceil(splits.good_after[worth]), n_after)
    good = good_after + np.minimum(np.floor(splits.good_before[worth]), n_before)
    return np.asarray(hypergeom.cdf(good_after, n_after + n_before, good, n_after), dtype=np.float64)


def _together(columns: ArmColumns, falls: Sequence[Fall], splits: _Splits) -> tuple[Poisoned, ...]:
    """Arms of one type whose falls to nothing lie close to one another, the largest group first."""
    gone = sorted(
        (fall for fall in falls if fall.mean_after <= NOTHING),
        key=lambda fall: (columns.types[fall.place], fall.since_day),
    )
    groups: list[list[Fall]] = []
    for fall in gone:
        first = groups[-1][0] if groups else None
        if (
            first is not None
            and columns.types[first.place] == columns.types[fall.place]
            and fall.since_day - first.since_day <= TOGETHER_DAYS
        ):
            groups[-1].append(fall)
        else:
            groups.append([fall])
    found = [_poisoned(columns, group, splits) for group in groups if len(group) > 1]
    return tuple(sorted(found, key=lambda group: -len(group.places)))


def _poisoned(columns: ArmColumns, group: Sequence[Fall], splits: _Splits) -> Poisoned:
    since = max(fall.since_day for fall in group)
    rows = np.searchsorted(splits.place, [fall.place for fall in group])
    at = since - int(splits.day[0])
    return Poisoned(
        type=columns.types[group[0].place],
        places=tuple(fall.place for fall in group),
        since_ms=since * DAY_MS,
        n_after=int(splits.pulls_after[rows, at].sum()),
        reward=float(splits.good_after[rows, at].sum()),
    )


def sharpened(group: Poisoned, hours: RecentHours) -> Poisoned:
    """The same, counted from the hour after the last reward, where most of the evidence lies since then.

    A day that was half healthy, or a reward given by hand since, leaves some reward in the whole days.
    """
    inside = hours.hour * HOUR_MS >= group.since_ms
    good = np.flatnonzero(inside & (hours.success_micro > 0))
    if not len(good):
        return group
    later = slice(int(good[-1]) + 1, None)
    n_after = int(hours.pulls[later].sum())
    if 2 * n_after < group.n_after or not n_after:
        return group
    return replace(group, since_ms=int(hours.hour[later][0]) * HOUR_MS, n_after=n_after, reward=0.0)
