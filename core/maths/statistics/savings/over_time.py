"""Savings up to each day, by month and by week, and the total that all selected runs saved, in tokens or in money.

In each stratum, each selected run counts as having saved the difference of the two means. The total is the sum over
the strata with runs of both groups. It describes the selected runs as they came, so strata weigh by these alone. Its
interval is that of a weighted difference of means (`core.maths.statistics.savings.ratio`). So it stays as uncertain
as the baseline mean, however many selected runs there are. Months add up to the whole; each week is by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from core.columns import UNKNOWN, Floats, Ints, UsageColumns
from core.maths.statistics.savings.ratio import estimated, saved_percent
from core.maths.statistics.savings.runs import ComparedRuns, RunAmount
from core.maths.statistics.savings.sums import BASELINE, SELECTED, StratumSums, unless_wide
from core.records.estimate import Estimate
from core.records.saving import SpanSaved, WeekSaved
from core.records.times import DAY_HOURS

_MOST_ENTRIES: Final = 500_000
_DAYS: Final = (60, 400)
"""Least and largest number of days of a path, if the data have more."""
WEEK_HOURS: Final = 7 * DAY_HOURS
_MOST_WEEKS: Final = 26
_FIRST_MONDAY: Final = 4 * DAY_HOURS
"""Hours from 1 January 1970 to the first Monday."""


@dataclass(frozen=True, kw_only=True)
class SavingsOverTime:
    """Savings over all runs up to and including each day (days since 1970 UTC); NaN where not computable.

    Every day from the first to the last, or of many days evenly spaced ones, the last among them.
    """

    day: Ints
    n_baseline: Ints
    n_selected: Ints
    saved_percent: Floats
    lower: Floats
    upper: Floats
    prob: float
    n_undated: int


@dataclass(frozen=True, kw_only=True)
class Running:
    """Tokens up to and including each day; days are the first axis. ``n_undated`` runs have no day. ``is_narrow``:
    runs lie close enough together for intervals of their means.
    """

    day: Ints
    tokens: RunAmount
    n_undated: int
    is_narrow: bool


def running(usage: UsageColumns, runs: ComparedRuns, *, is_narrow: bool) -> Running:
    """Return the days of the path and the tokens up to each."""
    dated = runs.is_known & (usage.hour != UNKNOWN)
    days = usage.hour[dated] // DAY_HOURS
    first = int(days.min()) if len(days) else 0
    n_days = int(days.max()) - first + 1 if len(days) else 0
    code = ((days - first) * runs.n_strata + runs.stratum[dated]) * 2 + runs.group[dated]
    shape = (n_days, runs.n_strata, 2)
    least, most = _DAYS
    n_shown = min(n_days, max(least, min(most, _MOST_ENTRIES // max(runs.n_sampled, 1))))
    # Each day shown costs a pass over all sessions.
    shown = np.unique(np.round(np.linspace(0, n_days - 1, n_shown)).astype(np.int64))

    def until(amount: Ints | Floats) -> Floats:
        added = np.bincount(code, weights=amount[dated], minlength=math.prod(shape))
        return np.asarray(np.cumsum(added.reshape(shape), axis=0)[shown], dtype=np.float64)

    sums = StratumSums(n=until(usage.n), total=until(usage.tokens), squares=until(usage.tokens_squared))
    return Running(
        day=first + shown,
        tokens=RunAmount(sums=sums, sessions=runs.tokens_until(first + shown)),
        n_undated=int(usage.n[runs.is_known & ~dated].sum()),
        is_narrow=is_narrow,
    )


def over_time(so_far: Running, prob: float) -> SavingsOverTime:
    """Return the savings up to each day, from the sums up to it."""
    compared = so_far.tokens.compared()
    lower, upper = shown_limits(so_far, compared.saved_percent_limits(prob))
    n_runs = so_far.tokens.sums.n.sum(-2).astype(np.int64)
    return SavingsOverTime(
        day=so_far.day,
        n_baseline=n_runs[:, BASELINE],
        n_selected=n_runs[:, SELECTED],
        saved_percent=compared.saved_percent,
        lower=lower,
        upper=upper,
        prob=prob,
        n_undated=so_far.n_undated,
    )


def shown_limits(so_far: Running, limits: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Return the limits by day, none where runs lie too far apart."""
    lower, upper = limits
    return (lower, upper) if so_far.is_narrow else (np.full_like(lower, np.nan), np.full_like(upper, np.nan))


