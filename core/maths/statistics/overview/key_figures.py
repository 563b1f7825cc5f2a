"""Arms, usage and savings → the key figures, and how they did in the last two weeks.

Series of the activity of each day, from usage and pulls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from core.columns import UNKNOWN, ArmColumns, Bools, DayCounts, Floats, Ints, UsageColumns
from core.maths.statistics.savings import Savings, SavingsOverTime, saved_percent_of
from core.records.arm import MICRO
from core.records.times import DAY_HOURS

FigureName = Literal[
    "runs",
    "arms_in_use",
    "pulls",
    "tokens_per_selected_run",
    "saved_percent",
    "tokens_per_run",
    "calls_per_run",
]
"""Names of the figures. If armscope chose no run, the last two replace the two before them, which are undefined then.
"""

Week = tuple[int, int]
Weeks = tuple[Week | None, Week | None]


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


@dataclass(frozen=True, kw_only=True)
class KeyFigure:
    """A figure, and how it did in the last seven days of the data and the seven before (None = unknown).

    ``arms_in_use`` did so many a day, over the days with runs.
    """

    name: FigureName
    value: float | None
    last_week: float | None
    week_before: float | None

    @property
    def change(self) -> float | None:
        if self.last_week is None or self.week_before is None:
            return None
        return self.last_week - self.week_before


def key_figures(
    columns: ArmColumns,
    usage: UsageColumns,
    saved: Savings,
    series: DaySeries,
    *,
    calls_per_run: float | None,
) -> tuple[KeyFigure, ...]:
    """Return five figures in the order of `FigureName`."""
    last, before = _weeks(series.day)
    return (
        KeyFigure(
            name="runs",
            value=float(usage.n.sum()),
            last_week=_sum_in(series.day, series.runs, last),
            week_before=_sum_in(series.day, series.runs, before),
        ),
        KeyFigure(
            name="arms_in_use",
            value=float((columns.inclusions > 0).sum()),
            last_week=_mean_in(series.day, series.arms_in_use, last),
            week_before=_mean_in(series.day, series.arms_in_use, before),
        ),
        KeyFigure(
            name="pulls",
            value=float(columns.n_pulls),
            last_week=_whole(_sum_in(series.day, series.pulls_micro, last)),
            week_before=_whole(_sum_in(series.day, series.pulls_micro, before)),
        ),
        *(
            _of_choosing(usage, saved, (last, before))
            if saved.overall.baseline.n_runs + saved.overall.selected.n_runs
            else _of_runs(usage, calls_per_run, (last, before))
        ),
    )


def _of_choosing(usage: UsageColumns, saved: Savings, weeks: Weeks) -> tuple[KeyFigure, KeyFigure]:
    tokens = [_tokens_in(usage, week, "selected") for week in weeks]
    percents = [_saved_in(usage, week) for week in weeks]
    return (
        KeyFigure(
            name="tokens_per_selected_run",
            value=saved.overall.selected.mean_tokens,
            last_week=tokens[0],
            week_before=tokens[1],
        ),
        KeyFigure(
            name="saved_percent",
            value=saved.overall.shown.value,
            last_week=percents[0],
            week_before=percents[1],
        ),
    )


def _of_runs(usage: UsageColumns, calls_per_run: float | None, weeks: Weeks) -> tuple[KeyFigure, KeyFigure]:
    tokens = [_mean_tokens(usage), *(_tokens_in(usage, week) for week in weeks)]
    return (
        KeyFigure(name="tokens_per_run", value=tokens[0], last_week=tokens[1], week_before=tokens[2]),
        KeyFigure(name="calls_per_run", value=calls_per_run, last_week=None, week_before=None),
    )


def _weeks(day: Ints) -> Weeks:
    """Return the first and last day of the last seven days, and of the seven before if the data reach back so far."""
    if not len(day):
        return None, None
    end = int(day[-1])
    before = (end - 13, end - 7) if int(day[0]) <= end - 13 else None
    return (end - 6, end), before


def _sum_in(day: Ints, amount: Ints | None, week: Week | None) -> float | None:
    if week is None or amount is None:
        return None
    return float(amount[(day >= week[0]) & (day <= week[1])].sum())


def _whole(pulls_micro: float | None) -> float | None:
    """Return the whole pulls of a sum in millionths."""
    return None if pulls_micro is None else pulls_micro // MICRO


def _mean_in(day: Ints, amount: Ints | None, week: Week | None) -> float | None:
    """Return the mean over the days with activity."""
    if week is None or amount is None:
        return None
    amounts = amount[(day >= week[0]) & (day <= week[1]) & (amount > 0)]
    return float(amounts.mean()) if len(amounts) else None


def _rows_in(usage: UsageColumns, week: Week) -> UsageColumns:
    day = usage.hour // DAY_HOURS
    return usage.where((usage.hour != UNKNOWN) & (day >= week[0]) & (day <= week[1]))


def _tokens_in(usage: UsageColumns, week: Week | None, run_class: str | None = None) -> float | None:
    return None if week is None else _mean_tokens(_rows_in(usage, week), run_class)


def _mean_tokens(usage: UsageColumns, run_class: str | None = None) -> float | None:
    """Return the mean tokens of the runs, of one class or any, that ended normally with known usage."""
    mask = (np.array(usage.status, dtype=np.str_) == "completed") & (usage.bucket != UNKNOWN)
    if run_class is not None:
        mask &= np.array(usage.run_class, dtype=np.str_) == run_class
    n_runs = int(usage.n[mask].sum())
    return int(usage.tokens[mask].sum()) / n_runs if n_runs else None


def _saved_in(usage: UsageColumns, week: Week | None) -> float | None:
    return None if week is None else saved_percent_of(_rows_in(usage, week))
