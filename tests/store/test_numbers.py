"""A learner goes by its number in every statement of an act, and the number is that of its name, whatever comes."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.flows import maintenance, queries
from core.flows.context import Context
from core.flows.corrections import note, reset, undo
from core.flows.importing import import_files
from core.flows.learn import record, record_all, reward
from core.flows.learners import create_learner, learners
from core.flows.settings import change
from core.store.tables import metadata
from tests.engine import file_database, kept_in
from tests.store.child import Living
from tests.store.test_restored import WAYS, Restore, in_place, moved_over, pulls
from tests.worlds import a_run, context_at, lines_file, run_line

pytestmark = pytest.mark.of_file  # of files that are swapped and restored

X, Y = "tool:other:x", "tool:other:y"


def swapped(backup: Path, first: str, second: str) -> None:
    """Let two learners of a file change their numbers, with everything they have."""
    driver = sqlite3.connect(backup)
    numbers = dict(driver.execute("SELECT name, learner_id FROM learner"))
    for table in metadata.tables.values():
        if "learner_id" in table.columns:
            for before, after in ((first, -1), (second, numbers[first]), (-1, numbers[second])):
                values = (after, numbers.get(str(before), before))
                driver.execute(f'UPDATE "{table.name}" SET learner_id = ? WHERE learner_id = ?', values)
    driver.commit()
    driver.close()


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def restore(request: pytest.FixtureRequest) -> Restore:
    way: Restore = request.param
    return way


def two_learners(tmp_path: Path) -> tuple[Context, Context]:
    """Each has told a run with an arm of its own, at the same revision, under the same number of that arm."""
    first, second = (context_at(tmp_path / "a.db", learner=name) for name in ("default", "other"))
    second.write("settings", lambda _: None, create=True)
    first.write("settings", lambda _: None, create=True)
    record(first, a_run("r1", arms=["x"], calls=["x"]))
    record(second, a_run("r1", arms=["y"], calls=["y"]))
    return first, second


def restore_swapped(context: Context, restore: Restore) -> None:
    copy = kept_in(context.store).with_name("copy.db")
    maintenance.backup(context, copy)
    swapped(copy, "default", "other")
    restore(copy, kept_in(context.store))


def test_who_remembers_numbers_that_were_swapped_credits_no_other_learner(
    tmp_path: Path, restore: Restore
) -> None:
    first, second = two_learners(tmp_path)
    restore_swapped(first, restore)
    assert reward(first, X, 1.0).pulls == 2
    assert record(second, a_run("r2", arms=["y", "z"], calls=["y"])).told == "new"
    assert record(first, a_run("r2", arms=["x"], calls=["x"])).told == "new"
    for make in (
        lambda context: context,
        lambda context: context_at(kept_in(context.store), learner=context.learner),
    ):
        assert pulls(make(first)) == {X: 3}
        assert pulls(make(second)) == {Y: 2, "tool:other:z": 1}
        assert queries.verify(make(first)).clean


def test_numbers_that_were_swapped_at_one_moment_are_found_by_name(tmp_path: Path) -> None:
    """The same file, revision and token: all that tells is the name in the row that has the number."""
    first, second = two_learners(tmp_path)
    swapped(kept_in(first.store), "default", "other")
    assert reward(first, X, 1.0).pulls == 2
    assert record(second, a_run("r2", arms=["y"], calls=["y"])).told == "new"
    assert (pulls(first), pulls(second)) == ({X: 2}, {Y: 2})
    assert queries.verify(first).clean


@pytest.mark.parametrize("restore", [in_place, moved_over])
def test_another_process_that_remembers_them_credits_no_other_learner(
    tmp_path: Path, restore: Restore
) -> None:
    first, _ = two_learners(tmp_path)
    living = [
        Living("next_run", kept_in(first.store), name, arm, "c1", "c2")
        for name, arm in (("default", "x"), ("other", "y"))
    ]
    for child in living:
        assert child.stdout.readline() == "new\n"
    restore_swapped(first, restore)
    for child in living:
        assert child.end("\n\n")[0] == "new\n"
    for name, arm in (("default", X), ("other", Y)):
        context = context_at(kept_in(first.store), learner=name)
        assert pulls(context) == {arm: 3}
        assert queries.verify(context).clean


def test_two_processes_that_make_the_same_learner_make_one(context: Context) -> None:
    names = [f"learner {number}" for number in range(20)]
    makers = [Living("first_runs", kept_in(context.store), uid, *names) for uid in ("r1", "r2")]
    for maker in makers:
        assert maker.stdout.readline() == "ready\n"
    for maker in makers:
        maker.stdin.write("\n")
        maker.stdin.flush()
    assert [maker.end()[0].split() for maker in makers] == [["new"] * len(names)] * 2
    assert [(one.name, one.runs) for one in learners(context)] == [(name, 2) for name in sorted(names)]
    assert queries.verify(context.of(names[0])).clean


def test_every_statement_of_an_act_names_the_learner_by_its_number(tmp_path: Path) -> None:
    context = context_at(tmp_path / "a.db", learner="mine")
    create_learner(context, "mine")
    told = lines_file(tmp_path / "told.jsonl", run_line("t1"), run_line("t2", "b"))
    acts: list[Callable[[], Any]] = [
        lambda: record(context, a_run("r1")),
        lambda: record_all(context, [a_run("r1"), a_run("r2"), a_run("r3", arms=["new"])]),
        lambda: reward(context, "tool:other:a", 0.5, key="k", run="r1"),
        lambda: reward(context, "tool:other:a", 0.5, key="k", run="r1"),
        lambda: note(context, "tool:other:a", "slow"),
        lambda: import_files(context, [told]),
        lambda: undo(context, reset(context, types=["tool"]).id),
        lambda: undo(context, "import-1"),
        lambda: change(context, "k", 3),
    ]
    driver = file_database(context.store)._write_driver
    assert isinstance(driver, sqlite3.Connection)
    said: list[str] = []
    driver.set_trace_callback(said.append)
    for act in acts:
        act()
    of_none = {"BEGIN IMMEDIATE", "COMMIT", "SELECT version_num FROM alembic_version"}
    statements = [one for one in said if one not in of_none]
    assert len(statements) > 60
    assert [one for one in statements if "learner_id" not in one and not one.startswith("INSERT")] == []
    assert [one for one in statements if "FROM learner WHERE name" in one] == []


def test_a_number_is_forgotten_with_what_else_was_known(tmp_path: Path) -> None:
    """A write that came to nothing, and a connection that is another, leave nothing that the next one trusts."""
    context, _ = two_learners(tmp_path)
    for name in ("default", "other"):
        record(context.of(name), a_run("r2"))
    remembered = context.store.database.remembered
    with pytest.raises(ZeroDivisionError):
        context.write("ingest", lambda _: 1 // 0)
    assert "default" not in remembered
    record(context.of("other"), a_run("r3"))
    assert set(remembered) == {"other"}
    shutil.copy(tmp_path / "a.db", tmp_path / "b.db")
    (tmp_path / "b.db").replace(tmp_path / "a.db")
    with pytest.raises(ZeroDivisionError):
        context.write("ingest", lambda _: 1 // 0)
    assert remembered == {}
