"""Arms and usage → the first page: key figures, daily series, best and worst arms, what needs a look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from core.columns import UNKNOWN, ArmColumns, Bools, Floats, Ints, UsageColumns
from core.records.arm import ArmType
from core.records.learner import LearnerSettings
from core.records.posterior import BANDS, Band
from core.statistics.change import Changes, Fall
from core.statistics.savings import Comparison, Savings, SavingsOverTime, savings
from core.statistics.summary import Summary

Severity = Literal["critical", "warning", "notice", "info"]
AttentionKind = Literal[
    "poisoned",
    "fell",
    "never_referenced",
    "rejected_lines",
    "costs_more",
    "savings_not_proven",
    "no_baseline_runs",
    "baseline_share_off",
    "stale_arms",
    "under_explored",
    "unknown_usage",
    "passive",
]
Page = Literal["savings", "confidence", "posteriors", "settings", "arm", "reset", "data", "runs"]
FigureName = Literal["runs", "arms_in_use", "pulls", "tokens_per_selected_run", "saved_percent"]

SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
RANKED_FLOORS: Final = (20, 5, 1)
"""Pulls asked of an arm to be among the best or worst; the next one where fewer than two arms have them."""

N_RANKED: Final = 5
STALE_DAYS: Final = 14
MANY_UNKNOWN: Final = 0.2
"""Share of completed runs with unknown usage from which it is a warning."""

NEVER_PULLS: Final = 20
"""An arm that nothing referenced in so many observations is named."""

MAX_FALLS: Final = 3
"""So many fallen arms have a row each; more share one."""

HOURS_A_DAY: Final = 24
MS_AN_HOUR: Final = 3_600_000
MS_A_DAY: Final = HOURS_A_DAY * MS_AN_HOUR


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
    """Something that needs a look, on ``page``.

    ``count`` is of arms where ``arms`` names them (all that are concerned, most urgent first), else of runs
    (compared ones, those of unknown usage, decided ones with a probability, passive ones) or rejected lines.
    ``evidence`` is there where arms changed or were never referenced, ``since_ms`` where it began at a known time.
    """

    kind: AttentionKind
    severity: Severity
    count: int
    page: Page
    arms: tuple[str, ...] = ()
    evidence: ArmEvidence | None = None
    since_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class ArmEvidence:
    """Observations that a claim about arms stands on: ``n`` of them with ``reward`` in all, since ``since_ms``
    where that is known. ``mean_before`` is over ``n_before`` earlier ones; ``token_cost`` is what the arms cost a
    prompt together (None where unknown). ``type`` is there where all are of one.
    """

    n: int
    reward: float
    since_ms: int | None = None
    n_before: int = 0
    mean_before: float | None = None
    token_cost: int | None = None
    type: ArmType | None = None

    @property
    def mean(self) -> float:
        return self.reward / self.n if self.n else 0.0


@dataclass(frozen=True, kw_only=True)
class Happened:
    """What only the store knows: arms that changed, lines that imports rejected, since when it is passive."""

    changes: Changes | None = None
    n_rejected: int = 0
    passive_since_ms: int | None = None


NOTHING_HAPPENED: Final = Happened()


@dataclass(frozen=True, kw_only=True)
class Overview:
    """The first page in numbers.

    ``figures`` stand in the order of `FigureName`. ``bands`` counts arms by band in the order of `BANDS`.
    ``top`` and ``bottom`` hold at most five arms each, no arm in both, from those with at least
    ``ranked_min_pulls`` pulls, sections left out; ``n_rankable`` of them exist. ``attention`` is sorted by severity.
    """

    n_runs: int
    n_arms: int
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
    happened: Happened = NOTHING_HAPPENED,
) -> Overview:
    """The first page in numbers.

    ``recent_inclusions`` counts, aligned with the columns, how often each arm was in a prompt during the last
    14 days of the data; without it an arm counts as still included when it ever was.
    """
    by_day = _by_day(usage, saved.over_time, pulls_by_day)
    ranked_pulls = _pulls_that_tell(columns)
    floor = _ranked_floor(ranked_pulls)
    top, bottom = _extremes(columns, summary, np.flatnonzero(ranked_pulls >= floor))
    return Overview(
        n_runs=int(usage.n.sum()),
        n_arms=len(columns),
        n_pulls=int(columns.pulls.sum()),
        tokens_per_selected_run=saved.overall.selected.mean_tokens,
        savings=saved.overall,
        figures=_figures(columns, usage, saved, by_day, settings),
        series=by_day,
        bands=tuple(np.bincount(summary.band, minlength=len(BANDS)).tolist()),
        top=top,
        bottom=bottom,
        ranked_min_pulls=floor,
        n_rankable=int((ranked_pulls >= floor).sum()),
        attention=_attention(columns, usage, saved, settings, recent=recent_inclusions, happened=happened),
        data_end_ms=_data_end_ms(columns, usage),
    )


def _by_day(usage: UsageColumns, saved: SavingsOverTime, pulls_by_day: DayPulls | None) -> DaySeries:
    dated = usage.hour != UNKNOWN
    days = usage.hour[dated] // HOURS_A_DAY
    day = np.arange(days.min(), days.max() + 1) if len(days) else np.array([], dtype=np.int64)
    start = int(day[0]) if len(day) else 0
    classes = np.array(usage.run_class, dtype=np.str_)[dated]
    known = (np.array(usage.status, dtype=np.str_) == "completed")[dated] & (usage.bucket[dated] != UNKNOWN)
    selected = classes == "selected"

    def count(amount: Ints, rows: Bools) -> Ints:
        added = np.bincount(days[rows] - start, weights=amount[dated][rows], minlength=len(day))
        return added.astype(np.int64)

    n_known, tokens = count(usage.n, selected & known), count(usage.tokens, selected & known)
    return DaySeries(
        day=day,
        runs=count(usage.n, np.ones(len(days), dtype=np.bool_)),
        selected_runs=count(usage.n, selected),
        baseline_runs=count(usage.n, classes == "baseline"),
        tokens_per_selected_run=np.where(n_known > 0, tokens / np.maximum(n_known, 1), np.nan),
        saved_percent=_latest(day, saved.day, saved.saved_percent),
        pulls=None if pulls_by_day is None else _spread(day, pulls_by_day),
    )


def _latest(day: Ints, known_day: Ints, value: Floats) -> Floats:
    """Value of the last known day up to each day; NaN before the first."""
    place = np.searchsorted(known_day, day, side="right")
    return np.append(np.nan, value)[place]


def _spread(day: Ints, pulls: DayPulls) -> Ints:
    """Daily pulls on our days; days without any are 0, days outside ours are left out."""
    spread = np.zeros(len(day), dtype=np.int64)
    inside = np.isin(pulls.day, day)
    spread[pulls.day[inside] - (day[0] if len(day) else 0)] = pulls.pulls[inside]
    return spread


def _figures(
    columns: ArmColumns, usage: UsageColumns, saved: Savings, series: DaySeries, settings: LearnerSettings
) -> tuple[KeyFigure, ...]:
    last, before = _weeks(series.day)
    percents = [_saved_in(usage, week, settings, len(columns)) for week in (last, before)]
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
            last_week=None,
            week_before=None,
        ),
        KeyFigure(
            name="pulls",
            value=float(columns.pulls.sum()),
            last_week=_sum_in(series.day, series.pulls, last),
            week_before=_sum_in(series.day, series.pulls, before),
        ),
        KeyFigure(
            name="tokens_per_selected_run",
            value=saved.overall.selected.mean_tokens,
            last_week=_tokens_in(usage, last),
            week_before=_tokens_in(usage, before),
        ),
        KeyFigure(
            name="saved_percent",
            value=saved.overall.saved_percent.value,
            last_week=percents[0],
            week_before=percents[1],
        ),
    )


Week = tuple[int, int]


def _weeks(day: Ints) -> tuple[Week | None, Week | None]:
    """First and last day of the last seven days, and of the seven before if the data reach back so far."""
    if not len(day):
        return None, None
    end = int(day[-1])
    before = (end - 13, end - 7) if int(day[0]) <= end - 13 else None
    return (end - 6, end), before


def _sum_in(day: Ints, amount: Ints | None, week: Week | None) -> float | None:
    if week is None or amount is None:
        return None
    return float(amount[(day >= week[0]) & (day <= week[1])].sum())


def _rows_in(usage: UsageColumns, week: Week) -> UsageColumns:
    day = usage.hour // HOURS_A_DAY
    return usage.where((usage.hour != UNKNOWN) & (day >= week[0]) & (day <= week[1]))


def _tokens_in(usage: UsageColumns, week: Week | None) -> float | None:
    """Mean tokens of that week's selected runs that ended normally with known usage."""
    if week is None:
        return None
    rows = _rows_in(usage, week)
    wanted = (
        (np.array(rows.run_class, dtype=np.str_) == "selected")
        & (np.array(rows.status, dtype=np.str_) == "completed")
        & (rows.bucket != UNKNOWN)
    )
    n_runs = int(rows.n[wanted].sum())
    return int(rows.tokens[wanted].sum()) / n_runs if n_runs else None


