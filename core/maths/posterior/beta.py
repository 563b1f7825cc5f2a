"""Beta(alpha, beta) → density, moments and 95 % intervals, on arrays.

All functions broadcast their arguments and give float64 arrays (zero-dimensional for plain numbers).
The two parts, ``alpha`` and ``beta``, are above 0 and include the prior; anything else, NaN included, gives NaN.
Quantiles are SciPy's: the 95 % limits are within 5e-12 of values of 60 digits (``tests/posterior/golden.json``), from
Beta(1e-6, 1e-6) to (1e7, 1e7). Pages show three digits. A limit below 2e-308, such as the lower one of Beta(0.001, 2)
near 1e-1602, is 0; one closer to 1 than floats go is 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from core.columns import Floats, Ints
from core.errors import InvalidInput

NORMAL_Z: Final = 1.96
"""Half-width of the usual normal approximation of 95 %, in standard deviations."""

_HALF_LOG_2PI: Final = math.log(2 * math.pi) / 2
_STIRLING: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_STIRLING_FROM: Final = 16.0
_UNIQUE_FROM: Final = 64
_SMALLEST_LOG: Final = -744.0
_HIGHEST_DENSITY_STEPS: Final = 200
"""Maximum number of steps; after them the latest value is the answer."""


def mean(alpha: ArrayLike, beta: ArrayLike) -> Floats:
    """Return the expected value, ``alpha / (alpha + beta)``, in (0, 1)."""
    a, b = _parts(alpha, beta)
    return np.asarray(a / (a + b))


def variance(alpha: ArrayLike, beta: ArrayLike) -> Floats:
    """Return the variance, ``alpha beta / ((alpha + beta)^2 (alpha + beta + 1))``, in [0, 1/4)."""
    a, b = _parts(alpha, beta)
    weight = a + b
    return np.asarray((a / weight) * (b / weight) / (weight + 1))


def density(alpha: ArrayLike, beta: ArrayLike, x: ArrayLike) -> Floats:
    """Return the probability density at ``x``: 0 outside [0, 1], infinite at an end whose part is below 1.

    Parameters
    ----------
    alpha : array_like of float, any shape
        Successes and prior, above 0.
    beta : array_like of float, any shape
        Failures and prior, above 0.
    x : array_like of float, any shape
        Where to look.

    Returns
    -------
    array of float, broadcast shape
        0 or more.

    References
    ----------
    C. Loader, *Fast and Accurate Computation of Binomial Probabilities*, 2000, as in `log_density`.

    Examples
    --------
    >>> density(2, 2, [0.0, 0.5, 1.0, 1.5]).tolist()
    [0.0, 1.5, 0.0, 0.0]
    """
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(log_density(alpha, beta, x)))


def log_density(alpha: ArrayLike, beta: ArrayLike, x: ArrayLike) -> Floats:
    """Return the natural logarithm of the density; -inf outside [0, 1].

    The textbook sum ``(alpha - 1) log x + (beta - 1) log(1 - x) - log B(alpha, beta)`` cancels: at
    Beta(1e7, 1e7) its terms are 1e7 and the result is off by 1e-9. Here the sum is rearranged, after
    Loader, into a deviance and Stirling corrections, each small and positive.

    C. Loader, *Fast and Accurate Computation of Binomial Probabilities*, 2000.
    """
    a, b = _parts(alpha, beta)
    a, b, x = np.broadcast_arrays(a, b, np.asarray(x, dtype=np.float64))
    result = np.full(a.shape, -np.inf)
    result[np.isnan(a) | np.isnan(b) | np.isnan(x)] = np.nan
    inside = (x > 0) & (x < 1) & (a > 0) & (b > 0)
    result[inside] = _log_density_inside(a[inside], b[inside], x[inside])
    for part, other, end in ((a, b, 0.0), (b, a, 1.0)):
        at = (x == end) & (part <= 1) & (other > 0)
        result[at] = np.where(part[at] < 1, np.inf, np.log(other[at]))
    return result


def cumulative(alpha: ArrayLike, beta: ArrayLike, x: ArrayLike) -> Floats:
    """Return the probability of a value at or below ``x``, in [0, 1]; below 0 counts as 0, above 1 as 1."""
    return np.asarray(
        scipy.special.betainc(*_parts(alpha, beta), np.clip(np.asarray(x, dtype=np.float64), 0, 1))
    )


def quantile(alpha: ArrayLike, beta: ArrayLike, prob: ArrayLike) -> Floats:
    """Return the ``x`` in [0, 1] below which the probability ``prob`` in [0, 1] lies."""
    result = np.array(
        scipy.special.betaincinv(*_parts(alpha, beta), np.asarray(prob, dtype=np.float64)), dtype=np.float64
    )
    # Where the answer underflows SciPy gives the smallest normal float, which reads like a measured value.
    result[result <= np.finfo(np.float64).tiny] = 0.0
    return result


def interval(alpha: ArrayLike, beta: ArrayLike, prob: float = 0.95) -> tuple[Floats, Floats]:
    """Return the exact equal-tailed credible interval: as much probability below it as above.

    Every different pair is inverted once, so 100,000 arms with small counts cost what 2,000 do.

    Parameters
    ----------
    alpha : array_like of float, any shape
        Successes and prior, above 0.
    beta : array_like of float, any shape
        Failures and prior, above 0.
    prob : float, optional
        Probability that the interval holds, in (0, 1).

    Returns
    -------
    lower : array of float, broadcast shape
        In [0, 1].
    upper : array of float, broadcast shape
        In [0, 1], no less than the lower one.

    Raises
    ------
    InvalidInput
        Unless ``prob`` lies strictly between 0 and 1.

    Examples
    --------
    >>> lower, upper = interval(3, 1)
    >>> round(float(lower), 3), round(float(upper), 3)
    (0.292, 0.992)
    """
    tail = _tail(prob)
    a, b, inverse = _different_pairs(alpha, beta)
    return quantile(a, b, tail)[inverse], quantile(a, b, 1 - tail)[inverse]


@dataclass(frozen=True)
class IntervalTable:
    """Exact intervals of different pairs, computed once. Arms with small counts share a few thousand pairs.

    ``pairs`` are alpha + i beta, ascending. ``limits`` has the lower limits in row 0, the upper ones in row 1.
    """

    pairs: NDArray[np.complex128]
    limits: Floats
    prob: float

    @classmethod
    def of(cls, alpha: Floats, beta: Floats, prob: float) -> tuple[IntervalTable, Ints]:
        """Return the table of these pairs, and the index of each pair in it.

        >>> table, places = IntervalTable.of(np.array([3.0, 1.0, 3.0]), np.array([1.0, 1.0, 1.0]), 0.95)
        >>> places.tolist(), len(table.pairs)
        ([1, 0, 1], 2)
        """
        tail = _tail(prob)
        pairs, places = np.unique(alpha + 1j * beta, return_inverse=True)
        return cls(pairs, quantile(pairs.real, pairs.imag, [[tail], [1 - tail]]), prob), places

    def extended(self, alpha: Floats, beta: Floats) -> tuple[IntervalTable, Ints]:
        """Return the table with these pairs too, and the index of each pair; known intervals are looked up."""
        requested = alpha + 1j * beta
        places = np.searchsorted(self.pairs, requested)
        is_new = np.take(self.pairs, places, mode="clip") != requested if len(self.pairs) else places == 0
        if not is_new.any():
            return self, places
        new, new_places = IntervalTable.of(alpha[is_new], beta[is_new], self.prob)
        at = np.searchsorted(self.pairs, new.pairs)
        places += np.searchsorted(at, places, side="right")
        places[is_new] = (at + np.arange(len(at)))[new_places]
        pairs, limits = np.insert(self.pairs, at, new.pairs), np.insert(self.limits, at, new.limits, axis=1)
        return IntervalTable(pairs, limits, self.prob), places


def normal_interval(alpha: ArrayLike, beta: ArrayLike) -> tuple[Floats, Floats]:
    """Return the normal approximation that OpenClaw shows: mean ± 1.96 standard deviations, clamped to [0, 1]."""
    middle, spread = mean(alpha, beta), NORMAL_Z * np.sqrt(variance(alpha, beta))
    return np.clip(middle - spread, 0, 1), np.clip(middle + spread, 0, 1)


def highest_density(alpha: ArrayLike, beta: ArrayLike, prob: float = 0.95) -> tuple[Floats, Floats]:
    """Return the shortest interval that holds ``prob``: densities inside are at least those outside.

    Interior ends have equal densities. A density that only falls or only rises gives an interval from 0 or up
    to 1. NaN where no such interval exists: Beta(1, 1), and parts both below 1, whose density is highest at
    both ends at once.

    Parameters
    ----------
    alpha : array_like of float, any shape
        Successes and prior, above 0.
    beta : array_like of float, any shape
        Failures and prior, above 0.
    prob : float, optional
        Probability that the interval holds, in (0, 1).

    Returns
    -------
    lower : array of float, broadcast shape
        In [0, 1], or NaN.
    upper : array of float, broadcast shape
        In [0, 1], or NaN.

    Raises
    ------
    InvalidInput
        Unless ``prob`` lies strictly between 0 and 1.

    Examples
    --------
    >>> lower, upper = highest_density(3, 1)
    >>> round(float(lower), 3), float(upper)
    (0.368, 1.0)
    """
    outside = float(2 * Fraction(_tail(prob)))
    a, b, inverse = _different_pairs(alpha, beta)
    lower, upper = np.full(a.shape, np.nan), np.full(a.shape, np.nan)
    falls = (a <= 1) & (b >= 1) & ((a < 1) | (b > 1))
    lower[falls], upper[falls] = 0.0, quantile(a[falls], b[falls], prob)
    rises = (a >= 1) & (b <= 1) & ((a > 1) | (b < 1))
    lower[rises], upper[rises] = quantile(a[rises], b[rises], outside), 1.0
    left = (a > 1) & (b >= a)
    lower[left], upper[left] = _interior(a[left], b[left], prob, outside)
    right = (b > 1) & (a > b)
    below, above = _interior(b[right], a[right], prob, outside)
    lower[right], upper[right] = 1 - above, 1 - below
    return lower[inverse], upper[inverse]


def _interior(a: Floats, b: Floats, prob: float, outside: float) -> tuple[Floats, Floats]:
    """Return both ends where 1 < alpha <= beta: Newton's method on the log of the lower one, inside a bracket.

    The lower end determines the upper end, because the mass between them is fixed. One equation remains: equal log
    densities at both ends. Their difference rises from -inf at a lower end of 0 to +inf at its largest value.
    """
    mode = (a - 1) / (a + b - 2)
    most = np.log(np.minimum(mode, quantile(a, b, outside)))
    least = np.full(a.shape, _SMALLEST_LOG)
    log_low = np.clip(np.log(np.maximum(quantile(a, b, outside / 2), 5e-324)), least, most)
    open_ = np.arange(a.size)
    for _ in range(_HIGHEST_DENSITY_STEPS):
        if not open_.size:
            break
        gap, slope = _density_gap(a[open_], b[open_], log_low[open_], prob)
        least[open_] = np.where(gap < 0, log_low[open_], least[open_])
        most[open_] = np.where(gap < 0, most[open_], log_low[open_])
        with np.errstate(all="ignore"):
            step = log_low[open_] - gap / slope
        inside = (step > least[open_]) & (step < most[open_])
        step = np.where(inside, step, (least[open_] + most[open_]) / 2)
        moved = np.abs(step - log_low[open_])
        log_low[open_] = step
        open_ = open_[moved > 4e-15 * np.maximum(1, np.abs(step))]
    low = np.where(log_low <= _SMALLEST_LOG + 1, 0.0, np.exp(log_low))
    return low, _upper(a, b, low, prob)


def _upper(a: Floats, b: Floats, low: Floats, prob: float) -> Floats:
    """Return the upper end of the interval that begins at ``low``.

    SciPy's quantile has a relative error of up to 1e-5 with large parts, as in Beta(1000, 10000000). Two steps of
    Newton's method reach the precision of floats.
    """
    target = np.minimum(cumulative(a, b, low) + prob, 1)
    end = quantile(a, b, target)
    for _ in range(2):
        room = np.minimum(end, 1 - end)
        with np.errstate(all="ignore"):
            excess = cumulative(a, b, end) - target
            step = excess / density(a, b, end)
        # Where the density is almost zero, a rounding error of the mass gives a long step. It is ignored.
        longest = np.where(np.abs(excess) > 1e-12, 1e-3, 1e-6) * room
        end = np.where(np.abs(step) < longest, end - step, end)
    return end


def _density_gap(a: Floats, b: Floats, log_low: Floats, prob: float) -> tuple[Floats, Floats]:
    """Return the log density at the lower end minus that at the upper; its derivative by the log of the lower end."""
    low = np.exp(log_low)
    high = _upper(a, b, low, prob)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        gap = np.where(high < 1, log_density(a, b, low) - log_density(a, b, high), np.inf)
        at_low = (a - 1) - (b - 1) * low / (1 - low)
        at_high = (a - 1) / high - (b - 1) / (1 - high)
        slope = at_low - at_high * low * np.exp(gap)
    return gap, slope


def _log_density_inside(a: Floats, b: Floats, x: Floats) -> Floats:
    """Return the log density for 0 < x < 1: the logs of a binomial probability and of a factor, added.

    A count is its part less 1, or the part itself where that is below 1. The factor makes up for the difference.
    Counts may be fractions.
    """
    y = 1 - x
    log_x, log_y = np.log(x), np.log1p(-x)
    hits, misses = np.where(a < 1, a, a - 1), np.where(b < 1, b, b - 1)
    factor = np.where(a < 1, np.log(a) - log_x, 0.0) + np.where(b < 1, np.log(b) - log_y, 0.0)
    factor += np.where((a < 1) & (b < 1), -np.log(a + b), 0.0)
    factor += np.where((a >= 1) & (b >= 1), np.log(np.maximum(hits + misses + 1, 1)), 0.0)
    result: Floats = factor + hits * log_x + misses * log_y
    both = (hits > 0) & (misses > 0)
    hits, misses = hits[both], misses[both]
    n = hits + misses
    distance = misses * x[both] - hits * y[both]
    result[both] = (
        factor[both]
        + (_stirling_error(n) - _stirling_error(hits) - _stirling_error(misses))
        - hits * _deviance(distance / hits, log_x[both] + np.log(n / hits))
        - misses * _deviance(-distance / misses, log_y[both] + np.log(n / misses))
        - (np.log(hits) + np.log(misses / n)) / 2
        - _HALF_LOG_2PI
    )
    return result


def _deviance(t: Floats, log_ratio: Floats) -> Floats:
    """Return ``t - log(1 + t)``; near 0 by the series of the inverse hyperbolic tangent, where nothing cancels."""
    ratio = t / (2 + t)
    square = ratio * ratio
    series = np.zeros_like(t)
    for odd in range(37, 1, -2):
        series = series * square + 1 / odd
    return np.where(np.abs(t) <= 0.5, ratio * (t - 2 * square * series), t - log_ratio)


def _stirling_error(n: Floats) -> Floats:
    """Return ``log Gamma(n + 1)`` minus Stirling's formula for it."""
    plain = scipy.special.gammaln(n + 1) - (n + 0.5) * np.log(n) + n - _HALF_LOG_2PI
    inverse = 1 / np.maximum(n, _STIRLING_FROM)
    series = np.zeros_like(n)
    for coefficient in reversed(_STIRLING):
        series = series * inverse * inverse + coefficient
    return np.where(n < _STIRLING_FROM, plain, series * inverse)


