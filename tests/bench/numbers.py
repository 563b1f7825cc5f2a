"""Numbers: summary, selection, chance of inclusion and agreement, against NumPy and SciPy alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from scipy.special import betaincinv

from core.columns import ArmColumns, Floats
from core.maths.policy import pack
from core.maths.statistics.inclusion import inclusion_chances
from core.maths.statistics.summary import summarise
from core.records.learner import LearnerSettings
from tests.bench.harness import Row, Scale, pairs
from tests.bench.worlds import columns

_SHARE_CHANGED: Final = 0.01
_BUDGET: Final = 8_000
_N_PLAIN: Final = 2_500
"""Runs that counting takes to a standard error of 0.01 where the chance is one half."""


def summary(scale: Scale, _folder: Path) -> list[Row]:
    """Mean, variance, both intervals and band of every arm: afresh, and where 1 % changed."""
    arms = columns(scale.n_summary_arms)
    moved = _moved(arms)
    earlier = summarise(arms)
    fresh = pairs(lambda _: _inverted(arms), lambda _: summarise(arms), scale.n_number_pairs)
    changed = pairs(
        lambda _: _inverted(moved), lambda _: summarise(moved, earlier=earlier), scale.n_number_pairs
    )
    lower, upper = _inverted(moved)
    again = summarise(moved, earlier=earlier)
    if not (np.allclose(lower, again.lower) and np.allclose(upper, again.upper)):
        raise AssertionError("base and ours must find the same intervals")
    base, what = "one pair of betaincinv over all arms", f"summary of {len(arms):,} arms"
    return [fresh.row(f"{what}, small counts", base, 0.15), changed.row(f"{what}, 1 % changed", base, 0.015)]


def selection(scale: Scale, _folder: Path) -> list[Row]:
    """One decision about every arm under a budget."""
    arms = columns(scale.n_select_arms)
    settings = LearnerSettings(budget_tokens=_BUDGET, baseline_rate=0.0)
    timed = pairs(
        lambda number: _drawn(arms, number),
        lambda number: pack(arms, settings, seed=number),
        scale.n_number_pairs * 5,
        collect=False,
    )
    packed = pack(arms, settings, seed=1)
    if not 0 < int(packed.token_cost[packed.included_places].sum()) <= _BUDGET:
        raise AssertionError("a selection must use the budget, and not more")
    return [timed.row(f"selection among {len(arms):,} arms under a budget", "rng.beta and argsort", 0.95)]


def inclusion(scale: Scale, _folder: Path) -> list[Row]:
    """Chance of every arm to be in the next prompt, standard error at most 0.01 in base and ours.

    While some arms are under-explored few places are left to draw for; afterwards all compete for all of them.
    """
    arms = columns(scale.n_inclusion_arms)
    settled = replace(arms, pulls=arms.pulls + LearnerSettings().min_pulls)
    return [_inclusion(arms, scale, "some under-explored"), _inclusion(settled, scale, "none under-explored")]


def _inclusion(arms: ArmColumns, scale: Scale, which: str) -> Row:
    settings = LearnerSettings(budget_tokens=_BUDGET)
    found = inclusion_chances(arms, settings, seed=1)
    if found.standard_error.max() > 0.01:
        raise AssertionError("the standard error must be at most 0.01")
    timed = pairs(
        lambda number: _simulated(arms, settings, number, _N_PLAIN),
        lambda number: inclusion_chances(arms, settings, seed=number),
        scale.n_inclusion_pairs,
    )
    close = np.abs(_simulated(arms, settings, 1, _N_PLAIN) - found.chance) < 0.08
    if not close.all():
        raise AssertionError("base and ours must find the same chances")
    what = f"chance of inclusion, {len(arms):,} arms, {which}"
    return timed.row(what, "Python loop of the same packer, arm by arm", 0.1)


def _moved(arms: ArmColumns) -> ArmColumns:
    rng = np.random.default_rng(2)
    success = arms.success_micro.copy()
    success[rng.choice(len(arms), max(1, int(len(arms) * _SHARE_CHANGED)), replace=False)] += 1_000_000
    return replace(arms, success_micro=success)


def _inverted(arms: ArmColumns) -> tuple[Floats, Floats]:
    alpha, beta = arms.alpha, arms.beta
    return np.asarray(betaincinv(alpha, beta, 0.025)), np.asarray(betaincinv(alpha, beta, 0.975))


def _drawn(arms: ArmColumns, seed: int) -> object:
    return np.argsort(-np.random.Generator(np.random.PCG64(seed)).beta(arms.alpha, arms.beta))


def _simulated(arms: ArmColumns, settings: LearnerSettings, seed: int, n_simulations: int) -> Floats:
    """The packer as one would write it first: one order at a time, arm by arm. There are no seeds, k is 0."""
    rng = np.random.default_rng(seed)
    cost, pulls = arms.token_cost.tolist(), np.minimum(arms.pulls, settings.min_pulls)
    alpha, beta = arms.alpha, arms.beta
    counts = np.zeros((2, len(arms)))
    sizes = (n_simulations // 10, n_simulations - n_simulations // 10)
    for is_selected, size in enumerate(sizes):
        for _ in range(size):
            order = np.lexsort((-rng.beta(alpha, beta), pulls)) if is_selected else rng.permutation(len(arms))
            counts[is_selected, _packed(order.tolist(), cost)] += 1
    rate = settings.baseline_rate
    return np.asarray(rate * counts[0] / sizes[0] + (1 - rate) * counts[1] / sizes[1])


def _packed(order: list[int], cost: list[int]) -> list[int]:
    left, packed = _BUDGET, []
    for place in order:
        if cost[place] <= left:
            left -= cost[place]
            packed.append(place)
    return packed
