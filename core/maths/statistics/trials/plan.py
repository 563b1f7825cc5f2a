"""Plan of a trial: the tasks that a verdict takes, by simulation with the function that gives the verdict."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import scipy

from core.columns import Bools, Floats, Ints
from core.maths.statistics.trials.verdict import (
    ERROR,
    HARMS,
    HELPS,
    NO_DIFFERENCE,
    Blocks,
    evidence,
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

    Each verdict comes with a probability of .8. None = more than a plan may have, or no such effect exists.

    Parameters
    ----------
    smallest : float
        Smallest effect of interest in points of success, or in per cent of tokens, in [1, 100].
    metric : {"success", "cost"}, optional
        With ``cost`` the intervals of tokens are planned, which need no base rate.
    repeats : int, optional
        Runs of a task on each side.
    concentration : float, optional
        Sum of the parameters of the beta law of difficulty, as `difficulty` fits it.
    n_together : int, optional
        Arms times models that are planned together.
    seed : int, optional
        Seed of the simulation.

    Returns
    -------
    tuple of TasksNeeded
        For each base rate: with one effect for all tasks, and with an effect that varies as much as it is large.

    Examples
    --------
    >>> low = tasks_needed(30)[0]
    >>> low.base_rate, low.effect, low.none
    (0.2, (24, 30), (24, 32))
    """
    if metric == "cost":
        return (_tasks_for_cost(math.log1p(smallest / 100), repeats, seed),)
    step, error = smallest / 100, ERROR / n_together

    def needed(base: float, effect: float, due: tuple[int, ...], spread: float) -> int | None:
        rates = _Rates.of(base, concentration, effect, spread, np.random.default_rng(seed))
        if rates is None:
            return None

        def power(n: int) -> float:
            blocks = rates.blocks(n, repeats, np.random.default_rng([seed, n]))
            word = words(evidence(blocks, stakes(n, error), smallest), np.full(_SIMULATED, error))
            return float(np.isin(word, due).mean())

        return _least(power, round(_GUESS * rates.variance(repeats) / step**2))

    def both(base: float, effect: float, due: tuple[int, ...]) -> tuple[int | None, int | None]:
        return needed(base, effect, due, 0.0), needed(base, effect, due, step)

    return tuple(
        TasksNeeded(
            base_rate=base,
            effect=both(base, step if base < _MIDDLE else -step, (HELPS, HARMS)),
            none=both(base, 0.0, (NO_DIFFERENCE,)),
        )
        for base in BASES
    )


def _tasks_for_cost(effect: float, repeats: int, seed: int) -> TasksNeeded:
    """Return the tasks until the interval of a log ratio leaves 0, or lies within the effect on both sides.

    The ratio of a task varies with its runs, and then also as much as the effect is large.
    """

    def needed(shift: float, spread: float, is_shown: Callable[[Floats, Floats], Bools]) -> int | None:
        deviation = math.hypot(USUAL_LOG_SD * math.sqrt(2 / repeats), spread)

        def power(n: int) -> float:
            logs = np.random.default_rng([seed, n]).normal(shift, deviation, (_SIMULATED, n))
            return float(is_shown(*log_limits(logs, n)).mean())

        return _least(power, round(_GUESS * (deviation / effect) ** 2))

    def is_off(lower: Floats, _: Floats) -> Bools:
        return np.asarray(lower > 0)

    def is_near(lower: Floats, upper: Floats) -> Bools:
        return np.asarray((lower > -effect) & (upper < effect))

    return TasksNeeded(
        base_rate=None,
        effect=(needed(effect, 0.0, is_off), needed(effect, effect, is_off)),
        none=(needed(0.0, 0.0, is_near), needed(0.0, effect, is_near)),
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


@dataclass(frozen=True, kw_only=True)
class _Rates:
    """Tasks whose rates on both sides are drawn from those of a sample of many."""

    without: Floats
    with_arm: Floats

    @classmethod
    def of(
        cls, base: float, concentration: float, effect: float, spread: float, dice: np.random.Generator
    ) -> _Rates | None:
        """Return a world with a mean effect, after rates were cut to [0, 1]; None where no shift gives that."""
        rate = dice.beta(base * concentration, (1 - base) * concentration, _SIMULATED * 40)
        own = spread * dice.standard_normal(len(rate))
        least, most = -2.0, 2.0
        for _ in range(40):
            shift = (least + most) / 2
            is_less = np.clip(rate + own + shift, 0, 1).mean() - rate.mean() < effect
            least, most = (shift, most) if is_less else (least, shift)
        other = np.clip(rate + own + shift, 0, 1)
        return cls(without=rate, with_arm=other) if abs(other.mean() - rate.mean() - effect) < 1e-3 else None

    def variance(self, repeats: int) -> float:
        """Return the variance of a task's difference."""
        chance = sum(float((one * (1 - one)).mean()) for one in (self.without, self.with_arm)) / repeats
        return chance + float((self.with_arm - self.without).var())

    def blocks(self, n: int, repeats: int, dice: np.random.Generator) -> Blocks:
        """Return simulated trials of ``n`` tasks, whose sides were followed and whose runs used the arm."""
        task = dice.integers(len(self.without), size=(_SIMULATED, n))
        ours, theirs = (dice.binomial(repeats, one[task]) / repeats for one in (self.with_arm, self.without))
        runs, nothing, both = np.full(ours.shape, float(repeats)), np.zeros(ours.shape), (ours + theirs) / 2
        return Blocks(
            difference=ours - theirs,
            low=ours - theirs,
            high=ours - theirs,
            solved=both,
            could_tell=((both > 0) & (both < 1)).astype(np.float64),
            n_with=runs,
            n_used=runs,
            followed_with=runs,
            followed_without=runs,
            doubtful_with=nothing,
            doubtful_without=nothing,
        )


def _least(power: Callable[[int], float], guess: int) -> int | None:
    """Return about the least number of tasks with enough power, from a guess outwards."""
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
