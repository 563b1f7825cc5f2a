"""Confidence in arms: bands by type, pulls needed for the next band.

Pulls needed until the interval is as narrow as requested, if the mean stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy

from core.columns import ArmColumns, Bools, Floats, Ints
from core.errors import InvalidInput
from core.maths.packing import seed_places
from core.maths.posterior.bands import pulls_to_next
from core.maths.posterior.beta import interval
from core.maths.statistics.summary import Summary
from core.records.arm import ARM_TYPES, BANDS, ArmType

_TYPE_CODES: Final = {one: code for code, one in enumerate(ARM_TYPES)}

MOST_PULLS: Final = 10**9
"""Limit of pulls; a width that needs more has no answer."""

UNREACHABLE: Final = -1


def means_over_time(columns: ArmColumns, arm: Ints, success_micro: Ints, failure_micro: Ints) -> Floats:
    """Return the posterior mean of an arm after each of its entries, computed backwards from the present one.

    Parameters
    ----------
    columns : ArmColumns
        What is believed now.
    arm : array of int, shape (n,)
        Which arm each entry is of; the entries of an arm ascend in time and end at the present.
    success_micro : array of int, shape (n,)
        What the arm gathered of success in the entry, in millionths.
    failure_micro : array of int, shape (n,)
        What it gathered of failure.

    Returns
    -------
    array of float, shape (n,)
        The means.
    """
    means = np.empty(len(arm), dtype=np.float64)
    for one in np.unique(arm):
        mine = np.flatnonzero(arm == one)
        later = [_after(amounts[mine]) for amounts in (success_micro, failure_micro)]
        alpha, beta = columns.alpha[one] - later[0] / 1e6, columns.beta[one] - later[1] / 1e6
        means[mine] = alpha / (alpha + beta)
    return means


def _after(amounts: Ints) -> Ints:
    """Return the sum of the entries after each entry."""
    return np.asarray(amounts.sum() - np.cumsum(amounts), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class TypeBands:
    """Number of arms of one type in each of the five bands."""

    type: ArmType
    counts: tuple[int, ...]

    @property
    def n_arms(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, kw_only=True)
class Confidence:
    """Confidence in the arms. Arrays are aligned with the columns unless stated otherwise.

    ``counts`` follows `BANDS`. ``pulls_to_next`` is 0 in the highest band.
    ``under_explored`` and ``next_in_line`` hold indexes in the columns: arms below ``min_pulls``, fewest pulls
    first; and arms not yet in the highest band, fewest missing pulls first (ties by id).
    """

    n_arms: int
    prob: float
    keys: tuple[str, ...]
    types: tuple[ArmType, ...]
    pulls: Ints
    band: Ints
    width: Floats
    pulls_to_next: Ints
    counts: tuple[int, ...]
    by_type: tuple[TypeBands, ...]
    min_pulls: int
    under_explored: Ints
    next_in_line: Ints


def confidence(
    columns: ArmColumns, summary: Summary, *, min_pulls: int = 5, excluded: Collection[str] = ()
) -> Confidence:
    """Return how much is known of each arm; ``summary`` is that of ``columns``.

    Parameters
    ----------
    columns : ArmColumns of n_arms
        Counts of every arm, sorted by id.
    summary : Summary of n_arms
        What is believed of the same arms.
    min_pulls : int, optional
        Pulls under which an arm is under-explored, 0 or more.
    excluded : collection of str, optional
        Ids of the arms that a setting excludes; none of them is under-explored.

    Returns
    -------
    Confidence
        Bands, widths and pulls that are missing, arm by arm.
    """
    band, pulls = summary.band, columns.pulls
    to_next = pulls_to_next(pulls)
    is_under = pulls < min_pulls
    is_under[seed_places(columns.keys, excluded)] = False
    return Confidence(
        n_arms=len(columns),
        prob=summary.prob,
        keys=columns.keys,
        types=columns.types,
        pulls=pulls,
        band=band,
        width=summary.width,
        pulls_to_next=to_next,
        counts=tuple(np.bincount(band, minlength=len(BANDS)).tolist()),
        by_type=_by_type(columns.types, band),
        min_pulls=min_pulls,
        under_explored=_first(pulls, is_under),
        next_in_line=_first(to_next, to_next > 0),
    )


def _by_type(types: tuple[ArmType, ...], band: Ints) -> tuple[TypeBands, ...]:
    """Return the types that have arms, in the order of `ARM_TYPES`."""
    code = np.fromiter((_TYPE_CODES[one] for one in types), dtype=np.int64, count=len(types))
    table = np.bincount(code * len(BANDS) + band, minlength=len(ARM_TYPES) * len(BANDS))
    rows = table.reshape(len(ARM_TYPES), len(BANDS)).tolist()
    return tuple(
        TypeBands(type=one, counts=tuple(row)) for one, row in zip(ARM_TYPES, rows, strict=True) if any(row)
    )


def _first(value: Ints, mask: Bools) -> Ints:
    """Return the indexes of the arms in the mask, smallest value first, ties by id."""
    places = np.flatnonzero(mask)
    return places[np.argsort(value[places], kind="stable")]


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
