"""One candidate set, many simulated runs → for each run and arm the draw above which the arm goes in.

As the remaining budget never grows along the way, an arm goes in exactly when its draw lies above some threshold
that the others' draws decide. One packing of all arms gives the thresholds of all of them:

- An arm that was left out took nothing from the others. It would have gone in ahead of the arm whose packing left
  too little for it; that arm's draw is its threshold.
- Without an arm that went in, the others go on as they did until the first of them that was skipped and would fit
  with what the arm takes set free. That one then takes it, and the arm no longer fits; its draw is the threshold.

Arms with few pulls go ahead of those that only draw, the fewest first, and compete by their draws among their like.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

import numpy as np

from core.columns import ArmColumns, Bools, Floats, Ints
from core.maths.packing import counted_cost, seed_places
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
