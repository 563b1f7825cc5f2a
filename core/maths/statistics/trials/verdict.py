"""Verdicts on differences by task, and the tasks that they take: bets on the mean difference, and their limits.

A gambler bets on each task that its difference lies above a mean. If the mean were that, the wealth would exceed 1/e
with a probability of at most e, ever (Ville). The stakes are fixed by the planned number of tasks before the first
task. So the wealth does not depend on the order of the tasks, and a lower difference never raises it. This makes the
two limits of a missing cell exact: count it for the arm, and count it against the arm.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache, partial
from typing import Final, get_args

import numpy as np
import scipy

from core.columns import Bools, Floats, Ints
from core.records.trial import MOST_TASKS, Metric, TasksNeeded, TrialWord

ERROR: Final = 0.05
"""Probability of any false verdict among arms and models that were planned together."""
WORDS: Final[tuple[TrialWord, ...]] = get_args(TrialWord)
HELPS, HARMS, NO_DIFFERENCE, OPEN = range(4)
LEAST_TASKS: Final = 10
"""Tasks that use the arm, and tasks of middling difficulty, below which *no difference* has no ground."""
_LEAST_ROOM: Final = 1 / 3
"""Room that the mean grade leaves to 0 and to 1, in smallest effects, below which *no difference* has no ground."""
_SPREADS: Final = np.array([0.4, 0.6])
"""Standard deviations of a task's difference that the stakes are made for."""
_MOST_STAKE: Final = 0.95
_AHEAD: Final = 0.84
"""Normal quantile of the power that the stakes are made for."""
_HALVINGS: Final = 40
_LEAST_MEAN: Final = -1 + 1e-9
"""Least mean difference that can be bet against."""
MOST_LOG: Final = math.log(8)
"""Logarithm of the ratio of two costs from which on it counts no more."""
LOG_SPREADS: Final = np.array([0.15, 0.3])
"""Standard deviations of a task's bounded logarithm that the stakes are made for."""
BASES: Final = (0.2, 0.6, 0.9)
"""Base rates of success that are planned for."""
USUAL_CONCENTRATION: Final = 4.0
"""Concentration a + b of the beta law of difficulty, where none is recorded."""
_USUAL_LOG_SD: Final = 0.6
"""Standard deviation of the logarithm of a run's tokens within a task."""
_LEAST_FITTED: Final = 10
"""Tasks with two attempts or more from which the spread of difficulty is fitted."""
_SIMULATED: Final = 1_000
_POWER: Final = 0.84
"""Probability of a verdict that a plan takes: .8, and three times the error of its simulation."""
_MIDDLE: Final = 0.5
"""Rate whose runs vary most. Effects are planned towards it, so the plan is the longer one of both directions."""
_TASKS_OF_A_LAW: Final = 20_000
_CONCENTRATIONS: Final = np.geomspace(0.05, 1_000, 400)


def stakes(n_planned: int, error: float, spreads: Floats = _SPREADS) -> Floats:
    """Return the shares of the highest stake that gamblers bet, for a trial of so many tasks.

    >>> stakes(60, 0.05).round(2).tolist(), stakes(500, 0.05).round(2).tolist()
    ([0.95, 0.77], [0.4, 0.27])
    """
    ahead = math.sqrt(2 * math.log(2 / error)) + _AHEAD
    return np.minimum(ahead / math.sqrt(n_planned) / spreads, _MOST_STAKE)


def log_wealth(difference: Floats, mean: Floats, stake: Floats, n: Ints | int = 1) -> Floats:
    """Return the logarithm of the wealth of bets that the mean difference is above ``mean``.

    The last axis has the differences by task, in [-1, 1]; NaN = not run. Means are in (-1, 1). Each is that of ``n``
    tasks.

    References
    ----------
    * I. Waudby-Smith and A. Ramdas, *J. R. Stat. Soc. B* 86, 2024, 1 (doi:10.1093/jrsssb/qkad009).
    """
    gain = np.nan_to_num((difference - mean[..., None]) / (1 + mean[..., None]))
    logs = np.stack([(n * np.log1p(one * gain)).sum(-1) for one in stake.tolist()])
    return np.asarray(np.logaddexp.reduce(logs, axis=0) - math.log(len(logs)))


