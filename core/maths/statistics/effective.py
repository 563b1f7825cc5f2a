"""Effective pulls of arms: runs of one session resemble each other, so they count for less than as many apart.

The posterior treats observations as independent. Judgements do not: they divide the pulls by the design effect of the
arm's own sessions. Everything here is an approximation by moments, which needs no more than sums over the sessions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy

from core.columns import ArmColumns, Bools, Floats, Ints, SessionSums
from core.records.arm import MICRO
from core.records.judgement import ENOUGH_SESSIONS

PROB: Final = 0.95

_ASSUMED: Final = 0.1
"""Intra-class correlation to assume where one outcome is too rare to measure it."""
_ASSUMED_WEIGHT: Final = 1.0
"""Weight of the assumption, in observations of the rarer outcome."""
_JEFFREYS: Final = 0.5


@dataclass(frozen=True, kw_only=True)
class Effective:
    """Effective pulls of each arm, aligned with the columns, and the interval that they allow.

    ``design`` is the design effect, 1 or more. ``pulls``, ``lower`` and ``upper`` are NaN where an arm has fewer than
    10 sessions, or was not read. ``unseen_design`` is the design effect of its ``n_run_sessions`` sessions of
    observed runs, if none of them referenced it. ``called_only``: every observed run of the arm has an inventory that
    was inferred from its calls, so runs that did not call it are unknown.
    """

    n_sessions: Ints
    design: Floats
    pulls: Floats
    lower: Floats
    upper: Floats
    n_run_sessions: Ints
    unseen_design: Floats
    called_only: Bools


def effective(columns: ArmColumns, sums: SessionSums) -> Effective:
    """Return the effective pulls of arms, and the interval of their rates.

    The design effect is the variance of the rate between sessions (a ratio, linearised) over that of independent
    pulls. It is at least 1, and at most the size of a session. If hardly anything varies, as where nothing was ever
    referenced, an intra-class correlation of .1 is assumed, with the weight of one observation.

    The interval is Jeffreys' interval of as many independent pulls, without the arm's own prior. A variance measured
    over few sessions is uncertain, so the pulls are reduced by Student's quantile over the normal one, as far as the
    variance was measured. The degrees of freedom allow for skewed rates of sessions, as a beta distribution of that
    mean and correlation has them.

    Parameters
    ----------
    columns : ArmColumns of n_arms
        Counts of every arm, sorted by id.
    sums : SessionSums of n_arms
        Sums over the sessions of the same arms.

    Returns
    -------
    Effective
        Effective pulls and limits of each arm.

    References
    ----------
    * W. G. Cochran, *Sampling Techniques*, 3rd ed., 1977, 9A: the variance of a ratio over clusters.
    * L. Kish, *Survey Sampling*, 1965, 8.2: the design effect.
    * E. L. Korn and B. I. Graubard, *Survey Methodology* 24, 1998, 193: the interval by effective size and Student's
      quantile.
    * L. D. Brown, T. T. Cai and A. DasGupta, *Stat. Sci.* 16, 2001, 101 (doi:10.1214/ss/1009213286): Jeffreys'
      interval.
    """
    n, good = _evidence(columns, sums)
    is_known = (sums.n_sessions >= ENOUGH_SESSIONS) & (sums.n > 0)
    k = np.where(is_known, sums.n_sessions, ENOUGH_SESSIONS)
    rate = _over(good, n)
    size = np.maximum(_over(sums.n_n, sums.n), 1.0)
    design = np.clip(_design(sums, k, size), 1.0, size)
    correlation = _over(design - 1, size - 1)
    share = np.sqrt((design - 1) / design)
    quantile = scipy.special.ndtri((1 + PROB) / 2)
    student = scipy.special.stdtrit(_freedom(rate, n, correlation, design, k), (1 + PROB) / 2)
    pulls = n / design
    worth = pulls * (quantile / (quantile + (student - quantile) * share)) ** 2
    alpha, beta = rate * worth + _JEFFREYS, (1 - rate) * worth + _JEFFREYS
    lower = np.where(good <= 0, 0.0, scipy.special.betaincinv(alpha, beta, (1 - PROB) / 2))
    upper = np.where(good >= n, 1.0, scipy.special.betaincinv(alpha, beta, (1 + PROB) / 2))
    return Effective(
        n_sessions=sums.n_sessions.astype(np.int64),
        design=design,
        pulls=np.where(is_known, pulls, np.nan),
        lower=np.where(is_known, lower, np.nan),
        upper=np.where(is_known, upper, np.nan),
        n_run_sessions=sums.n_known_sessions.astype(np.int64),
        unseen_design=_assumed(np.maximum(_over(sums.known_known, sums.n_known), 1.0)),
        called_only=(sums.n_inferred > 0) & (sums.n_known == 0),
    )


def _evidence(columns: ArmColumns, sums: SessionSums) -> tuple[Floats, Floats]:
    """Return observations and the sum of their rewards: the arm's own, or those of runs with a known inventory."""
    all_known = sums.n_inferred == 0
    n = np.where(all_known, (columns.success_micro + columns.failure_micro) / MICRO, sums.n)
    good = np.where(all_known, columns.success_micro / MICRO, sums.good)
    return np.maximum(n, 0.0), np.clip(good, 0.0, np.maximum(n, 0.0))


def _design(sums: SessionSums, k: Floats, size: Floats) -> Floats:
    """Return the design effect as measured, mixed with the assumed one where one outcome is rare."""
    rate = _over(sums.good, sums.n)
    between = sums.good_good - 2 * rate * sums.n_good + rate**2 * sums.n_n
    apart = sums.n * rate * (1 - rate)
    measured = _over(k / (k - 1) * np.maximum(between, 0), apart, otherwise=1.0)
    weight = _ASSUMED_WEIGHT / (_ASSUMED_WEIGHT + np.minimum(sums.good, np.maximum(sums.n - sums.good, 0)))
    return np.asarray((1 - weight) * measured + weight * _assumed(size))


def _assumed(size: Floats) -> Floats:
    """Return the design effect where it can't be measured."""
    return np.asarray(1 + _ASSUMED * (size - 1))


def _freedom(rate: Floats, n: Floats, correlation: Floats, design: Floats, k: Floats) -> Floats:
    """Return the degrees of freedom of a variance over ``k`` sessions whose rates follow a beta distribution."""
    total = 1 / np.clip(correlation, 1e-6, 0.95) - 1
    mean = np.clip((rate * n + _JEFFREYS) / (n + 1), 0.01, 0.99)
    a, b = mean * total, (1 - mean) * total
    excess = 6 * ((a - b) ** 2 * (total + 1) - a * b * (total + 2)) / (a * b * (total + 2) * (total + 3))
    share = (design - 1) / design
    return np.asarray(2 / (np.maximum(excess, 0) * share**2 / k + 2 / (k - 1)))


def _over(upper: Floats, lower: Floats, *, otherwise: float = 0.0) -> Floats:
    """Return a quotient, or another value where the divisor is not positive."""
    quotient: Floats = np.full(upper.shape, otherwise)
    return np.divide(upper, lower, out=quotient, where=lower > 1e-12)
