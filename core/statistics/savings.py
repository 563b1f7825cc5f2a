"""Usage → what the selection saves against baseline runs, or why that cannot be said yet.

Only runs of the classes ``baseline`` and ``selected`` are compared. Tokens and duration come from those that
ended normally with a known amount, errors from all of them; what was left out is counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final, Literal

import numpy as np
from scipy.special import stdtrit

from core.columns import UNKNOWN, Bools, Floats, Ints, UsageColumns, bucket_bounds
from core.statistics.comparison.estimate import MIN_FOR_PROOF, Estimate, Missing
from core.statistics.comparison.plan import token_variation
from core.statistics.comparison.ratio import BASELINE, SELECTED, Sums, compare, saved, saved_percent
from core.statistics.comparison.shares import difference, exact_limits, exact_tails
from core.statistics.comparison.total import MoneySaved, TotalSaved, money_saved, tokens_saved

__all__ = [
    "BaselineNeed",
    "BaselineShare",
    "ClassFigures",
    "Comparison",
    "Estimate",
    "LeftOut",
    "Missing",
    "MoneySaved",
    "Savings",
    "SavingsOverTime",
    "SavingsVerdict",
    "TokenDistribution",
    "TotalSaved",
    "VerdictReason",
    "recommended_rate",
    "savings",
]

SavingsVerdict = Literal["proven", "not_proven", "costs_more", "no_interval", "no_figure"]
VerdictReason = Literal[
    "interval_above_zero", "interval_holds_zero", "interval_below_zero", "few_for_proof", "few_runs", "cannot"
]

SHARE_PROB: Final = 0.99
"""Of the interval of the baseline share: it is looked at all the time, so a false alarm has to be rare."""

NO_PRICES: Final[Mapping[str, float]] = MappingProxyType({})

_GROUPS: Final = ("baseline", "selected")
_HOURS_A_DAY: Final = 24
_MOST_RUNS: Final = 10**9


@dataclass(frozen=True, kw_only=True)
class ClassFigures:
    """Runs of one class.

    ``n_runs`` counts all, ``n_completed`` those that ended normally, ``n_known`` and ``n_timed`` those of
    them with known tokens and duration; means and standard deviations are over these (None where too few).
    """

    run_class: Literal["baseline", "selected"]
    n_runs: int
    n_completed: int
    n_aborted: int
    n_errors: int
    n_known: int
    n_timed: int
    mean_tokens: float | None
    sd_tokens: float | None
    mean_duration_ms: float | None
    sd_duration_ms: float | None
    error_rate: float | None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Baseline against selected, over one or more strata (model, channel).

    ``model`` and ``channel`` None = all of them, "" = unknown. ``saved_percent`` compares the two means at
    the same mix of strata (weights: run share), so it equals the plain formula where there is one stratum;
    ``plain_percent`` is the plain formula over all runs pooled. ``tokens_saved`` and ``duration_saved_ms``
    are per run. ``error_difference`` is selected minus baseline, in percentage points.
    ``n_uncompared`` runs lie in strata where a group has fewer than two.
    """

    model: str | None
    channel: str | None
    baseline: ClassFigures
    selected: ClassFigures
    saved_percent: Estimate
    plain_percent: float | None
    tokens_saved: Estimate
    duration_saved_percent: Estimate
    duration_saved_ms: Estimate
    error_difference: Estimate
    n_strata: int
    n_uncompared: int
    verdict: SavingsVerdict
    reason: VerdictReason


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Runs that take no part in the comparison of tokens, and why."""

    passive: int
    fallback: int
    imported: int
    not_completed: int
    """Baseline or selected, but aborted or failed."""
    unknown_usage: int
    """Baseline or selected and ended normally, tokens unknown."""
    uncompared: int
    """In strata where a group has fewer than two runs."""

    @property
    def total(self) -> int:
        return (
            self.passive
            + self.fallback
            + self.imported
            + self.not_completed
            + self.unknown_usage
            + self.uncompared
        )


@dataclass(frozen=True, kw_only=True)
class BaselineShare:
    """Share of baseline runs among decided runs with a stored probability, against those probabilities.

    ``observed`` is a share with its exact interval (0..1); ``expected`` the mean stored probability.
    ``prob_as_far`` is the chance of a number of baseline runs as far off as this one or farther, were the stored
    probabilities true (None without runs). ``off``: it is below ``1 - observed.prob``, which is the same as
    that the interval excludes what was expected.
    """

    n_runs: int
    n_baseline: int
    n_expected: float
    observed: Estimate
    expected: float | None
    prob_as_far: float | None
    off: bool


@dataclass(frozen=True, kw_only=True)
class BaselineNeed:
    """Baseline runs still needed until the interval of the savings is ± ``target_points``.

    ``n_more`` 0 = reached; None = cannot be computed (``missing``). Selected runs are taken to keep coming at
    ``baseline_rate``.
    """

    target_points: float
    baseline_rate: float
    half_width_points: float | None
    n_more: int | None
    missing: Missing | None


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


@dataclass(frozen=True, kw_only=True)
class TokenDistribution:
    """Runs by size class of their tokens, from ``lower`` (inclusive) to ``upper`` (exclusive).

    One row per class from the smallest to the largest that occurs, empty ones in between included.
    ``density_*`` is the share of the group's runs per doubling of tokens (it adds up to 1 over log2), NaN for
    a group without runs.
    """

    lower: Floats
    upper: Floats
    n_baseline: Ints
    n_selected: Ints
    density_baseline: Floats
    density_selected: Floats


@dataclass(frozen=True, kw_only=True)
class Savings:
    """What the selection saves, in full.

    ``strata`` hold every model and channel with baseline or selected runs, most runs first, as do
    ``by_model`` and ``by_channel``.
    """

    overall: Comparison
    by_model: tuple[Comparison, ...]
    by_channel: tuple[Comparison, ...]
    strata: tuple[Comparison, ...]
    left_out: LeftOut
    share: BaselineShare
    need: BaselineNeed
    recommended_rate: float | None
    over_time: SavingsOverTime
    distribution: TokenDistribution
    tokens: TotalSaved
    money: MoneySaved | None
    variation: float | None
    """Standard deviation of a run's tokens by their mean, over all runs of any class."""