@dataclass(frozen=True, kw_only=True)
class TotalSaved:
    """Total that selected runs saved together; ``n_runs`` of them, ``n_uncounted`` could not be counted.

    The path holds, for each of its days, the total up to and including that day (NaN where not computable).
    """

    saved: Estimate
    n_runs: int
    n_uncounted: int
    day: Ints
    path: Floats
    lower: Floats
    upper: Floats


def total_saved(tokens: RunAmount, so_far: Running, *, prob: float, worth: float = 1.0) -> TotalSaved:
    """Return what all selected runs saved, each unit of the amount counted as ``worth``."""
    sums = tokens.sums
    compared = tokens.compared(sums.n[..., SELECTED] * worth)
    path = so_far.tokens.compared(so_far.tokens.sums.n[..., SELECTED] * worth)
    lower, upper = shown_limits(so_far, path.saved_limits(prob))
    result = estimated(sums, compared, compared.saved, compared.saved_limits(prob), prob)
    n_counted = int(compared.n[SELECTED])
    return TotalSaved(
        saved=unless_wide(result, is_narrow=so_far.is_narrow),
        n_runs=n_counted,
        n_uncounted=int(sums.n[..., SELECTED].sum()) - n_counted,
        day=so_far.day,
        path=path.saved,
        lower=lower,
        upper=upper,
    )


def months(parts: Sequence[tuple[UsageColumns, ComparedRuns]], worth: float = 1.0) -> tuple[SpanSaved, ...]:
    """Return the savings of each month of UTC, over the runs of some policies; they add up to the whole.

    Selected runs of a stratum saved its difference of the two means each, in any month. ``worth`` is what one unit of
    the amount counts.
    """
    bounds = _months_of(np.concatenate([usage.hour[_counted(usage, runs)] for usage, runs in parts]))
    totals = np.zeros((len(bounds) - 1, 4))
    for usage, runs in parts:
        totals += _by_month(usage, runs, bounds[:-1])
    return tuple(
        SpanSaved(
            start_hour=start,
            end_hour=end,
            n_selected=round(n),
            n_uncompared=round(rest),
            means=(worth * base / n, worth * chosen / n) if n else (None, None),
            saved=worth * (base - chosen) if n else None,
        )
        for (start, end), (n, rest, base, chosen) in zip(
            pairwise(bounds.tolist()), totals.tolist(), strict=True
        )
    )


def _counted(usage: UsageColumns, runs: ComparedRuns) -> Ints:
    return np.flatnonzero((runs.group == SELECTED) & (usage.hour != UNKNOWN))


def _by_month(usage: UsageColumns, runs: ComparedRuns, starts: Ints) -> Floats:
    """Return, by month: selected runs compared, others, and the former times each of the two means."""
    rows = _counted(usage, runs)
    compared, sums = runs.tokens.compared(), runs.tokens.sums
    taking = np.asarray(compared.weight > 0)
    mean = np.where(taking[:, None], np.nan_to_num(sums.mean), 0.0)
    stratum, n = runs.stratum[rows], usage.n[rows]
    inside = runs.is_known[rows] & taking[stratum]
    month = np.searchsorted(starts, usage.hour[rows], side="right") - 1
    amounts = (
        n * inside,
        n * ~inside,
        n * inside * mean[stratum, BASELINE],
        n * inside * mean[stratum, SELECTED],
    )
    return np.stack([np.bincount(month, one, len(starts)) for one in amounts], axis=-1)


def _months_of(hours: Ints) -> Ints:
    """Return the hours at which the months from the first to the last begin, and the end of the last one."""
    if not len(hours):
        return np.zeros(1, dtype=np.int64)
    first, last = np.array([hours.min(), hours.max()]).astype("datetime64[h]").astype("datetime64[M]")
    return np.arange(first, last + 2).astype("datetime64[h]").astype(np.int64)


def weeks(usage: UsageColumns, runs: ComparedRuns, prob: float) -> tuple[WeekSaved, ...]:
    """Return the latest weeks from Monday on (UTC), each compared by itself."""
    hour = usage.hour[runs.is_compared & (usage.hour != UNKNOWN)]
    rows = []
    for number in np.unique((hour - _FIRST_MONDAY) // WEEK_HOURS)[-_MOST_WEEKS:].tolist():
        start = number * WEEK_HOURS + _FIRST_MONDAY
        amount = runs.capped(runs.everything, hours=(start, start + WEEK_HOURS))
        saved = saved_percent(amount.compared(), amount.sums, prob)
        n_runs = (int(amount.sums.n[:, BASELINE].sum()), int(amount.sums.n[:, SELECTED].sum()))
        rows.append(WeekSaved(start_hour=start, n_runs=n_runs, saved_percent=saved))
    return tuple(rows)
