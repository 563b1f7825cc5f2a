"""Contest: models on the same tasks, two at a time: by how much more one of them is paid, or succeeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.special import stdtr, stdtrit

from core.columns import UNKNOWN, Bools, Floats, Ints
from core.errors import InvalidInput
from core.statistics.savings.estimate import MIN_FOR_FIGURE, MIN_FOR_INTERVAL, Estimate, Missing, nothing


@dataclass(frozen=True, kw_only=True)
class Paired:
    """One model against another on the ``n_tasks`` tasks that both attempted; ``difference`` is ``one`` - ``other``.

    ``chance`` is that of a difference as large if there were none (two-sided), None without an interval; ``adjusted``
    the same after Holm's procedure over all pairs, ``apart`` whether it is below 0.05. ``one_alone`` and
    ``other_alone`` are tasks that only one of them attempted, which are left out.
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
    """Every two models, on the tasks that both attempted.

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
    >>> (found,) = contest(model, task, value, n_models=2)
    >>> found.n_tasks, round(found.difference.value, 3), found.apart
    (12, 0.417, False)
    """
    if not len(model) == len(task) == len(value):
        raise InvalidInput(
            f"Columns must be aligned, got {len(model)}, {len(task)} and {len(value)} rows.",
            next_step="Give every column a value for each episode.",
        )
    amount = value.astype(np.float64)
    known = (model != UNKNOWN) & (task != UNKNOWN) & ~np.isnan(amount)
    tasks, place = np.unique(task[known], return_inverse=True)
    shape = (n_models, len(tasks))
    cell = model[known] * len(tasks) + place
    count = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
    total = np.bincount(cell, weights=amount[known], minlength=shape[0] * shape[1]).reshape(shape)
    mean = np.divide(total, count, out=np.full(shape, np.nan), where=count > 0)
    found = [_paired(one, other, mean, prob) for one, other in combinations(range(n_models), 2)]
    return tuple(_adjusted(found))


def _paired(one: int, other: int, mean: Floats, prob: float) -> Paired:
    both = ~np.isnan(mean[one]) & ~np.isnan(mean[other])
    n = int(both.sum())
    if not n:
        raise InvalidInput(
            "Two models must have a task in common to be compared, got none.",
            next_step="Have both attempt the same tasks; rewards of different tasks compare the tasks.",
        )
    difference, chance = _difference(mean[one][both] - mean[other][both], prob)
    return Paired(
        one=one,
        other=other,
        n_tasks=n,
        one_alone=int((~np.isnan(mean[one])).sum()) - n,
        other_alone=int((~np.isnan(mean[other])).sum()) - n,
        difference=difference,
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
    half = float(stdtrit(n - 1, (1 + prob) / 2)) * error
    chance = 2 * float(stdtr(n - 1, -abs(mean) / error))
    return Estimate(value=mean, lower=mean - half, upper=mean + half, prob=prob), chance


def _adjusted(pairs: Sequence[Paired]) -> Sequence[Paired]:
    """Holm's chances: each times those that are left, and never below a smaller one's."""
    tested = sorted((one for one in pairs if one.chance is not None), key=lambda one: one.chance or 0.0)
    highest, found = 0.0, {}
    for rank, one in enumerate(tested):
        highest = max(highest, min(1.0, (one.chance or 0.0) * (len(tested) - rank)))
        found[one.one, one.other] = highest
    return [replace(one, adjusted=found.get((one.one, one.other))) for one in pairs]
