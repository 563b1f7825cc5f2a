"""What is planted: sizes, types, the story's arms, and that no two arms can be taken for each other."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.demo.world import (
    BUDGET_TOKENS,
    DAYS,
    DRIFT_MS,
    END_MS,
    PROB_SOLVED,
    START_MS,
    at_day,
    planted,
    prob_solved,
    truth,
)
from core.records.times import iso

SEEDS = st.integers(min_value=0, max_value=2**32)


def test_thirty_days_hold_forty_six_arms_of_all_types() -> None:
    assert iso(END_MS) == "2026-11-20T09:40:00.000Z"
    assert iso(START_MS) == "2026-10-21T09:40:00.000Z"
    assert at_day(DAYS) == END_MS
    counts = Counter(arm.type for arm in planted(7))
    assert counts == {"tool": 14, "skill": 10, "file": 9, "memory": 7, "section": 6}


@given(SEEDS)
def test_truth_is_a_probability_of_every_arm_whatever_the_seed(seed: int) -> None:
    values = truth(seed)
    assert list(values) == [arm.key for arm in planted(seed)] == sorted(values)
    assert all(0.05 <= value <= 1 for value in values.values())
    assert all((value == 1) == key.startswith("section:") for key, value in values.items())


def test_another_seed_is_another_world_with_the_same_story() -> None:
    here, there = truth(7), truth(8)
    assert here != there
    assert here["tool:web:web_search"] == there["tool:web:web_search"] == 0.5


def test_one_tool_drifts_three_files_are_poisoned_and_three_arms_idle() -> None:
    drifting = [arm for arm in planted(7) if arm.drifts_to is not None]
    assert [arm.key for arm in drifting] == ["tool:web:web_search"]
    assert drifting[0].prob_at(DRIFT_MS - 1) == 0.77
    assert drifting[0].prob_at(DRIFT_MS) == drifting[0].final_prob == 0.5
    assert [arm.type for arm in planted(7) if arm.is_poisoned] == ["file"] * 3
    idle = [arm for arm in planted(7) if arm.idle_from_day is not None]
    assert len(idle) == 3
    for arm in idle:
        assert arm.is_offered(START_MS)
        assert not arm.is_offered(END_MS)
        assert arm.is_offered(END_MS, to_health_check=True)


def test_played_on_a_helping_tool_is_missed_and_a_harming_one_costs_success() -> None:
    tools = [arm for arm in planted(7) if arm.type == "tool"]
    keys = {arm.key for arm in tools}
    assert prob_solved(tools, set(), START_MS) == PROB_SOLVED
    assert prob_solved(tools, keys - {"tool:memory:memory_search"}, END_MS) == PROB_SOLVED
    assert prob_solved(tools, keys, END_MS) == pytest.approx(PROB_SOLVED - 0.4)
    assert prob_solved(tools, {"tool:memory:memory_search"}, END_MS) == pytest.approx(PROB_SOLVED - 0.8)


def test_everything_fits_the_budget_until_the_last_day() -> None:
    def offered(at_ms: int) -> int:
        return sum(arm.token_cost for arm in planted(7) if arm.is_offered(at_ms))

    assert offered(at_day(29)) <= BUDGET_TOKENS < offered(END_MS)
