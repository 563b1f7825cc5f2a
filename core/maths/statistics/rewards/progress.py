"""Progress of episodes over time: by segments of equally many, and whether their rewards rise or fall."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy

from core.columns import UNKNOWN, Bools, Floats, Ints
from core.maths.statistics.rewards.summary import summary, tasks_of
from core.maths.statistics.savings.sums import MIN_FOR_INTERVAL, no_estimate
from core.records.estimate import Estimate

MOST_SEGMENTS: Final = 12
"""At most so many, of ten episodes or more each."""
_FULL: Final = 1 - 1e-9
_SEPARABLE: Final = 0.1
"""Least share of the spread of time that lies within tasks."""


@dataclass(frozen=True, kw_only=True)
class EpisodeSegment:
    """``n`` episodes one after the other, from ``first_ms`` to ``last_ms``: their average reward and success rate."""

    first_ms: int
    last_ms: int
    n: int
    average: Estimate
    success: Estimate


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Episodes in the order of time, ``untimed`` of them left out, whose time is unknown.

    ``trend`` is the rank correlation of reward and time within tasks, -1 to 1: above 0 it rises.
    """

    stretches: tuple[EpisodeSegment, ...]
    untimed: int
    trend: Estimate

    @property
    def way(self) -> str:
        """Direction of the trend: "rises", "falls", or "" if neither is sure."""
        return _way(self.trend)


def falls(at_ms: Ints, value: Floats, task: Ints, *, prob: float = 0.95) -> bool:
    """Return whether the trend of values is down. This skips the segments, which cost ten times as much.

    Parameters
    ----------
    at_ms : array of int, shape (n_episodes,)
        When each episode was, UTC milliseconds; -1 unknown.
    value : array of float, shape (n_episodes,)
        Reward of each, or 1 for a success and 0 for a failure; NaN where nothing was paid.
    task : array of int, shape (n_episodes,)
        Which task, by any number; -1 unknown.
    prob : float, optional
        Probability that the interval of the trend holds, in (0, 1).

    Returns
    -------
    bool

    References
    ----------
    As of `progress`.

    Examples
    --------
    >>> at_ms, task = np.arange(40), np.full(40, -1)
    >>> falls(at_ms, 1 - at_ms / 40, task), falls(at_ms, at_ms / 40, task)
    (True, False)
    """
    known = at_ms != UNKNOWN
    return _way(_trend(at_ms[known], value[known], task[known], prob)) == "falls"


