"""Usage and the runs compared → the savings up to each day."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from core.columns import UNKNOWN, Floats, Ints, UsageColumns
from core.records.times import DAY_HOURS
from core.statistics.savings.ratio import BASELINE, SELECTED, Sums, compare
from core.statistics.savings.runs import ComparedRuns


@dataclass(frozen=True, kw_only=True)
class SavingsOverTime:
    """Savings over all runs up to and including each day (days since 1970 UTC); NaN where not computable."""

    day: Ints
    n_baseline: Ints
    n_selected: Ints
    saved_percent: Floats
    lower: Floats
    upper: Floats
    prob: float
    n_undated: int


def running_sums(usage: UsageColumns, runs: ComparedRuns) -> tuple[Ints, Sums, int]:
    """Every day from the first to the last, the sums up to and including each, and how many runs have no day."""
    dated = runs.is_known & (usage.hour != UNKNOWN)
    n_undated = int(usage.n[runs.is_known & ~dated].sum())
    days = usage.hour[dated] // DAY_HOURS
    day = np.arange(days.min(), days.max() + 1) if len(days) else np.array([], dtype=np.int64)
    since_first = days - (day[0] if len(day) else 0)
    code = (since_first * runs.n_strata + runs.stratum[dated]) * 2 + runs.group[dated]
    shape = (len(day), runs.n_strata, 2)

    def running(amount: Ints | Floats) -> Floats:
        added = np.bincount(code, weights=amount[dated], minlength=math.prod(shape))
        return np.cumsum(added.reshape(shape), axis=0)

    sums = Sums(n=running(usage.n), total=running(usage.tokens), squares=running(usage.tokens_squared))
    return day, sums, n_undated


def over_time(day: Ints, sums: Sums, n_undated: int, prob: float) -> SavingsOverTime:
    """The savings up to each day, from the sums up to it."""
    compared = compare(sums)
    lower, upper = compared.saved_percent_limits(prob)
    n_seen = sums.n.sum(-2).astype(np.int64)
    return SavingsOverTime(
        day=day,
        n_baseline=n_seen[:, BASELINE],
        n_selected=n_seen[:, SELECTED],
        saved_percent=compared.saved_percent,
        lower=lower,
        upper=upper,
        prob=prob,
        n_undated=n_undated,
    )
