"""One candidate set, many simulated runs → for each run and arm the draw above which the arm goes in.

As the remaining budget never grows along the way, an arm goes in exactly when its draw lies above some threshold
that the others' draws decide. One packing of all arms tells the thresholds of all of them:

- An arm that was left out took nothing from the others. It would have gone in ahead of the arm whose packing left
  too little for it; that arm's draw is its threshold.
- Without an arm that went in, the others go on as they did until the first of them that was skipped and would fit
  with what the arm takes set free. That one then takes it, and the arm no longer fits; its draw is the threshold.

Arms with few pulls go ahead of those that only draw, the fewest first, and compete by their draws among their like.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from core.columns import ArmColumns, Bools, Floats, Ints
from core.packing import counted_cost, fill_each, seed_places
from core.records.learner import LearnerSettings

SimulatedClass = Literal["baseline", "selected"]

ALWAYS: Final = 0.0
NEVER: Final = float("inf")
"""Thresholds of an arm that goes in, or doesn't, whatever it draws."""

_BLOCK_NUMBERS: Final = 1 << 20

_WINDOW: Final = 64
"""Skipped arms asked at a time."""

_NO_COST: Final = 1 << 62

_STREAM: Final = 1 << 40
"""Numbers of the generator set aside for one arm's draws in one round: more than they take."""


class Plan:
    """What every simulation of one selection among the arms at these places shares; it counts places anew."""

    def __init__(self, columns: ArmColumns, settings: LearnerSettings, places: Ints) -> None:
        self.places = places
        self.alpha, self.beta = columns.alpha[places], columns.beta[places]
        self.cost = counted_cost(columns.token_cost[places])
        self.seeds = np.flatnonzero(np.isin(places, seed_places(columns.keys, settings.seed_arms)))
        self.others = np.setdiff1d(np.arange(len(places)), self.seeds, assume_unique=True)
        self._pulls = np.minimum(columns.pulls[places], settings.min_pulls)
        self._is_passive = settings.phase == "passive"
        self._left = (settings.budget_tokens or int(self.cost.sum())) - int(self.cost[self.seeds].sum())
        self._k = settings.k

    def thresholds(
        self, run_class: SimulatedClass, n_simulations: int, *, seed: int, stream: tuple[int, int]
    ) -> Floats:
        """One row a simulation, one column an arm.

        The numbers that an arm draws are its own, named by ``stream`` (the set's number, the round's): they stay
        when another arm's belief or the settings change, so that two simulations differ by the change alone.
        """
        found = np.full((n_simulations, len(self.places)), ALWAYS)
        if self._all_fit(run_class):
            return found
        left = np.full(n_simulations, self._left)
        room = np.full(n_simulations, max(self._room(run_class), 0))
        for group in self._groups(run_class):
            found[:, group] = NEVER
            runs = np.flatnonzero((left >= self.cost[group].min()) & (room > 0))
            arms = group[self.cost[group] <= left[runs].max(initial=-1)]
            if len(arms):
                draws = self._draws(arms, run_class, n_simulations, seed, stream)[:, runs].T
                state = left[runs], room[runs]
                found[np.ix_(runs, arms)] = _of_group(draws, self.cost[arms], *state)
                left[runs], room[runs] = state
        return found

    def n_packed(self, run_class: SimulatedClass) -> int:
        """About how many arms go in beside the seeds."""
        by_tokens = self._left * len(self.others) // max(int(self.cost[self.others].sum()), 1)
        return max(min(by_tokens, self._room(run_class), len(self.others)), 1)

    def is_certain(self, run_class: SimulatedClass) -> Bools:
        """Arms whose fate is no matter of chance: seeds, all when all fit, those larger than what is left."""
        certain = self.cost > self._left
        certain[self.seeds] = True
        return certain | (self._all_fit(run_class) or self._room(run_class) <= 0)

    def _groups(self, run_class: SimulatedClass) -> Iterator[Ints]:
        """Arms that compete by their draws, group after group."""
        if run_class == "baseline":
            yield self.others
            return
        for pulls in np.unique(self._pulls[self.others]):
            yield self.others[self._pulls[self.others] == pulls]

    def _room(self, run_class: SimulatedClass) -> int:
        """Arms that may go in beside the seeds."""
        most = self._k if run_class == "selected" else 0
        return len(self.others) if most == 0 else most - len(self.seeds)

    def _all_fit(self, run_class: SimulatedClass) -> bool:
        fit = int(self.cost[self.others].sum()) <= self._left and len(self.others) <= self._room(run_class)
        return fit or self._is_passive or not len(self.others)

    def _draws(
        self, arms: Ints, run_class: SimulatedClass, n_simulations: int, seed: int, stream: tuple[int, int]
    ) -> Floats:
        """One row an arm; uniform in a baseline run, which makes a random order."""
        streams = _streams(self.places[arms], run_class, seed, stream)
        if run_class == "baseline":
            return next(streams).random((len(arms), n_simulations))
        beliefs = zip(streams, self.alpha[arms].tolist(), self.beta[arms].tolist(), strict=True)
        return np.array([rng.beta(alpha, beta, n_simulations) for rng, alpha, beta in beliefs])


