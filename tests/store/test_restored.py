"""A restored backup under a living process: what it remembered is true no more, and nothing it answers is lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from core.flows import keep, look
from core.flows.desk import Desk
from core.flows.learn import record
from core.flows.reward import reward
from tests.flows.world import desk_at, run_of

X, Y, Z = "tool:other:x", "tool:other:y", "tool:other:z"


def in_place(backup: Path, path: Path) -> None:
    """As ``sqlite3 FILE ".restore BACKUP"`` does: every lock is kept, and who has the file open goes on."""
    source, target = sqlite3.connect(backup), sqlite3.connect(path)
    source.backup(target)
    source.close()
    target.close()


Restore = Callable[[Path, Path], None]
WAYS: list[Restore] = [in_place]


def pulls(desk: Desk) -> dict[str, int]:
    return {one.arm: one.pulls for one in look.posteriors(desk)}


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def restore(request: pytest.FixtureRequest) -> Restore:
    way: Restore = request.param
    return way


def test_who_lived_through_it_credits_no_other_arm(tmp_path: Path, restore: Restore) -> None:
    """After it another arm has the number that this process remembers, at the very revision it remembers."""
    living = desk_at(tmp_path / "a.db")
    record(living, run_of("r1", arms=["z"], calls=["z"]))
    keep.backup(living, tmp_path / "copy.db")
    record(living, run_of("r2", arms=["x"], calls=["x"]))
    assert pulls(living) == {X: 1, Z: 1}
    restore(tmp_path / "copy.db", living.store.path)
    record(desk_at(living.store.path), run_of("r3", arms=["y"], calls=["y"]))
    assert record(living, run_of("r4", arms=["x"], calls=["x"])).told == "new"
    for desk in (living, desk_at(living.store.path)):
        assert pulls(desk) == {X: 1, Y: 1, Z: 1}
        assert look.verify(desk).clean


def test_two_learners_that_swapped_their_numbers_keep_their_arms(tmp_path: Path, restore: Restore) -> None:
    first, second = (desk_at(tmp_path / "a.db", learner=name) for name in ("default", "other"))
    record(first, run_of("r1", arms=["z"], calls=["z"]))
    keep.backup(first, tmp_path / "copy.db")
    with second.writing("settings", create=True):
        pass
    with desk_at(tmp_path / "a.db", learner="third").writing("settings", create=True):
        pass
    record(second, run_of("r2", arms=["x"], calls=["x"]))
    restore(tmp_path / "copy.db", first.store.path)
    fresh = desk_at(tmp_path / "a.db", learner="third")
    for name in ("third", "other"):  # the other way round
        with fresh.of(name).writing("settings", create=True):
            pass
    record(fresh, run_of("r3", arms=["y"], calls=["y"]))
    record(fresh.of("other"), run_of("r3", arms=["y"], calls=["y"]))
    record(second, run_of("r4", arms=["x"], calls=["x"]))
    reward(first, Z, 1.0)
    assert pulls(second) == {X: 1, Y: 1}
    assert pulls(fresh) == {Y: 1}
    assert pulls(first) == {Z: 2}
    assert look.verify(fresh).clean


def test_a_moment_comes_once_though_its_revision_comes_twice(tmp_path: Path, restore: Restore) -> None:
    desk = desk_at(tmp_path / "a.db")
    record(desk, run_of("r1"))
    keep.backup(desk, tmp_path / "copy.db")
    record(desk, run_of("r2"))
    before = look.moment(desk)
    restore(tmp_path / "copy.db", desk.store.path)
    record(desk, run_of("r3"))
    after = look.moment(desk)
    assert before[0].revision == after[0].revision
    assert before != after
