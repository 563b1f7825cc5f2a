"""Outlier raters: judgements of the same items by several raters → who differs from the others, beyond chance.

If raters are alike, then of an item that s of m of them call a success each is one of the s with the chance s/m,
for any item; items are independent. So the number of successes of one rater is a sum of independent trials with known
chances (Poisson's binomial), and its tails are exact: no normal approximation, no shuffling. With two raters it is
the exact test of McNemar. The same holds for how often one is in the minority, which finds the rater who guesses at
the right rate.

Among alike raters a panel has a false alarm in at most one of a hundred: the smallest tail is multiplied by the
number of tests (Bonferroni), and only when it is still below .01, that rater is named, left out, and the rest looked
at again. Leaving out is what keeps one lenient rater from making all others look strict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import scipy

from core.columns import Bools, Floats, Ints
from core.errors import InvalidInput
from core.records.evaluation_page import Grader

FALSE_ALARM: Final = 0.01
"""Chance that any rater of a panel of alike raters is named."""

LEAST_APART: Final = 0.05
"""A difference below this is no alarm, however sure: no two people are quite alike."""

_ALIKE: Final = 1e-9
"""Relative difference of tails that are the same but for rounding: two raters part from each other equally."""

PartingWay = Literal["more_success", "less_success", "stands_alone"]
"""Says success more, or less, often than the others of the same items; or is more often in the minority."""


@dataclass(frozen=True, kw_only=True)
class Parting:
    """Outlier rater: one who differs from the others on the same items.

    On ``n_items`` items that it shares with others (of those not named before it) ``share`` is its share of
    successes and ``others`` theirs, every item weighing the same. For ``stands_alone``, ``n_items`` are those on
    which a minority opposed a majority, ``share`` how often it was in the minority, and ``others`` how often it
    would be if it were like them. ``prob`` is the chance of as much among alike raters, all raters and ways taken
    into account. ``divided``: with just one other rater it is open which of the two is off, and both are named.
    """

    rater: int
    way: PartingWay
    share: float
    others: float
    n_items: int
    prob: float
    divided: bool


@dataclass(frozen=True, kw_only=True)
class PartingGrader:
    """Outlier rater with the name of the grader."""

    grader: Grader
    parting: Parting


@dataclass(frozen=True)
class _Sides:
    """Counts for each rater: shared items, its own hits, the others' hits (by shares), and the tail probability."""

    way: PartingWay
    rater: Ints
    n_items: Ints
    n_hits: Ints
    n_others: Floats
    prob: Floats

    @property
    def far(self) -> Bools:
        return np.abs(self.n_hits - self.n_others) >= LEAST_APART * np.maximum(self.n_items, 1)


def parting_raters(item: Ints, rater: Ints, is_success: Bools) -> tuple[Parting, ...]:
    """Return the raters who differ from the others on the same items; a claim is wrong in at most 1 of 100 panels.

    Parameters
    ----------
    item : array of int, shape (n_rows,)
        What was judged, 0 or more.
    rater : array of int, shape (n_rows,)
        By whom, 0 or more; each item once.
    is_success : array of bool, shape (n_rows,)
        The outcome given.

    Returns
    -------
    tuple of Parting
        The surest first; empty without outliers.

    Raises
    ------
    InvalidInput
        Where rows are not aligned, a number is below 0, or a rater judged an item twice.

    References
    ----------
    * Q. McNemar, *Psychometrika* 12, 1947, 153 (doi:10.1007/BF02295996): two raters.
    * W. G. Cochran, *Biometrika* 37, 1950, 256 (doi:10.1093/biomet/37.3-4.256): the same for more, approximately.
    * Y. H. Wang, *Stat. Sin.* 3, 1993, 295: the number of successes in independent trials.

    Examples
    --------
    >>> item, rater = np.tile(np.arange(60), 3), np.repeat([0, 1, 2], 60)
    >>> good = np.arange(60) % 2 == 0
    >>> result = parting_raters(item, rater, np.concatenate((good, good, np.ones(60, dtype=np.bool_))))
    >>> [(one.rater, one.way, one.share, round(one.others, 3)) for one in result]
    [(2, 'more_success', 1.0, 0.5)]
    """
    _check(item, rater, is_success)
    parted: list[Parting] = []
    while len(item):
        named = _named(item, rater, is_success)
        if not named:
            break
        parted += named
        remaining = ~np.isin(rater, [one.rater for one in named])
        item, rater, is_success = item[remaining], rater[remaining], is_success[remaining]
    return tuple(parted)


