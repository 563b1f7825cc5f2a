"""Simulation: an arm goes in exactly when its draw is above its threshold, by the packer that really packs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.columns import Bools, Floats, Ints
from core.maths.packing import fill
from core.maths.statistics.inclusion.simulation import ALWAYS, NEVER, SimulationPlan, _of_group
from core.records.learner import LearnerSettings
from tests.worlds.columns import arms

worlds = st.lists(st.integers(0, 9), min_size=1, max_size=9)


def packed_one_by_one(draws: Floats, cost: Ints, left: int, room: int) -> Bools:
    """One run by the packer of real selections."""
    order = np.argsort(-draws, kind="stable")
    packed = np.zeros(len(cost), dtype=np.bool_)
    if room:
        # A budget of 0 would be unlimited: here nothing is left then, and only what is free goes in.
        packed[order] = fill(cost[order] * 2, 0, left * 2 + 1, room)
    return packed


@given(costs=worlds, seed=st.integers(0, 10_000), left=st.integers(0, 40), room=st.integers(0, 13))
def test_an_arm_goes_in_exactly_when_its_draw_is_above_its_threshold(
    costs: list[int], seed: int, left: int, room: int
) -> None:
    cost = np.array(costs)
    rng = np.random.default_rng(seed)
    draws = rng.random((2, len(cost)))
    lefts, rooms = np.full(2, left), np.full(2, room)
    found = _of_group(draws, cost, lefts, rooms)
    for row in range(2):
        real = packed_one_by_one(draws[row], cost, left, room)
        assert (lefts[row], rooms[row]) == (left - int(cost[real].sum()), room - int(real.sum()))
        for arm in range(len(cost)):
            others = np.delete(draws[row], arm)
            for own in (*(others + 1e-9), *(others - 1e-9), draws[row, arm]):
                moved = draws[row].copy()
                moved[arm] = own
                assert packed_one_by_one(moved, cost, left, room)[arm] == (own > found[row, arm])


def plan(heeded: LearnerSettings, *, successes: list[int], failures: list[int]) -> SimulationPlan:
    keys = [f"tool:other:t{place}" for place in range(4)]
    columns = arms(keys, successes=successes, failures=failures, costs=[10] * 4)
    return SimulationPlan(columns, heeded, np.arange(4))


def test_arms_with_few_pulls_go_ahead_of_those_that_draw_and_leave_them_the_rest() -> None:
    heeded = LearnerSettings(budget_tokens=20, seed_arms=(), baseline_rate=0.0)
    one = plan(heeded, successes=[0, 9, 9, 9], failures=[1, 9, 9, 9])
    found = one.thresholds("selected", 50, seed=0, stream=(0, 0))
    assert (found[:, 0] == ALWAYS).all()
    assert ((found[:, 1:] > 0) & (found[:, 1:] < 1)).all()
    crowded = plan(heeded, successes=[0, 0, 0, 9], failures=[1, 1, 1, 9])
    found = crowded.thresholds("selected", 50, seed=0, stream=(0, 0))
    assert (found[:, 3] == NEVER).all()


@pytest.mark.parametrize("run_class", ["baseline", "selected"])
def test_what_others_draw_stays_when_one_belief_moves(run_class: str) -> None:
    heeded = LearnerSettings(budget_tokens=20, seed_arms=())
    before = plan(heeded, successes=[9, 9, 9, 9], failures=[9, 9, 9, 9])
    after = plan(heeded, successes=[15, 9, 9, 9], failures=[3, 9, 9, 9])
    now, then = (
        one.thresholds("baseline" if run_class == "baseline" else "selected", 40, seed=0, stream=(2, 1))
        for one in (before, after)
    )
    assert (now[:, 0] == then[:, 0]).all(), "the first arm's rivals drew the same"
    assert (now != before.thresholds("selected", 40, seed=0, stream=(2, 2))).any(), "another round"
