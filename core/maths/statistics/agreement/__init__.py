"""Agreement of raters: how much they agree on the same items, its interval, and the weight of each rater.

A rater judges an item once: an earlier judgement that was revised doesn't count.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from core.columns import Bools, Floats, Ints
from core.errors import InvalidInput
from core.maths.statistics.agreement.alpha import check_rows, level_counts, levels_of, paired_scores
from core.maths.statistics.agreement.interval import ItemSums, agreement, agreement_of, kinds_of, prob_differ
from core.maths.statistics.savings.shares import share
from core.records.agreement import Agreement, GraderAgreement, Metric, NoAgreement, Reliability

SUCCESS: Final = 1
FAILURE: Final = 0
ABSENT: Final = -1


@dataclass(frozen=True, kw_only=True)
class PairAgreement:
    """Agreement of two raters on the items that both judged."""

    rater: int
    other: int
    agreement: Agreement


@dataclass(frozen=True, kw_only=True)
class RaterAgreement:
    """Agreement of one rater with all others on the items that it shares with any of them."""

    rater: int
    agreement: Agreement

    @property
    def weight(self) -> float | None:
        """Weight of this rater's judgements: alpha if its interval lies above 0, else 0.

        With reliability r the best guess of a true score is r times the observed one and 1 - r times the mean; alpha
        is such an r (T. L. Kelley, *Interpretation of Educational Measurements*, 1927, 177-179). Agreement that may
        be chance counts as chance, so a rater who always gives the same value has weight 0. None if too few items
        are shared, or nothing varies: a rater is not silenced for being new.
        """
        alpha, lower = self.agreement.alpha, self.agreement.lower
        if alpha is None or lower is None:
            return None
        return min(max(alpha, 0.0), 1.0) if lower > 0 else 0.0


def pairwise(
    item: Ints,
    rater: Ints,
    value: Ints | Floats,
    metric: Metric,
    *,
    seed: int,
) -> tuple[PairAgreement, ...]:
    """Return the agreement of each two raters who judged an item in common.

    Parameters
    ----------
    item : array of int, shape (n_rows,)
        What was judged, 0 or more.
    rater : array of int, shape (n_rows,)
        By whom, 0 or more; each item once.
    value : array of int or float, shape (n_rows,)
        Levels 0 to 31 with -1 for absent (nominal, ordinal), or finite scores with NaN for absent (interval).
    metric : Metric
        How far two values lie apart.
    seed : int
        Of the resampling, 0 or more; each pair has numbers of its own.

    Returns
    -------
    tuple of PairAgreement
        By the raters' numbers; pairs without a common item are missing.

    Raises
    ------
    InvalidInput
        Where rows are not aligned, a number or value is not allowed, or a rater judged an item twice.

    References
    ----------
    K. Krippendorff, *Content Analysis*, 4th ed., 2019, ch. 12 (doi:10.4135/9781071878781).

    Examples
    --------
    >>> item, rater = np.tile(np.arange(20), 3), np.repeat([0, 1, 2], 20)
    >>> good = np.tile([0, 1], 10)
    >>> result = pairwise(item, rater, np.concatenate((good, good, 1 - good)), "nominal", seed=1)
    >>> [(pair.rater, pair.other, round(pair.agreement.alpha, 3)) for pair in result]
    [(0, 1, 1.0), (0, 2, -0.95), (1, 2, -0.95)]
    """
    item, rater, value = _present(item, rater, value, metric)
    rows = {one: np.flatnonzero(rater == one) for one in np.unique(rater).tolist()}
    pairs = []
    for one, other in combinations(rows, 2):
        _, mine, theirs = np.intersect1d(
            item[rows[one]], item[rows[other]], assume_unique=True, return_indices=True
        )
        if len(mine):
            both = value[np.concatenate((rows[one][mine], rows[other][theirs]))]
            of_pair = _of_two(both, metric, seed=(seed, one, other))
            pairs.append(PairAgreement(rater=one, other=other, agreement=of_pair))
    return tuple(pairs)


def graders_against_humans(
    item: Ints,
    rater: Ints,
    outcome: Ints,
    *,
    is_human: Bools,
    is_model: Bools,
    seed: int,
) -> tuple[GraderAgreement, ...]:
    """Compare each model grader with the outcome that most people gave to the same items.

    Parameters
    ----------
    item : array of int, shape (n_rows,)
        What was judged, 0 or more.
    rater : array of int, shape (n_rows,)
        By whom, 0 to ``n_raters - 1``; each item once.
    outcome : array of int, shape (n_rows,)
        1 success, 0 failure, -1 absent.
    is_human : array of bool, shape (n_raters,)
        Raters who are people.
    is_model : array of bool, shape (n_raters,)
        Raters who are model graders; who is neither takes no part.
    seed : int
        Of the resampling, 0 or more; each grader has numbers of its own.

    Returns
    -------
    tuple of GraderAgreement
        By the graders' numbers; those that judged nothing are missing.

    Raises
    ------
    InvalidInput
        Where rows are not aligned, a number or outcome is not allowed, or a rater judged an item twice.

    References
    ----------
    * K. Krippendorff, *Content Analysis*, 4th ed., 2019, ch. 12 (doi:10.4135/9781071878781): alpha.
    * E. B. Wilson, *J. Am. Stat. Assoc.* 22, 1927, 209 (doi:10.1080/01621459.1927.10502953): the interval of hits.
    """
    item, rater, outcomes = _present(item, rater, outcome, "nominal")
    outcomes = outcomes.astype(np.int64)
    if len(rater) and int(rater.max()) >= min(len(is_human), len(is_model)):
        raise InvalidInput(
            f"rater must be below {min(len(is_human), len(is_model))}, got {int(rater.max())}.",
            next_step="Say of every rater whether it is a person or a model.",
        )
    if len(outcomes) and int(outcomes.max()) > SUCCESS:
        raise InvalidInput(
            f"outcome must be 1 (success), 0 (failure) or -1 (absent), got {int(outcomes.max())}.",
            next_step="Give outcomes, not labels.",
        )
    people = _people(item, outcomes, is_human[rater])
    graders = []
    for one in np.unique(rater[is_model[rater]]).tolist():
        mine = rater == one
        graders.append(_beside_people(one, outcomes[mine], people[:, item[mine]], seed=seed))
    return tuple(graders)


def against_rest(
    item: Ints,
    rater: Ints,
    value: Ints | Floats,
    metric: Metric,
    *,
    seed: int,
) -> tuple[RaterAgreement, ...]:
    """Return the agreement of each rater with the others, all others of an item together weighing as much as the
    rater.

    Alpha of two sides: the rater's value, and those of the others, each with its share of 1. Pairs among the others
    don't enter, so one careless rater does not affect the result of the careful; with one other it is the
    agreement of the two.

    Parameters
    ----------
    item : array of int, shape (n_rows,)
        What was judged, 0 or more.
    rater : array of int, shape (n_rows,)
        By whom, 0 or more; each item once.
    value : array of int or float, shape (n_rows,)
        Levels 0 to 31 with -1 for absent (nominal, ordinal), or finite scores with NaN for absent (interval).
    metric : Metric
        How far two values lie apart.
    seed : int
        Of the resampling, 0 or more; each rater has numbers of its own.

    Returns
    -------
    tuple of RaterAgreement
        By the raters' numbers, with the weight that each one's agreement suggests.

    Raises
    ------
    InvalidInput
        Where rows are not aligned, a number or value is not allowed, or a rater judged an item twice.

    References
    ----------
    * K. Krippendorff, *Content Analysis*, 4th ed., 2019, ch. 12 (doi:10.4135/9781071878781): alpha.
    * T. L. Kelley, *Interpretation of Educational Measurements*, 1927, 177-179: the weight.

    Examples
    --------
    >>> item, rater = np.tile(np.arange(40), 3), np.repeat([0, 1, 2], 40)
    >>> good = np.tile([0, 1], 20)
    >>> careless = np.ones(40, dtype=np.int64)
    >>> result = against_rest(item, rater, np.concatenate((good, good, careless)), "nominal", seed=1)
    >>> [one.weight for one in result][2], result[0].weight > 0.3
    (0.0, True)
    """
    item, rater, value = _present(item, rater, value, metric)
    shared = np.bincount(item)[item] >= 2
    item, rater, value = item[shared], rater[shared], value[shared]
    n_others = np.bincount(item)[item] - 1
    code = np.unique(value, return_inverse=True)[1]
    n_equal = _n_equal(item, code)
    kinds, kind = kinds_of(_rows_beside(item, value, metric))
    agreements = []
    for one in np.unique(rater).tolist():
        mine = rater == one
        is_mine = np.bincount(item[mine], minlength=int(item.max()) + 1) > 0
        margin = np.bincount(code, np.where(mine, 1.0, is_mine[item] / n_others))
        n_of = np.bincount(kind[mine], minlength=len(kinds))
        sums = ItemSums(
            metric=metric,
            kinds=kinds[n_of > 0],
            n_of=n_of[n_of > 0],
            prob_differ=prob_differ(margin),
            n_pairs=int(n_others[mine].sum()),
            n_equal=float(n_equal[mine].sum()),
        )
        agreements.append(RaterAgreement(rater=one, agreement=agreement_of(sums, seed=(seed, one))))
    return tuple(agreements)


def _present(
    item: Ints, rater: Ints, value: Ints | Floats, metric: Metric
) -> tuple[Ints, Ints, Ints | Floats]:
    """Return the rows that have a value, checked."""
    check_rows(item, rater, value)
    check_rows(rater)
    if metric != "interval":
        value = levels_of(value)
    held = ~np.isnan(value) if metric == "interval" else value != ABSENT
    item, rater, value = item[held], rater[held], value[held]
    n_raters = int(rater.max(initial=0)) + 1
    pair = np.sort(item * n_raters + rater)
    again = pair[1:][np.diff(pair) == 0]
    twice = divmod(int(again[0]), n_raters) if len(again) else None
    if twice is not None:
        raise InvalidInput(
            f"a rater must judge an item once, got item {twice[0]} of rater {twice[1]} again.",
            next_step="Leave out judgements that were revised.",
        )
    return item, rater, value


def _n_equal(item: Ints, code: Ints) -> Ints:
    """Return the number of other judgements of the same item that are equal to each one."""
    judged = item * (int(code.max(initial=0)) + 1) + code
    _, index, count = np.unique(judged, return_inverse=True, return_counts=True)
    return np.asarray(count[index] - 1)


def _rows_beside(item: Ints, value: Ints | Floats, metric: Metric) -> Floats:
    if metric == "interval":
        return _scores_beside(item, np.asarray(value, dtype=np.float64))
    level = levels_of(value)  # its coincidences with the other levels share a weight of 1
    counts = level_counts(item, level)
    own = np.eye(counts.shape[1])[level]
    others = counts[item] - own
    others /= others.sum(axis=1, keepdims=True)
    both = own[:, :, None] * others[:, None, :]
    return np.asarray((both + both.transpose(0, 2, 1)).reshape(len(own), counts.shape[1] ** 2))


def _scores_beside(item: Ints, score: Floats) -> Floats:
    """Return `score_sums` for each judgement: its own score, and the others, which share a weight of 1."""
    _, own, n = paired_scores(item, score)
    n_others = n[item] - 1
    mean = (np.bincount(item, own)[item] - own) / n_others
    square = (np.bincount(item, own**2)[item] - own**2) / n_others
    apart = 2 * np.maximum(own**2 - 2 * own * mean + square, 0)
    return np.column_stack((np.full(len(own), 2.0), own + mean, own**2 + square, apart))


def _people(item: Ints, outcome: Ints, counted: Bools) -> Ints:
    """Return for each item the number of counted rows with outcome failure, and with success."""
    n_items = int(item.max(initial=-1)) + 1
    failures, successes = (
        np.bincount(item[counted & (outcome == value)], minlength=n_items) for value in (FAILURE, SUCCESS)
    )
    return np.array([failures, successes])


def _beside_people(rater: int, outcome: Ints, people: Ints, *, seed: int) -> GraderAgreement:
    """Return the agreement of one grader; ``people`` counts failures and successes that people gave to the same
    items.
    """
    clear = people[FAILURE] != people[SUCCESS]
    alone = people.sum(axis=0) == 0
    mine = outcome[clear]
    theirs = (people[SUCCESS] > people[FAILURE])[clear].astype(np.int64)
    table = np.bincount(2 * theirs + mine, minlength=4).tolist()
    return GraderAgreement(
        rater=rater,
        agreement=_of_two(np.concatenate((mine, theirs)), "nominal", seed=(seed, rater)),
        hits=share(table[0] + table[3], len(mine)),
        counts=((table[0], table[1]), (table[2], table[3])),
        n_ties=int((~clear & ~alone).sum()),
        n_alone=int(alone.sum()),
    )


def _of_two(both: Ints | Floats, metric: Metric, *, seed: tuple[int, ...]) -> Agreement:
    """Return the agreement of two sides: all that one says, then what the other says of the same items."""
    return agreement(np.tile(np.arange(len(both) // 2), 2), both, metric, seed=seed)
