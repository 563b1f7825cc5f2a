"""Splits, sessions → how sure a change is when runs of one session, and of one day, resemble each other."""

from __future__ import annotations

from typing import Final

import numpy as np
import scipy

from core.columns import ArmSessions, Floats, Ints
from core.records.arm import MICRO
from core.statistics.change.shuffle import chance_of_sum
from core.statistics.change.splits import FALSE_ALARM, Splits

_HALF: Final = 0.5
"""Sums are asked for half a success nearer to what is expected: counting has steps, the formula has none."""

_DECIMALS: Final = 6


def doubted(table: Splits, row: int, sessions: ArmSessions) -> Floats:
    """Return for each day how often an arm's observations would lie so far apart, all dependence admitted: the
    largest of

    - the same for single observations, as `splits` has it,
    - the share of all orders of its sessions that set those begun since then so far apart (a session counts where
      it began); it can't be below one of all ways to choose so many, so a few long sessions prove nothing,
    - the normal tail with the variance that its days have rather than a binomial one, for what the runs of a
      day share beyond their session.

    Where sessions of that time were not read, because there are too many, their variance replaces their orders.
    Days that are not sure even by the first are left as they are.
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
    read = hot[~unread]
    prob[read] = np.maximum(prob[read], _by_order(table, row, read, (day, n, good)))
    far = hot[unread]
    if len(far):
        spread = np.full(len(far), _spread(n, good, np.full(len(n), _mean(n, good))))
        prob[far] = np.maximum(prob[far], _by_spread(table, row, far, spread))
    return prob


def _by_order(table: Splits, row: int, at: Ints, sessions: tuple[Ints, Floats, Floats]) -> Floats:
    day, n, good = sessions
    since = day[:, None] >= table.day[at]
    n_since = since.sum(axis=0)
    rose = table.mean_after[row, at] > table.mean_before[row, at]
    off = good - n * _mean(n, good)
    prob = np.ones(len(at))
    for sign, direction in ((1.0, rose), (-1.0, ~rose)):
        tested = np.flatnonzero(direction & (n_since > 0) & (n_since < len(n)))
        value, count = np.unique(np.round(sign * off, _DECIMALS), return_counts=True)
        if len(tested) and len(value) > 1:
            sums = (sign * off) @ since[:, tested] - _HALF
            tail = chance_of_sum(value, count, n_since[tested], sums)
            prob[tested] = np.minimum(
                2 * np.maximum(tail, 1 / scipy.special.binom(len(n), n_since[tested])), 1
            )
    return prob


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
