"""Cells of small trials: grades by side, task and repeat."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace

from core.columns import Floats
from core.records.trial import TRIAL_SIDES, Cell, TrialPlan, TrialTask

ARM = "skill:own:pdf"


def plan_of(n_tasks: int, *, repeats: int = 3, smallest: float = 15.0, n_arms: int = 1) -> TrialPlan:
    """Return a plan with tasks t0, t1 and so on."""
    arms = (ARM, *(f"{ARM}{arm}" for arm in range(1, n_arms)))
    tasks = tuple(TrialTask(name=f"t{task}") for task in range(n_tasks))
    return TrialPlan(
        arms=arms, digests=("",) * n_arms, tasks=tasks, seed="1", repeats=repeats, smallest=smallest
    )


def cells_of(grades: Floats, change: Callable[[Cell], Cell] = lambda cell: cell) -> list[Cell]:
    """Return the cells of grades by side, task and repeat; NaN is a fault, and an infinite grade a limit."""
    return [
        change(
            Cell(
                task=f"t{task}",
                repeat=repeat + 1,
                side=TRIAL_SIDES[side],
                grade=float(grade) if np.isfinite(grade) else None,
                end="fault" if np.isnan(grade) else "limit" if np.isinf(grade) else "ended",
                presence="absent" if side else "called",
            )
        )
        for (side, task, repeat), grade in np.ndenumerate(grades)
    ]


def grades_of(seed: int, n_tasks: int, effect: float = 0.0, repeats: int = 3) -> Floats:
    """Return grades of tasks that differ in difficulty; the arm helps or harms all by an effect."""
    dice = np.random.default_rng(seed)
    without = dice.uniform(0.3, 0.7, n_tasks)
    rate = np.stack([without + effect, without])[..., None]
    return (dice.random((2, n_tasks, repeats)) < rate).astype(np.float64)


def with_sides_swapped(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells with the sides changed for each other."""
    other = {"with": "without", "without": "with"}
    presence = {"with": "absent", "without": "called"}
    return [replace(one, side=other[one.side], presence=presence[one.side]) for one in cells]
