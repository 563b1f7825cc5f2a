"""Flags of a run's arms."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from core.maths.observe import observe, outcome_arms
from core.records.arm import Arm
from core.records.evidence import INCLUDED, OBSERVED, REFERENCED, Evidence, Outcome, Verdict
from core.records.run import Inventory, Run


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
