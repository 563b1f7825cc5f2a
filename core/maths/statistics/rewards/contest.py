"""Contest: models on the same tasks, two at a time: by how much more one of them is paid, or succeeds.

What models did on different tasks compares the tasks, too, so it is a separate function (`unpaired`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

import numpy as np
import scipy

from core.columns import UNKNOWN, Bools, Floats, Ints
from core.errors import InvalidInput
from core.maths.statistics.rewards.summary import error_of_tasks, mean_of_tasks, tasks_of, worth_of
from core.maths.statistics.savings.shares import difference
from core.maths.statistics.savings.sums import MIN_FOR_FIGURE, MIN_FOR_INTERVAL, no_estimate
from core.records.estimate import Estimate, Missing

MIN_FOR_TEST: Final = 6
"""Common tasks of a test by flipped signs. With fewer, no difference reaches .05."""
_MOST_EXACT: Final = 400
_FEW_TASKS: Final = 5
_STOPPED: Final = 0.8
"""Share of tasks with several attempts whose only success is the last one."""
_BY_CHANCE: Final = 0.01
_UNITS, _FEWER_UNITS = 5040, 840
"""Both are divisible by 1 to 8, so that equal sums stay equal."""

_Side = tuple[Floats, Ints]
"""Values of a model, and their tasks."""


@dataclass(frozen=True, kw_only=True)
class Paired:
    """One model against another, with ``n_tasks`` tasks that both attempted; ``difference`` is ``one`` - ``other``.

    ``chance`` is the two-sided probability of a difference as large without a real one. It is None where no test
    exists. ``adjusted`` is the same after Holm's procedure over all pairs. ``apart`` is whether that is below 0.05.
    ``one_alone`` and ``other_alone`` are tasks that only one of them attempted.
    """

    one: int
    other: int
    n_tasks: int
    one_alone: int
    other_alone: int
    difference: Estimate
    chance: float | None
    adjusted: float | None

    @property
    def apart(self) -> bool:
        return self.adjusted is not None and self.adjusted < 0.05


def stops_at_success(succeeded: Bools, cell: Ints, rank: Ints) -> bool:
    """Return whether attempts of a task end with its first success far more often than chance.

    Each order of a task's attempts is equally likely, if their number does not depend on what came of them.

    Parameters
    ----------
    succeeded : array of bool, shape (n_attempts,)
        Whether each attempt of one model succeeded.
    cell : array of int, shape (n_attempts,)
        Its task.
    rank : array of int, shape (n_attempts,)
        Greater is later.

    Returns
    -------
    bool
        False with fewer than five tasks of several attempts and a success.

    Examples
    --------
    >>> task, rank = np.repeat(np.arange(6), 3), np.arange(18)
    >>> stops_at_success(rank % 3 == 2, task, rank), stops_at_success(rank % 3 == 0, task, rank)
    (True, False)
    """
    order = np.lexsort((rank, cell))
    _, starts, n = np.unique(cell[order], return_index=True, return_counts=True)
    if not len(n):
        return False
    good = np.add.reduceat(succeeded[order].astype(np.int64), starts)
    several = (n > 1) & (good > 0)
    chance = np.where(good == 1, 1 / n, 0.0)[several]
    hits = int(((good == 1) & succeeded[order][starts + n - 1])[several].sum())
    if len(chance) < _FEW_TASKS or hits < _STOPPED * len(chance):
        return False
    number = np.ones(1)  # of tasks that end so: a Poisson binomial distribution
    for one in chance.tolist():
        number = np.convolve(number, [1 - one, one])
    return bool(number[hits:].sum() <= _BY_CHANCE)


def first_attempts(cell: Ints, rank: Ints) -> Bools:
    """Return the first attempt of each cell, in time.

    Parameters
    ----------
    cell : array of int, shape (n_attempts,)
        Model and task of each attempt.
    rank : array of int, shape (n_attempts,)
        Greater is later.

    Returns
    -------
    array of bool, shape (n_attempts,)
        True for one attempt of each cell.

    Examples
    --------
    >>> first_attempts(np.array([0, 0, 1]), np.array([5, 3, 9])).tolist()
    [False, True, True]
    """
    result = np.zeros(len(cell), dtype=np.bool_)
    order = np.lexsort((rank, cell))
    result[order[np.unique(cell[order], return_index=True)[1]]] = True
    return result


def contest(
    model: Ints, task: Ints, value: Floats | Bools, *, n_models: int, prob: float = 0.95
) -> tuple[Paired, ...]:
    """Compare every two models on the tasks that both attempted.

    Several attempts of a model at a task are its mean there. From 6 common tasks on, the test flips the signs of the
    differences by task. It needs no variance. Fewer tasks can't reach .05 and have no test. From 10 common tasks on,
    the interval is Student's. Where that does not exist and all values are 0 or 1, it is Tango's.

    Parameters
    ----------
    model : array of int, shape (n_episodes,)
        0 to ``n_models - 1``; -1 unknown, left out.
    task : array of int, shape (n_episodes,)
        Which task, by any number; -1 unknown, left out.
    value : array of float or bool, shape (n_episodes,)
        What each came to, or whether it succeeded; NaN is left out.
    n_models : int
        Models, 0 or more.
    prob : float, optional
        Probability that each interval holds, in (0, 1).

    Returns
    -------
    tuple of Paired
        Every pair once, in the order of models. A pair without a common task has no figure and no test.

    Raises
    ------
    InvalidInput
        Where columns are not aligned, or no two models have a task in common.

    References
    ----------
    * R. A. Fisher, *The Design of Experiments*, 1935, section 21: the test by flipped signs.
    * Student, *Biometrika* 6, 1908, 1 (doi:10.1093/biomet/6.1.1).
    * T. Tango, *Stat. Med.* 17, 1998, 891: the interval of paired shares.
    * S. Holm, *Scand. J. Stat.* 6, 1979, 65-70: all pairs at once.

    Examples
    --------
    >>> model, task = np.repeat([0, 1], 12), np.tile(np.arange(12), 2)
    >>> value = np.concatenate((np.arange(12) % 3 > 0, np.arange(12) % 4 == 0)).astype(float)
    >>> (result,) = contest(model, task, value, n_models=2)
    >>> result.n_tasks, round(result.difference.value, 3), result.apart
    (12, 0.417, False)
    """
    if not len(model) == len(task) == len(value):
        raise InvalidInput(
            f"Columns must be aligned, got {len(model)}, {len(task)} and {len(value)} rows.",
            next_step="Give every column a value for each episode.",
        )
    mean = _by_task(model, task, value.astype(np.float64), n_models)
    pairs = []
    for one, other in combinations(range(n_models), 2):
        both = ~np.isnan(mean[one]) & ~np.isnan(mean[other])
        pairs.append(_pair(one, other, mean, *_difference(mean[one][both], mean[other][both], prob)))
    if pairs and not any(pair.n_tasks for pair in pairs):
        raise InvalidInput(
            "Two models must have a task in common to be compared, got none.",
            next_step="Have both attempt the same tasks, or compare all episodes: "
            "armscope episodes compare --unpaired.",
        )
    return tuple(_adjusted(pairs))


def unpaired(
    model: Ints, task: Ints, value: Floats | Bools, *, n_models: int, prob: float = 0.95
) -> tuple[Paired, ...]:
    """Compare every two models by all their episodes, of any tasks: a difference may come from the tasks.

    The interval is Welch's of means, Newcombe's where all values are 0 or 1; several attempts at a task count as what
    they are. Fewer than 10 episodes of either model give none.

    Parameters
    ----------
    model : array of int, shape (n_episodes,)
        0 to ``n_models - 1``; -1 unknown, left out.
    task : array of int, shape (n_episodes,)
        Which task, by any number; -1 unknown: one of its own.
    value : array of float or bool, shape (n_episodes,)
        What each came to, or whether it succeeded; NaN is left out.
    n_models : int
        Models, 0 or more.
    prob : float, optional
        Probability that each interval holds, in (0, 1).

    Returns
    -------
    tuple of Paired
        Every pair once, in the order of models; ``n_tasks`` are those that both attempted, possibly 0.

    References
    ----------
    * B. L. Welch, *Biometrika* 34, 1947, 28 (doi:10.1093/biomet/34.1-2.28).
    * R. G. Newcombe, *Stat. Med.* 17, 1998, 873, method 10.
    * S. Holm, *Scand. J. Stat.* 6, 1979, 65-70: all pairs at once.

    Examples
    --------
    >>> model, task = np.repeat([0, 1], [70, 80]), np.arange(150)
    >>> value = np.concatenate((np.arange(70) < 56, np.arange(80) < 48))
    >>> (result,) = unpaired(model, task, value, n_models=2)
    >>> result.n_tasks, round(result.difference.lower, 4), round(result.difference.upper, 4), result.apart
    (0, 0.0524, 0.3339, True)
    """
    amount = value.astype(np.float64)
    mean, group = _by_task(model, task, amount, n_models), tasks_of(task)
    known = ~np.isnan(amount)
    is_share = bool(np.isin(amount[known & (model != UNKNOWN)], (0.0, 1.0)).all())
    compared = _shares if is_share else _means
    pairs = []
    for one, other in combinations(range(n_models), 2):
        sides = [(amount[chosen], group[chosen]) for chosen in (known & (model == at) for at in (one, other))]
        pairs.append(_pair(one, other, mean, *compared(sides[0], sides[1], prob)))
    return tuple(_adjusted(pairs))


def _shares(one: _Side, other: _Side, prob: float) -> tuple[Estimate, float | None]:
    """Return the difference of two shares with Newcombe's interval, and the chance of the score test."""
    if not min(len(one[0]), len(other[0])):
        return no_estimate("few_runs", prob), None
    (share, worth, n_tasks), (share_other, worth_other, n_other) = (
        worth_of(values > 0, group) for values, group in (one, other)
    )
    few = min(len(one[0]), len(other[0])) < MIN_FOR_INTERVAL or min(n_tasks, n_other) < MIN_FOR_FIGURE
    if few:
        return no_estimate("few_for_interval", prob, share - share_other), None
    pooled = (share * worth + share_other * worth_other) / (worth + worth_other)
    error = math.sqrt(pooled * (1 - pooled) * (1 / worth + 1 / worth_other))
    if not error:
        return no_estimate("no_variation", prob, share - share_other), None
    result = difference(share * worth, worth, share_other * worth_other, worth_other, prob=prob)
    return result, None if result.missing else 2 * float(
        scipy.special.ndtr(-abs(share - share_other) / error)
    )


