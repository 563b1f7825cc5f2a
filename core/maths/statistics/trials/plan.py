"""Plan of a trial: the tasks that a verdict takes, by simulation with the function that gives the verdict."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np
import scipy

from core.columns import Floats, Ints
from core.maths.statistics.trials.verdict import (
    ERROR,
    HARMS,
    HELPS,
    NO_DIFFERENCE,
    can_tell,
    chances,
    claims,
    log_limits,
    stakes,
    words,
)
from core.records.trial import MOST_TASKS, Metric, TasksNeeded

BASES: Final = (0.2, 0.6, 0.9)
"""Base rates of success that are planned for."""
POWER: Final = 0.8
USUAL_CONCENTRATION: Final = 4.0
"""Concentration a + b of the beta law of difficulty, where none is recorded."""
USUAL_LOG_SD: Final = 0.6
"""Standard deviation of the logarithm of a run's tokens within a task."""
LEAST_FITTED: Final = 10
"""Tasks with two attempts or more from which the spread of difficulty is fitted."""
_SIMULATED: Final = 500
_MARGIN: Final = 2 * math.sqrt(POWER * (1 - POWER) / _SIMULATED)
"""Twice the error of a simulated power."""
_MIDDLE: Final = 0.5
"""Rate whose runs vary most. Effects are planned towards it, so the plan is the longer one of both directions."""
_GUESS: Final = 12
"""First guess of tasks, in variances of a task's difference by squared effects."""
_STEP: Final = 1.25
_HOPELESS: Final = 4
"""Multiple of the first guess at which half the power must be there."""
_NEAR: Final = 1.03
_CONCENTRATIONS: Final = np.geomspace(0.05, 1_000, 400)


@lru_cache(maxsize=64)
def tasks_needed(
    smallest: float,
    *,
    metric: Metric = "success",
    repeats: int = 3,
    concentration: float = USUAL_CONCENTRATION,
    n_together: int = 1,
    seed: int = 0,
) -> tuple[TasksNeeded, ...]:
    """Return the tasks for *helps* or *harms* at the smallest effect, and for *no difference* where there is none.

    Each verdict comes with a probability of .8. Each pair is for one effect in all tasks, and for one that varies as
    much as it is large. None = more than a plan may have, or no such effect exists.

    ``smallest`` is in points of success or per cent of tokens, which need no base rate. ``concentration`` is that of
    the beta law of `difficulty`. ``n_together`` is arms times models that are planned together.

    Examples
    --------
    >>> low = tasks_needed(30)[0]
    >>> low.base_rate, low.effect, low.none
    (0.2, (24, 30), (24, 32))
    """
    is_cost, error = metric == "cost", ERROR / n_together
    step = math.log1p(smallest / 100) if is_cost else smallest / 100

    def power_of_cost(n: int, effect: float, deviation: float) -> float:
        logs = np.random.default_rng([seed, n]).normal(effect, deviation, (_SIMULATED, n))
        lower, upper = log_limits(logs, n)
        return float((lower > 0 if effect else (lower > -step) & (upper < step)).mean())

    def power_of_success(n: int, effect: float, rates: Floats) -> float:
        dice = np.random.default_rng([seed, n])
        task = dice.integers(rates.shape[1], size=(_SIMULATED, n))
        ours, theirs = (dice.binomial(repeats, one[task]) / repeats for one in rates)
        chance = chances(ours - theirs, ours - theirs, stakes(n, error), smallest)
        word = words(claims(chance, can_tell((ours + theirs) / 2, smallest)), np.array(error))
        return float(np.isin(word, (HELPS, HARMS) if effect else NO_DIFFERENCE).mean())

    def needed(base: float | None, effect: float, spread: float) -> int | None:
        if base is None:
            deviation = math.hypot(USUAL_LOG_SD * math.sqrt(2 / repeats), spread)
            return _least(lambda n: power_of_cost(n, effect, deviation), (deviation / step) ** 2)
        rates = _rates(base, concentration, effect, spread, np.random.default_rng(seed))
        if rates is None:
            return None
        chance = (rates * (1 - rates)).mean(1).sum() / repeats
        variance = float(chance + (rates[0] - rates[1]).var())
        return _least(lambda n: power_of_success(n, effect, rates), variance / step**2)

    bases = {None: step} if is_cost else {base: step if base < _MIDDLE else -step for base in BASES}
    return tuple(
        TasksNeeded(
            base_rate=base,
            effect=(needed(base, effect, 0.0), needed(base, effect, step)),
            none=(needed(base, 0.0, 0.0), needed(base, 0.0, step)),
        )
        for base, effect in bases.items()
    )


def difficulty(n_solved: Ints, n_runs: Ints) -> float | None:
    """Return the concentration a + b of the beta law of difficulty that fits solved runs by task best.

    None where fewer than ten tasks have two runs or more, or no run or each was solved.

    References
    ----------
    * J. G. Skellam, *J. R. Stat. Soc. B* 10, 1948, 257: the beta-binomial law.

    Examples
    --------
    >>> round(difficulty(np.array([0, 3] * 10), np.full(20, 3)), 2)
    0.05
    >>> difficulty(np.array([2] * 5), np.full(5, 3)) is None
    True
    """
    solved, runs = (one[n_runs > 1].astype(np.float64) for one in (n_solved, n_runs))
    mean = solved.sum() / max(runs.sum(), 1)
    if len(runs) < LEAST_FITTED or not 0 < mean < 1:
        return None
    ours, theirs = (_CONCENTRATIONS[:, None] * one for one in (mean, 1 - mean))
    log = scipy.special.betaln(ours + solved, theirs + runs - solved) - scipy.special.betaln(ours, theirs)
    return float(_CONCENTRATIONS[log.sum(1).argmax()])


def _rates(
    base: float, concentration: float, effect: float, spread: float, dice: np.random.Generator
) -> Floats | None:
    """Return the rates of many tasks with the arm and without it; None where no shift gives the mean effect.

    Rates with the arm are cut to [0, 1].
    """
    rate = dice.beta(base * concentration, (1 - base) * concentration, _SIMULATED * 40)
    own = spread * dice.standard_normal(len(rate))
    least, most = -2.0, 2.0
    for _ in range(40):
        shift = (least + most) / 2
        is_less = np.clip(rate + own + shift, 0, 1).mean() - rate.mean() < effect
        least, most = (shift, most) if is_less else (least, shift)
    other = np.clip(rate + own + shift, 0, 1)
    return np.stack([other, rate]) if abs(other.mean() - rate.mean() - effect) < 1e-3 else None


def _least(power: Callable[[int], float], ratio: float) -> int | None:
    """Return about the least number of tasks with enough power, from a guess outwards.

    ``ratio`` is the variance of a task's difference by the squared effect.
    """
    guess = round(_GUESS * ratio)
    least = most = min(max(guess, LEAST_FITTED), MOST_TASKS)

    def is_enough(n: int) -> bool:
        return power(n) >= POWER + _MARGIN

    while not is_enough(most):
        if most == MOST_TASKS or (most > _HOPELESS * guess and power(most) < POWER / 2):
            return None
        least, most = most, min(math.ceil(most * _STEP), MOST_TASKS)
    while least == most and most > 2 and is_enough(lower := max(math.floor(most / _STEP), 2)):
        least = most = lower
    least = min(least, max(math.floor(most / _STEP), 2))
    while most > least * _NEAR and most - least > 1:
        middle = round(math.sqrt(least * most))
        least, most = (least, middle) if is_enough(middle) else (middle, most)
    return most
