"""One group of arms, many simulated runs → which arms went in: draws are worked out only where they decide.

A draw is the quantile of a uniform number, so whether it lies above a border follows from the number and the
distribution function at that border. Borders cut the draws into slices, and slices are packed from the top.
A slice that fits as a whole goes in without anybody knowing its order; only one that does not fit is put in
order by its quantiles. What comes of it is what packing arm by arm would give with all quantiles known; where
the borders lie changes the speed alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import betaincinv

from core.columns import Bools, Floats, Ints
from core.packing import fill_each
from core.posterior.beta import cumulative

_BLOCK_NUMBERS: Final = 1 << 19
_PILOT_RUNS: Final = 4
_DEPTHS: Final = (0.65, 0.85, 1.0, 1.2, 1.6, 2.5)
"""Borders, by how much of what is left the arms above them ask for."""


@dataclass(frozen=True)
class Group:
    """Arms that compete by their draws, from Beta(alpha, beta) each; a random order is Beta(1, 1) for all."""

    cost: Ints
    alpha: Floats
    beta: Floats

    def __len__(self) -> int:
        return len(self.cost)

    def of(self, places: Ints) -> Group:
        """Some of the arms."""
        return Group(self.cost[places], self.alpha[places], self.beta[places])

    def below(self, border: float) -> Floats:
        """Probability of each arm to draw at most ``border``."""
        return cumulative(self.alpha, self.beta, border)

    def draws(self, arms: Ints, uniform: Floats) -> Floats:
        """Quantiles of uniform numbers. SciPy's own serve: nobody sees the eighth digit of a simulation."""
        return np.asarray(betaincinv(self.alpha[arms], self.beta[arms], uniform))

    def borders(self, rng: np.random.Generator, left: float, room: float) -> list[float]:
        """Where the arms of a few pilot runs had asked for so much of what is left, falling."""
        draws = rng.beta(self.alpha, self.beta, (_PILOT_RUNS, len(self))).ravel()
        order = np.argsort(-draws)
        tokens = np.cumsum(np.tile(self.cost, _PILOT_RUNS)[order]) / max(left, 1)
        asked = np.maximum(tokens, np.arange(1, draws.size + 1) / room) / _PILOT_RUNS
        places = np.searchsorted(asked, _DEPTHS)
        found = draws[order[places[places < draws.size]]]
        return sorted({border for border in found.tolist() if 0 < border < 1}, reverse=True)


