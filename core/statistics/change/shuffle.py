"""Sessions → how often a random order of them sets the later ones so far apart.

What is shuffled are whole sessions, because runs of one session resemble each other: if nothing changed, every
order of them is equally likely, however much they differ. With one run a session this is Fisher's exact test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy

from core.columns import Floats, Ints

_STEPS: Final = 60
_CLOSE: Final = 1e-10
_NEAR_CENTRE: Final = 1e-3
"""Distance from the expected sum within which the formula divides 0 by 0; one half is right there."""


def chance_of_sum(value: Floats, count: Ints, n_sampled: Ints, at_least: Floats) -> Floats:
    """Return the chance that ``n_sampled`` values, drawn without replacement, add up to ``at_least`` or more.

    The population holds each of ``value`` (at least two different ones) ``count`` times. ``n_sampled`` (above 0 and
    below the size of the population) and ``at_least`` have one entry for each question. The double saddlepoint
    approximation of Skovgaard for the conditional distribution that sampling without replacement is; its relative
    error is a few percent in tails where counting orders would take millions. 1 at or below the expected sum. Asked
    for half a step less, where sums have steps, it is on the safe side, by a half at most.

    References
    ----------
    * I. M. Skovgaard, *J. Appl. Probab.* 24, 1987, 875-887: the approximation.
    * J. Robinson, *J. R. Stat. Soc. B* 44, 1982, 91-101: its use for sampling without replacement.

    Examples
    --------
    >>> from scipy.stats import hypergeom
    >>> result = chance_of_sum(np.array([0.0, 1.0]), np.array([700, 300]), np.array([100]), np.array([59.5]))
    >>> f"{result[0]:.1e}", f"{hypergeom.sf(59, 1_000, 300, 100):.1e}"
    ('5.0e-11', '4.6e-11')
    """
    centre = float((value * count).sum() / count.sum())
    scale = float(np.abs(value - centre).max())
    away = (value - centre) / scale
    target = (at_least - n_sampled * centre) / scale
    chance = np.ones(len(target))
    beyond = np.flatnonzero((target > 0) & (target < _most(away, count, n_sampled)))
    if len(beyond):
        draws = _Draw(away, count.astype(np.float64), n_sampled[beyond].astype(np.float64), target[beyond])
        chance[beyond] = draws.tail()
    return chance


def _most(away: Floats, count: Ints, n_sampled: Ints) -> Floats:
    """Return the largest sum that so many can have."""
    order = np.argsort(-away)
    until = np.concatenate(([0], np.cumsum(count[order])))
    sums = np.concatenate(([0.0], np.cumsum(away[order] * count[order])))
    return np.interp(n_sampled, until, sums)


@dataclass(frozen=True)
class _Draw:
    """Sums ``target`` of ``n_sampled`` from a population with mean 0, its values within -1 and 1."""

    away: Floats
    count: Floats
    n_sampled: Floats
    target: Floats

    def tail(self) -> Floats:
        base, tilt = self._saddlepoint()
        root = np.sqrt(np.maximum(2 * (self._height(self._flat, 0 * tilt) - self._height(base, tilt)), 0))
        spread, both, twice = self._curvature(base, tilt)
        of_number = self.n_sampled * (1 - self.n_sampled / self.count.sum())
        slope = tilt * np.sqrt(np.maximum(spread * twice - both**2, 0) / of_number)
        with np.errstate(divide="ignore", invalid="ignore"):
            tail = scipy.special.ndtr(-root) + np.exp(-(root**2) / 2) / np.sqrt(2 * np.pi) * (
                1 / slope - 1 / root
            )
        tail = np.where(np.isfinite(tail) & (tail > 0), tail, scipy.special.ndtr(-root))
        return np.where(root < _NEAR_CENTRE, 0.5, np.minimum(tail, 1.0))

    def _saddlepoint(self) -> tuple[Floats, Floats]:
        """Return the tilt that gives the expected number and sum: damped Newton steps, for all questions at once."""
        base, tilt = self._flat, np.zeros(len(self.target))
        height = self._height(base, tilt)
        for _ in range(_STEPS):
            expected = self._chances(base, tilt) * self.count
            off_n, off_sum = expected.sum(axis=1) - self.n_sampled, expected @ self.away - self.target
            if max(np.abs(off_n / self.n_sampled).max(), np.abs(off_sum).max()) < _CLOSE:
                break
            spread, both, twice = self._curvature(base, tilt)
            area = np.maximum(spread * twice - both**2, 1e-300)
            by_base, by_tilt = twice * off_n - both * off_sum, spread * off_sum - both * off_n
            step = 1 / area
            for _ in range(_STEPS):
                moved = base - step * by_base, tilt - step * by_tilt
                lower = self._height(*moved)
                too_far = ~(lower <= height + 1e-12 * np.abs(height))
                if not too_far.any():
                    break
                step = np.where(too_far, step / 2, step)
            (base, tilt), height = moved, lower
        return base, tilt

    @property
    def _flat(self) -> Floats:
        return np.asarray(np.log(self.n_sampled / (self.count.sum() - self.n_sampled)))

    def _chances(self, base: Floats, tilt: Floats) -> Floats:
        """Return the chance of each value to be drawn."""
        return np.asarray(scipy.special.expit(base[:, None] + tilt[:, None] * self.away))

    def _height(self, base: Floats, tilt: Floats) -> Floats:
        """Return the convex function that is least at the saddlepoint."""
        sums = np.logaddexp(0, base[:, None] + tilt[:, None] * self.away) @ self.count
        return np.asarray(sums - base * self.n_sampled - tilt * self.target)

    def _curvature(self, base: Floats, tilt: Floats) -> tuple[Floats, Floats, Floats]:
        expected = self._chances(base, tilt)
        weight = expected * (1 - expected) * self.count
        return weight.sum(axis=1), weight @ self.away, weight @ self.away**2
