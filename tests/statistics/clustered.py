"""Clustered worlds: runs in sessions whose rates differ, with a known intra-class correlation."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from core.columns import ArmColumns, Bools, Floats, Ints, SessionSums
from core.maths.statistics.effective import Effective, effective
from core.records.judgement import ENOUGH_PULLS, ENOUGH_SESSIONS
from tests.worlds.columns import arms

CORRELATIONS: Final = (0.0, 0.1, 0.3)
RATES: Final = (0.1, 0.3, 0.5, 0.8)


class ClusteredWorld(NamedTuple):
    """Sessions of arms with one rate: runs (``size``) and references (``good``), shape (n_arms, n_sessions)."""

    rate: float
    size: Ints
    good: Ints


def world(
    rng: np.random.Generator, shape: tuple[int, int], size: int | None, *, correlation: float, rate: float
) -> ClusteredWorld:
    """Return arms by sessions, whose rates have a beta distribution. ``size`` None: geometric, 2.9 on average."""
    sizes = rng.geometric(0.35, shape) if size is None else np.full(shape, size)
    total = 1 / correlation - 1 if correlation else 0.0
    rates = rng.beta(rate * total, (1 - rate) * total, shape) if correlation else np.full(shape, rate)
    return ClusteredWorld(rate, sizes, rng.binomial(sizes, rates))


def columns_of(one: ClusteredWorld) -> ArmColumns:
    good, n = one.good.sum(axis=1), one.size.sum(axis=1)
    keys = [f"tool:other:t{index:06}" for index in range(len(n))]
    return arms(keys, successes=good.tolist(), failures=(n - good).tolist())


def sums_of(one: ClusteredWorld) -> SessionSums:
    """Return the sums in the order of `SessionSums`. No inventory is inferred, so the last four repeat or are 0."""
    size, good = one.size, one.good
    n = size.sum(axis=1)
    rows = (
        *(np.count_nonzero(size, axis=1), n, good.sum(axis=1), (size * size).sum(axis=1)),
        *((size * good).sum(axis=1), (good * good).sum(axis=1), n, 0 * n),
        *(np.count_nonzero(size, axis=1), (size * size).sum(axis=1)),
    )
    return SessionSums.of(len(n), np.arange(len(n)), np.stack(rows).T.astype(np.float64))


def judged(one: ClusteredWorld) -> tuple[Effective, Bools]:
    """Return effective pulls, and which arms have enough of them to be judged."""
    found = effective(columns_of(one), sums_of(one))
    enough = (found.n_sessions >= ENOUGH_SESSIONS) & (np.nan_to_num(found.pulls) >= ENOUGH_PULLS)
    return found, np.asarray(enough)


def cover(one: ClusteredWorld) -> tuple[float, float]:
    """Return the share of judged intervals that hold the true rate, and the share of arms judged."""
    found, enough = judged(one)
    holds = (found.lower <= one.rate) & (one.rate <= found.upper)
    return float(holds[enough].mean()) if enough.any() else float("nan"), float(enough.mean())


def decided(one: ClusteredWorld, break_even: float) -> Floats:
    """Return 1 for arms above the break-even, -1 below, 0 for open or not judged."""
    found, enough = judged(one)
    above, below = found.lower > break_even, found.upper < break_even
    return np.where(enough & above, 1.0, np.where(enough & below, -1.0, 0.0))
