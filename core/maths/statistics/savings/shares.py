"""Counts → shares: one with its interval, and the difference of two."""

from __future__ import annotations

import math

import scipy

from core.maths.statistics.savings.sums import MIN_FOR_FIGURE, MIN_FOR_INTERVAL, no_estimate
from core.records.estimate import Estimate


def wilson(hits: float, n: float, prob: float) -> tuple[float, float]:
    """Return Wilson's score interval of a share.

    E. B. Wilson, *J. Am. Stat. Assoc.* 22, 1927, 209 (doi:10.1080/01621459.1927.10502953).
    """
    z = float(scipy.special.ndtri((1 + prob) / 2))
    share = hits / n
    middle = share + z * z / (2 * n)
    spread = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    lower = 0.0 if hits == 0 else (middle - spread) / scale
    upper = 1.0 if hits == n else (middle + spread) / scale
    return lower, upper


def share(hits: float, n: float, *, prob: float = 0.95) -> Estimate:
    """Return a share with Wilson's interval; fewer than 2 give no figure, fewer than 10 no interval.

    Parameters
    ----------
    hits : float
        How many of the runs have it, 0 to ``n``.
    n : float
        The runs, or their effective number.
    prob : float, optional
        Probability of the interval, above 0 and below 1.

    Returns
    -------
    Estimate
        The share, 0 to 1, with its interval.

    References
    ----------
    E. B. Wilson, *J. Am. Stat. Assoc.* 22, 1927, 209 (doi:10.1080/01621459.1927.10502953).

    Examples
    --------
    >>> share(3, 9).lower is None, share(0, 1).missing
    (True, 'few_runs')
    """
    if n < MIN_FOR_FIGURE:
        return no_estimate("few_runs", prob)
    if n < MIN_FOR_INTERVAL:
        return no_estimate("few_for_interval", prob, hits / n)
    lower, upper = wilson(hits, n, prob)
    return Estimate(value=hits / n, lower=lower, upper=upper, prob=prob)


def exact_limits(hits: int, n: float, *, prob: float = 0.95) -> Estimate:
    """Return a share with the exact interval of Clopper and Pearson.

    It holds just those shares that `exact_tails` finds at least ``1 - prob`` for.

    Parameters
    ----------
    hits : int
        Observations that count, in [0, n].
    n : float
        All observations. Fewer than 2 give no figure, fewer than 10 no interval.
    prob : float, optional
        Probability of the interval, in (0, 1).

    Returns
    -------
    Estimate
        The share, in [0, 1], with its limits.

    References
    ----------
    * C. J. Clopper and E. S. Pearson, *Biometrika* 26, 1934, 404 (doi:10.1093/biomet/26.4.404).
    """
    plain = share(hits, n, prob=prob)
    if plain.lower is None:
        return plain
    tail = (1 - prob) / 2
    lower = 0.0 if hits == 0 else float(scipy.special.betaincinv(hits, n - hits + 1, tail))
    upper = 1.0 if hits == n else float(scipy.special.betaincinv(hits + 1, n - hits, 1 - tail))
    return Estimate(value=plain.value, lower=lower, upper=upper, prob=prob)


def exact_tails(hits: int, n: int, expected: float) -> float:
    """Return the chance of as few or as many hits, whichever is rarer, doubled: the exact two-sided binomial test."""
    as_few = float(scipy.special.bdtr(hits, n, expected))
    as_many = 1.0 if hits == 0 else float(scipy.special.bdtrc(hits - 1, n, expected))
    return min(1.0, 2 * min(as_few, as_many))


def difference(hits: float, n: float, hits_other: float, n_other: float, *, prob: float = 0.95) -> Estimate:
    """Return the first share minus the other, with Newcombe's hybrid score interval.

    Fewer than 2 in either group give no figure, fewer than 10 no interval.

    Parameters
    ----------
    hits : float
        How many of the first group have it, 0 to ``n``.
    n : float
        The runs of the first group, or their effective number.
    hits_other : float
        How many of the other group have it.
    n_other : float
        The runs of the other group, or their effective number.
    prob : float, optional
        Probability of the interval, above 0 and below 1.

    Returns
    -------
    Estimate
        The difference, -1 to 1, with its interval.

    References
    ----------
    R. G. Newcombe, *Stat. Med.* 17, 1998, 873, method 10.

    Examples
    --------
    >>> newcombe = difference(56, 70, 48, 80)
    >>> round(newcombe.value, 4), round(newcombe.lower, 4), round(newcombe.upper, 4)
    (0.2, 0.0524, 0.3339)
    """
    least = min(n, n_other)
    if least < MIN_FOR_FIGURE:
        return no_estimate("few_runs", prob)
    first, other = hits / n, hits_other / n_other
    if least < MIN_FOR_INTERVAL:
        return no_estimate("few_for_interval", prob, first - other)
    low, high = wilson(hits, n, prob)
    low_other, high_other = wilson(hits_other, n_other, prob)
    return Estimate(
        value=first - other,
        lower=first - other - math.hypot(first - low, high_other - other),
        upper=first - other + math.hypot(high - first, other - low_other),
        prob=prob,
    )
