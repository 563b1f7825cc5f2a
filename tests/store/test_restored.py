"""A restored backup under a living process: what it remembered is true no more, and nothing it answers is lost."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from core.errors import NoDatabase, SchemaMismatch, StoreUnusable
from core.flows import maintenance, queries
from core.flows.context import Context
from core.flows.learn import record, reward
from tests.engine import kept_in
from tests.store.child import answer
from tests.worlds import a_run, context_at

SCHEMAS = Path(__file__).parent / "schemas"
X, Y, Z = "tool:other:x", "tool:other:y", "tool:other:z"


pytestmark = pytest.mark.of_file

Restore = Callable[[Path, Path], None]


def in_place(backup: Path, path: Path) -> None:
    """As ``sqlite3 FILE ".restore BACKUP"`` does: every lock is kept, and who has the file open goes on."""
    source, target = sqlite3.connect(backup), sqlite3.connect(path)
    source.backup(target)
    source.close()
    target.close()


def moved_over(backup: Path, path: Path) -> None:
    """With the log of what it replaces removed: who has that open writes into files that no one sees."""
    for beside in ("-wal", "-shm"):
        Path(f"{path}{beside}").unlink()
    shutil.copy(backup, f"{path}.new")
    Path(f"{path}.new").replace(path)


def moved_over_with_the_log_left(backup: Path, path: Path) -> None:
    shutil.copy(backup, f"{path}.new")
    Path(f"{path}.new").replace(path)


def copied_over(backup: Path, path: Path) -> None:
    """By ``cp``, past every lock, with the log left: in a process of its own, whose handles are no concern here."""
    subprocess.run(["cp", str(backup), str(path)], check=True)


WAYS: list[Restore] = [in_place, moved_over, moved_over_with_the_log_left, copied_over]


def pulls(context: Context) -> dict[str, int]:
    return {one.arm: one.pulls for one in queries.posteriors(context)}


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def restore(request: pytest.FixtureRequest) -> Restore:
    way: Restore = request.param
    return way


def test_who_lived_through_it_credits_no_other_arm(tmp_path: Path, restore: Restore) -> None:
    """After it another arm has the number that this process remembers, at the very revision it remembers."""
    living = context_at(tmp_path / "a.db")
    record(living, a_run("r1", arms=["z"], calls=["z"]))
    maintenance.backup(living, tmp_path / "copy.db")
    record(living, a_run("r2", arms=["x"], calls=["x"]))
    assert pulls(living) == {X: 1, Z: 1}
    restore(tmp_path / "copy.db", kept_in(living.store))
    record(context_at(kept_in(living.store)), a_run("r3", arms=["y"], calls=["y"]))
    assert record(living, a_run("r4", arms=["x"], calls=["x"])).told == "new"
    for context in (living, context_at(kept_in(living.store))):
        assert pulls(context) == {X: 1, Y: 1, Z: 1}
        assert queries.verify(context).clean


def test_two_learners_that_swapped_their_numbers_keep_their_arms(tmp_path: Path, restore: Restore) -> None:
    first, second = (context_at(tmp_path / "a.db", learner=name) for name in ("default", "other"))
    record(first, a_run("r1", arms=["z"], calls=["z"]))
    maintenance.backup(first, tmp_path / "copy.db")
    second.write("settings", lambda _: None, create=True)
    context_at(tmp_path / "a.db", learner="third").write("settings", lambda _: None, create=True)
    record(second, a_run("r2", arms=["x"], calls=["x"]))
    restore(tmp_path / "copy.db", kept_in(first.store))
    fresh = context_at(tmp_path / "a.db", learner="third")
    for name in ("third", "other"):  # the other way round
        fresh.of(name).write("settings", lambda _: None, create=True)
    record(fresh, a_run("r3", arms=["y"], calls=["y"]))
    record(fresh.of("other"), a_run("r3", arms=["y"], calls=["y"]))
    record(second, a_run("r4", arms=["x"], calls=["x"]))
    reward(first, Z, 1.0)
    assert pulls(second) == {X: 1, Y: 1}
    assert pulls(fresh) == {Y: 1}
    assert pulls(first) == {Z: 2}
    assert queries.verify(fresh).clean


def test_a_moment_comes_once_though_its_revision_comes_twice(
    context: Context, tmp_path: Path, restore: Restore
) -> None:
    record(context, a_run("r1"))
    maintenance.backup(context, tmp_path / "copy.db")
    record(context, a_run("r2"))
    before = queries.visibility(context)
    restore(tmp_path / "copy.db", kept_in(context.store))
    record(context, a_run("r3"))
    after = queries.visibility(context)
    assert before[0].revision == after[0].revision
    assert before != after


def test_what_is_answered_afterwards_is_there_for_everybody(tmp_path: Path, restore: Restore) -> None:
    path = tmp_path / "a.db"
    living = context_at(path)
    record(living, a_run("r1", arms=["z"], calls=["z"]))
    maintenance.backup(living, tmp_path / "copy.db")
    for number in range(5):
        reward(living, Z, 0.5, key=f"replaced {number}")
    restore(tmp_path / "copy.db", path)
    for number in range(20):
        assert reward(living, Z, 1.0, key=f"kept {number}").pulls == number + 2
    code, out = answer("limited", str(10**9), "--database", path, "posteriors", "--json")
    assert (code, [one["pulls"] for one in json.loads(out)]) == (0, [21])
    code, out = answer("limited", str(10**9), "--database", path, "verify", "--json")
    assert (code, json.loads(out)["ok"]) == (0, True)


def test_a_log_that_was_removed_takes_nothing_of_what_comes_after(tmp_path: Path) -> None:
    """The file is the same, but what would go into the log that is open would go into one that no one sees."""
    path = tmp_path / "a.db"
    living = context_at(path)
    record(living, a_run("r1", arms=["z"], calls=["z"]))
    Path(f"{path}-wal").unlink()
    for uid in ("r2", "r3"):
        assert record(living, a_run(uid, arms=["x"], calls=["x"])).told == "new"
    for context in (living, context_at(path)):
        assert pulls(context)[X] == 2
        assert queries.verify(context).clean


def test_who_only_reads_sees_what_was_restored(context: Context, tmp_path: Path, restore: Restore) -> None:
    record(context, a_run("r1", arms=["z"], calls=["z"]))
    maintenance.backup(context, tmp_path / "copy.db")
    record(context, a_run("r2", arms=["x"], calls=["x"]))
    reader = context_at(tmp_path / "a.db")
    assert pulls(reader) == {X: 1, Z: 1}
    before = queries.visibility(reader)
    restore(tmp_path / "copy.db", kept_in(context.store))
    if restore is copied_over:  # only a writer looks that closely, and it is sure to come
        reward(context, Z, 1.0)
        assert pulls(reader) == {Z: 2}
    else:
        assert pulls(reader) == {Z: 1}
    assert queries.visibility(reader) != before


@pytest.mark.parametrize("restore", [moved_over_with_the_log_left, copied_over])
@pytest.mark.parametrize("reads_first", [True, False])
def test_a_log_that_a_killed_process_left_is_not_read_into_another_file(
    tmp_path: Path, restore: Restore, reads_first: bool
) -> None:
    path = tmp_path / "a.db"
    context = context_at(path)
    record(context, a_run("r1", arms=["z"], calls=["z"]))
    maintenance.backup(context, tmp_path / "copy.db")
    context.store.close()
    assert answer("leave", path, *"abcdef")[0] == 0
    restore(tmp_path / "copy.db", path)
    if reads_first:
        assert pulls(context) == {Z: 1}
    record(context, a_run("r2", arms=["y"], calls=["y"]))
    assert pulls(context) == {Y: 1, Z: 1}
    assert queries.verify(context).clean
    assert [one.name for one in tmp_path.glob("*.replaced-*")] == ["a.db-wal.replaced-1"]


def test_a_log_that_a_killed_process_left_is_read_into_its_own_file(tmp_path: Path) -> None:
    """Wherever the two of them were carried together."""
    path = tmp_path / "a.db"
    context_at(path).store.close()
    assert answer("leave", path, *"abc")[0] == 0
    shutil.copytree(tmp_path, tmp_path / "elsewhere")
    for folder in (tmp_path, tmp_path / "elsewhere"):
        context = context_at(folder / "a.db")
        assert queries.status(context).runs == 3
        record(context, a_run("r2"))
        assert queries.status(context).runs == 4
        assert list(folder.glob("*.replaced-*")) == []


# Gone, or of another version


def beside(path: Path) -> dict[str, int]:
    """Files of a database by name, with what tells one from another."""
    return {one.name: one.stat().st_ino for one in path.parent.iterdir() if one.name.startswith(path.name)}


def attempts(context: Context) -> list[Callable[[], object]]:
    return [
        lambda: reward(context, X, 1.0),
        lambda: record(context, a_run("r9", arms=["x"])),
        lambda: queries.status(context),
        lambda: queries.verify(context),
    ]


def test_a_database_that_is_moved_away_for_a_while_loses_nothing(tmp_path: Path) -> None:
    """What is in its log alone would go with a new file that is made in its place."""
    path = tmp_path / "a.db"
    living, reader = context_at(path), context_at(path)
    record(living, a_run("r1", arms=["x"], calls=["x"]))
    assert queries.status(reader).runs == 1
    path.rename(tmp_path / "b.db")
    left = beside(path)
    for context in (living, reader):
        for attempt in attempts(context):
            with pytest.raises(NoDatabase, match=r"a\.db any more") as refused:
                attempt()
            assert "Put it back" in refused.value.next_step
    for command, problem in (
        (("upgrade",), "no_database"),
        (("learners", "--create", "new"), "store_unusable"),
    ):
        code, out = answer("limited", str(10**9), "--database", path, *command, "--json")
        assert (code, json.loads(out)["code"]) == (1, problem)
    assert beside(path) == left
    (tmp_path / "b.db").rename(path)
    assert record(living, a_run("r2", arms=["x"], calls=["x"])).told == "new"
    for context in (living, reader, context_at(path)):
        assert queries.status(context).runs == 2
        assert queries.verify(context).clean


def deleted(path: Path) -> None:
    for end in ("", "-wal", "-shm", ".lock"):
        Path(f"{path}{end}").unlink()


def emptied(path: Path) -> None:
    deleted(path)
    path.touch()


def made_a_folder(path: Path) -> None:
    deleted(path)
    path.mkdir()


def of_another_program(path: Path) -> None:
    deleted(path)
    with closing(sqlite3.connect(path)) as driver:
        driver.execute("CREATE TABLE diary (day text)")


def of_a_newer_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as driver, driver:
        driver.execute("UPDATE alembic_version SET version_num = '9999'")


def of_an_older_version(path: Path) -> None:
    deleted(path)
    path.write_bytes(gzip.decompress((SCHEMAS / "written-at-0020.db.gz").read_bytes()))


def held_by(path: Path) -> object:
    """The bytes of a file, or the rows of a database of ours, whose first bytes say that it has a log now."""
    if not path.is_file():
        return None
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as driver:
        rows = list(driver.iterdump())
    return rows if any("alembic_version" in row for row in rows) else path.read_bytes()


@pytest.mark.parametrize(
    ("befall", "kind", "why"),
    [
        (deleted, NoDatabase, "any more"),
        (emptied, NoDatabase, "any more"),
        (made_a_folder, StoreUnusable, "got the folder"),
        (of_another_program, StoreUnusable, "another program"),
        (of_a_newer_version, SchemaMismatch, "9999 of a newer"),
        (of_an_older_version, SchemaMismatch, "0020 of an older"),
    ],
)
def test_what_takes_the_place_of_an_open_database_is_named_and_left_as_it_is(
    befall: Callable[[Path], None], kind: type[Exception], why: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.db"
    living = context_at(path)
    record(living, a_run("r1", arms=["x"], calls=["x"]))
    maintenance.backup(living, tmp_path / "copy.db")
    befall(path)
    before = held_by(path)
    for attempt in attempts(living):
        with pytest.raises(kind, match=why):
            attempt()
    assert held_by(path) == before
    if path.is_dir():
        path.rmdir()
    moved_over_with_the_log_left(tmp_path / "copy.db", path)
    assert record(living, a_run("r2", arms=["x"], calls=["x"])).told == "new"
    assert queries.status(living).runs == 2
    assert queries.verify(living).clean


def test_an_older_database_is_upgraded_under_a_living_process(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    living = context_at(path)
    record(living, a_run("r1"))
    of_an_older_version(path)
    with pytest.raises(SchemaMismatch, match="older") as refused:
        record(living, a_run("r2"))
    assert refused.value.next_step == "Run: armscope upgrade"
    code, out = answer("limited", str(10**9), "--database", path, "upgrade", "--json")
    assert (code, json.loads(out)["before"]) == (0, "0020")
    n_runs = queries.status(living).runs
    assert record(living, a_run("r2")).told == "new"
    assert queries.status(living).runs == n_runs + 1
    assert queries.verify(living).clean
