"""Verdicts on differences by task: bets on their mean, the limits that follow, and words that hold at every reading.

A gambler bets on each task that its difference lies above a mean. If the mean were that, the wealth would exceed 1/e
with a probability of at most e, ever (Ville). The stakes are fixed by the planned number of tasks before the first
task. So the wealth does not depend on the order of the tasks, and a lower difference never raises it. This makes the
two limits of a missing cell exact: count it for the arm, and count it against the arm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from core.columns import Bools, Floats, Ints
from core.records.trial import TrialWord

ERROR: Final = 0.05
"""Probability of any false verdict among arms and models that were planned together."""
WORDS: Final[tuple[TrialWord, ...]] = ("open", "helps", "harms", "no_difference")
OPEN, HELPS, HARMS, NO_DIFFERENCE = range(4)
LEAST_TASKS: Final = 10
"""Tasks that use the arm, and tasks of middling difficulty, below which *no difference* has no ground."""
LEAST_ROOM: Final = 1 / 3
"""Room that the mean grade leaves to 0 and to 1, in smallest effects, below which *no difference* has no ground."""
LEAST_FOLLOWED: Final = 0.9
LEAST_USED: Final = 0.2
_SPREADS: Final = np.array([0.4, 0.6])
"""Standard deviations of a task's difference that the stakes are made for."""
_MOST_STAKE: Final = 0.95
_AHEAD: Final = 0.84
"""Normal quantile of the power that the stakes are made for."""
_HALVINGS: Final = 40
_COST_LEADS: Final = 8.0
"""Prior variance of a standardised effect on cost, times the planned tasks."""


def stakes(n_planned: int, error: float) -> Floats:
    """Return the shares of the highest stake that gamblers bet, for a trial of so many tasks.

    >>> stakes(60, 0.05).round(2).tolist(), stakes(500, 0.05).round(2).tolist()
    ([0.95, 0.77], [0.4, 0.27])
    """
    ahead = math.sqrt(2 * math.log(2 / error)) + _AHEAD
    return np.minimum(ahead / math.sqrt(n_planned) / _SPREADS, _MOST_STAKE)


def log_wealth(difference: Floats, mean: Floats, stake: Floats, *, at_each: bool = False) -> Floats:
    """Return the logarithm of the wealth of bets that the mean difference is above ``mean``.

    Parameters
    ----------
    difference : ndarray of float64
        Differences by task, in [-1, 1]. The last axis has the tasks. NaN = not run.
    mean : ndarray of float64
        Means in (-1, 1) that are bet against, of the axes before the last.
    stake : ndarray of float64
        Shares of the highest stake, as `stakes` returns them.
    at_each : bool, optional
        Whether to return the wealth after each task; the last axis then has the tasks.

    Returns
    -------
    ndarray of float64

    References
    ----------
    * I. Waudby-Smith and A. Ramdas, *J. R. Stat. Soc. B* 86, 2024, 1 (doi:10.1093/jrsssb/qkad009).

    Examples
    --------
    >>> float(log_wealth(np.full(20, 0.25), np.array(0.0), np.array([0.8])).round(3))
    3.646
    """
    gain = np.nan_to_num((difference - mean[..., None]) / (1 + mean[..., None]))
    bets = [np.log1p(one * gain) for one in stake.tolist()]
    logs = np.stack([bet.cumsum(-1) if at_each else bet.sum(-1) for bet in bets])
    return np.asarray(np.logaddexp.reduce(logs, axis=0) - math.log(len(logs)))


def lower_limit(difference: Floats, stake: Floats, error: Floats) -> Floats:
    """Return the least mean difference that bets don't refute; each side may err with ``error`` / 2."""
    least, most = np.full(difference.shape[:-1], -1 + 1e-9), np.ones(difference.shape[:-1])
    for _ in range(_HALVINGS):
        middle = (least + most) / 2
        is_refuted = log_wealth(difference, middle, stake) >= np.log(2 / error)
        least, most = np.where(is_refuted, middle, least), np.where(is_refuted, most, middle)
    return least


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """Blocks by comparison and task: two axes, tasks in their seeded order. NaN = the task did not run.

    ``difference`` is that of the mean grades, NaN where a cell is missing. ``low`` and ``high`` count missing cells
    against the arm and for it. ``solved`` is the mean grade of both sides. ``could_tell`` is 1 where not all grades
    were 0, nor all 1. ``followed`` counts runs that had what their side is for, ``doubtful`` the others.
    """

    difference: Floats
    low: Floats
    high: Floats
    solved: Floats
    could_tell: Floats
    n_with: Floats
    n_used: Floats
    followed_with: Floats
    followed_without: Floats
    doubtful_with: Floats
    doubtful_without: Floats