def _means(one: _Side, other: _Side, prob: float) -> tuple[Estimate, float | None]:
    """Return the difference of two means with Welch's interval, withheld where one of them has none."""
    if not min(len(one[0]), len(other[0])):
        return no_estimate("few_runs", prob), None
    means = [mean_of_tasks(*side, prob) for side in (one, other)]
    apart = float(one[0].mean() - other[0].mean())
    missing = next((mean.missing for mean in means if mean.missing), None)
    if missing:
        return no_estimate(missing, prob, apart), None
    errors = [error_of_tasks(*side) for side in (one, other)]
    error = math.hypot(*(each for each, _ in errors))
    if not error:
        return no_estimate("no_variation", prob, apart), None
    freedom = error**4 / sum(each**4 / (n_tasks - 1) for each, n_tasks in errors)
    half = float(scipy.special.stdtrit(freedom, (1 + prob) / 2)) * error
    result = Estimate(value=apart, lower=apart - half, upper=apart + half, prob=prob)
    return result, 2 * float(scipy.special.stdtr(freedom, -abs(apart) / error))


def _by_task(model: Ints, task: Ints, amount: Floats, n_models: int) -> Floats:
    """Return the mean of each model at each known task; NaN where it made no attempt."""
    known = (model != UNKNOWN) & (task != UNKNOWN) & ~np.isnan(amount)
    tasks, index = np.unique(task[known], return_inverse=True)
    shape = (n_models, len(tasks))
    cell = model[known] * len(tasks) + index
    count = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
    total = np.bincount(cell, weights=amount[known], minlength=shape[0] * shape[1]).reshape(shape)
    mean: Floats = np.divide(total, count, out=np.full(shape, np.nan), where=count > 0)
    return mean


