"""Pulls needed until the interval is as narrow as requested, if the mean stays the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import scipy

from core.columns import Bools, Floats, Ints
from core.errors import InvalidInput
from core.posterior.beta import interval

MOST_PULLS: Final = 10**9
"""Limit of pulls; a width that needs more has no answer."""

UNREACHABLE: Final = -1


def pulls_to_width(alpha: Floats, beta: Floats, width: float, *, prob: float = 0.95) -> Ints:
    """Return the fewest further pulls until the exact interval is at most ``width`` wide; -1 beyond 10^9.

    Each pull is taken to add one pseudo-count and to leave the mean where it is, so after n of them the posterior
    is Beta(mean (w + n), (1 - mean) (w + n)) with w = alpha + beta. At a fixed mean the width first rises (while
    nearly all mass sits at one end) and then only falls, so an interval that is too wide now has one point where
    it stops being so, and halving finds it. Exact: the answer's interval is narrow enough, that of one pull
    fewer is not.

    Parameters
    ----------
    alpha : array of float, shape (n_arms,)
        Successes and prior, above 0.
    beta : array of float, shape (n_arms,)
        Failures and prior, above 0.
    width : float
        Requested width, in (0, 1].
    prob : float, optional
        Probability that the interval holds, in (0, 1).

    Returns
    -------
    array of int, shape (n_arms,)
        Pulls, 0 or more, or -1.

    Raises
    ------
    InvalidInput
        Unless ``width`` is above 0 and at most 1, and ``prob`` strictly between 0 and 1.

    Examples
    --------
    >>> pulls_to_width(np.array([1.0, 9.5, 400.0]), np.array([1.0, 0.5, 2.0]), 0.2).tolist()
    [93, 5, 0]
    """
    if not 0 < width <= 1:
        raise InvalidInput(
            f"width must be above 0 and at most 1, got {width:g}.",
            next_step="0.2 asks for an interval like 0.40 to 0.60.",
        )
    pairs, inverse = np.unique(alpha + 1j * beta, return_inverse=True)
    weight, mean = pairs.real + pairs.imag, pairs.real / (pairs.real + pairs.imag)

    def too_wide(places: Ints, n: Ints) -> Bools:
        total = weight[places] + n
        lower, upper = interval(mean[places] * total, (1 - mean[places]) * total, prob)
        return np.asarray(upper - lower > width)

    z = float(scipy.special.ndtri((1 + prob) / 2))
    about = (2 * z / width) ** 2 * mean * (1 - mean) - weight
    needed = np.zeros(len(pairs), dtype=np.int64)
    open_ = np.flatnonzero(too_wide(np.arange(len(pairs)), needed))
    least, most = _bracket(open_, about[open_], too_wide)
    needed[open_[least >= MOST_PULLS]] = UNREACHABLE
    reachable = least < MOST_PULLS
    _halve(needed, open_[reachable], least[reachable], most[reachable], too_wide)
    return needed[inverse.reshape(-1)]


def _bracket(places: Ints, about: Floats, too_wide: Callable[[Ints, Ints], Bools]) -> tuple[Ints, Ints]:
    """Return the numbers of pulls with an interval too wide, and narrow enough, around the normal approximation's."""
    least = np.clip(np.floor(about * 0.9), 0, MOST_PULLS).astype(np.int64)
    least[~too_wide(places, least)] = 0
    most = np.clip(np.ceil(about * 1.1), 8, MOST_PULLS).astype(np.int64)
    wide = np.flatnonzero(too_wide(places, most))
    while wide.size:
        least[wide] = most[wide]
        wide = wide[most[wide] < MOST_PULLS]
        most[wide] = np.minimum(most[wide] * 2, MOST_PULLS)
        wide = wide[too_wide(places[wide], most[wide])]
    return least, most


def _halve(
    needed: Ints, places: Ints, least: Ints, most: Ints, too_wide: Callable[[Ints, Ints], Bools]
) -> None:
    """Close the brackets; ``needed`` receives their upper ends."""
    while places.size:
        needed[places] = most
        going = most - least > 1
        places, least, most = places[going], least[going], most[going]
        middle = (least + most) // 2
        wide = too_wide(places, middle)
        least, most = np.where(wide, middle, least), np.where(wide, most, middle)
