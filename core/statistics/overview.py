"""Arms and usage → the first page: key figures, daily series, best and worst arms, what needs a look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.columns import ArmColumns, Floats, Ints, UsageColumns
from core.records.learner import LearnerSettings
from core.records.posterior import Band
from core.statistics.savings import Comparison, Savings
from core.statistics.summary import Summary

Severity = Literal["critical", "warning", "notice", "info"]
AttentionKind = Literal[
    "costs_more",
    "savings_not_proven",
    "no_baseline_runs",
    "baseline_share_off",
    "stale_arms",
    "under_explored",
    "unknown_usage",
    "passive",
]
Page = Literal["savings", "confidence", "posteriors", "settings"]
FigureName = Literal["runs", "arms_in_use", "pulls", "tokens_per_selected_run", "saved_percent"]


@dataclass(frozen=True, kw_only=True)
class DayPulls:
    """Pulls recorded on each day (days since 1970 UTC, ascending, no repeats)."""

    day: Ints
    pulls: Ints


@dataclass(frozen=True, kw_only=True)
class DaySeries:
    """One entry per day (days since 1970 UTC) from the first to the last day with dated runs, gaps filled.

    Counts are of that day and 0 where nothing happened; ``tokens_per_selected_run`` is that day's mean over
    completed runs with known usage (NaN where none); ``saved_percent`` is cumulative (NaN where none).
    ``pulls`` is None where the daily pulls were not supplied.
    """

    day: Ints
    runs: Ints
    selected_runs: Ints
    baseline_runs: Ints
    tokens_per_selected_run: Floats
    saved_percent: Floats
    pulls: Ints | None


@dataclass(frozen=True, kw_only=True)
class KeyFigure:
    """A figure, and how it did in the last seven days of the data and the seven before (None = unknown)."""

    name: FigureName
    value: float | None
    last_week: float | None
    week_before: float | None

    @property
    def change(self) -> float | None:
        if self.last_week is None or self.week_before is None:
            return None
        return self.last_week - self.week_before


@dataclass(frozen=True, kw_only=True)
class RankedArm:
    """An arm of the best or the worst; ``place`` is its place in the columns, ``rank`` among all arms."""

    place: int
    key: str
    mean: float
    lower: float
    upper: float
    pulls: int
    band: Band
    rank: int
    token_cost: int | None


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Something that needs a look. ``count`` is of what ``kind`` names (arms or runs), ``arms`` the ids
    concerned (all of them, in order of urgency), ``page`` where to look.
    """

    kind: AttentionKind
    severity: Severity
    count: int
    page: Page
    arms: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Overview:
    """The first page in numbers.

    ``figures`` stand in the order of `FigureName`. ``bands`` counts arms by band in the order of `BANDS`.
    ``top`` and ``bottom`` hold at most five arms each, no arm in both, from those with at least
    ``ranked_min_pulls`` pulls; ``n_rankable`` of them exist. ``attention`` is sorted by severity.
    """

    n_runs: int
    n_arms: int
    n_arms_in_use: int
    n_pulls: int
    tokens_per_selected_run: float | None
    savings: Comparison
    figures: tuple[KeyFigure, ...]
    series: DaySeries
    bands: tuple[int, ...]
    top: tuple[RankedArm, ...]
    bottom: tuple[RankedArm, ...]
    ranked_min_pulls: int
    n_rankable: int
    attention: tuple[Attention, ...]
    data_end_ms: int | None


def overview(
    columns: ArmColumns,
    summary: Summary,
    usage: UsageColumns,
    saved: Savings,
    settings: LearnerSettings,
    *,
    pulls_by_day: DayPulls | None = None,
    recent_inclusions: Ints | None = None,
) -> Overview:
    """The first page in numbers.

    ``recent_inclusions`` counts, aligned with the columns, how often each arm was in a prompt during the last
    14 days of the data; without it an arm counts as still included when it ever was.
    """
    raise NotImplementedError
