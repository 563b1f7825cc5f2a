"""Which runs are learned from."""

from __future__ import annotations

import pytest

from core.maths.observe import guard
from core.records.evidence import Evidence, Outcome
from core.records.run import Inventory, Phase, Run, Status


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