def _parts(alpha: ArrayLike, beta: ArrayLike) -> tuple[Floats, Floats]:
    """Return both parts as floats, NaN where they are invalid."""
    a, b = np.asarray(alpha, dtype=np.float64), np.asarray(beta, dtype=np.float64)
    return (
        np.where((a > 0) & np.isfinite(a), a, np.nan),
        np.where((b > 0) & np.isfinite(b), b, np.nan),
    )


def _different_pairs(alpha: ArrayLike, beta: ArrayLike) -> tuple[Floats, Floats, Ints]:
    """Return every different (alpha, beta) once, and the index of each element's pair in the broadcast shape."""
    a, b = np.broadcast_arrays(*_parts(alpha, beta))
    if a.size < _UNIQUE_FROM:
        return a.ravel(), b.ravel(), np.arange(a.size).reshape(a.shape)
    pairs, inverse = np.unique(a.ravel() + 1j * b.ravel(), return_inverse=True)
    return pairs.real.copy(), pairs.imag.copy(), inverse.reshape(a.shape)


def _tail(prob: float) -> float:
    """Return the probability on either side, of the decimal a person wrote: 0.95 leaves 0.025, not 0.02500...02."""
    if not 0 < prob < 1:
        raise InvalidInput(
            f"prob must be above 0 and below 1, got {prob}.",
            next_step="Use 0.95 for the usual interval.",
        )
    return float((1 - Decimal(repr(float(prob)))) / 2)
