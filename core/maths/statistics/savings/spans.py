"""Months and weeks of savings: parts that add up to the whole, and weeks by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import numpy as np

from core.columns import UNKNOWN, Floats, Ints, UsageColumns
from core.maths.statistics.savings.ratio import saved_percent
from core.maths.statistics.savings.runs import ComparedRuns
from core.maths.statistics.savings.sums import BASELINE, SELECTED
from core.records.saving import SpanSaved, WeekSaved
from core.records.times import DAY_HOURS, HOUR_MS

WEEK_HOURS: Final = 7 * DAY_HOURS
_MOST_WEEKS: Final = 26
_FIRST_MONDAY: Final = 4 * DAY_HOURS
"""Hours from 1 January 1970 to the first Monday."""


def months(parts: Sequence[tuple[UsageColumns, ComparedRuns]], worth: float = 1.0) -> tuple[SpanSaved, ...]:
    """Return the savings of each month of UTC, over the runs of some policies; they add up to the whole.

    Selected runs of a stratum saved its difference of the two means each, in any month. ``worth`` is what one unit of
    the amount counts.
    """
    hours = [usage.hour[_counted(usage, runs)] for usage, runs in parts]
    starts = _month_starts(np.concatenate(hours)) if hours else []
    totals = np.zeros((len(starts), 4))
    for usage, runs in parts:
        totals += _by_month(usage, runs, np.array(starts, dtype=np.int64))
    return tuple(
        SpanSaved(
            start_hour=start,
            end_hour=_next_month(start),
            n_selected=round(n),
            n_uncompared=round(rest),
            means=(worth * base / n, worth * chosen / n) if n else (None, None),
            saved=worth * (base - chosen) if n else None,
        )
        for start, (n, rest, base, chosen) in zip(starts, totals.tolist(), strict=True)
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


def _month_starts(hours: Ints) -> list[int]:
    if not len(hours):
        return []
    start, last, starts = _month_of(int(hours.min())), int(hours.max()), list[int]()
    while start <= last:
        starts.append(start)
        start = _next_month(start)
    return starts


def _month_of(hour: int) -> int:
    at = datetime.fromtimestamp(hour * HOUR_MS / 1_000, UTC)
    return _hour_of(at.year, at.month)


def _next_month(start_hour: int) -> int:
    at = datetime.fromtimestamp(start_hour * HOUR_MS / 1_000, UTC)
    return _hour_of(at.year + at.month // 12, at.month % 12 + 1)


def _hour_of(year: int, month: int) -> int:
    return int(datetime(year, month, 1, tzinfo=UTC).timestamp()) * 1_000 // HOUR_MS


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
