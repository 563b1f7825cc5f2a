"""Trials: cells of runs with and without an arm → figures and a verdict for each arm and model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
import scipy

from core.columns import Bools, Floats, Ints
from core.maths.statistics.trials.cells import ArmPairs, comparisons, stacked
from core.maths.statistics.trials.verdict import (
    ERROR,
    OPEN,
    WORDS,
    Blocks,
    WordChances,
    evidence,
    holm,
    log_limits,
    lower_limit,
    stakes,
    words,
)
from core.records.estimate import Estimate, Missing
from core.records.trial import TRIAL_SIDES, Cell, Open, TrialFigures, TrialPlan

SMALLEST: Final = 15.0
"""Smallest effect of interest in points, where no plan names one."""
UNPLANNED: Final = 50
"""Tasks that stakes are made for, where no plan names them."""
LEAST_REPEATS: Final = 3
"""Repeats from which their own variance gives an interval of these tasks."""


def figures(
    cells: Sequence[Cell], plan: TrialPlan | None = None, *, alone: bool = False, smallest: float = SMALLEST
) -> tuple[TrialFigures, ...]:
    """Return what a trial shows, for each arm and model in turn.

    Parameters
    ----------
    cells : sequence of Cell
        Cells in any order; a cell that comes twice counts once.
    plan : TrialPlan or None, optional
        The plan. None = observed pairs, whose order is unknown.
    alone : bool, optional
        Whether the harness loaded the arm alone.
    smallest : float, optional
        Smallest effect of interest in points, where there is no plan of success.

    Returns
    -------
    tuple of TrialFigures
        With a plan at least one for each of its arms.

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
    n_planned = UNPLANNED if plan is None else compared[0].n_units
    judged = _Verdicts.of(compared, n_planned, _bound(plan, smallest))
    return tuple(_figures(one, judged, row, plan, alone) for row, one in enumerate(compared))


def _bound(plan: TrialPlan | None, smallest: float) -> float:
    """Return the smallest effect on success, in points."""
    return plan.smallest if plan is not None and plan.metric == "success" else smallest


@dataclass(frozen=True, kw_only=True)
class _Verdicts:
    """Blocks of all comparisons, the error that each may make, their verdicts, and what these rest on."""

    blocks: Blocks
    n_planned: int
    signs: WordChances
    whole: WordChances
    error: Floats
    word: Ints
    word_of_whole: Ints
    limits: tuple[Floats, Floats]
    limits_of_whole: tuple[Floats, Floats]
    shrunk: tuple[float | None, ...]

    @classmethod
    def of(cls, compared: Sequence[ArmPairs], n_planned: int, smallest: float) -> Self:
        """Judge comparisons that were planned together."""
        stake = stakes(n_planned, ERROR / len(compared))
        blocks = stacked(compared)
        apart = np.array([one.apart is not None for one in compared])
        signs = evidence(blocks, stake, smallest)
        whole = evidence(replace(blocks, low=blocks.difference, high=blocks.difference), stake, smallest)
        error = holm(np.where(apart, 1.0, signs.best), len(compared))
        return cls(
            blocks=blocks,
            n_planned=n_planned,
            signs=signs,
            whole=whole,
            error=error,
            word=np.where(apart, OPEN, words(signs, error)),
            word_of_whole=words(whole, error),
            limits=_limits(blocks.low, blocks.high, stake, error),
            limits_of_whole=_limits(blocks.difference, blocks.difference, stake, error),
            shrunk=shrunk(blocks.difference),
        )

    def why(self, row: int, one: ArmPairs) -> Open | None:
        """Return why a verdict is open; None where it is not."""
        if self.word[row] != OPEN:
            return None
        if not one.paired or one.apart is not None:
            return one.apart or "one_side"
        if self.word_of_whole[row] != OPEN:
            return "missing"
        grounds: dict[Open, Bools] = {
            "could_not_tell": self.signs.could_tell,
            "not_followed": self.signs.followed,
            "not_used": self.signs.used,
        }
        if min(self.signs.alike[row], self.whole.alike[row]) <= self.error[row]:
            return next(why for why, holds in grounds.items() if not holds[row])
        return "few_tasks" if len(one.units) < self.n_planned else "wide"


