"""One candidate set → its simulated runs, as many as are wanted, and what they say of each of its arms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from core.columns import Floats, Ints
from core.posterior.beta import cumulative
from core.statistics.inclusion.simulation import SimulationPlan

_NEGLIGIBLE: Final = 9.2
"""Natural logarithm of one in ten thousand, without its sign."""


@dataclass(frozen=True)
class Sample:
    """The simulated runs of a candidate set that ``n_runs`` real ones had; ``number`` is the set's among all.

    A row a run, a column an arm: ``baseline`` and ``selected`` are the probability that the arm, as it is believed
    in now, draws more than its threshold in such a run; ``thresholds`` are those of the selected runs.
    """

    plan: SimulationPlan
    n_runs: int
    number: int
    baseline: Floats
    selected: Floats
    thresholds: Floats
    n_rounds: int = 0

    @classmethod
    def empty(cls, plan: SimulationPlan, *, n_runs: int, number: int) -> Sample:
        """Return a sample without simulations."""
        nothing = np.empty((0, len(plan.places)))
        return cls(plan, n_runs, number, nothing, nothing, nothing)

    @property
    def n_simulations(self) -> int:
        return len(self.baseline) + len(self.selected)

    @property
    def n_numbers(self) -> int:
        return self.baseline.size + self.selected.size

    def grown(self, n_more: int, rate: float, seed: int) -> Sample:
        """Add simulations: baseline and selected runs by the rate, but at least a tenth each."""
        n_baseline = max(round(n_more * min(max(rate, 0.1), 0.9)), 1)
        stream = self.number, self.n_rounds
        baseline = self.plan.thresholds("baseline", n_baseline, seed=seed, stream=stream)
        selected = self.plan.thresholds("selected", max(n_more - n_baseline, 1), seed=seed, stream=stream)
        above = _above(selected, self.plan.alpha, self.plan.beta)
        return replace(
            self,
            baseline=np.concatenate((self.baseline, 1 - np.clip(baseline, 0, 1))),
            selected=np.concatenate((self.selected, above)),
            thresholds=np.concatenate((self.thresholds, selected)),
            n_rounds=self.n_rounds + 1,
        )

    def error(self, rate: float) -> Floats:
        """Return the standard error of each arm's chance; 0 where it is no matter of chance."""
        return np.hypot(
            rate * np.where(self.plan.is_certain("baseline"), 0.0, _error(self.baseline)),
            (1 - rate) * np.where(self.plan.is_certain("selected"), 0.0, _error(self.selected)),
        )

    def selected_at(self, mean: Floats, columns: Ints) -> Floats:
        """Return the share of selected runs that include the arms in these columns, if their means were these."""
        weight = (self.plan.alpha + self.plan.beta)[columns]
        above = _above(self.thresholds[:, columns], mean * weight, (1 - mean) * weight)
        return np.asarray(above.mean(axis=0))


def _error(above: Floats) -> Floats:
    """Return the standard error of each arm's share, never less than if half a run more had come out otherwise."""
    n = len(above)
    least = np.sqrt(0.5 * (n + 0.5)) / (n + 1)
    spread = above.std(axis=0, ddof=1) if n > 1 else np.ones(above.shape[1])
    return np.asarray(np.maximum(spread, least) / np.sqrt(n))


def _above(thresholds: Floats, alpha: Floats, beta: Floats) -> Floats:
    """Return the probability of a draw above each threshold, or 0 if it is below one in ten thousand. Beta(a, b) is
    no wider than a normal of variance 1/(4 (a + b + 1)), so most of many arms cost nothing (O. Marchal and J. Arbel,
    *Electron. Commun. Probab.* 22, 2017, no. 54).
    """
    above = np.where(thresholds <= 0, 1.0, 0.0)
    row, column = np.nonzero((thresholds > 0) & (thresholds < 1))
    least, a, b = thresholds[row, column], alpha[column], beta[column]
    beyond = np.maximum(least - a / (a + b), 0)
    near = np.flatnonzero(2 * (a + b + 1) * beyond**2 < _NEGLIGIBLE)
    above[row[near], column[near]] = 1 - cumulative(a[near], b[near], least[near])
    return above
