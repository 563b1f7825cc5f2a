"""Summary: the average reward of episodes and how many of them succeed, with intervals, and attempts at one task."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import scipy

from core.columns import UNKNOWN, Bools, Floats, Ints
from core.errors import InvalidInput
from core.maths.statistics.savings.shares import wilson
from core.maths.statistics.savings.sums import MIN_FOR_FIGURE, MIN_FOR_INTERVAL, MIN_FOR_PROOF, no_estimate
from core.records.estimate import Estimate

AverageInterval = Literal["wilson", "student-t"]

_SKEW: Final = 25.0
"""Episodes that Student's interval needs for each unit of squared skewness."""


@dataclass(frozen=True, kw_only=True)
class Attempts:
    """Several attempts at one task: with what probability the best of ``k`` succeeds, and all ``k`` of them.

    Means over the ``n_tasks`` tasks that were attempted ``k`` times or more.
    """

    k: int
    n_tasks: int
    any_succeeds: float
    all_succeed: float


@dataclass(frozen=True, kw_only=True)
class RewardSummary:
    """Summary of ``n`` episodes, ``without_reward`` of them without any reward.

    ``average``, ``success`` and ``attempts`` are over those that were paid; where no episode was, none has a figure.
    ``n_tasks`` is how many tasks they were attempts at, None where they are counted one by one.
    """

    n: int
    without_reward: int
    unfinished: int
    average: Estimate
    average_interval: AverageInterval
    success: Estimate
    n_tasks: int | None
    attempts: tuple[Attempts, ...]


def summary(
    reward: Floats, succeeded: Bools, finished: Bools, task: Ints, *, prob: float = 0.95
) -> RewardSummary:
    """Return the average reward and success rate.

    A reward of two values has Wilson's interval, between the two. Any other has Student's. With fewer than 30 tasks
    and a large skewness, that one is withheld. Attempts at one task are not independent. So the standard error is
    clustered by task, and Wilson's interval uses the effective number of episodes.

    Parameters
    ----------
    reward : array of float, shape (n_episodes,)
        What success goes by, of each; NaN where nothing was paid.
    succeeded : array of bool, shape (n_episodes,)
        False where nothing was paid.
    finished : array of bool, shape (n_episodes,)
        Whether it came to its end.
    task : array of int, shape (n_episodes,)
        Which task, by any number; -1 unknown: one of its own.
    prob : float, optional
        Probability that each interval holds, in (0, 1).

    Returns
    -------
    RewardSummary

    Raises
    ------
    InvalidInput
        Where the columns are not aligned, or an episode succeeded without a reward.

    References
    ----------
    * E. B. Wilson, *J. Am. Stat. Assoc.* 22, 1927, 209 (doi:10.1080/01621459.1927.10502953).
    * Student, *Biometrika* 6, 1908, 1 (doi:10.1093/biomet/6.1.1); and W. G. Cochran on skewness, *Sampling
      Techniques*, 3rd edition, section 2.15.
    * L. Kish, *Survey Sampling*, 1965, section 8.2: as many episodes as have the error of tasks.

    Examples
    --------
    >>> result = summary(np.array([1.0] * 6 + [0.0] * 6), np.arange(12) < 6, np.full(12, True), np.full(12, -1))
    >>> result.average.value, round(result.average.lower, 3), round(result.success.lower, 3)
    (0.5, 0.254, 0.254)
    """
    known = ~np.isnan(reward)
    if {len(succeeded), len(finished), len(task)} != {len(reward)} or np.any(succeeded & ~known):
        raise InvalidInput(
            f"Columns of {len(reward)} episodes must be aligned, and none succeeds without a reward.",
            next_step="Give every column a value for each episode.",
        )
    group = tasks_of(task)
    repeated = len(reward) > 0 and int(group.max()) + 1 < len(reward)
    values, of_values = reward[known], group[known]
    two = len(np.unique(values)) <= 2
    return RewardSummary(
        n=len(reward),
        without_reward=int((~known).sum()),
        unfinished=int((~finished).sum()),
        average=_of_two(values, of_values, prob) if two else mean_of_tasks(values, of_values, prob),
        average_interval="wilson" if two else "student-t",
        success=_share(succeeded[known], of_values, prob),
        n_tasks=int(group.max()) + 1 if repeated else None,
        attempts=attempts(succeeded[known], task[known]),
    )


