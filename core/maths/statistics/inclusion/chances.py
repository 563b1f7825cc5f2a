"""Arms, settings, candidates → each arm's chance to be in the next prompt, under the packer that really packs.

One candidate set → a requested number of simulated runs → chances of each of its arms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from core.columns import ArmColumns, CandidateSets, Floats, Ints
from core.maths.packing import seed_places
from core.maths.posterior.beta import cumulative
from core.maths.statistics.inclusion.simulation import ALWAYS, NEVER, SimulationPlan
from core.records.judgement import LimitInForce, NoBreakEven
from core.records.learner import LearnerSettings

_NEGLIGIBLE: Final = 9.2
"""Natural logarithm of one in ten thousand, without its sign."""

STANDARD_ERROR: Final = 0.01
"""One point: simulations go on until no arm's is larger, as far as a person can be kept waiting."""

_MOST_NUMBERS: Final = 1 << 21
"""Draws of one set at most, and of all beyond which no further simulations are begun."""

_FIRST: Final = 128
_MOST: Final = 4_096
_LEAST: Final = 16
"""Simulations of a set at first, at most, and at least where very many arms leave no time for so many."""

_AMPLE: Final = 1.1
_MOST_TIMES: Final = 4.0
"""Simulations are multiplied by what the errors so far say is missing, a little more, and at most by so much."""

_HALF: Final = 0.5
_STEPS: Final = 24
_CLOSE: Final = 1e-4


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


