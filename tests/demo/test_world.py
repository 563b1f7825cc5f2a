"""Planted world: its sizes, types and arms, when requests come, and a simulated agent that detectors see."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.demo.agent import DemoRun, Request, answer, later_requests, requests
from core.demo.world import (
    BUDGET_TOKENS,
    CHANNELS,
    DAYS,
    DRIFT_MS,
    END_MS,
    FILES_POISONED_MS,
    MODELS,
    PROB_SOLVED,
    START_MS,
    TOOLS_POISONED_MS,
    at_day,
    expected_tokens,
    planted,
    prob_solved,
    truth,
)
from core.detect import detect
from core.maths.observe import guard
from core.records.times import DAY_MS, HOUR_MS, iso

SEEDS = st.integers(min_value=0, max_value=2**32)
ARMS = planted(7)


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


@given(st.integers(min_value=2, max_value=200), st.integers(min_value=0, max_value=2**32))
def test_as_many_as_asked_for_in_the_order_of_time(n_runs: int, seed: int) -> None:
    found = requests(n_runs, np.random.default_rng(seed))
    times = [request.at_ms for request in found]
    assert [request.number for request in found] == list(range(1, n_runs + 1))
    assert times == sorted(times)
    assert START_MS < times[0] <= times[-1] < END_MS
    assert [request.is_farewell for request in found] == [False] * (n_runs - 1) + [True]


@given(st.integers(min_value=1, max_value=400), st.integers(min_value=0, max_value=2**32))
def test_later_requests_follow_at_the_same_pace_with_numbers_of_their_own(n_runs: int, seed: int) -> None:
    since_ms = END_MS + seed
    later = later_requests(n_runs, np.random.default_rng(seed), since_ms)
    times, numbers = [request.at_ms for request in later], [request.number for request in later]
    assert times == sorted(set(times))
    assert numbers == sorted(set(numbers))
    assert since_ms < times[0]
    assert times[-1] - since_ms < (n_runs / 100 + 1 / 4) * DAY_MS
    assert not any(request.is_farewell for request in later)


def test_all_models_and_channels_occur_and_conversations_keep_theirs() -> None:
    found = requests(1_000, np.random.default_rng(0))
    assert {one.model for one in found} == set(MODELS)
    assert {one.channel for one in found} == set(CHANNELS)
    sessions: dict[str, list[Request]] = defaultdict(list)
    for request in requests(1_000, np.random.default_rng(0)):
        sessions[request.session].append(request)
    assert max(map(len, sessions.values())) > 2
    assert all(len({(one.model, one.channel) for one in session}) == 1 for session in sessions.values())


def test_days_are_busier_than_nights() -> None:
    hours = [request.at_ms // HOUR_MS % 24 for request in requests(2_000, np.random.default_rng(0))]
    assert sum(8 <= hour < 18 for hour in hours) > 4 * sum(hour < 6 for hour in hours)


def told_at(at_ms: int, n_runs: int, *, is_farewell: bool = False) -> Iterator[DemoRun]:
    rng = np.random.default_rng(3)
    for number in range(1, n_runs + 1):
        request = Request(
            number=number,
            at_ms=at_ms,
            session="s",
            model=MODELS[0],
            channel=CHANNELS[0],
            is_farewell=is_farewell,
        )
        yield answer(request, ARMS, None, rng)


def seen_in(told: DemoRun) -> set[str]:
    evidence = detect(told.run)
    return {arm.key for arm, seen in zip(told.run.inventory.arms, evidence.referenced, strict=True) if seen}


def is_observed(told: DemoRun) -> bool:
    return guard(told.run, detect(told.run)).observed


def test_detectors_see_exactly_what_was_used() -> None:
    observed = [told for told in told_at(START_MS, 150) if is_observed(told)]
    assert len(observed) > 100
    assert all(seen_in(told) == told.used for told in observed)


def test_detectors_miss_tools_of_wrong_names_and_three_files_at_the_end() -> None:
    for told in told_at(TOOLS_POISONED_MS[0], 100):
        if is_observed(told):
            assert seen_in(told) == {key for key in told.used if not key.startswith("tool:")}
    poisoned = {arm.key for arm in ARMS if arm.is_poisoned}
    used: set[str] = set()
    for told in told_at(FILES_POISONED_MS[0], 100):
        used |= told.used
        if is_observed(told):
            assert seen_in(told) == told.used - poisoned
    assert poisoned <= used


def test_arms_are_used_as_often_as_planted() -> None:
    observed = [told for told in told_at(START_MS, 1_200) if is_observed(told)]
    for arm in ARMS:
        n_used = sum(arm.key in told.used for told in observed)
        tolerance = 4 * (arm.prob * (1 - arm.prob) / len(observed)) ** 0.5
        assert n_used / len(observed) == pytest.approx(arm.prob, abs=tolerance + 1e-12)


def test_tokens_come_out_as_planned_on_average() -> None:
    known = [told for told in told_at(START_MS, 2_000) if told.run.status == "completed" and told.run.tokens]
    tokens = np.array([told.run.tokens for told in known], dtype=np.float64)
    plan = expected_tokens(MODELS[0], CHANNELS[0], sum(arm.token_cost for arm in ARMS))
    assert {told.expected_tokens for told in known} == {plan}
    assert tokens.mean() == pytest.approx(plan, abs=4 * tokens.std() / len(tokens) ** 0.5)


def test_some_runs_fail_or_have_no_known_usage() -> None:
    runs = [told.run for told in told_at(START_MS, 1_000)]
    assert {run.status for run in runs} == {"completed", "aborted", "error"}
    assert any(run.usage is None for run in runs)
    assert all(run.run_class == "fallback" and run.selection is None for run in runs)


def test_a_farewell_is_never_observed() -> None:
    assert not any(is_observed(told) for told in told_at(START_MS, 100, is_farewell=True))
