"""Reads of arms: candidates with their runs and offers, and the path of one of them, day by day."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from core.columns import CandidateSets
from core.flows.context import Context
from core.flows.corrections import reset, undo
from core.flows.importing import import_files
from core.flows.learn import record, record_all, reward
from core.records.arm import Arm
from core.records.run import Inventory, Run
from core.store import reads
from core.store.reads.candidates import LATEST_RUNS
from core.store.transaction import Snapshot
from tests.formats.builders import lines
from tests.worlds import HOUR_MS, START_MS, a_run
from tests.worlds.lively import lively_context

DAY = START_MS // (24 * HOUR_MS)


def candidate_sets(context: Context) -> tuple[dict[str, int], str]:
    """Names of the arms in each candidate set with the number of its runs, and whose they are."""
    with context.reading() as snapshot:
        columns = reads.arm_columns(snapshot)
        found: CandidateSets = reads.candidates(snapshot, columns)
    names = [key.rsplit(":", 1)[-1] for key in columns.keys]
    sets = zip(found.places, found.n_runs, strict=True)
    return {"".join(names[place] for place in places): n_runs for places, n_runs in sets}, found.of


def at(hour: int) -> int:
    return START_MS + hour * HOUR_MS


def test_before_any_run_every_arm_is_a_candidate(context: Context) -> None:
    assert candidate_sets(context) == ({"": 1}, "none")
    for name in "ab":
        reward(context, f"tool:other:{name}", 1.0, create=True)
    assert candidate_sets(context) == ({"ab": 1}, "none")


def test_arms_left_out_of_a_prompt_were_offered_too(context: Context) -> None:
    offered = Run(
        uid="r",
        inventory=Inventory(kind="declared", arms=(Arm(key="tool:other:a"),)),
        excluded=("tool:other:z",),
        run_class="selected",
        ended_at_ms=at(0),
    )
    record_all(context, [offered, a_run("s", "az", run_class="baseline", at_ms=at(1))])
    assert candidate_sets(context) == ({"az": 2}, "chosen")


def test_runs_that_were_chosen_count_before_all_others(context: Context) -> None:
    record_all(context, [a_run(f"i{number}", "xy", at_ms=at(number)) for number in range(3)])
    record(context, a_run("p", "x", run_class="passive", at_ms=at(4)))
    assert candidate_sets(context) == ({"xy": 3, "x": 1}, "latest")
    record(context, a_run("old", "ab", run_class="selected", at_ms=at(-30)))
    record(context, a_run("older", "abc", run_class="baseline", at_ms=at(-40)))
    assert candidate_sets(context) == ({"ab": 1, "abc": 1}, "chosen")


def test_only_the_latest_in_time_count(context: Context) -> None:
    runs = [a_run(f"r{number}", "ab" if number else "abc", at_ms=at(-number)) for number in range(40)]
    record_all(context, runs)
    assert candidate_sets(context) == ({"ab": LATEST_RUNS - 1, "abc": 1}, "latest")


def test_a_run_without_candidates_counts_as_one(context: Context) -> None:
    record_all(context, [a_run("r", "ab"), a_run("s", "")])
    assert candidate_sets(context) == ({"": 1, "ab": 1}, "latest")


def test_undone_imports_offer_nothing(context: Context, tmp_path: Path) -> None:
    record(context, a_run("r", "ab"))
    line = {"kind": "run", "uid": "i", "arms": ["tool:other:a", "tool:other:new"], "calls": ["a"]}
    (tmp_path / "runs.jsonl").write_bytes(lines([line]))
    import_files(context, [tmp_path / "runs.jsonl"])
    assert candidate_sets(context) == ({"ab": 1, "anew": 1}, "latest")
    undo(context, "import-1")
    assert candidate_sets(context) == ({"ab": 1}, "latest")


def program_sets(context: Context) -> list[tuple[str, int, int, float]]:
    """Arms, runs, program and share of each candidate set."""
    with context.reading() as snapshot:
        columns = reads.arm_columns(snapshot)
        found = reads.candidates(snapshot, columns)
    names = ["".join(columns.keys[place].rsplit(":", 1)[-1] for place in one) for one in found.places]
    return list(zip(names, found.n_runs, found.program, found.shares, strict=True))


def test_each_program_has_a_window_of_its_own(context: Context) -> None:
    """A busy program does not fill the window of a quiet one, and shares of the next runs are as they come."""
    busy = [a_run(f"b{number}", "ab", at_ms=at(number)) for number in range(90)]
    quiet = [a_run(f"q{number}", "yz", at_ms=at(-number)) for number in range(10)]
    record_all(context, [*quiet, *busy])
    assert program_sets(context) == [("ab", LATEST_RUNS, 0, 0.9), ("yz", 10, 1, 0.1)]


def test_an_arm_that_its_own_program_dropped_stays_out(context: Context) -> None:
    """Runs with some arms in common are of one program, whose latest runs alone count."""
    record_all(
        context, [a_run(f"r{number}", "ac" if number else "ab", at_ms=at(number)) for number in range(30)]
    )
    assert program_sets(context) == [("ac", LATEST_RUNS, 0, 1.0)]


def test_one_run_links_two_programs(context: Context) -> None:
    runs = [a_run(f"r{number}", "ab" if number % 2 else "yz", at_ms=at(-number)) for number in range(60)]
    record_all(context, runs)
    assert [(n, program) for _, n, program, _ in program_sets(context)] == [(13, 0), (12, 1)]
    record(context, a_run("link", "ay", at_ms=at(1)))
    found = program_sets(context)
    assert {program for *_, program, _ in found} == {0}
    assert sum(n for _, n, *_ in found) == LATEST_RUNS


@pytest.fixture(scope="module")
def lively(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Snapshot]:
    with lively_context(tmp_path_factory.mktemp("lively")).reading() as snapshot:
        yield snapshot


def test_the_last_point_of_a_path_is_the_arm_as_it_is(lively: Snapshot) -> None:
    columns = reads.arm_columns(lively)
    for place, key in enumerate(columns.keys):
        path = reads.arm_path(lively, key)
        present = path.epoch == columns.epoch[place]
        for name in ("inclusions", "pulls", "success_micro", "failure_micro"):
            assert getattr(path, name)[present].sum() == getattr(columns, name)[place]


def test_a_path_is_ordered_by_epoch_and_day_and_knows_what_has_no_time(context: Context) -> None:
    for number, at_ms in enumerate((START_MS + 48 * HOUR_MS, None, START_MS, START_MS + HOUR_MS)):
        record(context, a_run(f"before-{number}", at_ms=at_ms, calls="a"))
    reset(context, arms=["tool:other:a"])
    record(context, a_run("after", at_ms=START_MS, calls="b"))
    reward(context, "tool:other:a", 0.25, run="before-0")
    with context.reading() as snapshot:
        path = reads.arm_path(snapshot, "tool:other:a")
        assert path.day[path.epoch == 0].tolist()[:3] == [-1, DAY, DAY + 2]
        assert path.inclusions[path.epoch == 0].tolist()[:3] == [1, 2, 1]
        assert path.failure_micro[path.epoch > 0].tolist() == [1_000_000]
        assert np.all(np.diff(path.epoch) >= 0)
        assert path.pulls.sum() == 6
        arm_no = reads.listed_arm(snapshot, "tool:other:a")
        assert arm_no is not None
        by_number = reads.arm_path(snapshot, arm_no)
        assert all(np.array_equal(vars(path)[name], vars(by_number)[name]) for name in vars(path))


def test_an_arm_is_listed_at_times_after_its_reset(context: Context) -> None:
    record(context, a_run("r", arms=("a", "b"), calls="a"))
    reset(context, arms=["tool:other:a"])
    with context.reading() as snapshot:
        now = reads.arm_columns(snapshot)
        later = reads.arm_columns_until(snapshot, context.clock() + 2 * HOUR_MS)
    assert later.keys == now.keys
    sums = ("success_micro", "failure_micro", "pulls", "part_micro", "inclusions", "n_named", "n_loaded")
    for name in sums:
        assert getattr(later, name).tolist() == getattr(now, name).tolist(), name


def test_an_arm_that_nobody_knows_has_no_path(lively: Snapshot) -> None:
    path = reads.arm_path(lively, "tool:other:nobody")
    assert [len(column) for column in vars(path).values()] == [0] * 7
    assert path.day.dtype == np.int64