def savings(
    usage: UsageColumns,
    *,
    baseline_rate: float,
    n_arms: int,
    prices: Mapping[str, float] = NO_PRICES,
    prob: float = 0.95,
    target_points: float = 5.0,
) -> Savings:
    """What the selection saves against baseline runs.

    ``saved_percent = (baseline mean - selected mean) / baseline mean * 100``, both means at the same mix of
    strata; its interval is Welch's on the logarithm of their ratio. ``baseline_rate`` is the configured one,
    ``n_arms`` the size of the inventory, ``prices`` what a million tokens of a model cost. Runs of one session
    influence each other, which no interval here allows for.
    """
    runs = _Runs(usage)
    overall = _comparison(runs, np.ones(runs.n_strata, dtype=np.bool_), None, None, prob)
    day, running, n_undated = _running(usage, runs)
    models = runs.models.tolist()
    return Savings(
        overall=overall,
        by_model=_by(runs, runs.models, "model", prob),
        by_channel=_by(runs, runs.channels, "channel", prob),
        strata=_strata(runs, prob),
        left_out=_left_out(usage, runs, overall.n_uncompared),
        share=_baseline_share(usage),
        need=_need(runs.tokens, baseline_rate, prob, target_points),
        recommended_rate=recommended_rate(n_arms),
        over_time=_over_time(day, running, n_undated, prob),
        distribution=_distribution(usage, runs),
        tokens=tokens_saved(runs.tokens, running, day, prob=prob),
        variation=token_variation(usage),
        money=money_saved(runs.tokens, running, day, models=models, prices=prices, prob=prob),
    )


def recommended_rate(n_arms: int) -> float | None:
    """Baseline rate for an inventory of this size; None without arms.

    >>> [recommended_rate(n) for n in (0, 1, 10, 11, 50, 51)]
    [None, 0.2, 0.2, 0.1, 0.1, 0.05]
    """
    if n_arms == 0:
        return None
    if n_arms <= 10:
        return 0.2
    return 0.1 if n_arms <= 50 else 0.05


