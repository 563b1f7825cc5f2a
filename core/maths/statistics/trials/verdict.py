"""Verdicts on differences by task: bets on their mean, the limits that follow, and words that hold at every reading.

A gambler bets on each task that its difference lies above a mean. If the mean were that, the wealth would exceed 1/e
with a probability of at most e, ever (Ville). The stakes are fixed by the planned number of tasks before the first
task. So the wealth does not depend on the order of the tasks, and a lower difference never raises it. This makes the
two limits of a missing cell exact: count it for the arm, and count it against the arm.
"""

from __future__ import annotations

import math
from typing import Final, get_args

import numpy as np

from core.columns import Bools, Floats, Ints
from core.records.trial import TrialWord

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
_COST_LEADS: Final = 8.0
"""Prior variance of a standardised effect on cost, times the planned tasks."""


def stakes(n_planned: int, error: float) -> Floats:
    """Return the shares of the highest stake that gamblers bet, for a trial of so many tasks.

    >>> stakes(60, 0.05).round(2).tolist(), stakes(500, 0.05).round(2).tolist()
    ([0.95, 0.77], [0.4, 0.27])
    """
    ahead = math.sqrt(2 * math.log(2 / error)) + _AHEAD
    return np.minimum(ahead / math.sqrt(n_planned) / _SPREADS, _MOST_STAKE)


def log_wealth(difference: Floats, mean: Floats, stake: Floats) -> Floats:
    """Return the logarithm of the wealth of bets that the mean difference is above ``mean``.

    The last axis has the differences by task, in [-1, 1]; NaN = not run. Means are in (-1, 1).

    References
    ----------
    * I. Waudby-Smith and A. Ramdas, *J. R. Stat. Soc. B* 86, 2024, 1 (doi:10.1093/jrsssb/qkad009).

    Examples
    --------
    >>> float(log_wealth(np.full(20, 0.25), np.array(0.0), np.array([0.8])).round(3))
    3.646
    """
    gain = np.nan_to_num((difference - mean[..., None]) / (1 + mean[..., None]))
    logs = np.stack([np.log1p(one * gain).sum(-1) for one in stake.tolist()])
    return np.asarray(np.logaddexp.reduce(logs, axis=0) - math.log(len(logs)))


def lower_limit(difference: Floats, stake: Floats, error: Floats) -> Floats:
    """Return the least mean difference that bets don't refute; each side may err with ``error`` / 2."""
    least, most = np.full(difference.shape[:-1], _LEAST_MEAN), np.ones(difference.shape[:-1])
    for _ in range(_HALVINGS):
        middle = (least + most) / 2
        is_refuted = log_wealth(difference, middle, stake) >= np.log(2 / error)
        least, most = np.where(is_refuted, middle, least), np.where(is_refuted, most, middle)
    return least


def chances(low: Floats, high: Floats, stake: Floats, smallest: float) -> Floats:
    """Return the chances of *helps*, *harms* and *no difference*, if the word were false, valid at every reading.

    ``low`` and ``high`` are differences by task that count missing cells against the arm and for it. ``smallest`` is
    in points.
    """

    def chance(values: Floats, mean: float) -> Floats:
        log = log_wealth(values, np.full(values.shape[:-1], mean), stake)
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


def can_tell(solved: Floats, smallest: float) -> Bools:
    """Return whether mean grades of tasks, on both sides, leave room for a difference. NaN = a cell is missing."""
    n_tasks = np.maximum((~np.isnan(solved)).sum(-1), 1)
    distance = np.abs(np.nan_to_num(solved).sum(-1) / n_tasks - 0.5)
    n_could = ((solved > 0) & (solved < 1)).sum(-1)
    return np.asarray((n_could >= LEAST_TASKS) & (distance <= 0.5 - smallest / 100 * _LEAST_ROOM))


def holm(chance: Floats) -> Floats:
    """Return the error that each comparison may make, of those that were planned together.

    The ones with the most evidence come first. Each that gets its verdict leaves its error to the rest.

    References
    ----------
    * S. Holm, *Scand. J. Stat.* 6, 1979, 65-70.

    Examples
    --------
    >>> holm(np.array([0.5, 0.001, 0.02])).tolist()
    [0.05, 0.016666666666666666, 0.025]
    """
    order, place = np.argsort(chance, kind="stable"), np.arange(len(chance))
    passed = np.minimum.accumulate(chance[order] <= ERROR / (len(chance) - place))
    errors = np.empty(len(chance))
    errors[order] = ERROR / (len(chance) - np.minimum(place, min(passed.sum(), len(chance) - 1)))
    return errors


def log_limits(logs: Floats, n_planned: int) -> tuple[Floats, Floats]:
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
    ratio = (math.sqrt(wider) / ERROR) ** (2 / n)
    if n < 2 or ratio >= wider:
        return np.full(logs.shape[:-1], -math.inf), np.full(logs.shape[:-1], math.inf)
    half = logs.std(-1, ddof=1) * math.sqrt((ratio - 1) / (1 - ratio / wider) * (n - 1) / n)
    mean = logs.mean(-1)
    return mean - half, mean + half
