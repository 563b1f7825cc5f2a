"""Neighbours: other bandit libraries at one selection, where they are installed (the extra ``bench``)."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from core.columns import ArmColumns
from core.policy import pack
from core.records.learner import LearnerSettings
from tests.bench.harness import Row, Scale, missing_neighbours, pairs
from tests.bench.worlds import columns


def missing() -> list[str]:
    """One line for the neighbours that are not there."""
    names = missing_neighbours()
    return [f"not installed, left out: {', '.join(names)} (pip install -e '.[bench]')"] if names else []


def selection(scale: Scale, _folder: Path) -> list[Row]:
    """One Thompson draw over all arms; neither neighbour knows costs or a budget."""
    arms = columns(scale.n_select_arms)
    settings = LearnerSettings(budget_tokens=8_000, baseline_rate=0.0)
    gone = missing_neighbours()
    return [_one(name, scale.n_number_pairs, arms, settings) for name in _CHOOSERS if name not in gone]


def _one(name: str, n: int, arms: ArmColumns, settings: LearnerSettings) -> Row:
    choose = _CHOOSERS[name](len(arms))
    timed = pairs(lambda number: pack(arms, settings, seed=number), lambda _: choose(), n)
    return timed.row(f"{name}: one choice of {len(arms):,} arms", "our selection under a budget", None)


def _mabwiser(n_arms: int) -> Callable[[], object]:
    mab = importlib.import_module("mabwiser.mab")
    made = mab.MAB(list(range(n_arms)), mab.LearningPolicy.ThompsonSampling())
    made.fit(decisions=list(range(n_arms)), rewards=[0, 1] * (n_arms // 2))
    predict: Callable[[], object] = made.predict
    return predict


def _river(n_arms: int) -> Callable[[], object]:
    bandit, proba = importlib.import_module("river.bandit"), importlib.import_module("river.proba")
    policy = bandit.ThompsonSampling(reward_obj=None, dist=proba.Beta())
    arms = list(range(n_arms))
    return lambda: policy.pull(arms)


_CHOOSERS: Final = {"mabwiser": _mabwiser, "river": _river}