def attempts(succeeded: Bools, task: Ints) -> tuple[Attempts, ...]:
    """Return the chance that one of k attempts at a task succeeds, and that all do, for each k.

    Without bias: of ``c`` successes among ``n`` attempts, 1 - C(n-c, k)/C(n, k) and C(c, k)/C(n, k).

    * M. Chen et al., 2021 (arXiv:2107.03374), equation 1: pass@k.
    * S. Yao et al., 2024 (arXiv:2406.12045), section 4: pass^k.
    """
    known = task != UNKNOWN
    if not np.any(known):
        return ()
    _, group = np.unique(task[known], return_inverse=True)
    n = np.bincount(group)
    hits = np.bincount(group[succeeded[known]], minlength=len(n))
    # Tasks with as many attempts and successes are alike: of many tasks there are few kinds.
    (each_n, each_hits), n_alike = np.unique(np.stack((n, hits)), axis=1, return_counts=True)
    kinds = list(zip(each_n.tolist(), each_hits.tolist(), n_alike.tolist(), strict=True))
    rows = []
    for k in range(1, int(n.max()) + 1):
        enough = [(of, c, alike, math.comb(of, k)) for of, c, alike in kinds if of >= k]
        n_tasks = sum(alike for _, _, alike, _ in enough)
        none = math.fsum(alike * (math.comb(of - c, k) / choices) for of, c, alike, choices in enough)
        each = math.fsum(alike * (math.comb(c, k) / choices) for _, c, alike, choices in enough)
        rows.append(
            Attempts(k=k, n_tasks=n_tasks, any_succeeds=1 - none / n_tasks, all_succeed=each / n_tasks)
        )
    return tuple(rows) if len(rows) > 1 else ()


def tasks_of(task: Ints) -> Ints:
    """Number the tasks from 0; each unknown task is one of its own."""
    alone = -1 - np.arange(len(task))
    return np.asarray(
        np.unique(np.where(task == UNKNOWN, alone, task), return_inverse=True)[1], dtype=np.int64
    )


def error_of_tasks(values: Floats, group: Ints) -> tuple[float, int]:
    """Return the standard error of a mean of values that come by tasks, and how many tasks there are.

    K.-Y. Liang and S. L. Zeger, *Biometrika* 73, 1986, 13 (doi:10.1093/biomet/73.1.13).
    """
    apart = np.bincount(group, weights=values - values.mean())
    present = np.bincount(group) > 0
    n_tasks = int(present.sum())
    if n_tasks < 2:
        return math.inf, n_tasks
    spread = float(apart[present] @ apart[present]) * n_tasks / (n_tasks - 1)
    return math.sqrt(spread) / len(values), n_tasks


def worth_of(hits: Bools, group: Ints) -> tuple[float, float, int]:
    """Return a share, as many episodes as have the error of its tasks, and how many tasks there are.

    L. Kish, *Survey Sampling*, 1965, section 8.2.
    """
    n, share = len(hits), float(hits.mean())
    error, n_tasks = error_of_tasks(hits.astype(np.float64), group)
    if n_tasks == n:
        return share, float(n), n_tasks
    return share, min(n, share * (1 - share) / error**2) if error else float(n_tasks), n_tasks


def _share(hits: Bools, group: Ints, prob: float) -> Estimate:
    """Return a share with Wilson's interval of as many episodes as have the error of tasks."""
    n = len(hits)
    if not n:
        return no_estimate("few_runs", prob)
    share, worth, n_tasks = worth_of(hits, group)
    if n < MIN_FOR_INTERVAL or n_tasks < MIN_FOR_FIGURE:
        return no_estimate("few_for_interval", prob, share)
    lower, upper = wilson(share * worth, worth, prob)
    return Estimate(value=share, lower=lower, upper=upper, prob=prob)


def _of_two(values: Floats, group: Ints, prob: float) -> Estimate:
    """Return the mean of two values: the share of the higher, between them."""
    if not len(values):
        return no_estimate("few_runs", prob)
    low, high = float(values.min()), float(values.max())
    if low == high:
        return no_estimate("no_variation", prob, low)
    share = _share(values == high, group, prob)
    ends = [
        None if end is None else low + (high - low) * end for end in (share.value, share.lower, share.upper)
    ]
    return Estimate(value=ends[0], lower=ends[1], upper=ends[2], prob=prob, missing=share.missing)


def mean_of_tasks(values: Floats, group: Ints, prob: float) -> Estimate:
    """Return a mean with Student's interval, by tasks; withheld of few that are too skew for it.

    Student, *Biometrika* 6, 1908, 1 (doi:10.1093/biomet/6.1.1).
    """
    n, mean = len(values), float(values.mean())
    error, n_tasks = error_of_tasks(values, group)
    if n < MIN_FOR_INTERVAL or n_tasks < MIN_FOR_FIGURE:
        return no_estimate("few_for_interval", prob, mean)
    if n_tasks < MIN_FOR_PROOF and n_tasks < _SKEW * _skewness(values) ** 2:
        return no_estimate("wide_spread", prob, mean)
    half = float(scipy.special.stdtrit(n_tasks - 1, (1 + prob) / 2)) * error
    return Estimate(value=mean, lower=mean - half, upper=mean + half, prob=prob)


def _skewness(values: Floats) -> float:
    apart = values - values.mean()
    return float(np.mean(apart**3) / np.mean(apart**2) ** 1.5)
