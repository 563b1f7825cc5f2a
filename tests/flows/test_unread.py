"""Unread observations: none in the ordinary course, and named where there are some."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import reset, undo
from core.flows.importing import import_files
from core.flows.learn import record, reward
from tests.formats.builders import lines, put
from tests.worlds import a_run, context_at

A, B, C = (f"tool:other:{name}" for name in "abc")


@pytest.fixture
def context(context: Context) -> Context:
    """One observed run of three arms, of which the first was used."""
    record(context, a_run("run-1"))
    return context


def test_an_empty_learner_has_nothing_unread(tmp_path: Path) -> None:
    seen = queries.unread(context_at(tmp_path / "empty.db"))
    assert (seen.n_pulls, seen.n_rewards, seen.n_unread, seen.arms) == (0, 0, 0, ())


def test_rewards_are_read_now_or_by_an_earlier_epoch_or_replaced(context: Context) -> None:
    reward(context, A, 0.5)
    reward(context, A, 0, run="run-1")
    reward(context, B, 1, run="run-1", correct=True)
    reward(context, B, 0.25, run="run-1", correct=True)
    undo(context, reward(context, C, 1).id)
    seen = queries.unread(context)
    assert (seen.n_pulls, seen.n_present, seen.n_earlier, seen.n_replaced) == (5, 3, 0, 1)
    assert (seen.n_rewards, seen.n_unread) == (4, 0)
    reset(context, arms=[A])
    reward(context, A, 1)
    seen = queries.unread(context)
    assert (seen.n_pulls, seen.n_present, seen.n_earlier, seen.n_replaced) == (3, 2, 2, 1)
    assert seen.n_unread == 0


def test_a_reward_whose_run_is_gone_is_named(tmp_path: Path) -> None:
    context = context_at(tmp_path / "a.db")
    record(context, a_run("kept"))
    told = {"kind": "run", "uid": "gone", "arms": [A, "tool:other:z"], "calls": ["a"]}
    brought = import_files(context, [put(tmp_path, lines([told]))])
    reward(context, A, 1, run="gone")
    reward(context, "tool:other:z", 1, run="gone")
    assert queries.unread(context).n_unread == 0
    undo(context, brought.id or "")
    seen = queries.unread(context)
    assert [(one.arm, one.reason, one.n) for one in seen.arms] == [
        (A, "no_run", 1),
        ("tool:other:z", "no_arm", 1),
    ]
    assert seen.n_unread == 2


def test_a_posterior_that_lost_a_reward_is_named(context: Context) -> None:
    """What `armscope verify` would find and no one should wait for: a reward in the ledger and nowhere else."""
    for _ in range(3):
        reward(context, A, 1)
    forgotten = "UPDATE posterior SET pulls = 1 WHERE arm_no = (SELECT arm_no FROM arm WHERE key = ?)"
    context.write("reward", lambda txn: txn.connection.run(forgotten, [A]))
    (one,) = queries.unread(context).arms
    assert (one.arm, one.reason, one.n) == (A, "not_in_posterior", 2)
    assert not queries.verify(context).clean
