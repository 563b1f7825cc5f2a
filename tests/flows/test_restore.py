"""Restore: a backup takes the place of the database, in use or not; what it costs is told, and all of it kept."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from core.errors import ArmscopeError, Denied, InvalidInput, SchemaMismatch, StoreDamaged
from core.flows import maintenance, queries
from core.flows.context import Context
from core.flows.learn import record, reward
from core.flows.restore import RestorePlan, restore
from core.records.actor import Actor
from tests.engine import kept_in
from tests.store.test_numbers import swapped
from tests.worlds import a_run, context_at

pytestmark = pytest.mark.of_file
A = "tool:other:a"
SCHEMAS = Path(__file__).parents[1] / "store" / "schemas"


@pytest.fixture
def context(context: Context, tmp_path: Path) -> Context:
    """Two runs and a backup of them; then a run, two rewards, and another learner with a run."""
    for uid in ("r1", "r2"):
        record(context, a_run(uid))
    maintenance.backup(context, tmp_path / "copy.db")
    record(context, a_run("r3"))
    reward(context, A, 1.0)
    reward(context, A, 0.5)
    context.of("other").write("settings", lambda _: None, create=True)
    record(context.of("other"), a_run("r1"))
    return context


def test_it_is_there_again_and_what_it_replaced_is_kept(context: Context, tmp_path: Path) -> None:
    before = queries.posteriors(context)
    plans: list[RestorePlan] = []
    told = restore(kept_in(context.store), tmp_path / "copy.db", confirm=plans.append, clock=lambda: 0)
    assert queries.status(context).runs == 2
    assert (told.runs, told.runs_lost, told.acts_lost) == (2, 2, 2)
    assert plans == [
        RestorePlan(
            file=str(tmp_path / "copy.db"),
            database=str(kept_in(context.store)),
            runs=2,
            runs_lost=2,
            acts_lost=2,
        )
    ]
    assert told.kept == str(tmp_path / "a.replaced-19700101T000000.db")
    kept = context_at(Path(told.kept))
    assert queries.posteriors(kept) == before
    assert queries.verify(kept).clean
    assert queries.verify(context).clean
    again = restore(kept_in(context.store), Path(told.kept), clock=lambda: 0)
    assert queries.posteriors(context) == before
    assert again.kept == str(tmp_path / "a.replaced-19700101T000000-2.db")


def test_who_has_it_open_goes_on(context: Context, tmp_path: Path) -> None:
    reader = context_at(kept_in(context.store))
    moment = queries.visibility(reader)
    with reader.reading() as snapshot:
        restore(kept_in(context.store), tmp_path / "copy.db")
        assert snapshot.connection.rows("SELECT count(*) FROM run") == [(4,)], (
            "what is being read stays as it is"
        )
    assert queries.status(reader).runs == 2
    assert queries.visibility(reader) != moment
    record(context, a_run("r4", arms=["d"], calls=["d"]))
    assert {one.arm: one.pulls for one in queries.posteriors(reader)} == {
        A: 2,
        "tool:other:b": 2,
        "tool:other:c": 2,
        "tool:other:d": 1,
    }
    assert queries.verify(reader).clean


def test_what_is_too_dear_is_not_done(context: Context, tmp_path: Path) -> None:
    def refuse(plan: RestorePlan) -> None:
        raise InterruptedError(plan.runs_lost)

    names = sorted(one.name for one in tmp_path.iterdir())
    with pytest.raises(InterruptedError):
        restore(kept_in(context.store), tmp_path / "copy.db", confirm=refuse)
    assert queries.status(context).runs == 3
    assert sorted(one.name for one in tmp_path.iterdir()) == names


def test_where_there_is_no_database_it_is_made(context: Context, tmp_path: Path) -> None:
    path = tmp_path / "new" / "b.db"
    told = restore(path, tmp_path / "copy.db")
    assert (told.kept, told.runs, told.runs_lost) == (None, 2, 0)
    assert queries.status(context_at(path)).runs == 2


@pytest.mark.parametrize("old", sorted(SCHEMAS.glob("*-0020.db.gz")), ids=lambda old: old.name)
def test_a_backup_at_the_baseline_is_restored(context: Context, tmp_path: Path, old: Path) -> None:
    backup = tmp_path / "old.db"
    backup.write_bytes(gzip.decompress(old.read_bytes()))
    before = backup.read_bytes()
    restore(kept_in(context.store), backup)
    assert queries.verify(context).clean
    assert backup.read_bytes() == before, "the backup itself is only read"


def test_a_backup_before_the_baseline_is_refused(context: Context, tmp_path: Path) -> None:
    backup = tmp_path / "old.db"
    backup.write_bytes(gzip.decompress((SCHEMAS / "0001.db.gz").read_bytes()))
    before = queries.posteriors(context)
    with pytest.raises(ArmscopeError, match="0001") as refused:
        restore(kept_in(context.store), backup)
    assert "git checkout" in refused.value.next_step
    assert queries.posteriors(context) == before


def test_what_is_in_the_log_of_a_backup_is_restored_too(context: Context, tmp_path: Path) -> None:
    """Someone copied the files of a database in use, all of them."""
    for beside in ("", "-wal"):
        (tmp_path / f"copied.db{beside}").write_bytes(Path(f"{kept_in(context.store)}{beside}").read_bytes())
    record(context, a_run("r4"))
    restore(kept_in(context.store), tmp_path / "copied.db")
    assert queries.status(context).runs == 3


def damaged(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[5 * 4096 : 9 * 4096] = bytes(4 * 4096)
    path.write_bytes(content)


def of_another_program(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as driver:
        driver.execute("CREATE TABLE note (text)")


def newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as driver:
        driver.execute("UPDATE alembic_version SET version_num = '9999'")
        driver.commit()


def no_database(path: Path) -> None:
    path.write_bytes(b"Dear diary,\n" * 99)


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (damaged, StoreDamaged),
        (of_another_program, ArmscopeError),
        (newer, SchemaMismatch),
        (no_database, StoreDamaged),
        (lambda path: path.write_bytes(b""), InvalidInput),
        (Path.unlink, InvalidInput),
    ],
    ids=["damaged", "foreign", "newer", "no database", "empty", "none"],
)
def test_what_is_no_sound_backup_changes_nothing(
    context: Context, tmp_path: Path, spoil: object, kind: type[ArmscopeError]
) -> None:
    assert callable(spoil)
    spoil(tmp_path / "copy.db")
    names = sorted(one.name for one in tmp_path.iterdir())
    with pytest.raises(kind, match=r"copy\.db"):
        restore(kept_in(context.store), tmp_path / "copy.db")
    assert queries.status(context).runs == 3
    assert sorted(one.name for one in tmp_path.iterdir() if one.name[-4:] not in {"-wal", "-shm"}) == [
        name for name in names if name[-4:] not in {"-wal", "-shm"}
    ]


def test_a_database_is_no_backup_of_itself(context: Context) -> None:
    with pytest.raises(InvalidInput, match="another file"):
        restore(kept_in(context.store), kept_in(context.store))


def test_not_everybody_may(context: Context, tmp_path: Path) -> None:
    with pytest.raises(Denied):
        restore(kept_in(context.store), tmp_path / "copy.db", actor=Actor(name="v", role="viewer"))


def test_learners_that_go_by_other_numbers_in_the_backup_keep_what_is_theirs(
    context: Context, tmp_path: Path
) -> None:
    """Each process that lives through it knows the number that a learner had before."""
    other = context.of("other")
    maintenance.backup(context, tmp_path / "swapped.db")
    swapped(tmp_path / "swapped.db", "default", "other")
    before = {name: queries.status(context.of(name)).runs for name in ("default", "other")}
    restore(kept_in(context.store), tmp_path / "swapped.db")
    assert record(other, a_run("r9", arms=["y"], calls=["y"])).told == "new"
    reward(context, A, 1.0)
    assert {name: queries.status(context.of(name)).runs for name in before} == before | {"other": 2}
    assert {one.arm: one.pulls for one in queries.posteriors(other)}["tool:other:y"] == 1
    assert {one.arm: one.pulls for one in queries.posteriors(context)}[A] == 6
    assert queries.verify(context).clean