class _Runs:
    """The rows that are compared, coded by group and stratum, and their sums."""

    def __init__(self, usage: UsageColumns) -> None:
        self._usage = usage
        classes = np.array(usage.run_class, dtype=np.str_)
        self.group = np.where(classes == "selected", SELECTED, np.where(classes == "baseline", BASELINE, -1))
        self.is_compared = self.group >= 0
        self.is_completed = self.is_compared & (np.array(usage.status, dtype=np.str_) == "completed")
        self.is_known = self.is_completed & (usage.bucket != UNKNOWN)
        pairs = list(zip(usage.model, usage.channel, strict=True))
        seen = sorted({pair for pair, taken in zip(pairs, self.is_compared, strict=True) if taken})
        places = {pair: place for place, pair in enumerate(seen)}
        self.stratum = np.array([places.get(pair, 0) for pair in pairs], dtype=np.int64)
        self.models = np.array([model for model, _ in seen], dtype=np.str_)
        self.channels = np.array([channel for _, channel in seen], dtype=np.str_)
        self.n_strata = len(seen)

    @cached_property
    def tokens(self) -> Sums:
        """Of completed runs with known usage."""
        usage = self._usage
        return Sums(
            n=self.table(usage.n, self.is_known),
            total=self.table(usage.tokens, self.is_known),
            squares=self.table(usage.tokens_squared, self.is_known),
        )

    @cached_property
    def durations(self) -> Sums:
        """Of completed runs with known duration, in milliseconds."""
        usage = self._usage
        return Sums(
            n=self.table(usage.n_timed, self.is_completed),
            total=self.table(usage.duration_ms, self.is_completed),
            squares=self.table(usage.duration_squared, self.is_completed),
        )

    @cached_property
    def by_status(self) -> dict[str, Floats]:
        """Runs by stratum and group: all, and those of each status."""
        status = np.array(self._usage.status, dtype=np.str_)
        counts = {"all": self.table(self._usage.n, self.is_compared)}
        for one in ("completed", "aborted", "error"):
            counts[one] = self.table(self._usage.n, self.is_compared & (status == one))
        return counts

    def table(self, amount: Ints | Floats, rows: Bools) -> Floats:
        """An amount of some rows, added up by stratum and group."""
        code = self.stratum[rows] * 2 + self.group[rows]
        weights = amount[rows].astype(np.float64)
        added = np.asarray(np.bincount(code, weights=weights, minlength=self.n_strata * 2), dtype=np.float64)
        return added.reshape(self.n_strata, 2)


def _by(
    runs: _Runs, names: np.ndarray, axis: Literal["model", "channel"], prob: float
) -> tuple[Comparison, ...]:
    """One comparison per model or channel, most runs first."""
    rows = []
    for name in sorted(set(names.tolist())):
        model, channel = (name, None) if axis == "model" else (None, name)
        rows.append(_comparison(runs, names == name, model, channel, prob))
    return _most_runs_first(rows)


def _strata(runs: _Runs, prob: float) -> tuple[Comparison, ...]:
    rows = []
    for place in range(runs.n_strata):
        wanted = np.arange(runs.n_strata) == place
        rows.append(_comparison(runs, wanted, str(runs.models[place]), str(runs.channels[place]), prob))
    return _most_runs_first(rows)


def _most_runs_first(rows: list[Comparison]) -> tuple[Comparison, ...]:
    return tuple(sorted(rows, key=lambda row: -(row.baseline.n_runs + row.selected.n_runs)))


def _comparison(
    runs: _Runs, wanted: Bools, model: str | None, channel: str | None, prob: float
) -> Comparison:
    tokens, durations = runs.tokens.strata(wanted), runs.durations.strata(wanted)
    baseline, selected = (_figures(runs, wanted, group) for group in (BASELINE, SELECTED))
    percent = saved_percent(tokens, prob)
    n_used = compare(tokens).n
    verdict, reason = _verdict(percent, int(n_used.min()))
    return Comparison(
        model=model,
        channel=channel,
        baseline=baseline,
        selected=selected,
        saved_percent=percent,
        plain_percent=saved_percent(tokens.pooled(), prob).value,
        tokens_saved=saved(tokens, prob),
        duration_saved_percent=saved_percent(durations, prob),
        duration_saved_ms=saved(durations, prob),
        error_difference=_error_difference(baseline, selected, prob),
        n_strata=int(wanted.sum()),
        n_uncompared=int(tokens.n.sum() - n_used.sum()),
        verdict=verdict,
        reason=reason,
    )


