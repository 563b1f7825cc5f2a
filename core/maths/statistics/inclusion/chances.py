"""Arms, settings, candidates → each arm's chance to be in the next prompt, under the packer that really packs.

One candidate set → a requested number of simulated runs → chances of each of its arms.

As the remaining budget never grows along the way, an arm goes in exactly when its draw lies above some threshold
that the others' draws decide. One packing of all arms gives the thresholds of all of them:

- An arm that was left out took nothing from the others. It would have gone in ahead of the arm whose packing left
  too little for it; that arm's draw is its threshold.
- Without an arm that went in, the others go on as they did until the first of them that was skipped and would fit
  with what the arm takes set free. That one then takes it, and the arm no longer fits; its draw is the threshold.

Arms with few pulls go ahead of those that only draw, the fewest first, and compete by their draws among their like.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np

from core.columns import ArmColumns, Bools, CandidateSets, Floats, Ints
from core.maths.packing import counted_cost, seed_places
from core.maths.posterior.beta import cumulative
from core.records.judgement import LimitInForce, NoBreakEven
from core.records.learner import LearnerSettings

SimulatedClass = Literal["baseline", "selected"]

ALWAYS: Final = 0.0
NEVER: Final = float("inf")
"""Thresholds of an arm that goes in, or doesn't, with any draw."""

_BLOCK_NUMBERS: Final = 1 << 20
"""Draws put in order at once, so that memory stays bounded."""

_NO_COST: Final = 1 << 62
"""Shortfall of an arm that went in: more than any arm sets free."""

_STREAM: Final = 1 << 40
"""Numbers of the generator set aside for one arm's draws in one round: more than they take."""

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


class SimulationPlan:
    """Plan that all simulations of one selection among some arms share. Inside it, arms are numbered from 0."""

    def __init__(self, columns: ArmColumns, settings: LearnerSettings, places: Ints) -> None:
        self.places = places
        self.alpha, self.beta = columns.alpha[places], columns.beta[places]
        self.cost = counted_cost(columns.token_cost[places])
        self.seeds, self.excluded = (
            np.flatnonzero(np.isin(places, seed_places(columns.keys, arms)))
            for arms in (settings.always_in, settings.left_out)
        )
        fixed = np.concatenate((self.seeds, self.excluded))
        self.others = np.setdiff1d(np.arange(len(places)), fixed, assume_unique=True)
        self._pulls = np.minimum(columns.pulls[places], settings.min_pulls)
        self._is_passive = settings.phase == "passive"
        self._left = (settings.budget_tokens or int(self.cost.sum())) - int(self.cost[self.seeds].sum())
        self._k = settings.k

    def thresholds(
        self, run_class: SimulatedClass, n_simulations: int, *, seed: int, stream: tuple[int, int]
    ) -> Floats:
        """Return the thresholds: one row per simulation, one column per arm.

        The numbers that an arm draws are its own, named by ``stream`` (the set's number, the round's): they stay
        when another arm's belief or the settings change, so that two simulations differ by the change alone.
        """
        result = np.full((n_simulations, len(self.places)), ALWAYS)
        result[:, self.excluded] = NEVER
        if self._all_fit(run_class):
            return result
        left = np.full(n_simulations, self._left)
        room = np.full(n_simulations, max(self._room(run_class), 0))
        for group in self._groups(run_class):
            result[:, group] = NEVER
            runs = np.flatnonzero((left >= self.cost[group].min()) & (room > 0))
            arms = group[self.cost[group] <= left[runs].max(initial=-1)]
            if len(arms):
                draws = self._draws(arms, run_class, n_simulations, seed, stream)[:, runs].T
                state = left[runs], room[runs]
                result[np.ix_(runs, arms)] = _of_group(draws, self.cost[arms], *state)
                left[runs], room[runs] = state
        return result

    def is_certain(self, run_class: SimulatedClass) -> Bools:
        """Return the arms whose inclusion does not depend on chance: seeds, excluded arms, all if all fit, those
        larger than the budget left.
        """
        certain = self.cost > self._left
        certain[self.seeds] = certain[self.excluded] = True
        return certain | (self._all_fit(run_class) or self._room(run_class) <= 0)

    def _groups(self, run_class: SimulatedClass) -> Iterator[Ints]:
        """Yield the arms that compete by their draws, group after group."""
        if run_class == "baseline":
            yield self.others
            return
        for pulls in np.unique(self._pulls[self.others]):
            yield self.others[self._pulls[self.others] == pulls]

    def _room(self, run_class: SimulatedClass) -> int:
        """Return the number of arms that may go in besides the seeds."""
        most = self._k if run_class == "selected" else 0
        return len(self.others) if most == 0 else most - len(self.seeds)

    def _all_fit(self, run_class: SimulatedClass) -> bool:
        fit = int(self.cost[self.others].sum()) <= self._left and len(self.others) <= self._room(run_class)
        return fit or self._is_passive or not len(self.others)

    def _draws(
        self, arms: Ints, run_class: SimulatedClass, n_simulations: int, seed: int, stream: tuple[int, int]
    ) -> Floats:
        """Return the draws, one row per arm; uniform in a baseline run, which makes a random order."""
        streams = _streams(self.places[arms], run_class, seed, stream)
        if run_class == "baseline":
            return next(streams).random((len(arms), n_simulations))
        beliefs = zip(streams, self.alpha[arms].tolist(), self.beta[arms].tolist(), strict=True)
        return np.array([rng.beta(alpha, beta, n_simulations) for rng, alpha, beta in beliefs])


