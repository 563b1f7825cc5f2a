"""Agreeing: of how many bootstrap samples of episodes a share would still be on its side of a bound, exactly."""

from __future__ import annotations

import math

import scipy


def agreeing(hits: int, n: int, least: float) -> float:
    """Return the share of bootstrap samples of ``n`` episodes in which at least ``least`` of them are hits.

    A sample draws ``n`` of them with replacement, so that its hits are binomial with the share that was seen: what
    drawing samples would only come near to is computed.

    References
    ----------
    B. Efron, *Ann. Stat.* 7, 1979, 1 (doi:10.1214/aos/1176344552).

    Examples
    --------
    >>> agreeing(100, 100, 0.9), agreeing(0, 100, 0.05), round(agreeing(5, 10, 0.5), 3), agreeing(0, 0, 0.5)
    (1.0, 0.0, 0.623, 0.0)
    """
    if not n:
        return 0.0
    needed = math.ceil(least * n - 1e-9)
    return 1.0 - float(scipy.special.bdtr(needed - 1, n, hits / n)) if needed else 1.0
