"""Luck: whether many differences at once, each in its standard errors, are no larger than luck makes them."""

from __future__ import annotations

import numpy as np
from scipy import stats

from core.columns import Floats

LEAST_PROB = 0.01
"""One in a hundred correct worlds is called wrong; seeds are fixed, so it is the same answer every time."""


def prob_of_luck(off: Floats) -> float:
    """Probability that the largest of so many normal errors is at least as large as the largest of these.

    Šidák's inequality makes it an upper bound where the errors depend on each other, as those of arms that share a
    budget do. So a result below `LEAST_PROB` is no luck under any dependence.

    >>> round(prob_of_luck(np.array([0.3, -1.96])), 3), round(prob_of_luck(np.full(40, 3.03)), 3)
    (0.097, 0.093)
    """
    return float(-np.expm1(len(off) * np.log1p(-2 * stats.norm.sf(np.abs(off).max()))))
