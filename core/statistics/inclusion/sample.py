"""One candidate set → its simulated runs, as many as are wanted, and what they say of each of its arms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from core.columns import Floats, Ints
from core.posterior.beta import cumulative
from core.statistics.inclusion.thresholds import Plan

_FIRST: Final = 128
_LEAST: Final = 16
_MOST: Final = 4_096
"""Simulations at first, at first where very many arms are compared, and at most."""

_NEGLIGIBLE: Final = 9.2
"""Natural logarithm of one in ten thousand, without its sign."""

_MOST_COMPARED: Final = 1 << 28
"""Pairs of arms compared in the first simulations."""


@dataclass(frozen=True)
class Drawn:
    """Simulated runs of one class: a row a run, a column an arm. ``above`` is the probability that the arm, as it is
    believed in now, draws more than its threshold.
    """

    thresholds: Floats
    above: Floats

    def __len__(self) -> int:
        return len(self.above)

    def __add__(self, other: Drawn) -> Drawn:
        return Drawn(
            np.concatenate((self.thresholds, other.thresholds)), np.concatenate((self.above, other.above))
        )

    def error(self) -> Floats:
        """Standard error of each arm's share, never less than if half a run more had come out otherwise."""
        n = len(self)
        least = np.sqrt(0.5 * (n + 0.5)) / (n + 1)
        spread = self.above.std(axis=0, ddof=1) if n > 1 else np.ones(self.above.shape[1])
        return np.asarray(np.maximum(spread, least) / np.sqrt(n))


@dataclass(frozen=True)
class Sample:
    """The simulated runs of a candidate set that ``n_runs`` real ones had; ``number`` is the set's among all."""

    plan: Plan
    n_runs: int
    number: int
    baseline: Drawn
    selected: Drawn
    n_rounds: int = 1

    @classmethod
    def begun(cls, plan: Plan, *, n_runs: int, number: int, rate: float, seed: int) -> Sample:
        """The first simulations."""
        pairs = len(plan.places) * plan.n_packed("selected")
        n_first = min(max(_MOST_COMPARED // pairs, _LEAST), _FIRST)
        return cls(plan, n_runs, number, *_drawn(plan, n_first, rate, seed, (number, 0)))

    @property
    def n_simulations(self) -> int:
        return len(self.baseline) + len(self.selected)

    @property
    def n_numbers(self) -> int:
        return self.n_simulations * len(self.plan.places)

    @property
    def may_grow(self) -> bool:
        return self.n_simulations < _MOST

    def grown(self, times: float, rate: float, seed: int) -> Sample:
        """The same with so many times as many simulations, or as many as there may be."""
        n_more = min(max(round(self.n_simulations * (times - 1)), _LEAST), _MOST - self.n_simulations)
        more = _drawn(self.plan, n_more, rate, seed, (self.number, self.n_rounds))
        return Sample(
            self.plan,
            self.n_runs,
            self.number,
            self.baseline + more[0],
            self.selected + more[1],
            self.n_rounds + 1,
        )

    def error(self, rate: float) -> Floats:
        """Standard error of each arm's chance; 0 where it is no matter of chance."""
        return np.hypot(
            rate * np.where(self.plan.is_certain("baseline"), 0.0, self.baseline.error()),
            (1 - rate) * np.where(self.plan.is_certain("selected"), 0.0, self.selected.error()),
        )

    def selected_at(self, mean: Floats, wanted: Ints) -> Floats:
        """Share of selected runs that the arms in these columns would go into if their means were these."""
        weight = (self.plan.alpha + self.plan.beta)[wanted]
        above = _above(self.selected.thresholds[:, wanted], mean * weight, (1 - mean) * weight)
        return np.asarray(above.mean(axis=0))


def _drawn(
    plan: Plan, n_simulations: int, rate: float, seed: int, stream: tuple[int, int]
) -> tuple[Drawn, Drawn]:
    """Baseline and selected runs by the rate, but at least a tenth each."""
    n_baseline = max(round(n_simulations * min(max(rate, 0.1), 0.9)), 1)
    baseline = plan.thresholds("baseline", n_baseline, seed=seed, stream=stream)
    selected = plan.thresholds("selected", max(n_simulations - n_baseline, 1), seed=seed, stream=stream)
    return (
        Drawn(baseline, 1 - np.clip(baseline, 0, 1)),
        Drawn(selected, _above(selected, plan.alpha, plan.beta)),
    )


def _above(thresholds: Floats, alpha: Floats, beta: Floats) -> Floats:
    """Probability of a draw above each threshold; 0 where it is below one in ten thousand, which costs most arms
    among many nothing: Beta(a, b) is no wider than a normal of variance 1/(4 (a + b + 1)) (O. Marchal and J. Arbel,
    *Electron. Commun. Probab.* 22, 2017, no. 54).
    """
    above = np.where(thresholds <= 0, 1.0, 0.0)
    row, column = np.nonzero((thresholds > 0) & (thresholds < 1))
    least, a, b = thresholds[row, column], alpha[column], beta[column]
    beyond = np.maximum(least - a / (a + b), 0)
    told = np.flatnonzero(2 * (a + b + 1) * beyond**2 < _NEGLIGIBLE)
    above[row[told], column[told]] = 1 - cumulative(a[told], b[told], least[told])
    return above
