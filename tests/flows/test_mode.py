"""The detection mode of a learner: a setting like any other, with its own seed arms."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import InvalidSetting
from core.flows import look
from core.flows.learn import record
from core.flows.settings import change
from core.flows.undo import undo
from core.records.arm import Arm, skill_key
from core.records.learner import DEFAULT_SEEDS, OPENCLAW_SEEDS, LearnerSettings
from core.records.run import Call, Inventory, Run
from tests.flows.world import desk_at


def test_seeds_that_nobody_chose_follow_the_mode(tmp_path: Path) -> None:
    desk = desk_at(tmp_path / "runs.db")
    answer = change(desk, "mode", "openclaw")
    assert answer.id is not None
    assert look.frame(desk).settings == LearnerSettings(mode="openclaw", seed_arms=OPENCLAW_SEEDS)
    assert [entry.action for entry in look.changes(desk)] == ["setting"]
    undo(desk, answer.id)
    assert look.frame(desk).settings == LearnerSettings(seed_arms=DEFAULT_SEEDS)


def test_seeds_that_somebody_chose_stay(tmp_path: Path) -> None:
    desk = desk_at(tmp_path / "runs.db")
    change(desk, "seed_arms", ["tool:fs:Read"])
    change(desk, "mode", "openclaw")
    assert look.frame(desk).settings.seed_arms == ("tool:fs:Read",)


def test_an_unknown_mode_is_refused(tmp_path: Path) -> None:
    desk = desk_at(tmp_path / "runs.db")
    with pytest.raises(InvalidSetting):
        change(desk, "mode", "guess")


def test_a_run_is_judged_by_the_mode_in_force(tmp_path: Path) -> None:
    desk = desk_at(tmp_path / "runs.db")
    inventory = Inventory(kind="declared", arms=(Arm(key=skill_key("go")),))

    def told(uid: str) -> Run:
        return Run(uid=uid, inventory=inventory, calls=(Call(name="Read"),), texts=("categories",))

    record(desk, told("one"))
    change(desk, "mode", "openclaw")
    record(desk, told("two"))
    (posterior,) = look.posteriors(desk)
    assert (posterior.alpha, posterior.beta) == (4.0, 2.0)