def tail_of_trials(prob: Floats, n_trials: Ints, at_least: int) -> float:
    """Return the exact chance of at least so many successes in independent trials.

    Y. H. Wang, *Stat. Sin.* 3, 1993, 295: Poisson's binomial distribution.
    """
    if at_least <= 0:
        return 1.0
    whole = np.ones(1)
    for one, n in zip(prob.tolist(), n_trials.tolist(), strict=True):
        whole = np.convolve(whole, scipy.stats.binom.pmf(np.arange(n + 1), n, one))
    return float(min(whole[at_least:].sum(), 1.0))


def _named(item: Ints, rater: Ints, is_success: Bools) -> list[Parting]:
    """Return the surest outlier, if any; both raters if two differ from each other equally."""
    sides = _sides(item, rater, is_success)
    n_tests = sum(int((side.n_items > 0).sum()) for side in sides)
    sure = [np.where(side.far, side.prob * n_tests, np.inf) for side in sides]
    least = min((float(prob.min(initial=np.inf)) for prob in sure), default=np.inf)
    if least > FALSE_ALARM:
        return []
    first = np.flatnonzero(np.min(sure, axis=0) <= least * (1 + _ALIKE)).tolist()
    return [_parting(sides, sure, index, divided=len(first) > 1) for index in first]


def _parting(sides: list[_Sides], sure: list[Floats], index: int, *, divided: bool) -> Parting:
    """Return the outlier by the first sure way: a shifted rate says more than often being in the minority."""
    way = next(number for number, prob in enumerate(sure) if prob[index] <= FALSE_ALARM)
    side, n_items = sides[way], int(sides[way].n_items[index])
    share, others = int(side.n_hits[index]) / n_items, float(side.n_others[index]) / n_items
    if side.way == "less_success":
        share, others = 1 - share, 1 - others
    return Parting(
        rater=int(side.rater[index]),
        way=side.way,
        share=share,
        others=others,
        n_items=n_items,
        prob=float(sure[way][index]),
        divided=divided,
    )


def _sides(item: Ints, rater: Ints, is_success: Bools) -> list[_Sides]:
    """Return the counts of all three ways for every rater: more successes, fewer, and more often in the minority."""
    n = np.bincount(item)[item]
    n_good = np.bincount(item, is_success)[item].astype(np.int64)
    shared = n >= 2
    rater, is_success, n, n_good = rater[shared], is_success[shared], n[shared], n_good[shared]
    n_few = np.minimum(n_good, n - n_good)
    is_few = is_success == (2 * n_good < n)
    odd = (n_few > 0) & (2 * n_few != n)
    few = n_few / n
    who = np.unique(rater)
    more, less = (n_good - is_success) / (n - 1), (n - n_good - ~is_success) / (n - 1)
    return [
        _side("more_success", who, rater, hits=is_success, chance=n_good / n, others=more),
        _side("less_success", who, rater, hits=~is_success, chance=(n - n_good) / n, others=less),
        _side("stands_alone", who, rater[odd], hits=is_few[odd], chance=few[odd], others=few[odd]),
    ]


def _side(way: PartingWay, who: Ints, rater: Ints, *, hits: Bools, chance: Floats, others: Floats) -> _Sides:
    """Return the counts of one way. ``hits``: whether the rater judged so; ``chance`` of it among raters who are
    alike, ``others``: share of the others who did.
    """
    index = np.searchsorted(who, rater)
    n_items = np.bincount(index, minlength=len(who))
    n_hits = np.bincount(index[hits], minlength=len(who))
    n_others = np.zeros(len(who))
    np.add.at(n_others, index, others)
    prob = np.ones(len(who))
    open_ = (chance > 0) & (chance < 1)
    for one in np.flatnonzero(n_hits > n_others).tolist():
        mine = open_ & (index == one)
        kinds, count = np.unique(chance[mine], return_counts=True)
        prob[one] = tail_of_trials(kinds, count, int(hits[mine].sum()))
    return _Sides(way, who, n_items, n_hits, n_others, prob)


def _check(item: Ints, rater: Ints, is_success: Bools) -> None:
    if not len(item) == len(rater) == len(is_success):
        raise InvalidInput(
            f"columns must be equally long, got {len(item)}, {len(rater)} and {len(is_success)} rows.",
            next_step="Give one row a judgement.",
        )
    if len(item) and min(int(item.min()), int(rater.min())) < 0:
        raise InvalidInput(
            f"item and rater must be 0 or more, got {min(int(item.min()), int(rater.min()))}.",
            next_step="Number items and raters from 0.",
        )
    if len(np.unique(item + 1j * rater)) < len(item):
        raise InvalidInput(
            "a rater must judge an item once, got some twice.",
            next_step="Leave out judgements that were revised.",
        )
