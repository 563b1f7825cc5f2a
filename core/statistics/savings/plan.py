"""Spread of tokens → how many runs a comparison will take before it has begun."""

from __future__ import annotations

import math

import numpy as np
import scipy

from core.columns import UNKNOWN, UsageColumns
from core.statistics.savings.estimate import MIN_FOR_FIGURE


def token_variation(usage: UsageColumns) -> float | None:
    """Return the standard deviation of a run's tokens by their mean, over all runs that ended normally with known
    usage.

    None where fewer than two runs say so, or none used anything.
    """
    known = (np.array(usage.status, dtype=np.str_) == "completed") & (usage.bucket != UNKNOWN)
    n, total = int(usage.n[known].sum()), float(usage.tokens[known].sum())
    if n < MIN_FOR_FIGURE or total <= 0:
        return None
    spread = float(usage.tokens_squared[known].sum()) - total**2 / n
    return math.sqrt(max(spread, 0.0) / (n - 1)) / (total / n)


def runs_until(
    target_points: float, *, variation: float, baseline_rate: float, prob: float = 0.95
) -> int | None:
    """Return the runs, baseline and selected together, until the interval of the savings is about ``±
    target_points``.

    Taken for granted: both groups vary as the runs so far, and nothing is saved (savings of s per cent make the
    interval narrower by as much), so it errs on the long side. With N runs, of which r N are baseline runs, the
    logarithm of the ratio of the means has variance ``variation^2 (1 / (r N) + 1 / ((1 - r) N))`` (delta method).
    None where one group never comes.

    Parameters
    ----------
    target_points : float
        Requested half-width, in percentage points, above 0.
    variation : float
        Standard deviation of tokens by their mean, above 0.
    baseline_rate : float
        The coin's probability of a baseline run, in [0, 1].
    prob : float, optional
        Probability that the interval holds, in (0, 1).

    Returns
    -------
    int or None
        Runs.

    Examples
    --------
    >>> runs_until(5, variation=0.5, baseline_rate=0.1), runs_until(5, variation=0.5, baseline_rate=0.0)
    (4483, None)
    """
    if not 0 < baseline_rate < 1:
        return None
    z = float(scipy.special.ndtri((1 + prob) / 2))
    per_run = (z * variation) ** 2 * (1 / baseline_rate + 1 / (1 - baseline_rate))
    return max(math.ceil(per_run / math.log1p(target_points / 100) ** 2), math.ceil(2 / baseline_rate))