def _of_group(draws: Floats, cost: Ints, left: Ints, room: Ints) -> Floats:
    """Thresholds of arms that compete with each other; takes what went in off ``left`` and ``room``, in place.

    >>> left, room = np.array([10]), np.array([3])
    >>> _of_group(np.array([[0.9, 0.4, 0.6, 0.2]]), np.array([6, 5, 7, 4]), left, room).tolist(), left.tolist()
    ([[0.6, 0.9, 0.9, 0.0]], [0])
    """
    found = np.empty(draws.shape)
    rows = max(1, _BLOCK_NUMBERS // draws.shape[1])
    for start in range(0, len(draws), rows):
        block = slice(start, start + rows)
        arms = np.argsort(-draws[block], axis=1)
        asked = cost[arms]
        before = left[block].copy(), room[block].copy()
        packed = fill_each(asked.T, left[block], room[block]).T
        used = np.cumsum(asked * packed, axis=1)
        order = _Order(
            draw=np.take_along_axis(draws[block], arms, axis=1),
            cost=asked,
            packed=packed,
            left=before[0][:, None] - used + asked * packed,
            room=before[1],
        )
        np.put_along_axis(found[block], arms, order.thresholds(), axis=1)
    return found


@dataclass(frozen=True, kw_only=True)
class _Order:
    """Packed runs, one row each, everything by the place in the order: draw, cost, whether it went in, and the tokens
    left when its turn came. ``room`` is for how many arms.
    """

    draw: Floats
    cost: Ints
    packed: Bools
    left: Ints
    room: Ints

    def thresholds(self) -> Floats:
        taken, went_in = _places(self.packed)
        found = self._of_left_out(taken, went_in)
        found[self.packed] = self._of_packed(taken, went_in)[went_in]
        return found

    def _of_left_out(self, taken: Ints, went_in: Bools) -> Floats:
        """Draw of the arm whose packing left too little; never where an arm fits not even alone. ``taken`` are the
        places that went in, as far as ``went_in``.
        """
        still = went_in & (np.arange(taken.shape[1]) < self.room[:, None] - 1)
        left_after = np.where(still, np.take_along_axis(self.left - self.cost, taken, axis=1), -1)
        n_fit = np.array(
            [
                np.searchsorted(-left, -cost, side="right")
                for left, cost in zip(left_after, self.cost, strict=True)
            ]
        )
        in_the_way = np.take_along_axis(taken, np.minimum(n_fit, taken.shape[1] - 1), axis=1)
        fits_alone = (self.cost <= self.left[:, :1]) & (self.room > 0)[:, None]
        return np.where(fits_alone, np.take_along_axis(self.draw, in_the_way, axis=1), NEVER)

    def _of_packed(self, taken: Ints, went_in: Bools) -> Floats:
        """Draw of the first arm after it that was skipped and would fit in its stead; always where there is none.

        That arm is mostly among the next ones skipped, so a few at a time are asked.
        """
        found = np.full(taken.shape, ALWAYS)
        skipped, was_skipped = _places(~self.packed)
        lacks = np.where(was_skipped, np.take_along_axis(self.cost - self.left, skipped, axis=1), _NO_COST)
        frees = np.take_along_axis(self.cost, taken, axis=1)
        is_open = went_in & (frees >= lacks.min(axis=1)[:, None])
        for start in range(0, skipped.shape[1], _WINDOW):
            rows = np.flatnonzero(is_open.any(axis=1))
            if not len(rows):
                break
            next_ones = skipped[rows, start : start + _WINDOW]
            would = lacks[rows, start : start + _WINDOW][:, None, :] <= frees[rows][:, :, None]
            would &= next_ones[:, None, :] > taken[rows][:, :, None]
            met = is_open[rows] & would.any(axis=2)
            instead = np.take_along_axis(next_ones, would.argmax(axis=2), axis=1)
            found[rows] = np.where(met, np.take_along_axis(self.draw[rows], instead, axis=1), found[rows])
            is_open[rows] &= ~met
        return found


def _places(wanted: Bools) -> tuple[Ints, Bools]:
    """Where each row is true, in order, and which of these entries are real: rows with fewer are filled up."""
    n_in_row = wanted.sum(axis=1)
    is_real = np.arange(max(int(n_in_row.max(initial=0)), 1)) < n_in_row[:, None]
    at = np.zeros(is_real.shape, dtype=np.int64)
    at[is_real] = np.nonzero(wanted)[1]
    return at, is_real


def _streams(
    places: Ints, run_class: SimulatedClass, seed: int, stream: tuple[int, int]
) -> Iterator[np.random.Generator]:
    """A generator for each arm, set to the beginning of the numbers that are its own."""
    bits = np.random.PCG64(seed)
    start, rng = bits.state, np.random.Generator(bits)
    number, round_no = stream
    head = (number << 8 | round_no) << 1 | (run_class == "baseline")
    for place in places.tolist():
        bits.state = start
        bits.advance((head << 24 | place) * _STREAM)
        yield rng