def _of_group(draws: Floats, cost: Ints, left: Ints, room: Ints) -> Floats:
    """Return the thresholds of arms that compete with each other. Take what goes in off ``left`` and ``room`` in
    place.
    """
    result = np.empty(draws.shape)
    rows = max(1, _BLOCK_NUMBERS // draws.shape[1])
    for start in range(0, len(draws), rows):
        block = slice(start, start + rows)
        result[block] = _of_block(draws[block], cost, left[block], room[block])
    return result


def _of_block(draws: Floats, cost: Ints, left: Ints, room: Ints) -> Floats:
    order = np.argsort(-draws, axis=1)
    costs = cost[order]
    before = left.copy(), room.copy()
    packed = _pack(costs, left, room)
    run, rank = np.nonzero(packed)
    left_at = before[0][:, None] - np.cumsum(costs * packed, axis=1)
    room_at = before[1][:, None] - np.cumsum(packed, axis=1)

    rising = np.sort(cost)
    n_fit = np.full((len(draws), len(cost) + 3), len(cost))
    n_fit[:, 1] = _n_fit(rising, *before)
    n_fit[run, rank + 2] = _n_fit(rising, left_at[run, rank], room_at[run, rank])
    n_fit[:, -1] = 0
    ordered_draws = np.pad(
        np.take_along_axis(draws, order, axis=1), ((0, 0), (1, 1)), constant_values=((0, 0), (NEVER, ALWAYS))
    )
    result = np.empty(draws.shape)
    result[:, np.argsort(cost)[::-1]] = _of_left_out(ordered_draws, n_fit)

    lacks = np.where(packed, _NO_COST, costs - left_at)
    result[run, order[run, rank]] = ordered_draws[run, _instead(lacks, run, rank, costs[run, rank]) + 1]
    return result


def _n_fit(rising: Ints, left: Ints, room: Ints) -> Ints:
    """Return the number of costs that would fit alone."""
    return np.searchsorted(rising, left, side="right") * (room > 0)


def _pack(costs: Ints, left: Ints, room: Ints) -> Bools:
    """Return which costs go in, one row per run. Take them off ``left`` and ``room`` in place."""
    packed = np.zeros(costs.T.shape, dtype=np.bool_)
    least = costs.min()
    for rank, tokens in enumerate(np.ascontiguousarray(costs.T)):
        packed[rank] = fits = (tokens <= left) & (room > 0)
        left -= tokens * fits
        room -= fits
        if rank % 32 == 31 and not ((left >= least) & (room > 0)).any():
            break
    return np.ascontiguousarray(packed.T)


def _of_left_out(ordered_draws: Floats, n_fit: Ints) -> Floats:
    """Return the draw of the arm whose packing left too little, from the highest cost down, for every arm as if left
    out.

    After each arm that goes in fewer costs still fit: its draw is what those must beat that fitted until then.
    ``n_fit`` counts them, from all at first to none at last, where an arm went in, and is no less elsewhere.
    """
    n_blocked = -np.diff(np.minimum.accumulate(n_fit, axis=1))
    return np.repeat(ordered_draws.ravel(), n_blocked.ravel()).reshape(len(ordered_draws), -1)


def _instead(lacks: Ints, run: Ints, rank: Ints, frees: Ints) -> Ints:
    """Return the rank of the first arm after each of these that lacks no more than it would set free; the last where
    none
    does.

    It is mostly among the next ones that were skipped, so they are asked one after the other.
    """
    n_ranks = lacks.shape[1]
    least = _least_from(lacks)
    skipped = _least_from(np.where(lacks < _NO_COST, np.arange(n_ranks), n_ranks))
    ranks = np.full(len(run), n_ranks)
    open_ = np.flatnonzero(least[run, rank] <= frees)
    run, rank, frees = run[open_], skipped[run, rank][open_], frees[open_]
    while len(open_):
        fits = lacks[run, rank] <= frees
        ranks[open_[fits]] = rank[fits]
        open_, run, frees = open_[~fits], run[~fits], frees[~fits]
        rank = skipped[run, rank[~fits] + 1]
    return ranks


def _least_from(values: Ints) -> Ints:
    """Return the least value of each row from each column on."""
    return np.minimum.accumulate(values[:, ::-1], axis=1)[:, ::-1]


def _streams(
    places: Ints, run_class: SimulatedClass, seed: int, stream: tuple[int, int]
) -> Iterator[np.random.Generator]:
    """Yield a generator for each arm, set to the beginning of the numbers reserved for it."""
    bits = np.random.PCG64(seed)
    start, rng = bits.state, np.random.Generator(bits)
    number, round_no = stream
    head = (number << 8 | round_no) << 1 | (run_class == "baseline")
    for index in places.tolist():
        bits.state = start
        bits.advance((head << 24 | index) * _STREAM)
        yield rng


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
