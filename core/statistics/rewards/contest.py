"""Contest: models on the same tasks, two at a time: by how much more one of them is paid, or succeeds.

What models did on different tasks compares the tasks, too, so it is a separate function (`unpaired`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import scipy

from core.columns import UNKNOWN, Bools, Floats, Ints
from core.errors import InvalidInput
from core.records.estimate import Estimate, Missing
from core.statistics.rewards.summary import error_of_tasks, mean_of_tasks, tasks_of, worth_of
from core.statistics.savings.estimate import MIN_FOR_FIGURE, MIN_FOR_INTERVAL, nothing
from core.statistics.savings.shares import difference


@dataclass(frozen=True, kw_only=True)
class Paired:
    """One model against another, with ``n_tasks`` tasks that both attempted; ``difference`` is ``one`` - ``other``.

    ``chance`` is that of a difference as large if there were none (two-sided), None without an interval; ``adjusted``
    the same after Holm's procedure over all pairs, ``apart`` whether it is below 0.05. ``one_alone`` and
    ``other_alone`` are tasks that only one of them attempted, which a comparison on the same tasks leaves out.
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


def contest(
    model: Ints, task: Ints, value: Floats | Bools, *, n_models: int, prob: float = 0.95
) -> tuple[Paired, ...]:
    """Compare every two models on the tasks that both attempted.

    Several attempts of a model at a task are its mean there; the interval is Student's, of the differences by task.
    Fewer than 10 common tasks give none; where all differences are the same there is none either.

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
        Every pair once, in the order of models.

    Raises
    ------
    InvalidInput
        Where columns are not aligned, or two models have no task in common: what they did on others would compare
        tasks.

    References
    ----------
    * Student, *Biometrika* 6, 1908, 1 (doi:10.1093/biomet/6.1.1).
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
        if not both.any():
            raise InvalidInput(
                "Two models must have a task in common to be compared, got none.",
                next_step="Have both attempt the same tasks: rewards of different tasks compare the tasks, which "
                "armscope episodes compare --unpaired does.",
            )
        pairs.append(_pair(one, other, mean, *_difference(mean[one][both] - mean[other][both], prob)))
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


_Side = tuple[Floats, Ints]
"""Values of a model, and their tasks."""


def _shares(one: _Side, other: _Side, prob: float) -> tuple[Estimate, float | None]:
    """Return the difference of two shares with Newcombe's interval, and the chance of the score test."""
    if not min(len(one[0]), len(other[0])):
        return nothing("few_runs", prob), None
    (share, worth, n_tasks), (share_other, worth_other, n_other) = (
        worth_of(values > 0, group) for values, group in (one, other)
    )
    few = min(len(one[0]), len(other[0])) < MIN_FOR_INTERVAL or min(n_tasks, n_other) < MIN_FOR_FIGURE
    if few:
        return _alone(share - share_other, "few_for_interval", prob), None
    pooled = (share * worth + share_other * worth_other) / (worth + worth_other)
    error = math.sqrt(pooled * (1 - pooled) * (1 / worth + 1 / worth_other))
    if not error:
        return _alone(share - share_other, "no_variation", prob), None
    result = difference(share * worth, worth, share_other * worth_other, worth_other, prob=prob)
    return result, None if result.missing else 2 * float(
        scipy.special.ndtr(-abs(share - share_other) / error)
    )


def _means(one: _Side, other: _Side, prob: float) -> tuple[Estimate, float | None]:
    """Return the difference of two means with Welch's interval, withheld where one of them has none."""
    if not min(len(one[0]), len(other[0])):
        return nothing("few_runs", prob), None
    means = [mean_of_tasks(*side, prob) for side in (one, other)]
    apart = float(one[0].mean() - other[0].mean())
    missing = next((mean.missing for mean in means if mean.missing), None)
    if missing:
        return _alone(apart, missing, prob), None
    errors = [error_of_tasks(*side) for side in (one, other)]
    error = math.hypot(*(each for each, _ in errors))
    if not error:
        return _alone(apart, "no_variation", prob), None
    freedom = error**4 / sum(each**4 / (n_tasks - 1) for each, n_tasks in errors)
    half = float(scipy.special.stdtrit(freedom, (1 + prob) / 2)) * error
    result = Estimate(value=apart, lower=apart - half, upper=apart + half, prob=prob)
    return result, 2 * float(scipy.special.stdtr(freedom, -abs(apart) / error))


def _alone(value: float, missing: Missing, prob: float) -> Estimate:
    return Estimate(value=value, lower=None, upper=None, prob=prob, missing=missing)


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


def _difference(apart: Floats, prob: float) -> tuple[Estimate, float | None]:
    n, mean = len(apart), float(apart.mean())
    if n < MIN_FOR_FIGURE:
        return nothing("few_runs", prob), None
    error = float(apart.std(ddof=1)) / n**0.5
    if n < MIN_FOR_INTERVAL or not error:
        missing: Missing = "no_variation" if not error else "few_for_interval"
        return Estimate(value=mean, lower=None, upper=None, prob=prob, missing=missing), None
    half = float(scipy.special.stdtrit(n - 1, (1 + prob) / 2)) * error
    chance = 2 * float(scipy.special.stdtr(n - 1, -abs(mean) / error))
    return Estimate(value=mean, lower=mean - half, upper=mean + half, prob=prob), chance


def _adjusted(pairs: Sequence[Paired]) -> Sequence[Paired]:
    """Apply Holm's procedure: each chance times the number left, and never below a smaller one's."""
    tested = sorted((one for one in pairs if one.chance is not None), key=lambda one: one.chance or 0.0)
    highest, adjusted = 0.0, {}
    for rank, one in enumerate(tested):
        highest = max(highest, min(1.0, (one.chance or 0.0) * (len(tested) - rank)))
        adjusted[one.one, one.other] = highest
    return [replace(one, adjusted=adjusted.get((one.one, one.other))) for one in pairs]
