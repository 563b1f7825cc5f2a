"""Arms, settings → each arm's chance to be in the next run's prompt, under the packer that really packs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from core.columns import ArmColumns, Bools, Floats, Ints
from core.errors import InvalidInput, UnknownArm
from core.packing import counted_cost, fill_many, seed_places
from core.posterior.beta import cumulative
from core.records.learner import LearnerSettings
from core.statistics.contest import Group, contest

MIN_SIMULATIONS: Final = 20
_BLOCK_NUMBERS: Final = 1 << 19

SimulatedClass = Literal["baseline", "selected"]
NoBreakEven = Literal["always_in", "never_in"]


@dataclass(frozen=True, kw_only=True)
class Chances:
    """Chance of inclusion per arm, aligned with the columns, with the standard error of its simulation.

    ``chance = rate * baseline + (1 - rate) * selected``; all 1 in the passive phase.
    """

    chance: Floats
    standard_error: Floats
    baseline: Floats
    selected: Floats
    baseline_rate: float
    n_simulations: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class Chance:
    """One arm's chance of inclusion, and what it would have to be worth.

    ``break_even_mean`` is the posterior mean at which the chance is one half at the arm's cost and present
    weight of evidence; None with ``no_break_even`` where the chance is above (``always_in``) or below
    (``never_in``) one half at every mean.
    """

    key: str
    chance: float
    standard_error: float
    break_even_mean: float | None
    no_break_even: NoBreakEven | None
    n_simulations: int
    seed: int


def inclusion_chances(
    columns: ArmColumns, settings: LearnerSettings, *, seed: int, n_simulations: int = 2_800
) -> Chances:
    """Chance of every arm to be in the next run's prompt.

    Baseline and selected runs are simulated in the proportion the coin gives them (at least a tenth each), so
    that the standard error is at most ``0.5 / sqrt(0.9 n_simulations)``. It is 0 where the outcome does not
    depend on chance, and never 0 merely because all simulations agreed.
    """
    _check(n_simulations)
    n_arms = len(columns)
    if settings.phase == "passive":
        return _sure(n_arms, settings, seed)
    rng = np.random.Generator(np.random.PCG64(seed))
    rate = settings.baseline_rate
    n_baseline, n_selected = _divided(n_simulations, rate)
    plan = _Plan(columns, settings)
    baseline = plan.share(rng, "baseline", n_baseline)
    selected = plan.share(rng, "selected", n_selected)
    error = np.hypot(
        rate * plan.error(baseline, n_baseline, "baseline"),
        (1 - rate) * plan.error(selected, n_selected, "selected"),
    )
    return Chances(
        chance=rate * baseline + (1 - rate) * selected,
        standard_error=error,
        baseline=baseline,
        selected=selected,
        baseline_rate=rate,
        n_simulations=n_baseline + n_selected,
        seed=seed,
    )


def inclusion_chance(
    columns: ArmColumns, settings: LearnerSettings, key: str, *, seed: int, n_simulations: int = 2_800
) -> Chance:
    """Chance of one arm, and its break-even mean.

    The other arms are packed without it. As the remaining budget never grows, each simulation has a threshold:
    the arm goes in exactly when its draw is above it. The chance is then the mean probability, under the arm's
    posterior, of a draw above the threshold, which is steadier than counting and can be solved for the mean.
    Raises `UnknownArm` when there is no such arm.
    """
    _check(n_simulations)
    if key not in columns.keys:
        raise UnknownArm(
            f"An arm must be one of the learner's {len(columns)}, got {key!r}.",
            next_step="Choose one of the candidates of the next run.",
        )
    place = columns.keys.index(key)
    plan = _Plan(columns, settings)
    if settings.phase == "passive" or place in plan.seeds:
        return _always_in(key, n_simulations, seed)
    rng = np.random.Generator(np.random.PCG64(seed))
    rate = settings.baseline_rate
    n_baseline, n_selected = _divided(n_simulations, rate)
    shares = 1 - np.clip(plan.thresholds(rng, "baseline", place, n_baseline), 0, 1)
    thresholds = plan.thresholds(rng, "selected", place, n_selected)
    alpha, beta = float(columns.alpha[place]), float(columns.beta[place])

    def chance_at(mean: float) -> float:
        above = _above(thresholds, mean * (alpha + beta), (1 - mean) * (alpha + beta))
        return float(rate * shares.mean() + (1 - rate) * above.mean())

    above = _above(thresholds, alpha, beta)
    break_even, no_break_even = _break_even(chance_at)
    return Chance(
        key=key,
        chance=float(rate * shares.mean() + (1 - rate) * above.mean()),
        standard_error=math.hypot(rate * _error_of_mean(shares), (1 - rate) * _error_of_mean(above)),
        break_even_mean=break_even,
        no_break_even=no_break_even,
        n_simulations=n_simulations,
        seed=seed,
    )


class _Plan:
    """What every simulation of one selection shares."""

    def __init__(self, columns: ArmColumns, settings: LearnerSettings) -> None:
        self.alpha, self.beta, self.pulls = columns.alpha, columns.beta, columns.pulls
        self.cost = counted_cost(columns.token_cost)
        self.seeds = seed_places(columns.keys, settings.seed_arms)
        self.budget_tokens, self.k, self.min_pulls = settings.budget_tokens, settings.k, settings.min_pulls
        self.others = np.setdiff1d(np.arange(len(columns)), self.seeds, assume_unique=True)

    def share(self, rng: np.random.Generator, run_class: SimulatedClass, n_simulations: int) -> Floats:
        """Share of simulations that packed each arm."""
        n_packed = np.zeros(len(self.cost), dtype=np.int64)
        n_packed[self.seeds] = n_simulations
        budget = self.budget_tokens or int(self.cost.sum())
        most = self._most(run_class) or len(self.cost)
        left = np.full(n_simulations, budget - self.cost[self.seeds].sum(), dtype=np.int64)
        room = np.full(n_simulations, max(most - len(self.seeds), 0), dtype=np.int64)
        competing = self.others
        if most >= len(self.cost):  # what costs nothing takes nothing from the others either
            is_free = self.cost[competing] == 0
            n_packed[competing[is_free]] = np.count_nonzero(left >= 0)
            competing = competing[~is_free]
        for arms, group in self._groups(run_class, competing):
            n_packed[arms] += contest(rng, group, left, room)
        return n_packed / n_simulations

    def _groups(self, run_class: SimulatedClass, competing: Ints) -> Iterator[tuple[Ints, Group]]:
        """Arms that compete by their draws, group after group."""
        if run_class == "baseline":
            ones = np.ones(len(competing))
            yield competing, Group(self.cost[competing], ones, ones)
            return
        ahead = self._ahead(competing)
        for step in np.unique(ahead):
            arms = competing[ahead == step]
            yield arms, Group(self.cost[arms], self.alpha[arms], self.beta[arms])

    def error(self, share: Floats, n_simulations: int, run_class: SimulatedClass) -> Floats:
        """Standard error of a share, with half a simulation added to either side so that it is not 0."""
        smoothed = (share * n_simulations + 0.5) / (n_simulations + 1)
        error = np.sqrt(smoothed * (1 - smoothed) / n_simulations)
        return np.where(self._is_certain(run_class), 0.0, error)

    def thresholds(
        self, rng: np.random.Generator, run_class: SimulatedClass, place: int, n_simulations: int
    ) -> Floats:
        """For each simulation the draw above which the arm goes in: 0 = always, infinite = never."""
        if self._all_fit(run_class):
            return np.zeros(n_simulations)
        others = self.others[self.others != place]
        found = [
            self._block_thresholds(rng, run_class, place, others, size)
            for size in _blocks(n_simulations, len(self.cost))
        ]
        return np.concatenate(found)

    def _block_thresholds(
        self, rng: np.random.Generator, run_class: SimulatedClass, place: int, others: Ints, size: int
    ) -> Floats:
        order, draws = self._orders(rng, run_class, others, size)
        order = np.concatenate((np.repeat(self.seeds[:, None], size, axis=1), order))
        most = self._most(run_class)
        cost = self.cost[order]
        packed = fill_many(cost, len(self.seeds), self.budget_tokens, most)
        n_ahead, n_rivals = self._rivals(run_class, place, others)
        # What has been used up when the turn of each place comes, and once more after the last one.
        used = np.concatenate((np.zeros((1, size), dtype=np.int64), np.cumsum(cost * packed, axis=0)))
        n_in: Ints = np.concatenate((np.zeros((1, size), dtype=np.int64), np.cumsum(packed, axis=0)))
        fits = np.ones(used.shape, dtype=np.bool_)
        if self.budget_tokens > 0:
            fits &= used + self.cost[place] <= self.budget_tokens
        if most > 0:
            fits &= n_in < most
        # The arm may stand before any of its rivals or after the last; it fits up to some place, then no more.
        n_turns = fits[n_ahead : n_ahead + n_rivals + 1].sum(axis=0)
        beaten = np.vstack((draws[n_ahead - len(self.seeds) :][:n_rivals], np.zeros((1, size))))
        found = beaten[np.maximum(n_turns - 1, 0), np.arange(size)]
        return np.where(n_turns == 0, np.inf, found)

    def _rivals(self, run_class: SimulatedClass, place: int, others: Ints) -> tuple[int, int]:
        """Arms ahead of this one whatever it draws, and those it competes with by its draw."""
        n_seeds = len(self.seeds)
        if run_class == "baseline":
            return n_seeds, len(others)
        pulls = self.pulls[others]
        if self.pulls[place] < self.min_pulls:
            return n_seeds + int((pulls < self.pulls[place]).sum()), int((pulls == self.pulls[place]).sum())
        n_under = int((pulls < self.min_pulls).sum())
        return n_seeds + n_under, len(others) - n_under

    def _orders(
        self, rng: np.random.Generator, run_class: SimulatedClass, arms: Ints, size: int
    ) -> tuple[Ints, Floats]:
        """Orders of some arms after the seeds, one column each, and their draws in that order."""
        shape = (size, len(arms))
        if run_class == "baseline":
            draws, ahead = rng.random(shape), np.zeros(len(arms))
        else:
            draws, ahead = rng.beta(self.alpha[arms], self.beta[arms], size=shape), self._ahead(arms)
        order = np.argsort(ahead - draws, axis=1)
        return arms[order].T, np.take_along_axis(draws, order, axis=1).T

    def _ahead(self, arms: Ints) -> Floats:
        """Steps of two for the groups by pulls, which no draw can overcome; 0 for those that only draw."""
        pulls = np.minimum(self.pulls[arms], self.min_pulls)
        levels = np.unique(pulls)
        steps = np.searchsorted(levels, pulls) - np.searchsorted(levels, self.min_pulls)
        return np.asarray(2.0 * steps, dtype=np.float64)

    def _most(self, run_class: SimulatedClass) -> int:
        return self.k if run_class == "selected" else 0

    def _all_fit(self, run_class: SimulatedClass) -> bool:
        fits = self.budget_tokens == 0 or int(self.cost.sum()) <= self.budget_tokens
        return fits and (self._most(run_class) == 0 or len(self.cost) <= self._most(run_class))

    def _is_certain(self, run_class: SimulatedClass) -> Bools:
        """Arms whose fate is no matter of chance: seeds, all when all fit, those larger than what is left."""
        certain = np.zeros(len(self.cost), dtype=np.bool_)
        certain[self.seeds] = True
        if self._all_fit(run_class):
            certain[:] = True
        if self.budget_tokens > 0:
            left = self.budget_tokens - int(self.cost[self.seeds].sum())
            certain |= self.cost > left
        if self._most(run_class) > 0:
            certain |= len(self.seeds) >= self._most(run_class)
        return certain


def _above(thresholds: Floats, alpha: float, beta: float) -> Floats:
    """Probability of a draw above each threshold."""
    return np.asarray(
        np.where(thresholds <= 0, 1.0, np.where(thresholds > 1, 0.0, 1 - cumulative(alpha, beta, thresholds)))
    )


def _break_even(chance_at: Callable[[float], float]) -> tuple[float | None, NoBreakEven | None]:
    """The mean at which the chance is one half; it rises with the mean, so halving finds it."""
    least, most = 1e-6, 1 - 1e-6
    if chance_at(least) >= 0.5:
        return None, "always_in"
    if chance_at(most) <= 0.5:
        return None, "never_in"
    while most - least > 1e-6:
        middle = (least + most) / 2
        least, most = (middle, most) if chance_at(middle) < 0.5 else (least, middle)
    return (least + most) / 2, None


def _error_of_mean(values: Floats) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values))


def _divided(n_simulations: int, rate: float) -> tuple[int, int]:
    """Simulations of baseline and of selected runs, by the rate but at least a tenth each."""
    n_baseline = round(n_simulations * min(max(rate, 0.1), 0.9))
    return n_baseline, n_simulations - n_baseline


def _blocks(n_simulations: int, n_arms: int) -> list[int]:
    """Sizes of the blocks that are simulated at once, so that memory stays bounded."""
    size = max(1, min(n_simulations, _BLOCK_NUMBERS // max(n_arms, 1)))
    whole, rest = divmod(n_simulations, size)
    return [size] * whole + ([rest] if rest else [])


def _sure(n_arms: int, settings: LearnerSettings, seed: int) -> Chances:
    ones = np.ones(n_arms)
    return Chances(
        chance=ones,
        standard_error=np.zeros(n_arms),
        baseline=ones,
        selected=ones,
        baseline_rate=settings.baseline_rate,
        n_simulations=0,
        seed=seed,
    )


def _always_in(key: str, n_simulations: int, seed: int) -> Chance:
    return Chance(
        key=key,
        chance=1.0,
        standard_error=0.0,
        break_even_mean=None,
        no_break_even="always_in",
        n_simulations=n_simulations,
        seed=seed,
    )


def _check(n_simulations: int) -> None:
    if n_simulations < MIN_SIMULATIONS:
        raise InvalidInput(
            f"n_simulations must be {MIN_SIMULATIONS} or more, got {n_simulations}.",
            next_step="2,800 keep the standard error near 0.01.",
        )
