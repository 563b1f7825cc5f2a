"""Overview: the first page in numbers, how they did in the last two weeks, and what on it needs a look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from core.columns import ASSIGNED, UNKNOWN, ArmColumns, Bools, DayCounts, Floats, Ints, UsageColumns
from core.maths.statistics.overview.attention import (
    NOTHING_HAPPENED,
    ArmEvidence,
    Attention,
    AttentionKind,
    Happened,
    HarmStop,
    OverdueQueue,
    PaidWrong,
    Severity,
    attention,
    attention_of_causes,
    data_end_ms,
    silent_days,
)
from core.maths.statistics.overview.feeds import HISTORY_DAYS, LONGEST_DAYS, FeedKind, SilentFeed
from core.maths.statistics.savings import Comparison, MoneySaved, Savings, SavingsOverTime, saved_percent_of
from core.maths.statistics.summary import Summary
from core.records.arm import BANDS, MICRO, Band
from core.records.learner import LearnerSettings
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

RANKED_FLOORS: Final = (20, 5, 1)
"""Pulls that an arm needs to be among the best or worst; the next one where fewer than two arms have them."""
N_RANKED: Final = 5


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
    """Return the activity of each day, from the first to the last with dated runs.

    Selected runs are without those of sessions that an experiment assigned.
    """
    dated = usage.hour != UNKNOWN
    days = usage.hour[dated] // DAY_HOURS
    day = np.arange(days.min(), days.max() + 1) if len(days) else np.array([], dtype=np.int64)
    start = int(day[0]) if len(day) else 0
    classes = np.array(usage.run_class, dtype=np.str_)[dated]
    known = (np.array(usage.status, dtype=np.str_) == "completed")[dated] & (usage.bucket[dated] != UNKNOWN)
    selected = (classes == "selected") & (usage.prob_micro[dated] != ASSIGNED)

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
    weeks, overall, compared = _weeks(series.day), saved.overall, usage.unassigned
    figures = (
        _figure("runs", float(usage.n.sum()), weeks, lambda week: _sum_in(series, series.runs, week)),
        _figure(
            "arms_in_use", float((columns.inclusions > 0).sum()), weeks, lambda week: _mean_in(series, week)
        ),
        _figure("pulls", float(columns.n_pulls), weeks, lambda week: _pulls_in(series, week)),
    )
    if overall.baseline.n_runs + overall.selected.n_runs:
        return (
            *figures,
            _figure(
                "tokens_per_selected_run",
                overall.selected.mean_tokens,
                weeks,
                lambda week: _mean_tokens(_rows_in(compared, week), "selected"),
            ),
            _figure(
                "saved_percent",
                overall.shown.value,
                weeks,
                lambda week: saved_percent_of(_rows_in(compared, week)),
            ),
        )
    return (
        *figures,
        _figure(
            "tokens_per_run", _mean_tokens(usage), weeks, lambda week: _mean_tokens(_rows_in(usage, week))
        ),
        KeyFigure(name="calls_per_run", value=calls_per_run, last_week=None, week_before=None),
    )


def _figure(
    name: FigureName, value: float | None, weeks: Weeks, of: Callable[[Week], float | None]
) -> KeyFigure:
    last, before = (None if week is None else of(week) for week in weeks)
    return KeyFigure(name=name, value=value, last_week=last, week_before=before)


def _weeks(day: Ints) -> Weeks:
    """Return the first and last day of the last seven days, and of the seven before if the data reach back so far."""
    if not len(day):
        return None, None
    end = int(day[-1])
    before = (end - 13, end - 7) if int(day[0]) <= end - 13 else None
    return (end - 6, end), before


def _sum_in(series: DaySeries, amount: Ints, week: Week) -> float:
    return float(amount[(series.day >= week[0]) & (series.day <= week[1])].sum())


def _pulls_in(series: DaySeries, week: Week) -> float | None:
    return None if series.pulls_micro is None else _sum_in(series, series.pulls_micro, week) // MICRO


def _mean_in(series: DaySeries, week: Week) -> float | None:
    """Return the mean of the arms in use over the days with activity."""
    day, amount = series.day, series.arms_in_use
    if amount is None:
        return None
    amounts = amount[(day >= week[0]) & (day <= week[1]) & (amount > 0)]
    return float(amounts.mean()) if len(amounts) else None


def _rows_in(usage: UsageColumns, week: Week) -> UsageColumns:
    day = usage.hour // DAY_HOURS
    return usage.where((usage.hour != UNKNOWN) & (day >= week[0]) & (day <= week[1]))


def _mean_tokens(usage: UsageColumns, run_class: str | None = None) -> float | None:
    """Return the mean tokens of the runs, of one class or any, that ended normally with known usage."""
    mask = (np.array(usage.status, dtype=np.str_) == "completed") & (usage.bucket != UNKNOWN)
    if run_class is not None:
        mask &= np.array(usage.run_class, dtype=np.str_) == run_class
    n_runs = int(usage.n[mask].sum())
    return int(usage.tokens[mask].sum()) / n_runs if n_runs else None


@dataclass(frozen=True, kw_only=True)
class RankedArm:
    """Arm of the best or the worst; ``index`` is its index in the columns, ``rank`` that among all arms."""

    index: int
    key: str
    mean: float
    lower: float
    upper: float
    pulls: int
    band: Band
    rank: int
    token_cost: int | None


def extremes(
    columns: ArmColumns, summary: Summary, rankable: Ints
) -> tuple[tuple[RankedArm, ...], tuple[RankedArm, ...]]:
    """Return the best and worst arms, no arm in both: of few, the better half and the worse half."""
    places = rankable[np.argsort(summary.rank[rankable])].tolist()
    n_bottom = min(N_RANKED, len(places) // 2)
    n_top = min(N_RANKED, len(places) - n_bottom)
    worst = places[len(places) - n_bottom :][::-1]
    return (
        tuple(_ranked(columns, summary, index) for index in places[:n_top]),
        tuple(_ranked(columns, summary, index) for index in worst),
    )


def _ranked(columns: ArmColumns, summary: Summary, index: int) -> RankedArm:
    cost = int(columns.token_cost[index])
    return RankedArm(
        index=index,
        key=columns.keys[index],
        mean=float(summary.mean[index]),
        lower=float(summary.lower[index]),
        upper=float(summary.upper[index]),
        pulls=int(columns.pulls[index]),
        band=BANDS[int(summary.band[index])],
        rank=int(summary.rank[index]),
        token_cost=None if cost == UNKNOWN else cost,
    )


@dataclass(frozen=True, kw_only=True)
class Overview:
    """The first page in numbers.

    ``figures`` are five in the order of `FigureName`. ``bands`` counts arms by band in the order of `BANDS`.
    ``top`` and ``bottom`` hold at most five arms each, no arm in both, from those with at least
    ``ranked_min_pulls`` pulls, sections left out; ``n_rankable`` of them exist. ``attention`` is sorted by severity.
    """

    n_runs: int
    n_arms: int
    n_pulls: int
    tokens_per_selected_run: float | None
    savings: Comparison
    money: MoneySaved | None
    figures: tuple[KeyFigure, ...]
    series: DaySeries
    bands: tuple[int, ...]
    top: tuple[RankedArm, ...]
    bottom: tuple[RankedArm, ...]
    ranked_min_pulls: int
    n_rankable: int
    attention: tuple[Attention, ...]
    data_end_ms: int | None

    @property
    def needs(self) -> dict[str, int]:
        """Rows that need a look, by kind."""
        return dict(Counter(item.kind for item in self.attention))


def overview(
    columns: ArmColumns,
    summary: Summary,
    usage: UsageColumns,
    saved: Savings,
    settings: LearnerSettings,
    *,
    counts_by_day: DayCounts | None = None,
    recent_inclusions: Ints | None = None,
    calls_per_run: float | None = None,
    happened: Happened = NOTHING_HAPPENED,
) -> Overview:
    """Return the first page in numbers.

    ``recent_inclusions`` counts, aligned with the columns, how often each arm was in a prompt during the last
    14 days of the data; without it an arm counts as still included when it ever was. ``calls_per_run`` is there only
    if no run was chosen.

    Parameters
    ----------
    columns : ArmColumns of n_arms
        Counts of every arm, sorted by id.
    summary : Summary of n_arms
        What is believed of the same arms.
    usage : UsageColumns
        Runs added up by time, class, model and channel.
    saved : Savings
        What selection saves, of the same usage.
    settings : LearnerSettings
        Settings in force.
    counts_by_day : DayCounts or None, optional
        Arms and observations by day.
    recent_inclusions : array of int of shape (n_arms,), or None, optional
        How often each was in a prompt lately.
    calls_per_run : float or None, optional
        Tool calls of a run on average.
    happened : Happened, optional
        What only the store knows: arms that changed, lines rejected, the time.

    Returns
    -------
    Overview
        Key figures, days, ranks and what needs a look.
    """
    by_day = day_series(usage, saved.over_time, counts_by_day)
    # Sections count as used whenever they are in, and so prove nothing.
    informative = np.array([of != "section" for of in columns.types], dtype=np.bool_)
    ranked_pulls = np.where(informative, columns.pulls, 0)
    floor = next((one for one in RANKED_FLOORS if (ranked_pulls >= one).sum() >= 2), RANKED_FLOORS[-1])
    top, bottom = extremes(columns, summary, np.flatnonzero(ranked_pulls >= floor))
    return Overview(
        n_runs=int(usage.n.sum()),
        n_arms=len(columns),
        n_pulls=columns.n_pulls,
        tokens_per_selected_run=saved.overall.selected.mean_tokens,
        savings=saved.overall,
        money=saved.money,
        figures=key_figures(columns, usage, saved, by_day, calls_per_run=calls_per_run),
        series=by_day,
        bands=tuple(np.bincount(summary.band, minlength=len(BANDS)).tolist()),
        top=top,
        bottom=bottom,
        ranked_min_pulls=floor,
        n_rankable=int((ranked_pulls >= floor).sum()),
        attention=attention(columns, usage, saved, settings, recent=recent_inclusions, happened=happened),
        data_end_ms=data_end_ms(columns, usage),
    )
