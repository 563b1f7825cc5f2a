"""The simulated agent: the real detectors see exactly what it used, unless the story breaks them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from core.demo.agent import DemoRun, Request, answer
from core.demo.world import (
    CHANNELS,
    FILES_POISONED_MS,
    MODELS,
    START_MS,
    TOOLS_POISONED_MS,
    expected_tokens,
    planted,
)
from core.detect import detect
from core.maths.observe import guard

ARMS = planted(7)


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