def _pair(one: int, other: int, mean: Floats, apart: Estimate, chance: float | None) -> Paired:
    there = [~np.isnan(mean[at]) for at in (one, other)]
    n = int((there[0] & there[1]).sum())
    return Paired(
        one=one,
        other=other,
        n_tasks=n,
        one_alone=int(there[0].sum()) - n,
        other_alone=int(there[1].sum()) - n,
        difference=apart,
        chance=chance,
        adjusted=None,
    )


def _difference(one: Floats, other: Floats, prob: float) -> tuple[Estimate, float | None]:
    """Return the mean difference by task with its interval, and the chance of the test by flipped signs."""
    apart = one - other
    n = len(apart)
    if n < MIN_FOR_FIGURE:
        return no_estimate("few_runs" if n else "no_common_task", prob), None
    mean, error = float(apart.mean()), float(apart.std(ddof=1)) / n**0.5
    chance = flipped_chance(apart) if n >= MIN_FOR_TEST else None
    if n >= MIN_FOR_INTERVAL and error:
        half = float(scipy.special.stdtrit(n - 1, (1 + prob) / 2)) * error
        return Estimate(value=mean, lower=mean - half, upper=mean + half, prob=prob), chance
    if n >= MIN_FOR_TEST and np.isin((one, other), (0.0, 1.0)).all():
        lower, upper = paired_shares(int((apart > 0).sum()), int((apart < 0).sum()), n, prob)
        return Estimate(value=mean, lower=lower, upper=upper, prob=prob), chance
    missing: Missing = "no_variation" if not error else "few_for_interval"
    return no_estimate(missing, prob, mean), chance


