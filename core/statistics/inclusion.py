"""Arms, settings, candidates → each arm's chance to be in the next prompt, under the packer that really packs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, NamedTuple

import numpy as np

from core.columns import ArmColumns, Bools, CandidateSets, Floats, Ints
from core.errors import InvalidInput, UnknownArm
from core.packing import counted_cost, fill_many, seed_places
from core.posterior.beta import cumulative
from core.records.learner import LearnerSettings
from core.statistics.contest import Group, contest

MIN_SIMULATIONS: Final = 20
SIMULATIONS: Final = 2_800
"""They keep the standard error at or below one point for every arm that a quarter of the runs offered."""

_LEAST_AWAITED: Final = 100
_FULL_ARMS: Final = 1_000
_BLOCK_NUMBERS: Final = 1 << 19

SimulatedClass = Literal["baseline", "selected"]
NoBreakEven = Literal["always_in", "never_in", "not_offered"]


@dataclass(frozen=True, kw_only=True)
class Chances:
    """Chance of inclusion per arm, aligned with the columns, with the standard error of its simulation.

    ``chance = rate * baseline + (1 - rate) * selected``, in a run that offers the arm; all 1 in the passive phase.
    ``offered`` is the share of the runs behind the candidates that offered it: where it is 0, there is no chance
    to tell, and the others are NaN.
    """

    chance: Floats
    standard_error: Floats
    baseline: Floats
    selected: Floats
    offered: Floats
    baseline_rate: float
    n_simulations: int
    seed: int

    @property
    def expected(self) -> Floats:
        """Chance of being in the next prompt, offered or not; it adds up to the number of arms there."""
        return np.where(self.offered > 0, self.chance * self.offered, 0.0)


@dataclass(frozen=True, kw_only=True)
class Chance:
    """One arm's chance of inclusion in a run that offers it, and what it would have to be worth.

    ``break_even_mean`` is the posterior mean at which the chance is one half at the arm's cost and present
    weight of evidence; None with ``no_break_even`` where the chance is above (``always_in``) or below
    (``never_in``) one half at every mean. ``n_offering`` of the candidates' ``n_runs`` runs offered the arm; where
    none did, the chance is None and so is everything that follows from it (``not_offered``).
    """

    key: str
    chance: float | None
    standard_error: float | None
    break_even_mean: float | None
    no_break_even: NoBreakEven | None
    n_offering: int
    n_runs: int
    n_simulations: int
    seed: int


def simulations_for(n_arms: int) -> int:
    """How many simulations of so many arms a person can be kept waiting for; the errors tell of fewer.

    >>> simulations_for(14), simulations_for(10_000), simulations_for(1_000_000)
    (2800, 280, 100)
    """
    return max(SIMULATIONS * _FULL_ARMS // max(n_arms, _FULL_ARMS), _LEAST_AWAITED)


def inclusion_chances(
    columns: ArmColumns,
    settings: LearnerSettings,
    *,
    seed: int,
    candidates: CandidateSets | None = None,
    n_simulations: int = SIMULATIONS,
) -> Chances:
    """Chance of every arm to be in the prompt of a run that offers it: the mean over the candidate sets with it.

    Without ``candidates`` every arm is one. Baseline and selected runs are simulated in the proportion the coin
    gives them (at least a tenth each), so that the standard error is at most ``0.5 / sqrt(0.9 n_simulations)`` for
    every arm that a quarter of the runs offered, and twice as large for a quarter of a quarter. That takes
    ``n_simulations`` for a single set and about ``4 n_simulations`` at most, however many sets there are. An error
    is 0 where the outcome does not depend on chance, and never 0 merely because all simulations agreed.
    """
    _check(n_simulations)
    sets = CandidateSets.everything(len(columns)) if candidates is None else candidates
    n_offering = sets.n_offering(len(columns))
    rng = np.random.Generator(np.random.PCG64(seed))
    rate = settings.baseline_rate
    sums = np.zeros((3, len(columns)))
    n_done = 0
    for places, n_runs, size in _sized(sets, n_offering, n_simulations):
        plan = _Plan(columns, settings, places)
        baseline, selected, error, n_made = _shares(plan, rng, rate, size)
        sums[:, places] += np.array((n_runs * baseline, n_runs * selected, (n_runs * error) ** 2))
        n_done += n_made
    with np.errstate(invalid="ignore"):  # 0 / 0: never offered
        baseline, selected, error = *(sums[:2] / n_offering), np.sqrt(sums[2]) / n_offering
    return Chances(
        chance=rate * baseline + (1 - rate) * selected,
        standard_error=error,
        baseline=baseline,
        selected=selected,
        offered=n_offering / sets.n_all_runs,
        baseline_rate=rate,
        n_simulations=n_done,
        seed=seed,
    )


def _shares(
    plan: _Plan, rng: np.random.Generator, rate: float, n_simulations: int
) -> tuple[Floats, Floats, Floats, int]:
    """Of one candidate set: shares of baseline and of selected runs, error of their chance, simulations made."""
    if plan.is_passive:
        ones = np.ones(len(plan.cost))
        return ones, ones, np.zeros(len(plan.cost)), 0
    n_baseline, n_selected = _divided(n_simulations, rate)
    baseline = plan.share(rng, "baseline", n_baseline)
    selected = plan.share(rng, "selected", n_selected)
    error = np.hypot(
        rate * plan.error(baseline, n_baseline, "baseline"),
        (1 - rate) * plan.error(selected, n_selected, "selected"),
    )
    return baseline, selected, error, n_simulations


def _sized(sets: CandidateSets, n_offering: Ints, n_simulations: int) -> Iterator[tuple[Ints, int, int]]:
    """Every set that has candidates, with the number of its runs and of the simulations it gets.

    A set of ``n`` runs needs the part ``n / n_offering`` of the simulations for each of its arms, so it gets as
    many as the arm asks for that fewest runs offered, but none asks for more than one of a quarter of the runs.
    """
    least = max(1, -(-sets.n_all_runs // 4))
    for places, n_runs in zip(sets.places, sets.n_runs, strict=True):
        if len(places):
            fewest = max(least, int(n_offering[places].min()))
            yield places, n_runs, max(-(-n_simulations * n_runs // fewest), MIN_SIMULATIONS)


def inclusion_chance(
    columns: ArmColumns,
    settings: LearnerSettings,
    key: str,
    *,
    seed: int,
    candidates: CandidateSets | None = None,
    n_simulations: int = SIMULATIONS,
) -> Chance:
    """Chance of one arm, and its break-even mean.

    The other arms are packed without it. As the remaining budget never grows, each simulation has a threshold:
    the arm goes in exactly when its draw is above it. The chance is then the mean probability, under the arm's
    posterior, of a draw above the threshold, which is steadier than counting and can be solved for the mean.
    Each run that offered the arm is simulated equally often. Raises `UnknownArm` when there is no such arm.
    """
    _check(n_simulations)
    if key not in columns.keys:
        raise UnknownArm(
            f"An arm must be one of the learner's {len(columns)}, got {key!r}.",
            next_step="Choose one of the candidates of the next run.",
        )
    place = columns.keys.index(key)
    sets = CandidateSets.everything(len(columns)) if candidates is None else candidates
    offers = _with_arm(sets, place)
    n_offering = int(sets.n_offering(len(columns))[place])
    answer = partial(Chance, key=key, n_offering=n_offering, n_runs=sets.n_all_runs, seed=seed)
    if not offers:
        return answer(
            chance=None,
            standard_error=None,
            break_even_mean=None,
            no_break_even="not_offered",
            n_simulations=0,
        )
    if settings.phase == "passive" or key in settings.seed_arms:
        return answer(
            chance=1.0, standard_error=0.0, break_even_mean=None, no_break_even="always_in", n_simulations=0
        )
    rng = np.random.Generator(np.random.PCG64(seed))
    rate = settings.baseline_rate
    sizes = _divided(-(-n_simulations // sum(offer.weight for offer in offers)), rate)
    baseline, selected = _thresholds(columns, settings, offers, rng, sizes)
    shares = 1 - np.clip(baseline, 0, 1)
    alpha, beta = float(columns.alpha[place]), float(columns.beta[place])

    def chance_at(mean: float) -> float:
        above = _above(selected, mean * (alpha + beta), (1 - mean) * (alpha + beta))
        return float(rate * shares.mean() + (1 - rate) * above.mean())

    above = _above(selected, alpha, beta)
    break_even, no_break_even = _break_even(chance_at)
    return answer(
        chance=float(rate * shares.mean() + (1 - rate) * above.mean()),
        # As of one sample: that the sets differ makes this error larger than it is, never smaller.
        standard_error=math.hypot(rate * _error_of_mean(shares), (1 - rate) * _error_of_mean(above)),
        break_even_mean=break_even,
        no_break_even=no_break_even,
        n_simulations=len(baseline) + len(selected),
    )


class _Offer(NamedTuple):
    """A candidate set, where one arm stands in it, and the proportion of its runs in whole numbers."""

    places: Ints
    place: int
    weight: int


def _with_arm(sets: CandidateSets, place: int) -> list[_Offer]:
    """The sets that an arm is in."""
    found = [
        (places, n_runs) for places, n_runs in zip(sets.places, sets.n_runs, strict=True) if place in places
    ]
    step = math.gcd(*(n_runs for _, n_runs in found))
    return [_Offer(places, int(np.searchsorted(places, place)), n_runs // step) for places, n_runs in found]


def _thresholds(
    columns: ArmColumns,
    settings: LearnerSettings,
    offers: Sequence[_Offer],
    rng: np.random.Generator,
    sizes: tuple[int, int],
) -> tuple[Floats, Floats]:
    """Thresholds in baseline and in selected runs, of all sets together; ``sizes`` is how many for a weight of 1."""
    baseline, selected = [], []
    for offer in offers:
        plan = _Plan(columns, settings, offer.places)
        baseline.append(plan.thresholds(rng, "baseline", offer.place, offer.weight * sizes[0]))
        selected.append(plan.thresholds(rng, "selected", offer.place, offer.weight * sizes[1]))
    return np.concatenate(baseline), np.concatenate(selected)


class _Plan:
    """What every simulation of one selection among the arms at these places shares; it counts places anew."""

    def __init__(self, columns: ArmColumns, settings: LearnerSettings, places: Ints) -> None:
        self.alpha, self.beta, self.pulls = (
            values[places] for values in (columns.alpha, columns.beta, columns.pulls)
        )
        self.cost = counted_cost(columns.token_cost[places])
        self.is_passive = settings.phase == "passive"
        self.seeds = np.flatnonzero(np.isin(places, seed_places(columns.keys, settings.seed_arms)))
        self.budget_tokens, self.k, self.min_pulls = settings.budget_tokens, settings.k, settings.min_pulls
        self.others = np.setdiff1d(np.arange(len(places)), self.seeds, assume_unique=True)

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
    """Simulations of baseline and of selected runs, by the rate but at least a tenth, and one, each."""
    n_baseline = max(round(n_simulations * min(max(rate, 0.1), 0.9)), 1)
    return n_baseline, max(n_simulations - n_baseline, 1)


def _blocks(n_simulations: int, n_arms: int) -> list[int]:
    """Sizes of the blocks that are simulated at once, so that memory stays bounded."""
    size = max(1, min(n_simulations, _BLOCK_NUMBERS // max(n_arms, 1)))
    whole, rest = divmod(n_simulations, size)
    return [size] * whole + ([rest] if rest else [])


def _check(n_simulations: int) -> None:
    if n_simulations < MIN_SIMULATIONS:
        raise InvalidInput(
            f"n_simulations must be {MIN_SIMULATIONS} or more, got {n_simulations}.",
            next_step=f"{SIMULATIONS:,} keep the standard error near 0.01.",
        )
