"""Sums of every arm before and since each of the last days, and how far they are apart.

The hypergeometric distribution is computed here, without the second that importing ``scipy.stats`` takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import scipy

from core.columns import UNKNOWN, ArmColumns, Bools, Floats, Ints, RecentDays
from core.records.arm import MICRO

WINDOW_DAYS: Final = 28
"""Number of days, up to the end of the data, at whose beginning a change is tested."""

FALSE_ALARM: Final = 0.01
"""At most this often does one look at a learner name any arm that did not change."""

MIN_BEFORE: Final = 10
MIN_AFTER: Final = 5
MIN_CHANGE: Final = 0.1
"""Least change of the mean. With many observations a change of a hundredth is sure, but needs no attention."""


_MAY_COUNT: Final = 4.0
"""Twice the log-likelihood ratio under which no exact test is worth its time: none would be below .01."""


def chance_of_at_most(n_good: Any, size: Any, n_all_good: Any, n_drawn: Any) -> Floats:  # noqa: ANN401 - numbers or arrays
    """Return ``scipy.stats.hypergeom.cdf`` of the same arguments, bit for bit.

    >>> float(chance_of_at_most(1, 4, 2, 2).round(12))
    0.833333333333
    """
    count, size, n_all_good, n_drawn = np.broadcast_arrays(
        *(np.asarray(one, dtype=np.float64) for one in (n_good, size, n_all_good, n_drawn))
    )
    least, most = np.maximum(n_drawn - (size - n_all_good), 0), np.minimum(n_all_good, n_drawn)
    is_valid = (size > 0) & (n_all_good >= 0) & (n_drawn >= 0) & (n_all_good <= size) & (n_drawn <= size)
    chance = np.where(is_valid, np.where(count >= most, 1.0, 0.0), np.nan)
    inside = is_valid & (count >= least) & (count < most)
    if inside.any():
        # The ufunc that scipy.stats itself calls. It has no public name.
        arguments = (one[inside] for one in (count, n_all_good, n_drawn, size))
        chance[inside] = np.clip(scipy.special._ufuncs._hypergeom_cdf(*arguments), 0, 1)
    return chance


@dataclass(frozen=True, kw_only=True)
class Splits:
    """One row per arm, one column per day of the window: sums since the beginning of that day, and before it.

    ``prob`` is how often so many single observations would lie so far apart, in either direction, if nothing had
    changed and each were independent of all others: 1 where it is not worth the question.
    """

    arm: Ints
    day: Ints
    n_after: Floats
    good_after: Floats
    n_before: Floats
    good_before: Floats
    tested: Bools
    ratio: Floats
    """Twice the log of how much likelier two means make the observations than one mean."""
    prob: Floats

    @property
    def n_tested(self) -> Ints:
        """On how many days each arm was tested."""
        return np.asarray(self.tested.sum(axis=1), dtype=np.int64)

    @property
    def mean_after(self) -> Floats:
        return _share(self.good_after, self.n_after)

    @property
    def mean_before(self) -> Floats:
        return _share(self.good_before, self.n_before)

    @property
    def suspects(self) -> Ints:
        """Rows of the arms that changed, if observations were independent; no other can be named.

        The surest 200 of them: where more arms changed, it was a detector or the agent.
        """
        prob = least_prob(self, self.prob)
        rows = named(prob)
        return np.sort(rows[np.argsort(prob[rows], kind="stable")][:200])


def splits(columns: ArmColumns, sums: RecentDays) -> Splits:
    """Split the last 28 days of the data; an earlier day counts as before, an unknown one not at all.

    Given how many observations lie on both sides of a day and how many of all were successes, every order of them
    is equally likely if nothing changed, so the successes since then are hypergeometric: Fisher's exact test,
    doubled for either direction.
    Fractional sums are rounded against a change.

    Parameters
    ----------
    columns : ArmColumns of n_arms
        Counts of every arm's automatic observations, sorted by id.
    sums : RecentDays
        Sums by arm and day of the same observations, aligned with the columns by their indexes.

    Returns
    -------
    Splits
        A row for each arm observed in these days, a column for each of them.

    References
    ----------
    R. A. Fisher, *Statistical Methods for Research Workers*, 1934, section 21.02.
    """
    dated = sums.day != UNKNOWN
    end = int(sums.day.max(initial=UNKNOWN))
    day = np.arange(end - WINDOW_DAYS + 1, end + 1)
    recent = dated & (sums.day >= day[0])
    arm, row = np.unique(sums.arm[recent], return_inverse=True)
    column = sums.day[recent] - day[0]

    def since(amount: Ints) -> Ints:
        grid = np.zeros((len(arm), WINDOW_DAYS), dtype=np.int64)
        np.add.at(grid, (row, column), amount[recent])
        return np.asarray(grid[:, ::-1].cumsum(axis=1)[:, ::-1], dtype=np.int64)

    def before(total: Ints, amount: Ints, after: Ints) -> Ints:
        undated = np.zeros(len(columns), dtype=np.int64)
        np.add.at(undated, sums.arm[~dated], amount[~dated])
        return np.asarray((total - undated)[arm][:, None] - after, dtype=np.int64)

    good, bad = since(sums.success_micro), since(sums.failure_micro)
    success_before = before(columns.success_micro, sums.success_micro, good)
    failure_before = before(columns.failure_micro, sums.failure_micro, bad)
    observed = -np.diff(good + bad, axis=1, append=0) > 0
    n_after, n_before = (good + bad) / MICRO, (success_before + failure_before) / MICRO
    good_after = np.clip(good / MICRO, 0, np.maximum(n_after, 0))
    good_before = np.clip(success_before / MICRO, 0, np.maximum(n_before, 0))
    tested = observed & (n_after >= MIN_AFTER) & (n_before >= MIN_BEFORE)
    ratio = likelihood_ratio(good_after, n_after, good_before, n_before)
    apart = np.abs(_share(good_after, n_after) - _share(good_before, n_before)) >= MIN_CHANGE
    worth = tested & apart & (ratio >= _MAY_COUNT)
    prob = np.ones(worth.shape)
    prob[worth] = apart_by_chance(good_after[worth], n_after[worth], good_before[worth], n_before[worth])
    return Splits(
        arm=arm,
        day=day,
        n_after=n_after,
        good_after=good_after,
        n_before=n_before,
        good_before=good_before,
        tested=tested,
        ratio=ratio,
        prob=prob,
    )


def least_prob(table: Splits, prob: Floats) -> Floats:
    """Return for each arm the least chance of its days times their number (Bonferroni): days of one arm overlap."""
    least = prob.min(axis=1, initial=1)
    return np.where(table.n_tested > 0, np.minimum(least * table.n_tested, 1), 1.0)


def named(prob: Floats, *, false_alarm: float = FALSE_ALARM) -> Ints:
    """Return the arms that changed, by S. Holm's procedure: any false name at most so often.

    It holds however the arms depend on each other, and however many of them did change; a bound on the share of false
    names among the named (Benjamini and Yekutieli) would not be one on looks with a false name.

    S. Holm, *Scand. J. Stat.* 6, 1979, 65-70.
    """
    order = np.argsort(prob, kind="stable")
    passed = prob[order] * np.arange(len(prob), 0, -1) <= false_alarm
    n_named = len(passed) if passed.all() else int(np.argmin(passed))
    return np.sort(order[:n_named])


def _share(good: Floats, n: Floats) -> Floats:
    return np.divide(good, n, out=np.zeros(n.shape), where=n > 0)


def likelihood_ratio(good_after: Floats, n_after: Floats, good_before: Floats, n_before: Floats) -> Floats:
    """Return twice the log of how much likelier two means make the observations than one mean."""

    def log_likelihood(good: Floats, n: Floats) -> Floats:
        bad = np.maximum(n - good, 0)
        return np.asarray(
            scipy.special.xlogy(good, _share(good, n)) + scipy.special.xlogy(bad, _share(bad, n)),
            dtype=np.float64,
        )

    apart = log_likelihood(good_after, n_after) + log_likelihood(good_before, n_before)
    one = log_likelihood(good_after + good_before, n_after + n_before)
    return np.asarray(np.nan_to_num(2 * (apart - one)), dtype=np.float64)


def apart_by_chance(good_after: Floats, n_after: Floats, good_before: Floats, n_before: Floats) -> Floats:
    """Return the chance of so few successes after the day, or of so few failures where those became fewer; doubled.

    R. A. Fisher, *Statistical Methods for Research Workers*, 1934, section 21.02: the exact test.
    """
    is_fall = good_after * n_before < good_before * n_after
    few_after = np.where(is_fall, good_after, n_after - good_after)
    few_before = np.where(is_fall, good_before, n_before - good_before)
    size_after, size_before = np.floor(n_after), np.floor(n_before)
    few = np.minimum(np.ceil(few_after), size_after)
    total = few + np.minimum(np.floor(few_before), size_before)
    tail = chance_of_at_most(few, size_after + size_before, total, size_after)
    return np.asarray(np.minimum(2 * tail, 1), dtype=np.float64)
