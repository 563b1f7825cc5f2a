"""Series of the activity of each day, from usage and pulls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.columns import UNKNOWN, Bools, DayCounts, Floats, Ints, UsageColumns
from core.records.times import DAY_HOURS
from core.statistics.savings import SavingsOverTime


@dataclass(frozen=True, kw_only=True)
class DaySeries:
    """One entry per day (days since 1970 UTC) from the first to the last day with dated runs, gaps filled.

    Counts are of that day and 0 where nothing happened; ``tokens_per_selected_run`` and ``tokens_per_run`` (of any
    class) are that day's means over completed runs with known usage (NaN where none); ``saved_percent`` is
    cumulative (NaN where none). ``pulls_micro``, in millionths, and ``arms_in_use`` are None where the daily counts
    were not supplied.
    """

    day: Ints
    runs: Ints
    selected_runs: Ints
    baseline_runs: Ints
    tokens_per_selected_run: Floats
    tokens_per_run: Floats
    saved_percent: Floats
    pulls_micro: Ints | None
    arms_in_use: Ints | None


def day_series(usage: UsageColumns, saved: SavingsOverTime, counts_by_day: DayCounts | None) -> DaySeries:
    """Return the activity of each day, from the first to the last with dated runs."""
    dated = usage.hour != UNKNOWN
    days = usage.hour[dated] // DAY_HOURS
    day = np.arange(days.min(), days.max() + 1) if len(days) else np.array([], dtype=np.int64)
    start = int(day[0]) if len(day) else 0
    classes = np.array(usage.run_class, dtype=np.str_)[dated]
    known = (np.array(usage.status, dtype=np.str_) == "completed")[dated] & (usage.bucket[dated] != UNKNOWN)
    selected = classes == "selected"

    def count(amount: Ints, rows: Bools) -> Ints:
        added = np.bincount(days[rows] - start, weights=amount[dated][rows], minlength=len(day))
        return added.astype(np.int64)

    def mean_tokens(rows: Bools) -> Floats:
        n_known, tokens = count(usage.n, rows & known), count(usage.tokens, rows & known)
        return np.where(n_known > 0, tokens / np.maximum(n_known, 1), np.nan)

    return DaySeries(
        day=day,
        runs=count(usage.n, np.ones(len(days), dtype=np.bool_)),
        selected_runs=count(usage.n, selected),
        baseline_runs=count(usage.n, classes == "baseline"),
        tokens_per_selected_run=mean_tokens(selected),
        tokens_per_run=mean_tokens(np.ones(len(days), dtype=np.bool_)),
        saved_percent=_latest(day, saved.day, saved.saved_percent),
        pulls_micro=None
        if counts_by_day is None
        else _spread(day, counts_by_day.day, counts_by_day.pulls_micro),
        arms_in_use=None
        if counts_by_day is None
        else _spread(day, counts_by_day.day, counts_by_day.arms_in_use),
    )


def _latest(day: Ints, known_day: Ints, value: Floats) -> Floats:
    """Return the value of the last known day up to each day; NaN before the first."""
    index = np.searchsorted(known_day, day, side="right")
    return np.append(np.nan, value)[index]


def _spread(day: Ints, known_day: Ints, count: Ints) -> Ints:
    """Return the daily counts on our days; days without any are 0, days outside ours are left out."""
    spread = np.zeros(len(day), dtype=np.int64)
    inside = np.isin(known_day, day)
    spread[known_day[inside] - (day[0] if len(day) else 0)] = count[inside]
    return spread
