"""Which runs are learned from, and the flags of their arms."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.maths.observe import guard, observe, outcome_arms
from core.records.arm import Arm
from core.records.evidence import INCLUDED, OBSERVED, REFERENCED, Evidence, Outcome, Verdict
from core.records.run import Inventory, Phase, Run, Status


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 5), st.sampled_from(get_args(Outcome)))
def test_every_arm_gets_the_flag_that_its_case_asks_for(
    referenced: list[bool], n_excluded: int, outcome: Outcome
) -> None:
    arms = tuple(Arm(key=f"tool:other:t{place}") for place in range(len(referenced)))
    excluded = tuple(f"tool:other:x{place}" for place in range(n_excluded))
    run = Run(uid="r", inventory=Inventory(kind="declared", arms=arms), excluded=excluded)
    flags = observe(run, Evidence(referenced=tuple(referenced)), Verdict(outcome=outcome))
    expected = [
        INCLUDED | (REFERENCED if was else 0) | (OBSERVED if outcome == "observed" else 0)
        for was in referenced
    ]
    assert list(flags) == expected + [0] * n_excluded
    assert outcome_arms(run) == (*[arm.key for arm in arms], *excluded)


@pytest.mark.parametrize(
    ("status", "n_real_calls", "phase", "empty", "expected"),
    [
        ("completed", 1, "active", False, "observed"),
        ("aborted", 1, "active", False, "observed"),
        ("error", 2, "active", False, "observed"),
        ("completed", 0, "active", False, "conversational"),
        ("aborted", 0, "active", False, "aborted"),
        ("error", 0, "active", False, "error"),
        ("completed", 1, "passive", False, "passive"),
        ("error", 0, "passive", False, "passive"),
        ("completed", 0, "active", True, "empty"),
        ("completed", 0, "passive", True, "empty"),
    ],
)
def test_verdicts(status: Status, n_real_calls: int, phase: Phase, empty: bool, expected: Outcome) -> None:
    run = Run(uid="r", inventory=Inventory(kind="declared", arms=()), status=status, empty=empty)
    evidence = Evidence(referenced=(), n_calls=n_real_calls + 1, n_real_calls=n_real_calls)
    verdict = guard(run, evidence, phase)
    assert verdict.outcome == expected
    assert verdict.observed is (expected == "observed")
