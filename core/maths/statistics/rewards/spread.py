"""Spread of the totals of episodes, and the scale on which an environment seems to pay."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from core.columns import Floats
from core.records.environment import ScaleGuess
from core.records.episode import Scale

MOST_VALUES: Final = 20
"""Different totals that have a bar each; of more, as many bars of equal width."""
_USUAL: Final = ((0.0, 1.0), (-1.0, 1.0), (0.0, 10.0), (0.0, 100.0), (-10.0, 10.0), (-100.0, 100.0))


@dataclass(frozen=True, kw_only=True)
class Bar:
    """Bar of the ``n`` episodes with a total from ``lo`` (inclusive) to ``hi`` (exclusive; the last bar includes it).
    If both are equal, the total is just that. Outside the scale the normalised ends are None.
    """

    lo: float
    hi: float
    normalised_lo: float | None
    normalised_hi: float | None
    n: int


def distribution(reached: Floats, scale: Scale) -> tuple[Bar, ...]:
    """Count the episodes by total, or by final reward.

    Parameters
    ----------
    reached : array of float, shape (n_episodes,)
        What success goes by, of each; NaN where nothing was paid, and left out.
    scale : Scale
        What it is normalised to.

    Returns
    -------
    tuple of Bar
        From the lowest on.

    Examples
    --------
    >>> [(one.lo, one.normalised_lo, one.n) for one in distribution(np.array([0.0, 2.0, 2.0, np.nan]), Scale())]
    [(0.0, 0.0, 1), (2.0, None, 2)]
    """
    paid = reached[~np.isnan(reached)]
    values, counts = np.unique(paid, return_counts=True)
    if len(values) <= MOST_VALUES:
        ends = [(value, value) for value in values.tolist()]
    else:
        counts, edges = np.histogram(paid, bins=MOST_VALUES)
        ends = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    return tuple(
        Bar(lo=lo, hi=hi, normalised_lo=scale.normalised(lo), normalised_hi=scale.normalised(hi), n=int(n))
        for (lo, hi), n in zip(ends, counts, strict=True)
    )


def guess(reached: Floats, scale: Scale) -> ScaleGuess | None:
    """Return a scale on which all totals lie, where some lie outside the one in force: a usual one, or round ends.

    Parameters
    ----------
    reached : array of float, shape (n_episodes,)
        What success goes by, of each; NaN where nothing was paid, and left out.
    scale : Scale
        The one in force.

    Returns
    -------
    ScaleGuess or None
        None where nothing lies outside.

    Examples
    --------
    >>> result = guess(np.array([0.2, 1.5, 1.8]), Scale())
    >>> result.lo, result.hi, result.n_outside
    (0.0, 2.0, 2)
    >>> guess(np.array([40.0, 87.5]), Scale()).hi
    100.0
    """
    paid = reached[~np.isnan(reached)]
    outside = int(((paid < scale.lo) | (paid > scale.hi)).sum())
    if not outside:
        return None
    lowest, highest = float(paid.min()), float(paid.max())
    lo, hi = (-_round_up(-lowest) if lowest < 0 else 0.0), (_round_up(highest) if highest > 0 else 0.0)
    for usual in _USUAL:
        if usual[0] <= lowest and highest <= usual[1] and highest > usual[1] / 4 and usual[1] <= 2 * hi:
            lo, hi = usual
            break
    return ScaleGuess(lo=lo, hi=hi, n=len(paid), n_outside=outside, lowest=lowest, highest=highest)


def _round_up(value: float) -> float:
    """Return the next number of 1, 2 or 5 times a power of ten."""
    step = 10.0 ** math.floor(math.log10(value))
    return next(round(nice * step, 12) for nice in (1, 2, 5, 10) if value <= nice * step * (1 + 1e-12))
