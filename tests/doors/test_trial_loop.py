"""The loop of a trial in Python: blocks are stored when they are whole, and a loop goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core import Learner, TrialRun, Usage, open_learner

ARM = "tool:web:search"
TASKS = ["easy", "hard", "other"]


@pytest.fixture
def learner(tmp_path: Path) -> Iterator[Learner]:
    with open_learner(tmp_path / "runs.db") as learner:
        yield learner


def solve(run: TrialRun[str]) -> None:
    run.achieved(run.hidden is None or run.task == "easy")
    run.called(int(run.hidden is None), listed=run.hidden is None)
    run.used(Usage(input=9, output=1))


def go(
    learner: Learner, act: Callable[[TrialRun[str]], None] = solve, most: int = 1_000
) -> list[tuple[str, str | None]]:
    shown: list[tuple[str, str | None]] = []
    for run in learner.trial(ARM, tasks=TASKS):
        if len(shown) == most:
            break
        shown.append((run.task, run.hidden))
        act(run)
    return shown


def test_a_loop_goes_on_with_the_blocks_that_are_missing(learner: Learner) -> None:
    first = go(learner, most=8)
    (row,) = learner.trials()
    assert (row.n_tasks, row.n_cells) == (2, 9)
    rest = go(learner)
    assert len(rest) == 12
    assert first[0][0] not in {task for task, _ in rest}
    (row,) = learner.trials()
    figures = row.verdicts[0].figures
    assert (row.n_cells, figures.n_used) == (21, 9)
    assert {(one.task, one.with_arm, one.without) for one in figures.tasks} == {
        ("easy", 1.0, 1.0),
        ("hard", 1.0, 0.0),
        ("other", 1.0, 0.0),
    }
    assert go(learner) == []
    assert [run.repeat for run in learner.trial(ARM, tasks={"easy": 3}, repeats=1)] == [1] * 6


def test_a_fault_runs_the_block_again_and_three_leave_it_missing(learner: Learner) -> None:
    n_failed = 0

    def fail(run: TrialRun[str]) -> None:
        nonlocal n_failed
        solve(run)
        if run.task == "hard" and run.hidden is None and run.repeat == 2:
            n_failed += 1
            run.failed("rate limit")

    assert len(go(learner, fail)) == 30
    (row,) = learner.trials()
    figures = row.verdicts[0].figures
    assert n_failed == 3
    assert {one.task for one in figures.tasks} == {"easy", "other"}
    assert figures.missing.with_arm == 1
    assert go(learner) == []


def test_each_restart_of_a_loop_uses_one_attempt(learner: Learner) -> None:
    """A run that fails can't be tried until it succeeds: its failures stay, and the block runs again as a whole."""

    def crash(run: TrialRun[str]) -> None:
        solve(run)
        if run.task == "hard" and run.hidden is None:
            raise RuntimeError

    for n_starts in (1, 2, 3):
        with pytest.raises(RuntimeError):
            go(learner, crash)
        (row,) = learner.trials()
        assert learner.trial_result(row.trial).tried["hard"] == n_starts
    go(learner, crash)
    assert go(learner) == []
    figures = learner.trials()[0].verdicts[0].figures
    assert {one.task for one in figures.tasks} == {"easy", "other"}
    assert figures.missing.with_arm >= 1


def test_tasks_may_be_anything_by_name(learner: Learner) -> None:
    for run in learner.trial(ARM, tasks={"one": [1], "two": [2]}, repeats=1, model="m-1"):
        run.achieved(float(len(run.task)))
    (figures,) = [one.figures for one in learner.trials()[0].verdicts]
    assert {one.task for one in figures.tasks} == {"one", "two"}
    assert figures.model == "m-1"
    assert [*learner.trial(ARM, tasks={"one": 1, "two": 2}, repeats=1, model="m-1")] == []
    assert len(learner.trials()) == 1
    assert len([*learner.trial(ARM, tasks={"one": 1, "two": 2}, repeats=1, model="m-1", again=True)]) == 12
    assert len(learner.trials()) == 2


def test_recorded_runs_of_a_loop_teach_nothing(learner: Learner) -> None:
    for run in learner.trial(ARM, tasks=["easy"], repeats=1):
        learner.record(run.session, arms=[ARM], calls=["search"], session=run.session)
        solve(run)
    assert [(one.arm, one.pulls) for one in learner.posteriors()] in ([], [(ARM, 0)])


def test_a_run_without_an_outcome_is_a_fault(learner: Learner) -> None:
    assert len(go(learner, lambda run: None)) == 54
    assert learner.trials()[0].verdicts[0].figures.tasks == ()
