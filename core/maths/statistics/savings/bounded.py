"""Means of values from 0 to 1 → limits of a weighted sum of them, which hold however often one looks.

Each mean has a wealth: what a gambler has who bets on its values with a beta mixture. If the mean were m, the wealth
would exceed 1/e with a probability of at most e, ever (Ville). For hits and misses the wealth is a ratio of
likelihoods; for values between them it is smaller, so the limits hold, too. The product of the wealths of several
means bets on all of them. The limits are the extremes of the weighted sum over all means that leave the product below
1/e. They need no normal law, so they hold for rare outcomes and small groups.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import scipy

from core.columns import Floats

_ROUNDS: Final = 13
_GRID: Final = np.linspace(0, 1, 10)
_LEAST, _MOST = -40.0, 60.0
"""Logarithms between which the price of wealth lies."""


def always_limits(
    n: Floats, total: Floats, weight: Floats, error: float, *, prior: tuple[Floats, Floats] | None = None
) -> tuple[Floats, Floats]:
    """Return the limits of ``sum(weight * mean)``; the last axis has the means, the axes before it are alike.

    Each mean is of ``n`` values, 0 or more, with the sum ``total``; a weight of 0 takes it out. ``error`` is the
    probability that the limits ever miss. ``prior``: the beta mixture of the bets; default: 1/2 and 1/2.

    * J. Ville, *Étude critique de la notion de collectif*, 1939: the bound at every look.
    * I. Waudby-Smith and A. Ramdas, *J. R. Stat. Soc. B* 86, 2024, 1 (doi:10.1093/jrsssb/qkad009): means of bounded
      values by betting.
    """
    first, second = (np.full_like(n, 0.5),) * 2 if prior is None else prior
    spent = scipy.special.betaln(first + total, second + n - total) - scipy.special.betaln(first, second)
    taking = weight != 0
    spent = np.where(taking, spent, 0.0).sum(-1, keepdims=True)
    counts, sums, is_taken = (one[..., None, :] for one in (n, np.clip(total, 0, n), taking))
    bets = _Bets(counts, sums, is_taken, spent, -math.log(error))
    weight = np.broadcast_to(weight, n.shape)
    lower, upper = bets.least(np.stack([weight, -weight]))
    return np.asarray(lower), np.asarray(-upper)


class _Bets:
    """The wealth of gamblers by the means that they bet against."""

    def __init__(self, n: Floats, total: Floats, taking: Floats, spent: Floats, most: float) -> None:
        self._n, self._total, self._taking, self._spent, self._most = n, total, taking, spent, most

    def least(self, weight: Floats) -> Floats:
        """Return the least weighted sum of means whose wealth is small enough: its price is found by narrowing."""
        low, high = (np.full((*weight.shape[:-1], 1), end) for end in (_LEAST, _MOST))
        for _ in range(_ROUNDS):
            tried = low + (high - low) * _GRID
            is_large = self._log_wealth(self._means(weight[..., None, :], tried)) > self._most
            at = np.clip(is_large.sum(-1, keepdims=True), 1, len(_GRID) - 1)
            low, high = (low + (high - low) * _GRID[place] for place in (at - 1, at))
        return np.asarray((weight * self._means(weight[..., None, :], high)[..., 0, :]).sum(-1))

    def _means(self, weight: Floats, log_price: Floats) -> Floats:
        """Return the means that make the sum least at a price of wealth: the roots of a quadratic for each."""
        size, price = np.abs(weight), np.exp(log_price)[..., None]
        hits = np.where(weight > 0, self._total, self._n - self._total)
        both = size + price * self._n
        root = np.sqrt(np.maximum(both**2 - 4 * size * price * hits, 0.0))
        share = 2 * price * hits / np.maximum(both + root, 1e-300)
        return np.asarray(np.where(weight > 0, share, 1 - share))

    def _log_wealth(self, mean: Floats) -> Floats:
        missed = self._n - self._total
        log = -scipy.special.xlogy(self._total, mean) - scipy.special.xlogy(missed, 1 - mean)
        return np.asarray(self._spent + np.where(self._taking, log, 0.0).sum(-1))
