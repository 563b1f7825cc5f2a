"""Trials: cells of runs with and without an arm → figures and a verdict for each arm and model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final

import numpy as np
import scipy

from core.columns import Floats, Ints
from core.maths.statistics.savings.sums import no_estimate
from core.maths.statistics.trials.cells import ArmPairs, comparisons, stacked, was_followed, was_used
from core.maths.statistics.trials.verdict import (
    ERROR,
    LOG_SPREADS,
    MOST_LOG,
    NO_DIFFERENCE,
    OPEN,
    WORDS,
    bounded_logs,
    chances,
    claims,
    holm,
    lower_limit,
    stakes,
    words,
)
from core.records.alike import alike
from core.records.estimate import Estimate
from core.records.trial import TRIAL_SIDES, BySide, Cell, Open, TrialFigures, TrialPlan

SMALLEST: Final = 15.0
"""Smallest effect of interest in points, where no plan names one."""
UNPLANNED: Final = 50
"""Tasks that stakes are made for, where no plan names them."""
_LEAST_REPEATS: Final = 3
"""Repeats from which their own variance gives an interval of these tasks."""
_MOST_ALIKE: Final = 0.75
"""Share of cells whose repeats may all be alike before each cell counts as one run."""


def figures(
    cells: Sequence[Cell], plan: TrialPlan | None = None, *, alone: bool = False
) -> tuple[TrialFigures, ...]:
    """Return what a trial shows, for each arm and model in turn.

    Parameters
    ----------
    cells : sequence of Cell
        The runs, in any order. One that comes twice counts once.
    plan : TrialPlan or None, optional
        None = they are observed pairs, whose order is unknown.
    alone : bool, optional
        True if the harness loaded the arm alone.

    Returns
    -------
    tuple of TrialFigures
        Effects in points of success, in [-100, 100], and in per cent of cost.

    Examples
    --------
    >>> from core.records.trial import TRIAL_SIDES
    >>> cells = [
    ...     Cell(task=f"t{task}", repeat=1, side=side, grade=float(side == "with"))
    ...     for task in range(20)
    ...     for side in TRIAL_SIDES
    ... ]
    >>> figures(cells)[0].word, figures(cells)[0].like_these.value
    ('helps', 100.0)
    """
    compared = comparisons(cells, plan)
    if not compared:
        return ()
    smallest = plan.smallest if plan is not None and plan.metric == "success" else SMALLEST
    stake = stakes(compared[0].n_planned or UNPLANNED, ERROR / len(compared))
    blocks = stacked(compared)
    grounds = blocks.grounds(smallest)
    # Missing cells counted both ways, then whole blocks alone.
    low, high = (np.stack([one, blocks.difference]) for one in (blocks.low, blocks.high))
    chance = chances(low, high, stake, smallest)
    # A retest chose its tasks by their results, so it shows an effect on them and never that there is none.
    has_ground = plan is None or not plan.retest
    claim = claims(chance, np.logical_and.reduce([*grounds.values()]) & has_ground)
    error = holm(np.where([one.apart is not None for one in compared], 1.0, claim[:, 0].min(0)))
    word = words(claim, error)
    limits = 100 * np.stack([lower_limit(low, stake, error), -lower_limit(-high, stake, error)])
    is_none = chance[NO_DIFFERENCE].min(0) <= error
    cost_error = ERROR / len(compared) if plan is not None and plan.metric == "cost" else ERROR
    shrunken = shrunk(blocks.difference)

    def shown(row: int, pairs: ArmPairs) -> TrialFigures:
        lacking = [why for why, holds in grounds.items() if is_none[row] and not holds[row]]
        is_screen = plan is not None and bool(plan.halves)
        why = _why(pairs, word[:, row], lacking, is_screen=is_screen)
        effects = [
            _points(blocks.difference[row], limits[:, bound, row], 1 - float(error[row])) for bound in (0, 1)
        ]
        graded = [one for one in pairs.cells if one.grade is not None]
        missing = [one for one in pairs.cells if one.grade is None]
        missing_ms = [one.at_ms for one in missing if one.at_ms is not None]
        used = [known for one in graded if one.side == "with" and (known := was_used(one)) is not None]
        tokens, money = (pairs.log_ratios(cost) for cost in (attrgetter("tokens"), attrgetter("money_pico")))
        return alike(
            TrialFigures,
            pairs,
            word=WORDS[word[0, row]] if why is None else "open",
            why=why,
            like_these=effects[0],
            these=_these(pairs),
            whole_only=effects[1] if pairs.faults_differ or not pairs.is_whole else None,
            tokens=_cost(tokens, pairs, cost_error),
            money=_cost(money, pairs, cost_error)
            if pairs.is_balanced
            else no_estimate("unbalanced", 1 - cost_error),
            n_costs=len(tokens),
            p_value=float(chance[:NO_DIFFERENCE, 0, row].min()),
            shrunk=shrunken[row],
            tasks=pairs.paired,
            n_attempts_again=_by_side(cell for one in pairs.blocks for cell in one.again),
            missing=_by_side(missing),
            missing_ms=(min(missing_ms), max(missing_ms)) if missing_ms else None,
            not_followed=_by_side(one for one in graded if was_followed(one) is False),
            n_used=sum(used) if used else None,
            n_could_not_tell=sum(not task.could_tell for task in pairs.paired),
            alone=alone,
        )

    return tuple(shown(row, pairs) for row, pairs in enumerate(compared))


def _why(pairs: ArmPairs, word: Ints, lacking: Sequence[Open], *, is_screen: bool) -> Open | None:
    """Return why the verdict is open, ``word`` also without missing cells; None where it is not."""
    if pairs.apart or not pairs.paired:
        return pairs.apart or ("missing" if pairs.n_sides > 1 else "one_side")
    if is_screen:
        return "screen"
    if word[0] != OPEN:
        return None
    if word[1] != OPEN:
        return "missing"
    is_early = len(pairs.units) < (pairs.n_planned or UNPLANNED)
    return next(iter(lacking), "few_tasks" if is_early else "wide")


def _points(difference: Floats, limits: Floats, prob: float) -> Estimate:
    """Return the mean difference in points with its limits."""
    if np.isnan(difference).all():
        return no_estimate("no_common_task", prob)
    lower, upper = limits.tolist()
    return Estimate(value=100 * float(np.nanmean(difference)), lower=lower, upper=upper, prob=prob)


def _by_side(cells: Iterable[Cell]) -> BySide:
    n = Counter(one.side for one in cells)
    return BySide(with_arm=n["with"], without=n["without"])


def _these(one: ArmPairs) -> Estimate | None:
    """Return the mean difference of these tasks in points, with the variance of their repeats, at the planned end.

    Each cell gets half a solved and half an unsolved run more. Where repeats hardly ever differ, they count as one
    run, because they may be copies.
    """
    if len(one.units) != one.n_planned or not one.is_whole:
        return None
    sides = [[cell.grade for cell in block.cells[side]] for block in one.blocks for side in TRIAL_SIDES]
    grades = np.array(sides, dtype=np.float64)
    if grades.shape[1] < _LEAST_REPEATS:
        return None
    is_alike = np.all(grades == grades[:, :1], axis=1).mean() > _MOST_ALIKE
    runs = grades[:, :1] if is_alike else grades
    n = runs.shape[1]
    mean = (runs.sum(1) + 0.5) / (n + 1)
    variance = ((runs**2).sum(1) + 0.5 - (n + 1) * mean**2) / n**2
    units = [np.full(len(unit), 1 / len(unit)) for unit in one.units.values()]
    weight = np.concatenate(units) / len(units)
    value = float(weight @ (grades[::2].mean(1) - grades[1::2].mean(1)))
    spread = math.sqrt(float(weight**2 @ (variance[::2] + variance[1::2])))
    half = float(scipy.special.ndtri(1 - ERROR / 2)) * spread
    return Estimate(value=100 * value, lower=100 * (value - half), upper=100 * (value + half))


def _cost(logs: Floats, pairs: ArmPairs, error: float) -> Estimate:
    """Return the mean log ratio as per cent that the arm adds, with limits that hold at every reading."""
    if not len(logs):
        return no_estimate("unknown_usage", 1 - error)
    bounded = bounded_logs(logs)
    stake = stakes(pairs.n_planned or UNPLANNED, error, LOG_SPREADS)
    limits = [side * MOST_LOG * lower_limit(side * bounded, stake, np.array(error)) for side in (1, -1)]
    value, lower, upper = (100 * math.expm1(float(one)) for one in (MOST_LOG * bounded.mean(), *limits))
    return Estimate(value=value, lower=lower, upper=upper, prob=1 - error)


def shrunk(difference: Floats) -> tuple[float | None, ...]:
    """Return effects in points, drawn towards their mean by the share of their spread that is chance.

    All arms share the runs with everything, so chance is measured on what is left after the mean of each task.

    References
    ----------
    * C. Morris, *J. Am. Stat. Assoc.* 78, 1983, 47: empirical Bayes by moments.
    """
    common = difference[:, ~np.isnan(difference).any(0)]
    n_arms, n_tasks = common.shape
    if n_arms < 2 or n_tasks < 2:
        return (None,) * len(common)
    effect = common.mean(1)
    own = (common - common.mean(0)) - (effect - effect.mean())[:, None]
    chance = (own**2).sum() / ((n_arms - 1) * (n_tasks - 1) * n_tasks)
    spread = effect.var(ddof=1)
    share = max(0.0, 1 - chance / spread) if spread > 0 else 0.0
    return tuple((100 * (effect.mean() + share * (effect - effect.mean()))).tolist())
