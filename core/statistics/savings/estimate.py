"""Estimate: a figure with its interval, or the reason why there is none."""

from __future__ import annotations

from dataclasses import replace

from core.records.estimate import Estimate, Missing

MIN_FOR_FIGURE = 2
MIN_FOR_INTERVAL = 10
MIN_FOR_PROOF = 30
"""Runs needed in each group; for a proof sessions, where runs come in sessions."""

MIN_SESSIONS = 4
"""Sessions (runs, where they come alone) that each group needs in a stratum that takes part: with three, the variance
that is small by chance weighs too much (.90 instead of .95 of intervals hold the truth among 24 baseline runs at two
rates and a log-sd of 1.7; with four .92)."""

MIN_DF = 4
"""Degrees of freedom that an interval needs; with fewer its limits can be anywhere."""


def nothing(missing: Missing, prob: float) -> Estimate:
    """Return an estimate without figure and interval.

    Examples
    --------
    >>> nothing("few_runs", 0.95).value is None
    True
    """
    return Estimate(value=None, lower=None, upper=None, prob=prob, missing=missing)


def unless_wide(estimate: Estimate, *, is_narrow: bool) -> Estimate:
    """Return an estimate of a plain mean, without its interval where runs lie too far apart for one."""
    if is_narrow or estimate.lower is None:
        return estimate
    return replace(estimate, lower=None, upper=None, missing="wide_spread")
