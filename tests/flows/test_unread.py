"""Observations that nobody reads: none in the ordinary course, and named where there are some."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.flows import look
from core.flows.desk import Desk
from core.flows.importing import import_files
from core.flows.learn import record
from core.flows.reset import reset
from core.flows.reward import reward
from core.flows.undo import undo
from tests.flows.world import desk_at, run_of
from tests.formats.builders import lines, put

A, B, C = (f"tool:other:{name}" for name in "abc")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """One observed run of three arms, of which the first was used."""
    desk = desk_at(tmp_path / "a.db")
    record(desk, run_of("run-1"))
    return desk


def test_an_empty_learner_has_nothing_unread(tmp_path: Path) -> None:
    seen = look.unread(desk_at(tmp_path / "empty.db"))
    assert (seen.n_pulls, seen.n_rewards, seen.n_unread, seen.arms) == (0, 0, 0, ())


def test_rewards_are_read_now_or_by_an_earlier_epoch_or_replaced(desk: Desk) -> None:
    reward(desk, A, 0.5)
    reward(desk, A, 0, run="run-1")
    reward(desk, B, 1, run="run-1", correct=True)
    reward(desk, B, 0.25, run="run-1", correct=True)
    undo(desk, reward(desk, C, 1).id)
    seen = look.unread(desk)
    assert (seen.n_pulls, seen.n_present, seen.n_earlier, seen.n_replaced) == (5, 3, 0, 1)
    assert (seen.n_rewards, seen.n_unread) == (4, 0)
    reset(desk, arms=[A])
    reward(desk, A, 1)
    seen = look.unread(desk)
    assert (seen.n_pulls, seen.n_present, seen.n_earlier, seen.n_replaced) == (3, 2, 2, 1)
    assert seen.n_unread == 0


def test_a_reward_whose_run_is_gone_is_named(tmp_path: Path) -> None:
    desk = desk_at(tmp_path / "a.db")
    record(desk, run_of("kept"))
    told = {"kind": "run", "uid": "gone", "arms": [A, "tool:other:z"], "calls": ["a"]}
    brought = import_files(desk, [put(tmp_path, lines([told]))])
    reward(desk, A, 1, run="gone")
    reward(desk, "tool:other:z", 1, run="gone")
    assert look.unread(desk).n_unread == 0
    undo(desk, brought.id or "")
    seen = look.unread(desk)
    assert [(one.arm, one.reason, one.n) for one in seen.arms] == [
        (A, "no_run", 1),
        ("tool:other:z", "no_arm", 1),
    ]
    assert seen.n_unread == 2


def test_a_posterior_that_lost_a_reward_is_named(desk: Desk) -> None:
    """What `armscope verify` would find and nobody should wait for: a reward in the ledger and nowhere else."""
    for _ in range(3):
        reward(desk, A, 1)
    with desk.writing("reward") as txn:
        txn.link.run(
            "UPDATE posterior SET pulls = 1 WHERE arm_no = (SELECT arm_no FROM arm WHERE key = ?)", [A]
        )
    (one,) = look.unread(desk).arms
    assert (one.arm, one.reason, one.n) == (A, "not_in_posterior", 2)
    assert not look.verify(desk).clean