def lower_limit(difference: Floats, stake: Floats, error: Floats) -> Floats:
    """Return the least mean difference that bets don't refute; each side may err with ``error`` / 2."""
    least, most = np.full(difference.shape[:-1], _LEAST_MEAN), np.ones(difference.shape[:-1])
    for _ in range(_HALVINGS):
        middle = (least + most) / 2
        is_refuted = log_wealth(difference, middle, stake) >= np.log(2 / error)
        least, most = np.where(is_refuted, middle, least), np.where(is_refuted, most, middle)
    return least


def chances(low: Floats, high: Floats, stake: Floats, smallest: float, n: Ints | int = 1) -> Floats:
    """Return the chances of *helps*, *harms* and *no difference*, if the word were false, valid at every reading.

    ``low`` and ``high`` are differences by task that count missing cells against the arm and for it, each of ``n``
    tasks. ``smallest`` is in points.
    """

    def chance(values: Floats, mean: float) -> Floats:
        log = log_wealth(values, np.full(values.shape[:-1], mean), stake, n)
        return np.asarray(np.exp(np.minimum(math.log(2) - log, 0.0)))

    bound = max(-smallest / 100, _LEAST_MEAN)
    return np.stack(
        [chance(low, 0.0), chance(-high, 0.0), np.maximum(chance(low, bound), chance(-high, bound))]
    )


def claims(chance: Floats, is_grounded: Bools) -> Floats:
    """Return the `chances`, with 1 for *no difference* where it has no ground."""
    return np.stack([*chance[:NO_DIFFERENCE], np.where(is_grounded, chance[NO_DIFFERENCE], 1.0)])


def words(claim: Floats, error: Floats) -> Ints:
    """Return the places in `WORDS` of the first words whose claim the error allows."""
    return np.asarray(np.stack([*(claim <= error), np.full(claim.shape[1:], fill_value=True)]).argmax(0))


def can_tell(solved: Floats, smallest: float, n: Ints | int = 1) -> Bools:
    """Return whether mean grades of tasks, on both sides, leave room for a difference. NaN = a cell is missing."""
    n_tasks = np.maximum((n * ~np.isnan(solved)).sum(-1), 1)
    distance = np.abs((n * np.nan_to_num(solved)).sum(-1) / n_tasks - 0.5)
    n_could = (n * ((solved > 0) & (solved < 1))).sum(-1)
    return np.asarray((n_could >= LEAST_TASKS) & (distance <= 0.5 - smallest / 100 * _LEAST_ROOM))


def holm(chance: Floats) -> Floats:
    """Return the error that each comparison may make, of those that were planned together.

    The ones with the most evidence come first. Each that gets its verdict leaves its error to the rest.

    References
    ----------
    * S. Holm, *Scand. J. Stat.* 6, 1979, 65-70.
    """
    order, place = np.argsort(chance, kind="stable"), np.arange(len(chance))
    passed = np.minimum.accumulate(chance[order] <= ERROR / (len(chance) - place))
    errors = np.empty(len(chance))
    errors[order] = ERROR / (len(chance) - np.minimum(place, min(passed.sum(), len(chance) - 1)))
    return errors


def bounded_logs(logs: Floats) -> Floats:
    """Return logarithms of ratios as shares of `MOST_LOG`, in [-1, 1], so that no rare ratio refutes a bet.

    The mean of unbounded values has no interval without an assumption about their law.

    References
    ----------
    * R. R. Bahadur and L. J. Savage, *Ann. Math. Stat.* 27, 1956, 1115.
    """
    return np.clip(logs, -MOST_LOG, MOST_LOG) / MOST_LOG