def progress(at_ms: Ints, reward: Floats, succeeded: Bools, task: Ints, *, prob: float = 0.95) -> Progress:
    """Return the rewards and successes over time.

    Parameters
    ----------
    at_ms : array of int, shape (n_episodes,)
        When each was, UTC milliseconds; -1 unknown.
    reward : array of float, shape (n_episodes,)
        What success goes by, of each; NaN where nothing was paid.
    succeeded : array of bool, shape (n_episodes,)
        False where nothing was paid.
    task : array of int, shape (n_episodes,)
        Which task, by any number; -1 unknown.
    prob : float, optional
        Probability that each interval holds, in (0, 1).

    Returns
    -------
    Progress

    Notes
    -----
    The trend is that within tasks: ranks of reward and time are centred by task. Its error is the larger of two: that
    of attempts in any order within a task, and that of tasks as clusters. Where less than a tenth of the spread of
    time lies within tasks, time and task can't be separated, and there is no trend.

    References
    ----------
    * D. G. Bonett and T. A. Wright, *Psychometrika* 65, 2000, 23 (doi:10.1007/BF02294183): the interval of a rank
      correlation, where no task is repeated.
    * K.-Y. Liang and S. L. Zeger, *Biometrika* 73, 1986, 13 (doi:10.1093/biomet/73.1.13): tasks as clusters.

    Examples
    --------
    >>> at_ms, task = np.arange(40), np.full(40, -1)
    >>> result = progress(at_ms, at_ms / 40, at_ms > 36, task)
    >>> result.way, [one.n for one in result.stretches]
    ('rises', [10, 10, 10, 10])
    """
    known = np.flatnonzero(at_ms != UNKNOWN)
    order = known[np.argsort(at_ms[known], kind="stable")]
    n_segments = min(MOST_SEGMENTS, len(order) // MIN_FOR_INTERVAL) or min(1, len(order))
    stretches = []
    for places in np.array_split(order, n_segments) if n_segments else []:
        figures = summary(
            reward[places], succeeded[places], np.ones(len(places), dtype=np.bool_), task[places], prob=prob
        )
        stretches.append(
            EpisodeSegment(
                first_ms=int(at_ms[places[0]]),
                last_ms=int(at_ms[places[-1]]),
                n=len(places),
                average=figures.average,
                success=figures.success,
            )
        )
    return Progress(
        stretches=tuple(stretches),
        untimed=len(at_ms) - len(known),
        trend=_trend(at_ms[order], reward[order], task[order], prob),
    )


def _way(trend: Estimate) -> str:
    if trend.lower is None or trend.upper is None or trend.lower <= 0 <= trend.upper:
        return ""
    return "rises" if trend.lower > 0 else "falls"


def _trend(at_ms: Ints, value: Floats, task: Ints, prob: float) -> Estimate:
    paid = ~np.isnan(value)
    n = int(paid.sum())
    if n < MIN_FOR_INTERVAL:
        return no_estimate("few_for_interval", prob)
    one, other = (scipy.stats.rankdata(values[paid]) for values in (at_ms, value))
    if not np.ptp(one) or not np.ptp(other):
        return no_estimate("no_variation", prob)
    group = tasks_of(task[paid])
    if int(group.max()) + 1 < n:
        return _within_tasks(one, other, group, prob)
    one, other = one - one.mean(), other - other.mean()
    # Not corrcoef: a product of matrices wakes every core, to multiply two rows.
    correlation = float(np.sum(one * other) / math.sqrt(np.sum(one * one) * np.sum(other * other)))
    half = float(scipy.special.ndtri((1 + prob) / 2)) * math.sqrt((1 + correlation**2 / 2) / (n - 3))
    middle = math.atanh(max(-_FULL, min(_FULL, correlation)))
    return Estimate(
        value=correlation, lower=math.tanh(middle - half), upper=math.tanh(middle + half), prob=prob
    )


def _within_tasks(time: Floats, value: Floats, group: Ints, prob: float) -> Estimate:
    """Return the correlation of ranks within tasks; none where time and task can't be separated."""
    total = float(np.sum((time - time.mean()) ** 2))
    time, value = _centred(time, group), _centred(value, group)
    of_time, of_value = np.sum(time * time), np.sum(value * value)
    if of_time < _SEPARABLE * total:
        return no_estimate("tasks_in_order", prob)
    if not of_value:
        return no_estimate("no_variation", prob)
    correlation = float(np.sum(time * value) / math.sqrt(of_time * of_value))
    half = max(_half_by_order(time, value, group, prob), _half_by_task(time, value, group, prob))
    half /= math.sqrt(of_time * of_value)
    return Estimate(
        value=correlation, lower=max(-1.0, correlation - half), upper=min(1.0, correlation + half), prob=prob
    )


def _centred(values: Floats, group: Ints) -> Floats:
    return np.asarray(values - (np.bincount(group, weights=values) / np.bincount(group))[group])


def _half_by_order(time: Floats, value: Floats, group: Ints, prob: float) -> float:
    """Return half the interval of the sum of products, if the order within each task is by chance."""
    spread = [np.bincount(group, weights=values * values) for values in (time, value)]
    n = np.bincount(group)
    variance = float(np.sum(spread[0] * spread[1] / np.maximum(n - 1, 1)))
    return float(scipy.special.ndtri((1 + prob) / 2)) * math.sqrt(variance)


def _half_by_task(time: Floats, value: Floats, group: Ints, prob: float) -> float:
    """Return half the interval of the sum of products by tasks as clusters; 0 with too few of them."""
    n_tasks = int((np.bincount(group) > 1).sum())
    if n_tasks < MIN_FOR_INTERVAL:
        return 0.0
    slope = np.sum(time * value) / np.sum(time * time)
    by_task = np.bincount(group, weights=time * (value - slope * time))
    error = math.sqrt(float(by_task @ by_task) * n_tasks / (n_tasks - 1))
    return float(scipy.special.stdtrit(n_tasks - 1, (1 + prob) / 2)) * error