def _figures(runs: _Runs, wanted: Bools, group: int) -> ClassFigures:
    counts = {name: int(table[wanted, group].sum()) for name, table in runs.by_status.items()}
    tokens, durations = runs.tokens.strata(wanted).pooled(), runs.durations.strata(wanted).pooled()
    return ClassFigures(
        run_class="baseline" if group == BASELINE else "selected",
        n_runs=counts["all"],
        n_completed=counts["completed"],
        n_aborted=counts["aborted"],
        n_errors=counts["error"],
        n_known=int(tokens.n[0, group]),
        n_timed=int(durations.n[0, group]),
        mean_tokens=_known(tokens.mean[0, group]),
        sd_tokens=_known(np.sqrt(tokens.variance[0, group])),
        mean_duration_ms=_known(durations.mean[0, group]),
        sd_duration_ms=_known(np.sqrt(durations.variance[0, group])),
        error_rate=counts["error"] / counts["all"] if counts["all"] else None,
    )


def _known(value: np.float64) -> float | None:
    return None if math.isnan(value) else float(value)


def _error_difference(baseline: ClassFigures, selected: ClassFigures, prob: float) -> Estimate:
    """Selected minus baseline in percentage points, over all runs of the classes."""
    found = difference(selected.n_errors, selected.n_runs, baseline.n_errors, baseline.n_runs, prob=prob)
    points = [None if part is None else 100 * part for part in (found.value, found.lower, found.upper)]
    return Estimate(value=points[0], lower=points[1], upper=points[2], prob=prob, missing=found.missing)


def _verdict(percent: Estimate, n_least: int) -> tuple[SavingsVerdict, VerdictReason]:
    """What may be claimed; a loss needs as many runs as a proof of savings."""
    if percent.value is None:
        few = percent.missing in ("no_baseline_runs", "no_selected_runs", "few_runs", "no_common_stratum")
        return "no_figure", "few_runs" if few else "cannot"
    if percent.lower is None or percent.upper is None:
        return "no_interval", "few_runs" if percent.missing == "few_for_interval" else "cannot"
    if percent.lower <= 0 <= percent.upper:
        return "not_proven", "interval_holds_zero"
    if n_least < MIN_FOR_PROOF:
        return "not_proven", "few_for_proof"
    return ("proven", "interval_above_zero") if percent.lower > 0 else ("costs_more", "interval_below_zero")


def _left_out(usage: UsageColumns, runs: _Runs, n_uncompared: int) -> LeftOut:
    classes = np.array(usage.run_class, dtype=np.str_)

    def count(rows: Bools) -> int:
        return int(usage.n[rows].sum())

    return LeftOut(
        passive=count(classes == "passive"),
        fallback=count(classes == "fallback"),
        imported=count(classes == "imported"),
        not_completed=count(runs.is_compared & ~runs.is_completed),
        unknown_usage=count(runs.is_completed & ~runs.is_known),
        uncompared=n_uncompared,
    )


def _baseline_share(usage: UsageColumns) -> BaselineShare:
    """Observed share against the stored probabilities, by the exact binomial test with their mean.

    Where the probabilities differ, the number of baseline runs varies less than a binomial one with their mean
    does (W. Hoeffding, Annals of Mathematical Statistics 27, 1956, 713), so the test then errs on the quiet side.
    """
    classes = np.array(usage.run_class, dtype=np.str_)
    decided = np.isin(classes, _GROUPS)
    n_runs = int(usage.n_prob[decided].sum())
    n_baseline = int(usage.n_prob[classes == "baseline"].sum())
    n_expected = float(usage.baseline_prob[decided].sum())
    expected = n_expected / n_runs if n_runs else None
    as_far = None if expected is None else exact_tails(n_baseline, n_runs, min(expected, 1.0))
    observed = exact_limits(n_baseline, n_runs, prob=SHARE_PROB)
    if n_runs == 0:
        observed = Estimate(value=None, lower=None, upper=None, prob=SHARE_PROB, missing="no_probabilities")
    return BaselineShare(
        n_runs=n_runs,
        n_baseline=n_baseline,
        n_expected=n_expected,
        observed=observed,
        expected=expected,
        prob_as_far=as_far,
        off=as_far is not None and observed.lower is not None and as_far < 1 - SHARE_PROB,
    )


