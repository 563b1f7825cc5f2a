"""Value of one more label of an arm, in tokens, so that the most valuable labels come first.

A label is worth what the next selection would do otherwise: tokens that go in or out because of it. Selections come
from simulated runs (`core.statistics.inclusion`); both sides of each comparison use the same draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from core.columns import ArmColumns, CandidateSets, Floats, Ints
from core.errors import InvalidInput
from core.packing import counted_cost
from core.posterior.beta import density
from core.records.learner import LearnerSettings
from core.statistics.inclusion.simulation import SimulationPlan

MOST_ARMS: Final = 200
"""Arms whose labels are compared at once."""

_MOST_RUNS: Final = 1_024
_LEAST_RUNS: Final = 32
_MOST_NUMBERS: Final = 1 << 25
"""Simulated runs of a set at most and at least, and costs packed in all sets beyond which there are fewer."""

_BLOCK_NUMBERS: Final = 1 << 20
"""Costs packed at once, so that memory stays bounded."""

_NEGLIGIBLE: Final = 1e-6
"""Chances that move by less are left out."""

_SMOOTHED: Final = 2.0
"""Weight of what is known of the wider group, in corrections: that of Beta(1, 1)."""

_ROUND: Final = 0


def label_values(
    columns: ArmColumns,
    settings: LearnerSettings,
    arms: Ints,
    *,
    seed: int,
    candidates: CandidateSets | None = None,
) -> Floats:
    """Return the value of information of one more label of each of some arms, in tokens of the next prompt.

    ``m d(alpha + 1, beta) + (1 - m) d(alpha, beta + 1)`` for an arm believed in with mean m: d adds up, over all
    arms, how far the chance to be in the next prompt moves, times the cost. Pulls stay as they are: that an
    under-explored arm comes nearer to its limit is not the effect of a label.

    Runs are simulated with the same draws of all others before and after. The arm's own draw is not simulated: in
    each run the others set a threshold t above which the arm goes in, and

    ``P(X > t | alpha + 1, beta) - P(X > t | alpha, beta) = t (1 - t) f(t) / alpha``

    with the density f of Beta(alpha, beta), and over beta the other way. So both halves of the sum are the same:
    the value is 2 / (alpha + beta) times the sum over arms of cost times | mean of t (1 - t) f(t) e |, where e is
    what goes in (1) or out (-1) with the arm, times the share of runs that are no baseline.

    Parameters
    ----------
    columns : ArmColumns of n_arms
        Counts of every arm, sorted by id; an unknown cost counts as 0.
    settings : LearnerSettings
        Phase, baseline rate, budget, k, min_pulls and seeds of the next run.
    arms : array of int, shape (n_wanted,)
        Indexes of the arms in their columns, at most 200, without repeats.
    seed : int
        Of the random generator, 0 or more; the same one gives the same values.
    candidates : CandidateSets or None, optional
        The arms that recent runs offered; None = every arm.

    Returns
    -------
    array of float, shape (n_wanted,)
        Tokens, 0 or more; 0 where no label changes a selection: seeds, arms that always or never fit, costs of 0.

    Raises
    ------
    InvalidInput
        For more than 200 arms, a repeated one, or one that isn't in the columns.

    References
    ----------
    * R. A. Howard, *IEEE Trans. Syst. Sci. Cybern.* 2, 1966, 22 (doi:10.1109/TSSC.1966.300074): value of information.
    * P. Glasserman and D. D. Yao, *Manag. Sci.* 38, 1992, 884 (doi:10.1287/mnsc.38.6.884): common random numbers.
    * G. Casella and C. P. Robert, *Biometrika* 83, 1996, 81 (doi:10.1093/biomet/83.1.81): what is known isn't drawn.

    Examples
    --------
    >>> million, none = 1_000_000, np.zeros(3, dtype=np.int64)
    >>> columns = ArmColumns(
    ...     keys=("tool:a:a", "tool:b:b", "tool:c:c"), types=("tool",) * 3,
    ...     prior_alpha_micro=none + million, prior_beta_micro=none + million,
    ...     base_alpha_micro=none + million, base_beta_micro=none + million,
    ...     success_micro=np.array([20, 20, 1]) * million, failure_micro=np.array([20, 20, 99]) * million,
    ...     pulls=np.array([40, 40, 100]), part_micro=none, inclusions=none,
    ...     token_cost=none + 100, epoch=none, last_at_ms=none,
    ... )
    >>> settings = LearnerSettings(budget_tokens=100, seed_arms=())
    >>> values = label_values(columns, settings, np.array([0, 2]), seed=1)
    >>> bool(values[0] > 5), bool(values[1] < 0.01)
    (True, True)
    """
    _check(columns, arms)
    sets = CandidateSets.everything(len(columns)) if candidates is None else candidates
    moved = np.zeros((len(arms), len(columns)))
    n_cells = len(arms) * sum(len(places) for places in sets.places)
    n_simulations = min(max(_MOST_NUMBERS // max(n_cells, 1), _LEAST_RUNS), _MOST_RUNS)
    for number, (places, share) in enumerate(zip(sets.places, sets.shares, strict=True)):
        plan = SimulationPlan(columns, settings, places)
        for row, change in _moves(plan, arms, n_simulations, seed, number):
            moved[row, plan.places] += share * change
    weight = columns.alpha[arms] + columns.beta[arms]
    tokens = np.abs(moved) @ counted_cost(columns.token_cost).astype(np.float64)
    return np.asarray((1 - settings.baseline_rate) * 2 / weight * tokens)


def chance_wrong(n_judged: Ints, n_wrong: Ints) -> Floats:
    """Return the chance that the detector was wrong, by type of arm and part of the evidence, from past corrections.

    Each cell leans on its type, each type on all, and all on one half, with the weight of two corrections each:
    ``(wrong + 2 wider) / (judged + 2)``, the mean of a Beta posterior. A label that corrects is worth
    `label_values` times this.

    Parameters
    ----------
    n_judged : array of int, shape (n_types, n_places)
        Detections that people looked at, 0 or more.
    n_wrong : array of int, shape (n_types, n_places)
        Those that they corrected, at most as many.

    Returns
    -------
    array of float, shape (n_types, n_places)
        Strictly between 0 and 1.

    Raises
    ------
    InvalidInput
        Where the tables differ in shape, or more were wrong than judged.

    References
    ----------
    I. J. Good, *The Estimation of Probabilities*, 1965: smoothing by the wider group.

    Examples
    --------
    >>> chance_wrong(np.array([[0, 20], [0, 0]]), np.array([[0, 18], [0, 0]])).round(2).tolist()
    [[0.9, 0.9], [0.86, 0.86]]
    """
    if n_judged.shape != n_wrong.shape or len(n_judged.shape) != 2:
        raise InvalidInput(
            f"corrections must be two tables of types by places, got {n_judged.shape} and {n_wrong.shape}.",
            next_step="Give one row a type, one column a place of evidence.",
        )
    if ((n_wrong < 0) | (n_wrong > n_judged)).any():
        raise InvalidInput(
            "n_wrong must be 0 to n_judged, got more or fewer.",
            next_step="Count corrections among those judged.",
        )
    of_all = _leaning(n_judged.sum(), n_wrong.sum(), 0.5)
    of_type = _leaning(n_judged.sum(axis=1), n_wrong.sum(axis=1), of_all)
    return _leaning(n_judged, n_wrong, of_type[:, None])


def _moves(
    plan: SimulationPlan, arms: Ints, n_simulations: int, seed: int, number: int
) -> Iterator[tuple[int, Floats]]:
    """Yield the row of a requested arm, and by how much each arm's chance moves with it, part by part."""
    stream = number, _ROUND
    thresholds = plan.thresholds("selected", n_simulations, seed=seed, stream=stream)
    row, run, column, weight = _decided(plan, arms, thresholds)
    if not len(run):
        return
    order = plan.order(n_simulations, seed=seed, stream=stream)
    size = max(1, _BLOCK_NUMBERS // len(plan.places))
    for start in range(0, len(run), size):
        block = slice(start, start + size)
        moved = plan.exchanged(order[run[block]], column[block]) * weight[block, None]
        firsts = np.flatnonzero(np.diff(row[block], prepend=-1))
        sums = np.add.reduceat(moved, firsts, axis=0) / n_simulations
        yield from zip(row[block][firsts].tolist(), sums, strict=True)


def _decided(plan: SimulationPlan, arms: Ints, thresholds: Floats) -> tuple[Ints, Ints, Ints, Floats]:
    """Return the runs in which an arm's draw decides, arm after arm: row, run, column, and t (1 - t) times the
    density there.
    """
    offered = np.flatnonzero(np.isin(arms, plan.places))
    columns = np.searchsorted(plan.places, arms[offered])
    at = thresholds[:, columns].T
    inside = np.where((at > 0) & (at < 1), at, 0.0)
    weight = inside * (1 - inside) * density(plan.alpha[columns, None], plan.beta[columns, None], inside)
    weight[inside == 0] = 0.0
    index, run = np.nonzero(weight > _NEGLIGIBLE)
    return offered[index], run, columns[index], weight[index, run]


def _leaning(n: Ints, hits: Ints, wider: float | Floats) -> Floats:
    return np.asarray((hits + _SMOOTHED * wider) / (n + _SMOOTHED))


def _check(columns: ArmColumns, arms: Ints) -> None:
    if len(arms) > MOST_ARMS:
        raise InvalidInput(
            f"arms must be at most {MOST_ARMS}, got {len(arms)}.",
            next_step="Choose those most in need of a label.",
        )
    if len(np.unique(arms)) < len(arms):
        raise InvalidInput("arms must be named once, got some twice.", next_step="Leave out repeats.")
    if len(arms) and not 0 <= int(arms.min()) <= int(arms.max()) < len(columns):
        raise InvalidInput(
            f"arms must be places from 0 to {len(columns) - 1}, got {int(arms.min())} to {int(arms.max())}.",
            next_step="Take the places of ids from columns.places.",
        )
