"""Flips: applied to the packer they flip the arm, and anything less does not."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.columns import UNKNOWN, ArmColumns, Bools, Floats, Ints
from core.maths.packing import fill
from core.maths.policy import select
from core.maths.statistics.flip import NO_RANK, Flips, Recorded, flips, recorded
from core.maths.statistics.inclusion.chances import ALWAYS, NEVER, SimulationPlan, _of_group
from core.records.learner import LearnerSettings
from core.records.selection import Decision, Selection
from tests.worlds.columns import arms

worlds = st.lists(st.integers(0, 9), min_size=1, max_size=9)


def columns(alphas: list[int], pulls: list[int], costs: list[int]) -> ArmColumns:
    """Arms with these posteriors, pulls and costs, sorted by id."""
    plain = arms([f"tool:other:a{place:03d}" for place in range(len(alphas))], pulls=pulls, costs=costs)
    alpha = np.array(alphas, dtype=np.int64) * 1_000_000
    return replace(plain, prior_alpha_micro=alpha, base_alpha_micro=alpha)


@dataclass(frozen=True)
class Case:
    """A selection, what is recorded of it, and its flips."""

    chosen: Selection
    made: Recorded
    found: Flips
    settings: LearnerSettings

    @property
    def rows(self) -> list[Decision]:
        return list(self.chosen.decisions)


@st.composite
def cases(draw: st.DrawFn, *, knows_k: bool | None = None) -> Case:
    """Selections by the real policy, small enough that budgets and numbers of arms bind."""
    n_arms = draw(st.integers(1, 14))

    def many(values: st.SearchStrategy[int]) -> list[int]:
        return draw(st.lists(values, min_size=n_arms, max_size=n_arms))

    settings = LearnerSettings(
        baseline_rate=draw(st.sampled_from([0.0, 0.3])),
        budget_tokens=draw(st.sampled_from([0, 3, 20, 40, 80])),
        k=draw(st.sampled_from([0, 0, 1, 3, 6])),
        seed_arms=("tool:other:a001", "tool:other:a004")[: draw(st.integers(0, 2))],
    )
    drawn = columns(
        many(st.integers(1, 9)), many(st.sampled_from([0, 1, 4, 5, 60])), many(st.integers(0, 30))
    )
    chosen = select(drawn, settings, seed=draw(st.integers(0, 2**32)))
    known = draw(st.booleans()) if knows_k is None else knows_k
    made = recorded(chosen, k=settings.k if known else None)
    found = flips(made)
    assert found is not None, "what the policy selected replays"
    return Case(chosen, made, found, settings)


def limit(case: Case) -> int:
    return case.settings.k if case.chosen.run_class == "selected" else 0


def is_in(case: Case, place: int, *, budget: int | None = None, cost: int | None = None, k: int = -1) -> bool:
    """Whether an arm is in when the packer is run with one thing changed."""
    costs = case.made.cost.copy()
    if cost is not None:
        costs[place] = cost
    packed = fill(
        costs,
        case.made.n_seeds,
        case.made.budget_tokens if budget is None else budget,
        limit(case) if k < 0 else k,
    )
    return bool(packed[place])


def is_in_at(case: Case, place: int, rank: int) -> bool:
    """Whether an arm is in when it is moved to a rank."""
    order = [other for other in range(len(case.made)) if other != place]
    order.insert(rank - 1, place)
    packed = fill(case.made.cost[order], case.made.n_seeds, case.made.budget_tokens, limit(case))
    return bool(packed[rank - 1])


def is_in_with(case: Case, place: int, draw: float) -> bool:
    """Whether an arm is in when it draws another number: those that draws order are sorted again."""
    head, tail = list(range(case.made.n_ahead)), list(range(case.made.n_ahead, len(case.made)))
    drawn = case.made.draw.copy()
    drawn[place] = draw
    order = head + sorted(tail, key=lambda other: (-drawn[other], case.made.keys[other]))
    packed = fill(case.made.cost[order], case.made.n_seeds, case.made.budget_tokens, limit(case))
    return bool(packed[order.index(place)])


@given(cases())
def test_the_least_budget_takes_an_arm_in_and_no_smaller_one_does(case: Case) -> None:
    for place in np.flatnonzero(~case.made.included).tolist():
        least = int(case.found.budget[place])
        now = case.made.budget_tokens
        if least != UNKNOWN:
            assert is_in(case, place, budget=least)
            assert not any(is_in(case, place, budget=budget) for budget in range(now, least))
        elif now and case.found.budget_tried is not None:
            assert not any(is_in(case, place, budget=b) for b in range(now, case.found.budget_tried))
        elif now and case.made.k is not None:
            assert not any(is_in(case, place, budget=budget) for budget in range(now, 450))


@given(cases())
def test_the_highest_cost_fits_and_one_token_more_does_not(case: Case) -> None:
    for place in np.flatnonzero(~case.made.included).tolist():
        highest = int(case.found.cost[place])
        if highest != UNKNOWN:
            assert is_in(case, place, cost=highest)
            assert not is_in(case, place, cost=highest + 1)
        else:
            assert not is_in(case, place, cost=0)


@given(cases())
def test_the_last_rank_fits_and_the_next_does_not(case: Case) -> None:
    for place in np.flatnonzero(~case.made.included).tolist():
        last = int(case.found.rank[place])
        if last != NO_RANK:
            assert is_in_at(case, place, last)
        for rank in range(max(last + 1, case.made.n_seeds + 1), place + 2):
            assert not is_in_at(case, place, rank)


@given(cases())
def test_the_least_draw_brings_an_arm_in_and_one_ulp_less_does_not(case: Case) -> None:
    for place in range(case.made.n_ahead, len(case.made)):
        if case.made.included[place]:
            continue
        least = float(case.found.draw[place])
        if np.isnan(least):
            assert not is_in_with(case, place, 1.0)
        else:
            assert is_in_with(case, place, least)
            assert not is_in_with(case, place, float(np.nextafter(least, -1)))


@given(cases(knows_k=True))
def test_the_highest_draw_leaves_an_arm_out_and_one_ulp_more_does_not(case: Case) -> None:
    for place in range(case.made.n_ahead, len(case.made)):
        if not case.made.included[place]:
            continue
        highest = float(case.found.draw[place])
        if np.isnan(highest):
            assert is_in_with(case, place, 0.0)
        else:
            assert not is_in_with(case, place, highest)
            assert is_in_with(case, place, float(np.nextafter(highest, 2)))


@given(cases())
def test_what_an_unknown_number_of_arms_leaves_open_is_not_claimed(case: Case) -> None:
    for place in range(case.made.n_ahead, len(case.made)):
        highest = float(case.found.draw[place])
        if case.made.included[place] and not np.isnan(highest):
            assert not is_in_with(case, place, highest)
            assert is_in_with(case, place, float(np.nextafter(highest, 2)))


@given(cases())
def test_the_least_number_of_arms_lets_an_arm_in_and_one_less_does_not(case: Case) -> None:
    for place in np.flatnonzero(~case.made.included).tolist():
        least = int(case.found.k[place])
        if least:
            assert is_in(case, place, k=least)
            assert not is_in(case, place, k=least - 1)
        elif limit(case):
            assert not is_in(case, place, k=0)


def test_many_arms_are_answered_for_within_a_bounded_number_of_packings() -> None:
    rng = np.random.Generator(np.random.PCG64(5))
    n_arms = 4_000
    drawn = columns(rng.integers(1, 9, n_arms).tolist(), [60] * n_arms, rng.integers(1, 900, n_arms).tolist())
    drawn = replace(drawn, keys=tuple(f"tool:other:a{at:05d}" for at in range(n_arms)))
    chosen = select(drawn, LearnerSettings(budget_tokens=8_000, baseline_rate=0.0, seed_arms=()), seed=3)
    made = recorded(chosen, k=0)
    found = flips(made)
    assert found is not None
    assert found.budget_tried is not None
    known = np.flatnonzero(found.budget != UNKNOWN)
    assert 0 < len(known) < int((~made.included).sum())
    for place in known[:: max(len(known) // 20, 1)].tolist():
        assert fill(made.cost, 0, int(found.budget[place]), 0)[place]
        assert not fill(made.cost, 0, int(found.budget[place]) - 1, 0)[place]


def test_a_record_that_does_not_replay_explains_nothing() -> None:
    rows = (
        Decision(arm="tool:a:a", included=False, reason="budget", rank=1, token_cost=5, draw=0.9),
        Decision(arm="tool:a:b", included=True, reason="draw", rank=2, token_cost=5, draw=0.8),
    )
    chosen = Selection(
        run_class="selected",
        decisions=rows,
        seed="1",
        baseline_prob=0.1,
        settings_hash="",
        revision=1,
        budget_tokens=50,
    )
    assert flips(recorded(chosen, k=0)) is None


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
