"""Splits, sessions → how sure a change is when runs of one session, and of one day, resemble each other."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import scipy

from core.columns import ArmSessions, Floats, Ints
from core.records.arm import MICRO
from core.statistics.change.shuffle import chance_of_sum
from core.statistics.change.splits import FALSE_ALARM, MIN_CHANGE, Splits

_HALF: Final = 0.5
"""Sums are asked for half a success nearer to what is expected: counting has steps, the formula has none."""

_DECIMALS: Final = 6
_MOST_STRATA: Final = 20
_TINY: Final = 1e-9


def doubted(table: Splits, row: int, sessions: ArmSessions) -> Floats:
    """Return for each day how often an arm's observations would lie so far apart, all dependence admitted: the
    largest of

    - the same for single observations, as `splits` has it,
    - the share of all orders of its sessions within their strata that set those begun since then so far apart (a
      session counts where it began); it can't be below one of all ways to choose so many, so a few long sessions
      prove nothing,
    - the normal tail with the variance that its days have rather than a binomial one, for what the runs of a
      day share beyond their session.

    Where sessions of that time were not read, because there are too many, their variance replaces their orders.
    Days that are not sure even by the first are left as they are. Nor is a day sure where the mean within strata
    moved by less than `MIN_CHANGE`, or the other way.
    """
    prob: Floats = table.prob[row].copy()
    hot = np.flatnonzero(prob * table.n_tested[row] <= FALSE_ALARM)
    mine = sessions.arm == table.arm[row]
    day, n = sessions.day[mine], (sessions.success_micro + sessions.failure_micro)[mine] / MICRO
    good = sessions.success_micro[mine] / MICRO
    unread = np.zeros(len(hot), dtype=np.bool_)
    if sessions.since_day is not None:
        unread = table.day[hot] <= sessions.since_day
    prob[hot] = np.maximum(prob[hot], _by_spread(table, row, hot, _spread_of_days(table, row, hot)))
    read = hot[~unread & (prob[hot] * table.n_tested[row] <= FALSE_ALARM)]
    held = _Sessions(day, n, good, largest_strata(sessions.stratum[mine]))
    prob[read] = np.maximum(prob[read], _by_order(table, row, read, held))
    far = hot[unread]
    if len(far):
        spread = np.full(len(far), _spread(n, good, np.full(len(n), _mean(n, good))))
        prob[far] = np.maximum(prob[far], _by_spread(table, row, far, spread))
    return prob


class _Sessions(NamedTuple):
    """One arm's sessions: the day each began, its observations, the successes, and its stratum."""

    day: Ints
    n: Floats
    good: Floats
    stratum: Ints


def largest_strata(stratum: Ints) -> Ints:
    """Return the strata numbered from 0; beyond the 19 largest they are one, as a session each would prove nothing.

    >>> largest_strata(np.array([7, 7, 3])).tolist()
    [1, 1, 0]
    """
    names, numbered, count = np.unique(stratum, return_inverse=True, return_counts=True)
    if len(names) <= _MOST_STRATA:
        return np.asarray(numbered, dtype=np.int64)
    rank = np.empty(len(names), dtype=np.int64)
    rank[np.argsort(-count, kind="stable")] = np.arange(len(names))
    return np.asarray(np.minimum(rank, _MOST_STRATA - 1)[numbered])


def _by_order(table: Splits, row: int, at: Ints, sessions: _Sessions) -> Floats:
    day, n, good, stratum = sessions
    member = (stratum == np.arange(int(stratum.max(initial=0)) + 1)[:, None]).astype(np.float64)
    since = (day[:, None] >= table.day[at]).astype(np.float64)
    n_since = np.rint(member @ since).T.astype(np.int64)
    size = member.sum(axis=1).astype(np.int64)
    rose = table.mean_after[row, at] > table.mean_before[row, at]
    off = good - n * _mean_by(member, n, good)
    moved = _moved_within(member, since, n, good)
    ways = scipy.special.gammaln(size + 1) - scipy.special.gammaln(n_since + 1)
    least = np.exp(-(ways - scipy.special.gammaln(size - n_since + 1)).sum(axis=1))
    prob = np.ones(len(at))
    for sign, direction in ((1.0, rose), (-1.0, ~rose)):
        enough = (sign * moved >= MIN_CHANGE) | (len(size) == 1)
        tested = np.flatnonzero(direction & enough & ((n_since > 0) & (n_since < size)).any(axis=1))
        value, place = np.unique(np.round(sign * off, _DECIMALS), return_inverse=True)
        if len(tested) and len(value) > 1:
            count = np.zeros((len(size), len(value)), dtype=np.int64)
            np.add.at(count, (stratum, place), 1)
            sums = (sign * off) @ since[:, tested] - _HALF
            tail = chance_of_sum(value, count, n_since[tested], sums)
            prob[tested] = np.minimum(2 * np.maximum(tail, least[tested]), 1)
    return prob


def _mean_by(member: Floats, n: Floats, good: Floats) -> Floats:
    """Return the mean of each session's stratum."""
    of_stratum = (member @ good) / np.maximum(member @ n, 1)
    return np.asarray(of_stratum @ member)


def _moved_within(member: Floats, since: Floats, n: Floats, good: Floats) -> Floats:
    """Return for each day how far the mean moved within strata, weighted as Cochran, Mantel and Haenszel do.

    References
    ----------
    W. G. Cochran, *Biometrics* 10, 1954, 417-451, section 6.
    """
    n_after, good_after = (member * n) @ since, (member * good) @ since
    n_before, good_before = (member @ n)[:, None] - n_after, (member @ good)[:, None] - good_after
    weight = n_after * n_before / np.maximum(n_after + n_before, 1)
    apart = good_after / np.maximum(n_after, _TINY) - good_before / np.maximum(n_before, _TINY)
    return np.asarray((weight * apart).sum(axis=0) / np.maximum(weight.sum(axis=0), _TINY))


def _by_spread(table: Splits, row: int, at: Ints, spread: Floats) -> Floats:
    n_after, n_before = table.n_after[row, at], table.n_before[row, at]
    mean = (table.good_after + table.good_before)[row, at] / (n_after + n_before)
    variance = mean * (1 - mean) * (1 / n_after + 1 / n_before) * spread
    apart = np.abs(table.mean_after - table.mean_before)[row, at]
    return np.asarray(2 * scipy.special.ndtr(-apart / np.sqrt(variance)))


def _spread_of_days(table: Splits, row: int, at: Ints) -> Floats:
    """Return the variance of the window's days by that of binomial ones, about their mean on either side."""
    n = -np.diff(table.n_after[row], append=0)
    good = -np.diff(table.good_after[row], append=0)
    columns = np.arange(len(n))
    return np.array(
        [
            _spread(
                n,
                good,
                np.where(columns >= split, table.mean_after[row, split], table.mean_before[row, split]),
            )
            for split in at.tolist()
        ]
    )


def _spread(n: Floats, good: Floats, mean: Floats) -> float:
    """Return the variance of these counts by that of binomial ones, at least 1; two means were fitted to them."""
    binomial = n * mean * (1 - mean)
    held = binomial > 0
    n_free = int(held.sum()) - 2
    if n_free < 1:
        return 1.0
    return max(float(((good - n * mean)[held] ** 2 / binomial[held]).sum()) / n_free, 1.0)


def _mean(n: Floats, good: Floats) -> float:
    return float(good.sum() / n.sum()) if n.sum() else 0.0
