"""Failures: how much more often selected runs end in one way, and the runs needed to show it.

The difference is of shares at one mix of strata, as the tokens are compared. Its interval is Newcombe's (R. G.
Newcombe, Statistics in Medicine 17, 1998, 873, method 10), of as many runs as would measure a single share as well as
the weighted ones do (L. Kish, *Survey Sampling*, 1965, 11.7): limits found stratum by stratum and then combined hold
the truth in .91 to .97 of worlds and are twice as wide where failures are rare, these in .95 to .97.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import scipy

from core.columns import Floats
from core.records.estimate import Estimate
from core.statistics.savings.estimate import MIN_FOR_FIGURE, nothing
from core.statistics.savings.sessions import SessionSums, session_design
from core.statistics.savings.shares import difference
from core.statistics.savings.sums import BASELINE, SELECTED, StratumSums

POWER: Final = 0.8


def rate_difference(hits: StratumSums, sessions: SessionSums | None, prob: float) -> Estimate:
    """Return the share of selected runs less that of baseline runs, in percentage points, at one mix of strata.

    ``hits`` adds up 1 for each run that ended so and 0 for every other. A stratum takes part where each group has
    two runs in it. If runs of one session end alike, they carry less information.

    References
    ----------
    R. G. Newcombe, *Stat. Med.* 17, 1998, 873, method 10: the interval.

    Examples
    --------
    >>> from core.statistics.savings.sums import StratumSums
    >>> n, hits = np.array([[217.0, 2381.0]]), np.array([[2.0, 70.0]])
    >>> result = rate_difference(StratumSums(n=n, total=hits, squares=hits), None, 0.95)
    >>> round(result.value, 2), round(result.lower, 2), round(result.upper, 2)
    (2.02, -0.43, 3.03)
    """
    usable = (hits.n >= MIN_FOR_FIGURE).all(-1)
    if not usable.any():
        return nothing("few_runs", prob)
    weight = np.where(usable, hits.n.sum(-1), 0.0) / hits.n[usable].sum()
    part = weight[usable, None]
    shares = (part * hits.mean[usable]).sum(0)
    worth = 1 / (part**2 / hits.n[usable]).sum(0) / _alike(sessions, weight)
    hit, n = (shares * worth).tolist(), worth.tolist()
    result = difference(hit[SELECTED], n[SELECTED], hit[BASELINE], n[BASELINE], prob=prob)
    points = [None if part is None else 100 * part for part in (result.value, result.lower, result.upper)]
    return Estimate(value=points[0], lower=points[1], upper=points[2], prob=prob, missing=result.missing)


def _alike(sessions: SessionSums | None, weight: Floats) -> Floats:
    """Return by how much more the shares vary than if each run were a session by itself; at least 1."""
    if sessions is None:
        return np.ones(2)
    result = session_design(sessions, weight, is_log=False)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.fmax(result.error / result.apart, 1.0)


def runs_to_tell(rates: tuple[float, float], n: tuple[int, int], prob: float = 0.95) -> int | None:
    """Return the runs in all, at the groups' present shares, that separate these two rates with power .8.

    None where they are equal, or a group has no runs. Two-sided test of two shares by the normal approximation,
    without the continuity correction.

    References
    ----------
    J. L. Fleiss, *Statistical Methods for Rates and Proportions*, 1981, 3.2.

    Examples
    --------
    >>> runs_to_tell((0.009, 0.030), (217, 2381))
    2466
    >>> runs_to_tell((0.02, 0.02), (217, 2381)) is None
    True
    """
    if rates[0] == rates[1] or min(n) == 0:
        return None
    width = float(scipy.special.ndtri((1 + prob) / 2) + scipy.special.ndtri(POWER))
    all_runs = sum(n)
    spread = sum(rate * (1 - rate) * all_runs / one for rate, one in zip(rates, n, strict=True))
    return math.ceil(width**2 * spread / (rates[1] - rates[0]) ** 2)