def flipped_chance(apart: Floats) -> float:
    """Return the share of sign assignments whose sum is at least as far from 0 as the sum of ``apart``.

    The magnitudes are rounded to 1/5,040 of the largest (1/840 of more than 100). The test of the rounded magnitudes
    is exact. Above 400 differences it takes the normal distribution, which then differs by less than .002.

    R. A. Fisher, *The Design of Experiments*, 1935, section 21.
    """
    size = np.abs(apart)
    if not size.any():
        return 1.0
    if len(apart) > _MOST_EXACT:
        return 2 * float(scipy.special.ndtr(-abs(float(apart.sum())) / math.sqrt(float(size @ size))))
    units = np.rint(size / size.max() * (_UNITS if len(apart) <= 100 else _FEWER_UNITS)).astype(np.int64)
    positive = np.zeros(int(units.sum()) + 1)
    positive[0] = 1.0
    for unit in units.tolist():
        with_it = 0.5 * positive
        positive *= 0.5
        positive[unit:] += with_it[: len(positive) - unit]
    observed = abs(2 * int(units[apart > 0].sum()) - len(positive) + 1)
    far = np.abs(2 * np.arange(len(positive)) - len(positive) + 1) >= observed
    return min(1.0, float(positive[far].sum()))


def paired_shares(one_only: int, other_only: int, n: int, prob: float) -> tuple[float, float]:
    """Return Tango's score interval of the difference of two paired shares.

    T. Tango, *Stat. Med.* 17, 1998, 891-908, equations 8 to 10.
    """
    z = float(scipy.special.ndtri((1 + prob) / 2))

    def score(delta: float) -> float:
        """Return Tango's statistic: the difference less ``delta``, over its error if ``delta`` were true."""
        linear = -one_only - other_only + (2 * n - one_only + other_only) * delta
        other = (math.sqrt(max(0.0, linear**2 - 8 * n * -other_only * delta * (1 - delta))) - linear) / (
            4 * n
        )
        variance = n * (2 * other + delta * (1 - delta))
        above = one_only - other_only - n * delta
        return (
            above / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, above) if above else 0.0
        )

    observed = (one_only - other_only) / n
    lower = _crossing(lambda delta: score(delta) - z, -1.0, observed)
    upper = _crossing(lambda delta: score(delta) + z, observed, 1.0)
    return lower, upper


def _crossing(falling: Callable[[float], float], low: float, high: float) -> float:
    """Return where a falling function crosses 0 in [low, high], to the last bit."""
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return high


def _adjusted(pairs: Sequence[Paired]) -> Sequence[Paired]:
    """Apply Holm's procedure: each chance times the number left, and never below a smaller one's."""
    tested = sorted((one for one in pairs if one.chance is not None), key=lambda one: one.chance or 0.0)
    highest, adjusted = 0.0, {}
    for rank, one in enumerate(tested):
        highest = max(highest, min(1.0, (one.chance or 0.0) * (len(tested) - rank)))
        adjusted[one.one, one.other] = highest
    return [replace(one, adjusted=adjusted.get((one.one, one.other))) for one in pairs]
