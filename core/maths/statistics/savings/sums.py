"""Sums per stratum and group, from which runs are compared; and figures with intervals, or the reason for none.

A stratum is a model, a channel and the probability with which a coin made baseline runs at that time. Within one,
both groups met the same runs at the same times.

Arrays have any leading axes (days, for example), then one for strata and one of length 2: baseline, selected.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from core.columns import Bools, Floats
from core.records.estimate import Estimate, Missing
from core.records.saving import Pair

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

BASELINE: Final = 0
SELECTED: Final = 1
GROUPS: Final[tuple[Literal["baseline", "selected"], ...]] = ("baseline", "selected")

_ROUNDING: Final = 1e-13
"""A variance this small against the mean square is what rounding leaves of equal amounts."""


def no_estimate(missing: Missing, prob: float, value: float | None = None) -> Estimate:
    """Return an estimate without an interval, and without a figure unless it is given."""
    return Estimate(value=value, lower=None, upper=None, prob=prob, missing=missing)


def known_pair(means: Floats) -> Pair:
    """Return the means of both groups, None where there is none."""
    baseline, selected = (None if math.isnan(mean) else mean for mean in means.tolist())
    return baseline, selected


def share_weight(n: Floats) -> Floats:
    """Return the weight of each stratum: its part of the selected runs, where each group has two."""
    taking = np.where((n >= MIN_FOR_FIGURE).all(-1), n[..., SELECTED], 0.0)
    return np.asarray(taking / max(float(taking.sum()), 1.0))


def unless_wide(estimate: Estimate, *, is_narrow: bool) -> Estimate:
    """Return an estimate of a plain mean, without its interval where runs lie too far apart for one."""
    if is_narrow or estimate.lower is None:
        return estimate
    return replace(estimate, lower=None, upper=None, missing="wide_spread")


@dataclass(frozen=True, kw_only=True)
class StratumSums:
    """Runs of each stratum and group: their number, the sum of an amount, and of its squares."""

    n: Floats
    total: Floats
    squares: Floats

    def strata(self, mask: Bools) -> StratumSums:
        """Return the sums of some strata."""
        return self._each(lambda amount: amount[..., mask, :])

    def plus(self, other: StratumSums) -> StratumSums:
        """Return the sums of both, stratum by stratum."""
        return StratumSums(
            n=self.n + other.n, total=self.total + other.total, squares=self.squares + other.squares
        )

    def pooled(self) -> StratumSums:
        """Return the sums of all strata together."""
        return self._each(lambda amount: np.asarray(amount.sum(-2, keepdims=True)))

    def _each(self, of: Callable[[Floats], Floats]) -> StratumSums:
        return StratumSums(n=of(self.n), total=of(self.total), squares=of(self.squares))

    @property
    def mean(self) -> Floats:
        """Mean; NaN if there is no run."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(self.n > 0, self.total / self.n, np.nan))

    @property
    def spread(self) -> Floats:
        """Squared distances from the mean, added up; 0 where all are equal, NaN where there is no run."""
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = self.squares - self.total**2 / self.n
            return np.asarray(np.where(spread <= _ROUNDING * self.squares, 0.0, spread))

    @property
    def variance(self) -> Floats:
        """Variance of single amounts; NaN for fewer than two runs."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(self.n >= MIN_FOR_FIGURE, self.spread / (self.n - 1), np.nan))