# Plan


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
    (0.2, (25, 30), (25, 32))
    """
    is_cost, error = metric == "cost", ERROR / n_together
    step = math.log1p(smallest / 100) if is_cost else smallest / 100
    grades = np.arange(repeats + 1)[:, None] / repeats
    difference, solved = (grades - grades.T).ravel(), (grades + grades.T).ravel() / 2

    def power_of_cost(n: int, effect: float, deviation: float) -> float:
        logs = bounded_logs(np.random.default_rng([seed, n]).normal(effect, deviation, (_SIMULATED, n)))
        chance = chances(logs, logs, stakes(n, error, LOG_SPREADS), 100 * step / MOST_LOG)
        return float(
            np.isin(words(chance, np.array(error)), (HELPS, HARMS) if effect else NO_DIFFERENCE).mean()
        )

    def power_of_success(n: int, effect: float, law: Floats) -> float:
        times = np.random.default_rng([seed, n]).multinomial(n, law, _SIMULATED)
        chance = chances(difference, difference, stakes(n, error), smallest, times)
        word = words(claims(chance, can_tell(solved, smallest, times)), np.array(error))
        return float(np.isin(word, (HELPS, HARMS) if effect else NO_DIFFERENCE).mean())

    def needed(base: float | None, effect: float, spread: float) -> int | None:
        if base is None:
            deviation = math.hypot(_USUAL_LOG_SD * math.sqrt(2 / repeats), spread)
            power = partial(power_of_cost, effect=effect, deviation=deviation)
        elif (law := _law(base, concentration, effect, spread, repeats)) is None:
            return None
        else:
            power = partial(power_of_success, effect=effect, law=law)
        n = bisect_left(range(MOST_TASKS + 1), x=_POWER, lo=2, key=power)
        return n if n <= MOST_TASKS else None

    bases = {None: step} if is_cost else {base: step if base < _MIDDLE else -step for base in BASES}
    return tuple(
        TasksNeeded(
            base_rate=base,
            effect=(needed(base, effect, 0.0), needed(base, effect, step)),
            none=(needed(base, 0.0, 0.0), needed(base, 0.0, step)),
        )
        for base, effect in bases.items()
    )


def _law(base: float, concentration: float, effect: float, spread: float, repeats: int) -> Floats | None:
    """Return the law of a task's solved runs on both sides, flat; None where no shift gives the mean effect.

    Rates with the arm are cut to [0, 1].
    """
    dice = np.random.default_rng(0)
    rate = dice.beta(base * concentration, (1 - base) * concentration, _TASKS_OF_A_LAW)
    own = rate + spread * dice.standard_normal(len(rate))

    def lacks(shift: float) -> float:
        return float(np.clip(own + shift, 0, 1).mean() - rate.mean()) - effect

    if lacks(-2) > 0 or lacks(2) < 0:
        return None
    other = np.clip(own + scipy.optimize.brentq(lacks, -2, 2), 0, 1)
    solved = np.arange(repeats + 1)[:, None]
    ways = scipy.special.binom(repeats, solved)
    ours, theirs = (ways * one**solved * (1 - one) ** (repeats - solved) for one in (other, rate))
    return (ours @ theirs.T).ravel() / len(rate)


def difficulty(n_solved: Ints, n_runs: Ints) -> float | None:
    """Return the concentration a + b of the beta law of difficulty that fits solved runs by task best.

    Parameters
    ----------
    n_solved : integer array, shape (n_tasks,)
        Solved runs of each task.
    n_runs : integer array, shape (n_tasks,)
        All its runs.

    Returns
    -------
    float or None
        None where fewer than ten tasks have two runs or more, or no run or each was solved.

    References
    ----------
    * J. G. Skellam, *J. R. Stat. Soc. B* 10, 1948, 257: the beta-binomial law.
    """
    solved, runs = (one[n_runs > 1].astype(np.float64) for one in (n_solved, n_runs))
    mean = solved.sum() / max(runs.sum(), 1)
    if len(runs) < _LEAST_FITTED or not 0 < mean < 1:
        return None
    ours, theirs = (_CONCENTRATIONS[:, None] * one for one in (mean, 1 - mean))
    log = scipy.special.betaln(ours + solved, theirs + runs - solved) - scipy.special.betaln(ours, theirs)
    return float(_CONCENTRATIONS[log.sum(1).argmax()])