def _figures(one: ArmPairs, judged: _Verdicts, row: int, plan: TrialPlan | None, alone: bool) -> TrialFigures:
    difference, prob, n_planned = (
        judged.blocks.difference[row],
        1 - float(judged.error[row]),
        judged.n_planned,
    )
    return TrialFigures(
        arm=one.arm,
        model=one.model,
        word=WORDS[int(judged.word[row])],
        why=judged.why(row, one),
        like_these=_points(difference, judged.limits, row, prob),
        these=None if plan is None else _these(one),
        whole_only=_points(difference, judged.limits_of_whole, row, prob) if one.is_missing else None,
        tokens=_cost(one.log_ratios(lambda cell: cell.tokens), n_planned, "unknown_usage"),
        money=_cost(one.log_ratios(lambda cell: cell.money_pico), n_planned, "unknown_usage")
        if one.is_balanced
        else Estimate(value=None, lower=None, upper=None, missing="unbalanced"),
        n_costs=len(one.log_ratios(lambda cell: cell.tokens)),
        p_value=float(min(judged.signs.helps[row], judged.signs.harms[row])),
        shrunk=judged.shrunk[row],
        tasks=one.paired,
        n_planned=None if plan is None else n_planned,
        n_attempts_again=one.n_again,
        missing=one.missing,
        not_followed=one.not_followed,
        n_used=int(np.nansum(judged.blocks.n_used[row])),
        n_could_not_tell=sum(not task.could_tell for task in one.paired),
        left_out_checks=one.left_out_checks,
        alone=alone,
    )


def _limits(low: Floats, high: Floats, stake: Floats, error: Floats) -> tuple[Floats, Floats]:
    return lower_limit(low, stake, error), -lower_limit(-high, stake, error)


def _points(difference: Floats, limits: tuple[Floats, Floats], row: int, prob: float) -> Estimate:
    """Return the mean difference in points with its limits."""
    lower, upper = (100 * float(limit[row]) for limit in limits)
    if np.isnan(difference).all():
        return Estimate(value=None, lower=None, upper=None, prob=prob, missing="no_common_task")
    return Estimate(value=100 * float(np.nanmean(difference)), lower=lower, upper=upper, prob=prob)


def _these(one: ArmPairs) -> Estimate | None:
    """Return the mean difference of these tasks in points, with the variance of their repeats, at the planned end.

    Each cell gets half a solved and half an unsolved run more. Where no repeats of a cell ever differ, they count as
    one run, because they bring nothing new.
    """
    sides = [one.grades[side] for one in one.blocks for side in TRIAL_SIDES]
    if not one.is_complete or min(map(len, sides)) < LEAST_REPEATS:
        return None
    grades = np.array(sides, dtype=np.float64)
    is_alike = bool(np.all(grades == grades[:, :1]))
    variance = _variance_of_mean(grades[:, :1] if is_alike else grades).reshape(-1, 2).sum(1)
    weight = np.concatenate([np.full(len(unit), 1 / len(unit)) for unit in one.units.values()]) / len(
        one.units
    )
    means = grades.mean(1).reshape(-1, 2)
    value = float(weight @ (means[:, 0] - means[:, 1]))
    half = float(scipy.special.ndtri(1 - ERROR / 2)) * math.sqrt(float(weight**2 @ variance))
    return Estimate(value=100 * value, lower=100 * (value - half), upper=100 * (value + half))


def _variance_of_mean(grades: Floats) -> Floats:
    """Return the variance of each row's mean, with half a solved and half an unsolved run more."""
    n = grades.shape[1]
    mean = (grades.sum(1) + 0.5) / (n + 1)
    squares = (grades**2).sum(1) + 0.5 - (n + 1) * mean**2
    return np.asarray(squares / n**2)


def _cost(logs: Floats, n_planned: int, unknown: Missing) -> Estimate:
    """Return the mean log ratio as per cent that the arm adds, with limits that hold at every reading."""
    if not len(logs):
        return Estimate(value=None, lower=None, upper=None, missing=unknown)
    lower, upper = (float(limit) for limit in log_limits(logs, n_planned))
    value = 100 * math.expm1(float(logs.mean()))
    if math.isinf(upper):
        return Estimate(value=value, lower=None, upper=None, missing="few_for_interval")
    return Estimate(value=value, lower=100 * math.expm1(lower), upper=100 * math.expm1(upper))


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
    results = [100 * float(effect.mean() + share * one) for one in effect - effect.mean()]
    return tuple(results)
