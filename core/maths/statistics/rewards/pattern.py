"""Pattern of a reward: sparse, dense or shaped, binary or continuous, penalising; it may be several.

Each is tested on every episode, and reported of an environment if enough of its episodes show it. The certainty is
the share of bootstrap samples of its episodes in which enough of them do. Of a penalty one episode is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import scipy

from core.columns import Bools
from core.maths.statistics.rewards.paid import Paid, bootstrap_share
from core.records.environment import PatternShare
from core.records.episode import Pattern

MIN_EPISODES: Final = 10
"""Fewer show no pattern."""
SPARSE_SHARE: Final = 0.9
"""Share of episodes of several steps in which none before the last pays."""
DENSE_SHARE: Final = 0.5
"""Share of episodes in which more than half of the steps before the last pay, or whose payments rise."""
GRADED_SHARE: Final = 0.05
"""Share of last payments that are neither of the two commonest, exceeded beyond chance (1 of 20 samples)."""
BACK_SHARE: Final = 0.03
"""Share of midway payments that take back, from which on they may be differences of a potential."""
RISE: Final = 0.6
"""Correlation of payment and step number, from which on an episode's payments rise."""
_MIN_RISING: Final = 3
_MIN_PAYING: Final = 2
_BY_CHANCE: Final = 0.05
_NOISE: Final = 5.0
"""Standard deviations below the middle payment, by the median deviation; what is lower is no noise."""
_LARGE: Final = 3.0
"""Times a usual step of a potential, beyond which a negative payment is a penalty."""
_TO_SD: Final = 1.4826
_NEAR_ZERO: Final = 0.15
"""Share of payments of less than half the usual size; a normal distribution around zero has a quarter."""


def patterns(paid: Paid) -> tuple[PatternShare, ...]:
    """Return the patterns of an environment's reward.

    * *sparse*: before the last step nothing is paid (what is taken away is a penalty), and the last one pays.
    * *shaped*: what steps before the last are paid rises with their step number, or is the difference of a potential:
      steps forward pay, steps back take about as much, and more of them go forward.
    * *dense*: more than half of the steps before the last pay, without rising.
    * *penalty*: steps midway take away more than noise or a step back does, or end the episode by it where that tool
      never pays for ending. One such episode is enough; the count says how rare it is.
    * *binary*, *continuous*: the last payments have two values, or more than two.

    Parameters
    ----------
    paid : Paid
        Episodes; fewer than 10 with any payment give no pattern.

    Returns
    -------
    tuple of PatternShare
        In the order above; empty without a pattern.

    References
    ----------
    OpenReward Standard, "Rewards": the six patterns.
    """
    has_pay = paid.counted(~paid.refused & ~np.isnan(paid.reward)) > 0
    if int(has_pay.sum()) < MIN_EPISODES:
        return ()
    return tuple(_patterns(paid, has_pay))


def _patterns(paid: Paid, has_pay: Bools) -> Iterator[PatternShare]:
    positive = paid.counted(paid.is_midway & (paid.reward > 0))
    negative = paid.counted(paid.is_midway & (paid.reward < 0))
    several = has_pay & (paid.n_midway > 0)
    sparse = None
    if np.any(paid.last_reward > 0):
        sparse = _pattern("sparse", positive == 0, several, SPARSE_SHARE)
    rising, can_rise = _rising(paid)
    if is_potential(paid):
        rising |= paid.added(paid.is_midway & ~np.isnan(paid.reward), paid.reward) > 0
    shaped = _pattern("shaped", rising, can_rise & several, DENSE_SHARE)
    dense = None
    if sparse is None and shaped is None:
        is_dense = ((positive + negative) * 2 > paid.n_midway) & (positive >= negative)
        dense = _pattern("dense", is_dense, several, DENSE_SHARE)
    penal = penalties(paid)
    penalised = _pattern("penalty", paid.counted(penal) > 0, has_pay, 1 / int(has_pay.sum()))
    yield from (one for one in (sparse, shaped, dense, penalised) if one is not None)
    yield from _last_payments(paid, penal, is_sparse=sparse is not None)


def _pattern(pattern: Pattern, shows: Bools, could: Bools, least: float) -> PatternShare | None:
    n, hits = int(could.sum()), int((shows & could).sum())
    if n < MIN_EPISODES or hits < least * n:
        return None
    return PatternShare(pattern=pattern, n=n, n_showing=hits, certainty=bootstrap_share(hits, n, least))


