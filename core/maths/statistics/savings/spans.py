"""Months and weeks of savings: parts that add up to the whole, and weeks by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from core.columns import UNKNOWN, Floats, Ints, UsageColumns
from core.maths.statistics.savings.ratio import saved_percent
from core.maths.statistics.savings.runs import ComparedRuns
from core.maths.statistics.savings.sums import BASELINE, SELECTED
from core.records.saving import SpanSaved, WeekSaved
from core.records.times import DAY_HOURS

WEEK_HOURS: Final = 7 * DAY_HOURS
_MOST_WEEKS: Final = 26
_FIRST_MONDAY: Final = 4 * DAY_HOURS
"""Hours from 1 January 1970 to the first Monday."""


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
