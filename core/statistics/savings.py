"""Usage → what the selection saves against baseline runs, or why that cannot be said yet.

Only runs of the classes ``baseline`` and ``selected`` are compared. Tokens and duration come from those that
ended normally with a known amount, errors from all of them; what was left out is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from core.columns import Floats, Ints, UsageColumns

Missing = Literal[
    "no_baseline_runs",
    "no_selected_runs",
    "few_runs",
    "few_for_interval",
    "no_common_stratum",
    "no_variation",
    "zero_mean",
    "rate_is_zero",
    "no_probabilities",
]
"""Why a figure or its interval cannot be computed."""

SavingsVerdict = Literal["proven", "not_proven", "costs_more", "no_interval", "no_figure"]
VerdictReason = Literal[
    "interval_above_zero", "interval_holds_zero", "interval_below_zero", "few_for_proof", "few_runs", "cannot"
]

MIN_FOR_FIGURE = 2
MIN_FOR_INTERVAL = 10
MIN_FOR_PROOF = 30


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure with its interval, each None where it cannot be computed; ``missing`` then says why."""

    value: float | None
    lower: float | None
    upper: float | None
    prob: float = 0.95
    missing: Missing | None = None


@dataclass(frozen=True, kw_only=True)
class ClassFigures:
    """Runs of one class.

    ``n_runs`` counts all, ``n_completed`` those that ended normally, ``n_known`` and ``n_timed`` those of them
    with known tokens and duration; the means and standard deviations are over these (None where too few).
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

    ``model`` and ``channel`` None = all of them, "" = unknown. ``saved_percent`` compares the two means at the
    same mix of strata (weights: run share), so it equals the plain formula where there is one stratum;
    ``plain_percent`` is the plain formula over all runs pooled. ``tokens_saved`` and ``duration_saved_ms`` are
    per run. ``error_difference`` is selected minus baseline, in percentage points.
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

    ``observed`` is a share with its interval (0..1); ``expected`` the mean stored probability. ``off``: the
    interval excludes it (False where there is no interval).
    """

    n_runs: int
    n_baseline: int
    n_expected: float
    observed: Estimate
    expected: float | None
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
    """Runs by size class of their tokens: ``lower`` inclusive, ``upper`` exclusive, one row per class from the
    smallest to the largest that occurs, empty ones in between included. ``density_*`` is the share of the
    group's runs per doubling of tokens (it adds up to 1 over log2), NaN for a group without runs.
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


def savings(
    usage: UsageColumns, *, baseline_rate: float, n_arms: int, prob: float = 0.95, target_points: float = 5.0
) -> Savings:
    """What the selection saves against baseline runs."""
    raise NotImplementedError


def recommended_rate(n_arms: int) -> float | None:
    """Baseline rate for an inventory of this size; None without arms."""
    raise NotImplementedError


def newcombe(n_first: Sequence[int], n_second: Sequence[int], *, prob: float = 0.95) -> Estimate:
    """Difference of two shares."""
    raise NotImplementedError