def _rising(paid: Paid) -> tuple[Bools, Bools]:
    """Return the episodes whose midway payments rise, by correlation with the step number, and those with enough
    payments to test it.
    """
    mask = paid.is_midway & ~np.isnan(paid.reward)
    count = paid.counted(mask)
    position = paid.number.astype(np.float64)
    n = np.maximum(count, 1)
    from_mean = [
        values - (paid.added(mask, values) / n)[paid.episode]
        for values in (position, np.where(mask, paid.reward, 0.0))
    ]
    both, of_position, of_reward = (
        paid.added(mask, one * other)
        for one, other in ((from_mean[0], from_mean[1]), (from_mean[0],) * 2, (from_mean[1],) * 2)
    )
    spread = np.sqrt(of_position * of_reward)
    paying = paid.counted(mask & (paid.reward > 0)) >= _MIN_PAYING
    return np.asarray(paying & (spread > 1e-12) & (both >= RISE * spread)), count >= _MIN_RISING


def is_potential(paid: Paid) -> bool:
    """Return whether midway payments are differences of a potential, forward and back.

    Both have sizes alike, within a factor of two, and few are near zero, where noise has most of its values.

    A. Y. Ng, D. Harada and S. Russell, ICML 1999, 278: shaping by differences of a potential.
    """
    payments = paid.reward[paid.is_midway & (paid.reward != 0) & ~np.isnan(paid.reward)]
    back = -payments[payments < 0]
    if len(back) < max(BACK_SHARE * len(payments), 1) or len(back) * 2 >= len(payments):
        return False
    usual, usual_back = float(np.median(payments[payments > 0])), float(np.median(back))
    near_zero = float((np.abs(payments) * 2 < usual).mean())
    return usual <= 2 * usual_back <= 4 * usual and near_zero < _NEAR_ZERO


def _lowest_usual(paid: Paid) -> float:
    """Return the payment midway below which it is a penalty: 0, or less where noise or a step back is negative."""
    payments = paid.reward[paid.is_midway & ~np.isnan(paid.reward)]
    up, down = int((payments > 0).sum()), int((payments < 0).sum())
    if up < down / _LARGE or not up or not down:
        return 0.0
    if is_potential(paid):
        return -_LARGE * float(np.median(payments[payments > 0]))
    middle = float(np.median(payments))
    return min(0.0, middle - _NOISE * _TO_SD * float(np.median(np.abs(payments - middle))))


def penalties(paid: Paid) -> Bools:
    """Return the steps that penalise: those midway, and ends by a tool that never pays for ending.

    An answer that may pay -1 or 1 is no penalty.
    """
    rewards = np.zeros(len(paid.tools), dtype=np.bool_)
    rewards[paid.tool[paid.is_last & (paid.reward > 0)]] = True
    lowest = _lowest_usual(paid)
    return np.asarray(
        (paid.is_midway & (paid.reward < lowest)) | (paid.is_last & (paid.reward < 0) & ~rewards[paid.tool])
    )


def _last_payments(paid: Paid, penal: Bools, *, is_sparse: bool) -> Iterator[PatternShare]:
    """Yield binary or continuous. If only the last step pays, with one value, no payment at the end is the other
    value.
    """
    judged = paid.finished & (paid.counted(penal & paid.is_last) == 0)
    values = paid.last_reward[judged]
    payments = values[~np.isnan(values)]
    if not is_sparse or len(np.unique(payments)) > 1:
        values = payments
    if len(values) < MIN_EPISODES or not np.any(values > 0):
        return
    counts = np.sort(np.unique(values, return_counts=True, equal_nan=True)[1])[::-1]
    if len(counts) < 2:
        return
    others = len(values) - int(counts[:2].sum())
    n = len(values)
    graded = bootstrap_share(others, n, GRADED_SHARE)
    if float(scipy.special.bdtrc(others - 1, n, GRADED_SHARE)) < _BY_CHANCE:
        yield PatternShare(pattern="continuous", n=n, n_showing=others, certainty=graded)
    else:
        yield PatternShare(pattern="binary", n=n, n_showing=n - others, certainty=1.0 - graded)
