"""What is read of arms: the path of one of them, day by day."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from core.flows.context import Context
from core.flows.corrections import reset
from core.flows.learn import record, reward
from core.store import reads
from core.store.transaction import Snapshot
from tests.worlds import HOUR_MS, START_MS, a_run
from tests.worlds.lively import lively_context

DAY = START_MS // (24 * HOUR_MS)


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


def test_all_paths_together_are_the_days(lively: Snapshot) -> None:
    by_day = reads.counts_by_day(lively)
    paths = [reads.arm_path(lively, key) for key in reads.arm_columns(lively).keys]
    for day, pulls_micro, in_use in zip(by_day.day, by_day.pulls_micro, by_day.arms_in_use, strict=True):
        assert sum(path.pulls_micro[path.day == day].sum() for path in paths) == pulls_micro
        assert sum(path.inclusions[path.day == day].sum() > 0 for path in paths) == in_use


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
