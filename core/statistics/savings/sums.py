"""Sums per stratum and group, from which runs are compared.

A stratum is a model, a channel and the probability with which a coin made baseline runs at that time; within one,
both groups met the same runs at the same times.

Arrays have any leading axes (days, for example), then one for strata and one of length 2: baseline, selected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from core.columns import Bools, Floats
from core.statistics.savings.estimate import MIN_FOR_FIGURE

BASELINE: Final = 0
SELECTED: Final = 1
GROUPS: Final[tuple[Literal["baseline", "selected"], ...]] = ("baseline", "selected")

_ROUNDING: Final = 1e-13
"""A variance this small against the mean square is what rounding leaves of equal amounts."""


@dataclass(frozen=True, kw_only=True)
class StratumSums:
    """Runs of each stratum and group: their number, the sum of an amount, and of its squares."""

    n: Floats
    total: Floats
    squares: Floats

    def strata(self, mask: Bools) -> StratumSums:
        """Return the sums of some strata."""
        return StratumSums(
            n=self.n[..., mask, :], total=self.total[..., mask, :], squares=self.squares[..., mask, :]
        )

    def pooled(self) -> StratumSums:
        """Return the sums of all strata together."""
        return StratumSums(
            n=self.n.sum(-2, keepdims=True),
            total=self.total.sum(-2, keepdims=True),
            squares=self.squares.sum(-2, keepdims=True),
        )

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
