"""Runs joined by what was drawn once: savings by session, and the cost of each task solved.

A cheaper run that needs a second one saves nothing. So the runs of a draw, or of a session where each run is drawn by
itself, are added up and compared as one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np
import scipy

from core.columns import UNKNOWN, Bools, Floats, Ints, SessionRuns, is_held_coin, is_recorded_coin
from core.maths.statistics.savings.ratio import Compared
from core.maths.statistics.savings.runs import ComparedRuns, as_usage
from core.maths.statistics.savings.sums import BASELINE, MIN_FOR_INTERVAL, SELECTED, known_pair, no_estimate
from core.records.achieved import SOLVED
from core.records.currency import PICO
from core.records.estimate import Estimate
from core.records.saving import CostPerSolved, PerSession

MIN_SOLVED: Final = 10
"""Solved runs that a cost for each task solved takes."""


def joined(runs: SessionRuns, unit: Ints) -> tuple[Bools, SessionRuns]:
    """Return the first run of each unit, and all runs of a unit as one of its class.

    Unknown tokens of one make all unknown.
    """
    order = np.lexsort((runs.revision, runs.hour, unit))
    starts = np.flatnonzero(np.diff(unit[order], prepend=unit[order[:1]] - 1))
    first = np.zeros(len(runs), dtype=np.bool_)
    first[order[starts]] = True

    def total(amount: Ints) -> Ints:
        sums = np.add.reduceat(np.where(amount == UNKNOWN, 0, amount)[order], starts)
        known = np.minimum.reduceat((amount != UNKNOWN)[order], starts)
        whole = np.full(len(runs), UNKNOWN)
        whole[order[starts]] = np.where(known, sums, UNKNOWN)
        return whole

    return first, replace(runs, tokens=total(runs.tokens), bill_pico=total(runs.bill_pico)).where(first)


def per_session(runs: SessionRuns, error: float, *, is_money: bool) -> PerSession | None:
    """Return the savings by session of drawn runs; None where each run comes alone."""
    by_coin = runs.where(is_recorded_coin(runs.prob_micro))
    held = is_held_coin(by_coin.prob_micro)
    unit = np.where(held, by_coin.draw, by_coin.session)
    _, place, n = np.unique(unit, return_inverse=True, return_counts=True)
    if not (n > 1).any():
        return None
    by_draw = bool(held[(n > 1)[place]].all())
    first, whole = joined(by_coin, unit)
    result, saved_percent = _always(whole, error)
    n_runs = [n[place][first][group] for group in (~whole.is_selected, whole.is_selected)]
    baseline, selected = (float(one.mean()) if len(one) else None for one in n_runs)
    return PerSession(
        by_draw=by_draw,
        n_sessions=(int(result.n[BASELINE]), int(result.n[SELECTED])),
        means=known_pair(result.mean),
        runs=(baseline, selected),
        saved_percent=saved_percent,
        money_percent=_always(in_money(whole), error)[1] if is_money else None,
    )


def in_money(runs: SessionRuns) -> SessionRuns:
    """Return the runs with their bills in place of their tokens."""
    return replace(runs, tokens=np.where(runs.is_billed, np.maximum(runs.bill_pico, 1), UNKNOWN))


def _always(whole: SessionRuns, error: float) -> tuple[Compared, Estimate]:
    """Return the comparison, and its capped figure with the interval that holds however often one looks."""
    compared = ComparedRuns(as_usage(whole), whole)
    return compared.always(compared.everything, error)


def cost_per_solved(runs: SessionRuns, *, is_money: bool) -> tuple[CostPerSolved, CostPerSolved] | None:
    """Return the cost of each solved task of baseline and of selected runs; None where no outcome is known.

    The runs are those with a known cost and outcome.
    """
    amount = np.where(runs.is_billed, runs.bill_pico / PICO, np.nan) if is_money else _tokens(runs)
    known = np.isfinite(runs.achieved) & np.isfinite(amount)
    if not known.any():
        return None
    selected = runs.is_selected
    baseline, chosen = (
        _cost(runs.session[mask], amount[mask], runs.achieved[mask] > SOLVED, is_money=is_money)
        for mask in (known & ~selected, known & selected)
    )
    return baseline, chosen


def _tokens(runs: SessionRuns) -> Floats:
    return np.where(runs.tokens == UNKNOWN, np.nan, runs.tokens.astype(np.float64))


def _cost(session: Ints, amount: Floats, solved: Bools, *, is_money: bool) -> CostPerSolved:
    n_solved = int(solved.sum())
    if n_solved < MIN_SOLVED:
        cost = no_estimate("few_runs", 0.95)
    else:
        number = np.unique(session, return_inverse=True)[1]
        above, below = (np.bincount(number, one).astype(np.float64) for one in (amount, solved))
        cost = fieller(above, below)
    return CostPerSolved(is_money=is_money, n_solved=n_solved, n_runs=len(solved), cost=cost)


def fieller(above: Floats, below: Floats, prob: float = 0.95) -> Estimate:
    """Return the ratio of two sums with its interval by sessions; no upper limit where it is open above.

    E. C. Fieller, *J. R. Stat. Soc. B* 16, 1954, 175.
    """
    n, ratio = len(above), float(above.sum() / below.sum())
    if n < MIN_FOR_INTERVAL:
        return no_estimate("few_for_interval", prob, ratio)
    t = float(scipy.special.stdtrit(n - 1, (1 + prob) / 2))
    cov = np.cov(above, below) / n
    first, second = float(above.mean()), float(below.mean())
    a, b, c = second**2 - t**2 * cov[1, 1], first * second - t**2 * cov[0, 1], first**2 - t**2 * cov[0, 0]
    root = math.sqrt(max(b**2 - a * c, 0.0))
    if a > 0:
        return Estimate(
            value=ratio, lower=max(float((b - root) / a), 0.0), upper=float((b + root) / a), prob=prob
        )
    lower = float((b + root) / a) if a < 0 else float(c / (2 * b))
    return Estimate(
        value=ratio, lower=max(min(lower, ratio), 0.0), upper=None, prob=prob, missing="unreachable"
    )