def _need(tokens: Sums, baseline_rate: float, prob: float, target_points: float) -> BaselineNeed:
    """Baseline runs still to come, both groups growing as the coin lets them."""
    estimate = saved_percent(tokens, prob)
    if estimate.lower is None or estimate.upper is None:
        return BaselineNeed(
            target_points=target_points,
            baseline_rate=baseline_rate,
            half_width_points=None,
            n_more=None,
            missing=estimate.missing,
        )
    half = (estimate.upper - estimate.lower) / 2
    n_more = 0 if half <= target_points else _runs_until(tokens, baseline_rate, prob, target_points)
    missing: Missing | None = None
    if n_more is None:
        missing = "rate_is_zero" if baseline_rate == 0 else "unreachable"
    return BaselineNeed(
        target_points=target_points,
        baseline_rate=baseline_rate,
        half_width_points=half,
        n_more=n_more,
        missing=missing,
    )


def _runs_until(tokens: Sums, baseline_rate: float, prob: float, target_points: float) -> int | None:
    """Fewest more baseline runs whose interval is narrow enough; it narrows steadily, so halving finds them."""
    if baseline_rate == 0:
        return None
    compared = compare(tokens)
    error = compared.error / compared.mean**2
    selected_each = (1 - baseline_rate) / baseline_rate

    def is_enough(n_more: int) -> bool:
        growth = (compared.n + n_more * np.array([1.0, selected_each])) / compared.n
        grown = error / growth
        df = grown.sum() ** 2 / np.where(grown > 0, grown**2 / (compared.df * growth), 0.0).sum()
        half = stdtrit(df, (1 + prob) / 2) * math.sqrt(grown.sum())
        return bool(100 * math.exp(compared.log_ratio) * math.sinh(min(half, 700.0)) <= target_points)

    if not is_enough(_MOST_RUNS):
        return None
    least, most = 0, _MOST_RUNS
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if is_enough(middle) else (middle, most)
    return most


def _running(usage: UsageColumns, runs: _Runs) -> tuple[Ints, Sums, int]:
    """Every day from the first to the last, the sums up to and including each, and how many runs have no day."""
    dated = runs.is_known & (usage.hour != UNKNOWN)
    n_undated = int(usage.n[runs.is_known & ~dated].sum())
    days = usage.hour[dated] // _HOURS_A_DAY
    day = np.arange(days.min(), days.max() + 1) if len(days) else np.array([], dtype=np.int64)
    since_first = days - (day[0] if len(day) else 0)
    code = (since_first * runs.n_strata + runs.stratum[dated]) * 2 + runs.group[dated]
    shape = (len(day), runs.n_strata, 2)

    def running(amount: Ints | Floats) -> Floats:
        added = np.bincount(code, weights=amount[dated], minlength=math.prod(shape))
        return np.cumsum(added.reshape(shape), axis=0)

    sums = Sums(n=running(usage.n), total=running(usage.tokens), squares=running(usage.tokens_squared))
    return day, sums, n_undated


def _over_time(day: Ints, sums: Sums, n_undated: int, prob: float) -> SavingsOverTime:
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


def _distribution(usage: UsageColumns, runs: _Runs) -> TokenDistribution:
    bucket, n, group = usage.bucket[runs.is_known], usage.n[runs.is_known], runs.group[runs.is_known]
    first = int(bucket.min()) if len(bucket) else 0
    n_classes = int(bucket.max()) - first + 1 if len(bucket) else 0
    bounds = np.array([bucket_bounds(first + step) for step in range(n_classes)]).reshape(-1, 2)
    counts = [
        np.bincount(bucket[group == one] - first, weights=n[group == one], minlength=n_classes).astype(
            np.int64
        )
        for one in (BASELINE, SELECTED)
    ]
    doublings = np.log2(bounds[:, 1] / bounds[:, 0])
    densities = [
        count / count.sum() / doublings if count.sum() else np.full(n_classes, np.nan) for count in counts
    ]
    return TokenDistribution(
        lower=bounds[:, 0],
        upper=bounds[:, 1],
        n_baseline=counts[BASELINE],
        n_selected=counts[SELECTED],
        density_baseline=densities[BASELINE],
        density_selected=densities[SELECTED],
    )