def _saved_in(usage: UsageColumns, week: Week | None, settings: LearnerSettings, n_arms: int) -> float | None:
    if week is None:
        return None
    rows = _rows_in(usage, week)
    found = savings(rows, baseline_rate=settings.baseline_rate, n_arms=n_arms)
    return found.overall.saved_percent.value


def _pulls_that_tell(columns: ArmColumns) -> Ints:
    """Pulls of each arm; none for sections, which count as used whenever they are in and so prove nothing."""
    tells = np.array([of != "section" for of in columns.types], dtype=np.bool_)
    return np.where(tells, columns.pulls, 0)


def _ranked_floor(pulls: Ints) -> int:
    """The most pulls that can be asked for and still leave two arms to rank."""
    for floor in RANKED_FLOORS:
        if int((pulls >= floor).sum()) >= 2:
            return floor
    return RANKED_FLOORS[-1]


def _extremes(
    columns: ArmColumns, summary: Summary, rankable: Ints
) -> tuple[tuple[RankedArm, ...], tuple[RankedArm, ...]]:
    """Best and worst arms, no arm in both: of few, the better half and the worse half."""
    places = rankable[np.argsort(summary.rank[rankable])].tolist()
    n_bottom = min(N_RANKED, len(places) // 2)
    n_top = min(N_RANKED, len(places) - n_bottom)
    worst = places[len(places) - n_bottom :][::-1]
    return (
        tuple(_ranked(columns, summary, place) for place in places[:n_top]),
        tuple(_ranked(columns, summary, place) for place in worst),
    )


def _ranked(columns: ArmColumns, summary: Summary, place: int) -> RankedArm:
    cost = int(columns.token_cost[place])
    return RankedArm(
        place=place,
        key=columns.keys[place],
        mean=float(summary.mean[place]),
        lower=float(summary.lower[place]),
        upper=float(summary.upper[place]),
        pulls=int(columns.pulls[place]),
        band=BANDS[int(summary.band[place])],
        rank=int(summary.rank[place]),
        token_cost=None if cost == UNKNOWN else cost,
    )


def _attention(
    columns: ArmColumns,
    usage: UsageColumns,
    saved: Savings,
    settings: LearnerSettings,
    *,
    recent: Ints | None,
    happened: Happened,
) -> tuple[Attention, ...]:
    included = columns.inclusions if recent is None else recent
    found = [
        *_about_poison(columns, happened.changes),
        *_about_falls(columns, happened.changes),
        _about_savings(saved, settings),
        _about_share(saved),
        _about_stale(columns, included, _data_end_ms(columns, usage)),
        _about_under_explored(columns, settings.min_pulls),
        _about_never(columns, happened.changes),
        _about_rejected(happened),
        _about_usage(saved),
        _about_phase(usage, settings, happened.passive_since_ms),
    ]
    items = [item for item in found if item is not None]
    return tuple(sorted(items, key=lambda item: SEVERITIES.index(item.severity)))


def _about_poison(columns: ArmColumns, changed: Changes | None) -> list[Attention]:
    """Each group of arms of one type that fell to nothing together."""
    return [
        Attention(
            kind="poisoned",
            severity="critical",
            count=len(group.places),
            page="reset",
            arms=tuple(columns.keys[place] for place in group.places),
            evidence=ArmEvidence(
                n=group.n_after, reward=group.reward, since_ms=group.since_ms, type=group.type
            ),
        )
        for group in (() if changed is None else changed.poisoned)
    ]


def _about_falls(columns: ArmColumns, changed: Changes | None) -> list[Attention]:
    """A row for each fallen arm, or one for all where they are many."""
    falls = () if changed is None else changed.falls
    if len(falls) <= MAX_FALLS:
        return [_fell(columns, fall) for fall in falls]
    keys = tuple(columns.keys[fall.place] for fall in falls)
    return [Attention(kind="fell", severity="warning", count=len(keys), page="posteriors", arms=keys)]


def _fell(columns: ArmColumns, fall: Fall) -> Attention:
    return Attention(
        kind="fell",
        severity="warning",
        count=1,
        page="arm",
        arms=(columns.keys[fall.place],),
        evidence=ArmEvidence(
            n=fall.n_after,
            reward=fall.mean_after * fall.n_after,
            since_ms=fall.since_day * MS_A_DAY,
            n_before=fall.n_before,
            mean_before=fall.mean_before,
            type=columns.types[fall.place],
        ),
    )


def _about_never(columns: ArmColumns, changed: Changes | None) -> Attention | None:
    """Arms that many observations never referenced, the dearest first; those said to be poisoned are not repeated."""
    named = {place for group in (changed.poisoned if changed else ()) for place in group.places}
    never = np.flatnonzero((columns.pulls >= NEVER_PULLS) & (columns.success_micro == 0))
    never = never[[place not in named for place in never.tolist()]] if named else never
    if not len(never):
        return None
    cost = columns.token_cost[never]
    keys = _keys(columns, never[np.argsort(-cost, kind="stable")])
    evidence = ArmEvidence(
        n=int(columns.pulls[never].sum()),
        reward=0.0,
        token_cost=None if (cost == UNKNOWN).any() else int(cost.sum()),
    )
    return Attention(
        kind="never_referenced",
        severity="notice",
        count=len(keys),
        page="posteriors",
        arms=keys,
        evidence=evidence,
    )


def _about_rejected(happened: Happened) -> Attention | None:
    if happened.n_rejected == 0:
        return None
    return Attention(kind="rejected_lines", severity="notice", count=happened.n_rejected, page="data")


def _about_savings(saved: Savings, settings: LearnerSettings) -> Attention | None:
    overall = saved.overall
    n_compared = overall.baseline.n_known + overall.selected.n_known
    if overall.verdict == "costs_more":
        return Attention(kind="costs_more", severity="critical", count=n_compared, page="savings")
    if overall.verdict == "proven" or settings.phase == "passive":
        return None
    if overall.baseline.n_runs == 0:
        left = saved.left_out
        n_other = overall.selected.n_runs + left.passive + left.fallback + left.imported
        if n_other == 0:
            return None
        severity: Severity = "notice" if overall.selected.n_runs else "info"
        return Attention(kind="no_baseline_runs", severity=severity, count=n_other, page="savings")
    return Attention(kind="savings_not_proven", severity="notice", count=n_compared, page="savings")


def _about_share(saved: Savings) -> Attention | None:
    if not saved.share.off:
        return None
    return Attention(kind="baseline_share_off", severity="warning", count=saved.share.n_runs, page="savings")


def _about_stale(columns: ArmColumns, included: Ints, end_ms: int | None) -> Attention | None:
    """Arms still put in whose last observation is long ago, oldest first."""
    if end_ms is None:
        return None
    last = columns.last_at_ms
    stale = np.flatnonzero((included > 0) & (last != UNKNOWN) & (last < end_ms - STALE_DAYS * MS_A_DAY))
    if not len(stale):
        return None
    keys = _keys(columns, stale[np.argsort(last[stale], kind="stable")])
    return Attention(kind="stale_arms", severity="warning", count=len(keys), page="posteriors", arms=keys)


def _about_under_explored(columns: ArmColumns, min_pulls: int) -> Attention | None:
    under = np.flatnonzero(columns.pulls < min_pulls)
    if not len(under):
        return None
    keys = _keys(columns, under[np.argsort(columns.pulls[under], kind="stable")])
    return Attention(kind="under_explored", severity="notice", count=len(keys), page="confidence", arms=keys)


def _about_usage(saved: Savings) -> Attention | None:
    """Runs that the savings lack because nobody knows their tokens; they matter more where they are many."""
    n_unknown = saved.left_out.unknown_usage
    n_completed = n_unknown + saved.overall.baseline.n_known + saved.overall.selected.n_known
    if n_unknown == 0:
        return None
    severity: Severity = "warning" if n_unknown > MANY_UNKNOWN * n_completed else "info"
    return Attention(kind="unknown_usage", severity=severity, count=n_unknown, page="savings")


def _about_phase(usage: UsageColumns, settings: LearnerSettings, since_ms: int | None) -> Attention | None:
    if settings.phase != "passive":
        return None
    n_passive = int(usage.n[np.array(usage.run_class, dtype=np.str_) == "passive"].sum())
    return Attention(kind="passive", severity="info", count=n_passive, page="settings", since_ms=since_ms)


def _keys(columns: ArmColumns, places: Ints) -> tuple[str, ...]:
    return tuple(columns.keys[place] for place in places.tolist())


def _data_end_ms(columns: ArmColumns, usage: UsageColumns) -> int | None:
    """The latest time in the data; None when nothing is dated."""
    ends = [
        int(usage.hour.max(initial=UNKNOWN)) * MS_AN_HOUR,
        int(columns.last_at_ms.max(initial=UNKNOWN)),
    ]
    end = max(ends)
    return end if end >= 0 else None