@dataclass(frozen=True, kw_only=True)
class WordChances:
    """WordChances of no effect and of a difference after each task, valid at every reading.

    ``helps``, ``harms`` and ``alike`` are chances if the word were false. The grounds of *no difference* are flags:
    tasks ``could_tell``, sides were ``followed``, and the arm was ``used``.
    """

    helps: Floats
    harms: Floats
    alike: Floats
    could_tell: Bools
    followed: Bools
    used: Bools

    @property
    def is_grounded(self) -> Bools:
        """True where nothing forbids *no difference*."""
        return np.asarray(self.could_tell & self.followed & self.used)

    @property
    def best(self) -> Floats:
        """The chance of the word that has the most evidence."""
        alike = np.where(self.is_grounded, self.alike, 1.0)
        return np.asarray(np.minimum(np.minimum(self.helps, self.harms), alike))


def evidence(blocks: Blocks, stake: Floats, smallest: float, *, at_each: bool = False) -> WordChances:
    """Return what differences show at the last task, or after each; ``smallest`` is in points."""
    bound = smallest / 100

    def chance(values: Floats, mean: float) -> Floats:
        log = log_wealth(values, np.full(values.shape[:-1], mean), stake, at_each=at_each)
        return np.asarray(np.exp(np.minimum(math.log(2) - log, 0.0)))

    def count(values: Floats) -> Floats:
        total = np.nan_to_num(values)
        return np.asarray(total.cumsum(-1) if at_each else total.sum(-1))

    n_paired, n_with = count(~np.isnan(blocks.difference) * 1.0), count(blocks.n_with)
    solved = count(blocks.solved) / np.maximum(n_paired, 1)
    sides = (blocks.followed_with, blocks.doubtful_with), (blocks.followed_without, blocks.doubtful_without)
    followed = [count(ours) >= LEAST_FOLLOWED * count(ours + doubtful) for ours, doubtful in sides]
    return WordChances(
        helps=chance(blocks.low, 0.0),
        harms=chance(-blocks.high, 0.0),
        alike=np.maximum(chance(blocks.low, -bound), chance(-blocks.high, -bound)),
        could_tell=(count(blocks.could_tell) >= LEAST_TASKS)
        & (np.abs(solved - 0.5) <= 0.5 - bound * LEAST_ROOM),
        followed=followed[0] & followed[1],
        used=(count(np.sign(blocks.n_used)) >= LEAST_TASKS) & (count(blocks.n_used) >= LEAST_USED * n_with),
    )


def holm(chance: Floats, n_together: int, error: float = ERROR) -> Floats:
    """Return the error that each comparison may make: the first axis has the comparisons that were planned together.

    The ones with the most evidence come first. Each that gets its verdict leaves its error to the rest.

    References
    ----------
    * S. Holm, *Scand. J. Stat.* 6, 1979, 65-70.

    Examples
    --------
    >>> holm(np.array([0.5, 0.001, 0.02]), 3).tolist()
    [0.05, 0.016666666666666666, 0.025]
    """
    order = np.argsort(chance, axis=0, kind="stable")
    left = n_together - np.arange(len(chance)).reshape(-1, *(1,) * (chance.ndim - 1))
    passed = np.minimum.accumulate(np.take_along_axis(chance, order, 0) <= error / left, axis=0)
    n_passed = np.minimum(passed.sum(0, keepdims=True), len(chance) - 1)
    share = error / (n_together - np.minimum(np.arange(len(chance)).reshape(left.shape), n_passed))
    errors = np.empty(chance.shape)
    np.put_along_axis(errors, order, np.broadcast_to(share, chance.shape), 0)
    return errors


def words(signs: WordChances, error: Floats) -> Ints:
    """Return the places of verdicts in `WORDS`."""
    alike = signs.is_grounded & (signs.alike <= error)
    word = np.where(alike, NO_DIFFERENCE, OPEN)
    return np.where(signs.helps <= error, HELPS, np.where(signs.harms <= error, HARMS, word))


def log_limits(logs: Floats, n_planned: int, error: float = ERROR) -> tuple[Floats, Floats]:
    """Return the limits of the mean of normal values at every reading; they are infinite where values are too few.

    A mixture over standardised effects with the invariant prior of the spread (t-test).

    References
    ----------
    * H. Wang and A. Ramdas, *Anytime-valid t-tests and confidence sequences for Gaussian means with unknown
      variance*, 2023 (arXiv:2310.03722).

    Examples
    --------
    >>> lower, upper = log_limits(np.array([0.1, 0.2, 0.3, 0.2, 0.1, 0.4] * 5), 30)
    >>> round(float(lower), 3), round(float(upper), 3)
    (0.152, 0.281)
    """
    n = logs.shape[-1]
    wider = 1 + _COST_LEADS * n / n_planned
    ratio = (math.sqrt(wider) / error) ** (2 / n)
    if n < 2 or ratio >= wider:
        return np.full(logs.shape[:-1], -math.inf), np.full(logs.shape[:-1], math.inf)
    half = logs.std(-1, ddof=1) * math.sqrt((ratio - 1) / (1 - ratio / wider) * (n - 1) / n)
    mean = logs.mean(-1)
    return mean - half, mean + half