def contest(rng: np.random.Generator, group: Group, left: Ints, room: Ints) -> Ints:
    """In how many runs each arm of the group went in; takes it off what is ``left`` and the ``room``, in place.

    ``left`` (tokens) and ``room`` (number of arms) have one entry for each run.
    """
    counts, contested = _uncontested(group.cost, left, room)
    # Runs with as much left stand together: the less is left, the fewer arms are worth a number.
    contested = contested[np.argsort(-left[contested], kind="stable")]
    while len(contested):
        arms = np.flatnonzero(group.cost <= left[contested[0]])
        size = max(1, _BLOCK_NUMBERS // len(arms))
        runs, contested = contested[:size], contested[size:]
        few = group.of(arms)
        borders = few.borders(rng, float(left[runs].mean()), float(room[runs].mean()))
        state = left[runs], room[runs]
        counts[arms] += pack_drawn(rng.random((len(runs), len(arms))), few, borders, *state)
        left[runs], room[runs] = state
    return counts


def _uncontested(cost: Ints, left: Ints, room: Ints) -> tuple[Ints, Ints]:
    """Packs the runs where all arms that fit alone fit together too; the others, if any arm fits at all."""
    by_cost = np.argsort(cost, kind="stable")
    asked = np.concatenate(([0], np.cumsum(cost[by_cost])))
    n_fit = np.where(room > 0, np.searchsorted(cost[by_cost], left, side="right"), 0)
    together = (n_fit == 0) | (asked[n_fit] <= left) & (n_fit <= room)
    n_in = np.where(together, n_fit, 0)
    left -= asked[n_in]
    room -= n_in
    # The arm of rank r by cost went in wherever more than r fit.
    n_runs = np.bincount(n_in, minlength=len(cost) + 1)
    counts = np.zeros(len(cost), dtype=np.int64)
    counts[by_cost] = n_runs[::-1].cumsum()[::-1][1:]
    return counts, np.flatnonzero(~together)


def pack_drawn(uniform: Floats, group: Group, borders: list[float], left: Ints, room: Ints) -> Ints:
    """`contest` with the numbers given: one row of ``uniform`` for each run, one column for each arm."""
    counts = np.zeros(len(group), dtype=np.int64)
    for arrived in _slices(uniform, group, borders, left, room):
        counts += _pack_slice(arrived, group, left, room)
    return counts


@dataclass(frozen=True)
class _Arrived:
    """Pairs of run and arm, by run and then by arm, with their uniform numbers."""

    runs: Ints
    arms: Ints
    uniform: Floats

    def where(self, wanted: Bools) -> _Arrived:
        places = np.flatnonzero(wanted)  # once for all three
        return _Arrived(self.runs[places], self.arms[places], self.uniform[places])

    def fitting(self, cost: Ints, left: Ints, room: Ints) -> _Arrived:
        """Those that fit alone; what does not fit now never will."""
        return self.where((cost[self.arms] <= left[self.runs]) & (room[self.runs] > 0))


def _slices(
    uniform: Floats, group: Group, borders: list[float], left: Ints, room: Ints
) -> Iterator[_Arrived]:
    """Arms by slices of their draws, from the top, as far as they fit when the turn of the slice comes."""
    below = [group.below(border) for border in borders]
    lowest = below[-1] if below else np.ones(len(group))
    coming = _pairs(uniform, uniform > lowest)
    for border in below:
        coming = coming.fitting(group.cost, left, room)
        is_above = coming.uniform > border[coming.arms]
        yield coming.where(is_above)
        coming = coming.where(~is_above)
    runs = np.flatnonzero((left >= group.cost.min()) & (room > 0))
    rest = uniform[runs]
    last = _pairs(rest, (rest <= lowest) & (group.cost <= left[runs, None]))
    yield _Arrived(runs[last.runs], last.arms, last.uniform)


def _pairs(uniform: Floats, wanted: Bools) -> _Arrived:
    places = np.flatnonzero(wanted)
    runs = places // wanted.shape[1]
    return _Arrived(runs, places - runs * wanted.shape[1], uniform.ravel()[places])


def _pack_slice(arrived: _Arrived, group: Group, left: Ints, room: Ints) -> Ints:
    """Packs one slice of every run: as a whole where it fits, else by draws."""
    asked: Ints = np.bincount(arrived.runs, group.cost[arrived.arms], len(left)).astype(np.int64)
    n_arrived = np.bincount(arrived.runs, minlength=len(left))
    fits = (asked <= left) & (n_arrived <= room)
    left -= asked * fits
    room -= n_arrived * fits
    together = fits[arrived.runs]
    counts: Ints = np.bincount(arrived.arms[together], minlength=len(group))
    contested = arrived.where(~together)
    return counts + _pack_by_draw(contested, group, left, room) if len(contested.runs) else counts


def _pack_by_draw(arrived: _Arrived, group: Group, left: Ints, room: Ints) -> Ints:
    """Packs arm by arm, highest draw first, all runs at once."""
    order = np.lexsort((-group.draws(arrived.arms, arrived.uniform), arrived.runs))
    arms = arrived.arms[order]
    runs, first, n_arrived = np.unique(arrived.runs, return_index=True, return_counts=True)
    column = np.repeat(np.arange(len(runs)), n_arrived)
    rank = np.arange(len(arms)) - first[column]
    cost = np.full((int(n_arrived.max()), len(runs)), np.iinfo(np.int64).max)
    cost[rank, column] = group.cost[arms]
    state = left[runs], room[runs]
    packed = fill_each(cost, *state)
    left[runs], room[runs] = state
    return np.bincount(arms[packed[rank, column]], minlength=len(group))