@dataclass(frozen=True, kw_only=True)
class Chance:
    """Chance of inclusion of one arm in a run that offers it, and its break-even mean.

    ``break_even_mean`` is the posterior mean at which the chance is one half at the arm's cost and present weight of
    evidence; None with ``no_break_even`` where the chance is above (``always_in``) or below (``never_in``) one half
    at every mean, or where a setting leaves the arm out (``excluded``). ``n_offering`` of the ``n_runs`` latest runs
    of its program offered the arm; where none did, the chance is None and so is everything that follows from it
    (``not_offered``). ``limits`` are those of the runs of its program.
    """

    chance: float | None
    standard_error: float | None
    break_even_mean: float | None
    no_break_even: NoBreakEven | None
    n_offering: int
    n_runs: int = 0
    limits: tuple[LimitInForce, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Chances:
    """Chance of inclusion per arm, aligned with the columns, with the standard error of its simulation.

    ``chance = rate * baseline + (1 - rate) * selected``, in a run that offers the arm; all 1 in the passive phase.
    ``offered`` is the share of the next runs that offer it: where it is 0, there is no chance, and the others are
    NaN. ``n_offering`` of the ``n_beside`` runs read of its program offered it. ``excluded`` are the indexes of the
    arms that a setting leaves out.
    """

    chance: Floats
    standard_error: Floats
    baseline: Floats
    selected: Floats
    offered: Floats
    n_offering: Ints
    n_beside: Ints
    n_runs: int
    baseline_rate: float
    n_simulations: int
    seed: int
    excluded: Ints
    samples: tuple[Sample, ...] = field(repr=False, compare=False)

    @property
    def expected(self) -> Floats:
        """Chance of being in the next prompt, offered or not; it adds up to the number of arms there."""
        return np.where(self.offered > 0, self.chance * self.offered, 0.0)

    def of_arms(self) -> list[Chance]:
        """Return the same arm by arm, with break-even."""
        break_even, why = self.break_even()
        n_offering = self.n_offering
        return [
            Chance(
                chance=self.chance[index].item() if n_offering[index] else None,
                standard_error=self.standard_error[index].item() if n_offering[index] else None,
                break_even_mean=None if reason is not None else break_even[index].item(),
                no_break_even=reason,
                n_offering=int(n_offering[index]),
                n_runs=int(self.n_beside[index]),
            )
            for index, reason in enumerate(why)
        ]

    def break_even(self) -> tuple[Floats, tuple[NoBreakEven | None, ...]]:
        """Return the posterior mean at which each arm's chance is one half, at its cost and present weight of
        evidence.

        NaN with the reason where the chance is above (``always_in``) or below (``never_in``) one half at every mean,
        as of seeds, where a setting excludes the arm, or where no run offered it.
        """
        totals = np.zeros((2, len(self.chance)))  # if each always drew 0, and if it always drew 1
        for one in self.samples:
            shares = (one.thresholds <= ALWAYS).mean(axis=0), (one.thresholds < NEVER).mean(axis=0)
            totals[:, one.plan.places] += one.n_runs * np.array(shares)
        least, most = (_mixed(self.baseline, self._averaged(total), self.baseline_rate) for total in totals)
        result = np.full(len(self.chance), np.nan)
        open_ = np.flatnonzero((least < _HALF) & (most > _HALF))
        if len(open_):
            result[open_] = _crossing(open_, self._chance_at)
        why: list[NoBreakEven | None] = [*map(_no_break_even, least.tolist(), most.tolist())]
        for index in self.excluded.tolist():
            why[index] = "excluded"
        return result, tuple(why)

    def _chance_at(self, places: Ints, mean: Floats) -> Floats:
        """Return the chance of these arms if their means were these and their weights what they are."""
        position = np.full(len(self.chance), -1)
        position[places] = np.arange(len(places))
        total = np.zeros(len(self.chance))
        for one in self.samples:
            at = position[one.plan.places]
            columns = np.flatnonzero(at >= 0)
            total[one.plan.places[columns]] += one.n_runs * one.selected_at(mean[at[columns]], columns)
        return _mixed(self.baseline, self._averaged(total), self.baseline_rate)[places]

    def _averaged(self, total: Floats) -> Floats:
        with np.errstate(invalid="ignore"):  # 0 / 0: never offered
            return np.asarray(total / self.n_offering)


def inclusion_chances(
    columns: ArmColumns,
    settings: LearnerSettings,
    *,
    seed: int,
    candidates: CandidateSets | None = None,
    standard_error: float = STANDARD_ERROR,
) -> Chances:
    """Return the chance of every arm to be in the prompt of a run that offers it: the mean over the candidate sets
    with
    it.

    Without ``candidates`` every arm is one. Each simulated run gives each arm the probability of a draw above its
    threshold, which is steadier than counting. Baseline and selected runs are simulated in the proportion the coin
    gives them (at least a tenth each). Sets with an arm whose standard error is above the requested one are simulated
    again, as often as that asks for, so that an arm that few runs offer is measured as well as any; 4,096 runs of one
    set and two million draws are the end. An error is 0 where the outcome does not depend on chance, and never 0
    merely because all simulations agreed.

    Parameters
    ----------
    columns : ArmColumns of n_arms
        Counts of every arm, sorted by id.
    settings : LearnerSettings
        Phase, baseline rate, seeds and excluded arms of the next run, and limits that its request does not give.
    seed : int
        Of the random generator, 0 or more; the same one gives the same chances.
    candidates : CandidateSets or None, optional
        The arms that recent runs offered; None = every arm.
    standard_error : float, optional
        The largest allowed one, above 0.

    Returns
    -------
    Chances
        Probabilities with their standard errors, aligned with the columns.

    References
    ----------
    W. R. Thompson, *Biometrika* 25, 1933, 285 (doi:10.1093/biomet/25.3-4.285): the selection that is
    simulated.
    """
    sets = CandidateSets.everything(len(columns)) if candidates is None else candidates
    rate, excluded = settings.baseline_rate, seed_places(columns.keys, settings.left_out)
    samples = [
        _first(
            Sample.empty(SimulationPlan(columns, own.over(settings), places), n_runs=n_runs, number=number),
            rate,
            seed,
        )
        for number, (places, n_runs, own) in enumerate(
            zip(sets.places, sets.n_runs, sets.limits, strict=True)
        )
        if len(places)
    ]
    while True:
        combined = _combined(samples, sets, len(columns), rate, seed=seed, excluded=excluded)
        times = np.nan_to_num(combined.standard_error / standard_error) ** 2
        growth = [
            float(times[one.plan.places].max()) if one.n_simulations < _most(one) else 0.0 for one in samples
        ]
        if (
            max(growth, default=0) <= 1
            or sum(one.baseline.size + one.selected.size for one in samples) > _MOST_NUMBERS
        ):
            return combined
        samples = [
            _grown(one, more, rate, seed) if more > 1 else one
            for one, more in zip(samples, growth, strict=True)
        ]


def _first(empty: Sample, rate: float, seed: int) -> Sample:
    """Return a first sample of at most half the simulations; its errors size the next round."""
    return empty.grown(min(_most(empty) // 2, _FIRST), rate, seed)


def _grown(sample: Sample, times: float, rate: float, seed: int) -> Sample:
    """Add as many simulations as these multiples ask for."""
    n = sample.n_simulations
    n_more = max(round(n * (min(times * _AMPLE, _MOST_TIMES) - 1)), _LEAST)
    return sample.grown(min(n_more, _most(sample) - n), rate, seed)


def _most(sample: Sample) -> int:
    """Return the largest number of simulations of a set that keeps the wait short."""
    return min(max(_MOST_NUMBERS // len(sample.plan.places), 2 * _LEAST), _MOST)


def _combined(
    samples: Sequence[Sample], sets: CandidateSets, n_arms: int, rate: float, *, seed: int, excluded: Ints
) -> Chances:
    """Return the mean over the sets, each weighed by its runs; errors of different sets are independent."""
    n_offering = sets.n_offering(n_arms)
    sums = np.zeros((3, n_arms))
    for sample in samples:
        shares = sample.baseline.mean(axis=0), sample.selected.mean(axis=0)
        weighed = *(sample.n_runs * share for share in shares), (sample.n_runs * sample.error(rate)) ** 2
        sums[:, sample.plan.places] += np.array(weighed)
    with np.errstate(invalid="ignore"):  # 0 / 0: never offered
        baseline, selected, error = *(sums[:2] / n_offering), np.sqrt(sums[2]) / n_offering
    return Chances(
        chance=_mixed(baseline, selected, rate),
        standard_error=error,
        baseline=baseline,
        selected=selected,
        offered=sets.offered(n_arms),
        n_offering=n_offering,
        n_beside=sets.n_beside(n_arms),
        n_runs=sets.n_all_runs,
        baseline_rate=rate,
        n_simulations=sum(one.n_simulations for one in samples),
        seed=seed,
        excluded=excluded,
        samples=tuple(samples),
    )


def _mixed(baseline: Floats, selected: Floats, rate: float) -> Floats:
    return np.asarray(rate * baseline + (1 - rate) * selected)


def _no_break_even(least: float, most: float) -> NoBreakEven | None:
    """Return why there is no break-even between the chances at the ends, or None if there is one."""
    if math.isnan(least):
        return "not_offered"
    if least >= _HALF:
        return "always_in"
    return "never_in" if most <= _HALF else None


def _crossing(places: Ints, chance_at: Callable[[Ints, Floats], Floats]) -> Floats:
    """Return the means at which rising chances are one half: by the secant, and by halving every third step."""
    least, most = np.zeros(len(places)), np.ones(len(places))
    low, high = np.full(len(places), -_HALF), np.full(len(places), _HALF)
    means = np.full(len(places), _HALF)
    going = np.arange(len(places))
    for step in range(_STEPS):
        off = chance_at(places[going], means[going]) - _HALF
        below, above = going[off < 0], going[off >= 0]
        least[below], low[below] = means[below], off[off < 0]
        most[above], high[above] = means[above], off[off >= 0]
        going = going[np.abs(off) > _CLOSE]
        if not len(going):
            break
        secant = (least * high - most * low)[going] / (high - low)[going]
        means[going] = secant if step % 3 else (least + most)[going] / 2
    return means
