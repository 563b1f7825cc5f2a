"""Baseline runs: their share against the stored probabilities, how many more it takes, which rate to set."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy

from core.columns import UNKNOWN, Bools, Ints, SessionRuns, UsageColumns, is_held_coin, plain_prob
from core.maths.statistics.savings.ratio import Compared
from core.maths.statistics.savings.shares import exact_limits, exact_tails
from core.records.arm import MICRO
from core.records.estimate import Estimate, Missing

SHARE_PROB: Final = 0.99
"""Probability of the interval of the baseline share: it is checked all the time, so a false alarm must be rare."""

_MOST_RUNS: Final = 10**9


@dataclass(frozen=True, kw_only=True)
class BaselineShare:
    """Share of baseline runs among decided runs with a stored probability, against those probabilities.

    ``observed`` is a share with its exact interval (0..1); ``expected`` the mean stored probability.
    ``prob_as_far`` is the chance of a number of baseline runs as far off as this one or farther, were the stored
    probabilities true (None without runs). ``off`` is true if ``prob_as_far``, a two-sided p-value, is
    below ``1 - observed.prob``. Then the interval excludes ``expected``.
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


def baseline_share(usage: UsageColumns, sampled: SessionRuns | None = None) -> BaselineShare:
    """Return the observed share against the stored probabilities, by the exact binomial test with their mean.

    A hold is a selection that several runs of a session share. They have one draw of the coin, so they count once,
    and only where their session is known (``sampled``).

    Where the probabilities differ, the number of baseline runs varies less than a binomial one with their mean
    does (Hoeffding), so the test then errs on the quiet side.

    * C. J. Clopper and E. S. Pearson, *Biometrika* 26, 1934, 404 (doi:10.1093/biomet/26.4.404).
    * W. Hoeffding, *Ann. Math. Stat.* 27, 1956, 713 (doi:10.1214/aoms/1177728178).
    """
    draws = [_draws(usage.run_class, usage.prob_micro, usage.n, ~is_held_coin(usage.prob_micro))]
    if sampled is not None:
        first = np.zeros(len(sampled), dtype=np.bool_)
        first[np.unique(sampled.draw, return_index=True)[1]] = True
        once = np.ones(len(sampled), dtype=np.int64)
        held = first & is_held_coin(sampled.prob_micro) & _is_among(sampled, usage)
        draws.append(_draws(sampled.run_class, sampled.prob_micro, once, held))
    n_runs, n_baseline, sum_micro = (sum(part) for part in zip(*draws, strict=True))
    n_expected = sum_micro / MICRO
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


def _is_among(sampled: SessionRuns, usage: UsageColumns) -> Bools:
    """Return which runs are of a model, channel and coin of the usage."""
    strata = set(zip(usage.model, usage.channel, usage.prob_micro.tolist(), strict=True))
    names = zip(sampled.model, sampled.channel, sampled.prob_micro.tolist(), strict=True)
    return np.array([name in strata for name in names], dtype=np.bool_)


def _draws(run_class: tuple[str, ...], prob_micro: Ints, n: Ints, counted: Bools) -> tuple[int, int, int]:
    """Return the draws with a stored probability, the baseline ones of them, and the sum of the probabilities."""
    classes = np.array(run_class, dtype=np.str_)
    decided = counted & np.isin(classes, ("baseline", "selected")) & (prob_micro != UNKNOWN)
    n_baseline = int(n[decided & (classes == "baseline")].sum())
    return int(n[decided].sum()), n_baseline, int((n[decided] * plain_prob(prob_micro[decided])).sum())


def baseline_need(
    compared: Compared, estimate: Estimate, baseline_rate: float, target_points: float
) -> BaselineNeed:
    """Return the baseline runs still needed for a narrow interval. Both groups grow as the coin lets them, in
    sessions like those so far.
    """
    half, n_more, missing = None, None, estimate.missing
    if estimate.lower is not None and estimate.upper is not None:
        half = (estimate.upper - estimate.lower) / 2
        is_reached = half <= target_points
        n_more = 0 if is_reached else _runs_until(compared, baseline_rate, estimate.prob, target_points)
        why: Missing = "rate_is_zero" if baseline_rate == 0 else "unreachable"
        missing = why if n_more is None else None
    return BaselineNeed(
        target_points=target_points,
        baseline_rate=baseline_rate,
        half_width_points=half,
        n_more=n_more,
        missing=missing,
    )


def _runs_until(compared: Compared, baseline_rate: float, prob: float, target_points: float) -> int | None:
    """Return the fewest more baseline runs whose interval is narrow enough, found by halving."""
    if baseline_rate == 0:
        return None
    selected_each = (1 - baseline_rate) / baseline_rate

    def is_enough(n_more: int) -> bool:
        growth = (compared.n + n_more * np.array([1.0, selected_each])) / compared.n
        grown = compared.grown(growth)
        half = float(scipy.special.stdtrit(grown.freedom, (1 + prob) / 2)) * math.sqrt(grown.log_variance)
        return bool(100 * math.exp(compared.log_ratio) * math.sinh(min(half, 700.0)) <= target_points)

    if not is_enough(_MOST_RUNS):
        return None
    least, most = 0, _MOST_RUNS
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if is_enough(middle) else (middle, most)
    return most


def recommended_rate(n_arms: int) -> float | None:
    """Return the baseline rate for an inventory of this size; None without arms.

    Parameters
    ----------
    n_arms : int
        Size of the inventory, 0 or more.

    Returns
    -------
    float or None
        Probability in (0, 1).

    Examples
    --------
    >>> [recommended_rate(n) for n in (0, 1, 10, 11, 50, 51)]
    [None, 0.2, 0.2, 0.1, 0.1, 0.05]
    """
    if n_arms == 0:
        return None
    if n_arms <= 10:
        return 0.2
    return 0.1 if n_arms <= 50 else 0.05
