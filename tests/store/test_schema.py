"""The schema: migrations say what the tables say; what is no database of ours is left alone."""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import CheckConstraint, create_engine
from sqlalchemy.pool import NullPool

import core.store
from core.errors import SchemaMismatch, StoreUnusable
from core.flows import maintenance, queries
from core.flows.context import Context
from core.flows.importing import import_files
from core.flows.learn import record
from core.flows.undo import undo
from core.store.engine.opening import open_database
from core.store.schema import HEAD, migrate
from core.store.store import Store
from core.store.tables import metadata
from tests.flows.history import described
from tests.flows.world import context_at, run_of
from tests.store.worlds import lines_file, run_line

pytestmark = pytest.mark.of_file  # of files that older versions left

MIGRATIONS = Path(core.store.__path__[0]) / "migrations"
OLD = sorted((Path(__file__).parent / "schemas").glob("*.db.gz"))


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    path = tmp_path / "fresh.db"
    Store(path).close()
    return path


def execute(path: Path, *statements: str) -> None:
    driver = sqlite3.connect(path)
    for statement in statements:
        driver.execute(statement)
    driver.commit()
    driver.close()


@pytest.fixture
def migrated(tmp_path: Path) -> Path:
    """One that went through every migration."""
    path = tmp_path / "migrated.db"
    with closing(open_database(path)) as database, database.making():
        migrate(database)
    return path


def test_migrations_end_where_the_tables_are(fresh: Path, migrated: Path) -> None:
    """And hold the same rows: the hidden learner, and the newest migration."""
    assert _differences(migrated) == _differences(fresh) == []
    assert _dump(migrated) == _dump(fresh)


def _differences(path: Path) -> list[Any]:
    """Where a database has other tables than ours."""
    engine = create_engine(f"sqlite:///{path}", poolclass=NullPool)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        assert context.get_current_revision() == HEAD
        return list(compare_metadata(context, metadata))


def test_head_is_the_newest_script() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


@pytest.mark.parametrize("made", ["fresh", "migrated"])
def test_checks_and_clustering_reach_the_file(made: str, request: pytest.FixtureRequest) -> None:
    """What compare_metadata does not look at: CHECKs, and tables without a hidden row number."""
    driver = sqlite3.connect(request.getfixturevalue(made))
    said = dict(driver.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
    driver.close()
    for table in metadata.sorted_tables:
        options = table.dialect_options["sqlite"]
        assert ("WITHOUT ROWID" in said[table.name]) == (options["with_rowid"] is False)
        checks = [item for item in table.constraints if isinstance(item, CheckConstraint)]
        assert said[table.name].count("CHECK") == len(checks)


PROMISED = ["outcome", "observation", "posterior", "arm_hour", "arm_day", "usage_hour", "usage_day"]


@pytest.mark.parametrize("table", PROMISED)
def test_no_column_of_a_count_may_be_null(fresh: Path, table: str) -> None:
    driver = sqlite3.connect(fresh)
    columns = driver.execute(f"PRAGMA table_info({table})").fetchall()
    driver.close()
    assert columns
    assert [name for _, name, _, not_null, _, _ in columns if not not_null] == []


@pytest.mark.parametrize("value", [float("nan"), None])
def test_the_database_itself_refuses_what_is_no_number(fresh: Path, value: float | None) -> None:
    driver = sqlite3.connect(fresh)
    with pytest.raises(sqlite3.IntegrityError, match="NOT NULL"):
        driver.execute("INSERT INTO outcome VALUES (1, 1, 1, 5, ?)", [value])
    driver.close()


def test_an_empty_file_is_as_good_as_none(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    context = context_at(path)
    record(context, run_of("r"))
    assert queries.status(context).runs == 1


def test_folders_on_the_way_are_made(tmp_path: Path) -> None:
    context = context_at(tmp_path / "a" / "b" / "c.db")
    assert queries.status(context).runs == 0


def test_a_link_leads_to_the_one_database_and_its_one_lock(tmp_path: Path) -> None:
    real = context_at(tmp_path / "real.db")
    link = tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "real.db")
    record(context_at(link), run_of("r"))
    assert queries.status(real).runs == 1
    assert [path.name for path in link.parent.iterdir()] == ["link.db"]


def test_an_older_schema_is_refused_with_the_command_that_upgrades_it(fresh: Path) -> None:
    execute(fresh, "UPDATE alembic_version SET version_num = '0000'")
    with pytest.raises(SchemaMismatch, match=f"0000.*{HEAD}") as refused:
        Store(fresh)
    assert "armscope upgrade" in refused.value.next_step


def test_a_schema_nobody_here_knows_is_left_as_it_is(fresh: Path) -> None:
    execute(fresh, "UPDATE alembic_version SET version_num = '9999'")
    before = fresh.read_bytes()
    with pytest.raises(SchemaMismatch, match="does not know") as refused:
        maintenance.upgrade(fresh)
    assert "newer armscope" in refused.value.next_step
    assert fresh.read_bytes() == before


@pytest.mark.parametrize("old", OLD, ids=lambda old: old.name)
def test_an_old_database_is_upgraded_and_used(old: Path, tmp_path: Path) -> None:
    """Each was written by the version of armscope that had its schema (`tests.store.schemas.make`)."""
    path = tmp_path / "old.db"
    path.write_bytes(gzip.decompress(old.read_bytes()))
    before = _dump(path)
    with pytest.raises(SchemaMismatch, match="needs") as refused:
        Store(path)
    assert "armscope upgrade" in refused.value.next_step
    assert _dump(path) == before
    assert maintenance.upgrade(path).before == old.name.removesuffix(".db.gz")
    assert _differences(path) == []
    after = _dump(path)
    assert _said(after) == _said(before), "who said what of a fact stays as it is"
    elsewhere = {"sighting", "description", "provenance", "staged_claim"}
    anew = {"alembic_version", "usage_hour", "usage_day"}  # folded anew; verified below
    for name in before.keys() - anew - elsewhere:
        # That of 0007 holds observations of weight below 1, each of which was a pull.
        recounted = {"pulls", "seen"} if old.name == "0007.db.gz" else set()
        # 0011 made the hidden learner, under which nothing was before it.
        known, now = ([row for row in dump[name] if row.get("learner_id") != 0] for dump in (before, after))
        was = [{column: row[column] for column in row.keys() - recounted} for row in known]
        both = zip(was, now, strict=True)
        kept = [{column: later[column] for column in earlier} for earlier, later in both]
        assert kept == was, f"what is remembered stays as it is ({name})"
    _use(context_at(path), tmp_path)


def test_observations_of_weight_below_one_are_no_pull_each_any_more(tmp_path: Path) -> None:
    """Three thirds that were three pulls of b are one; two of c, of less than one together, are none."""
    path = tmp_path / "old.db"
    path.write_bytes(gzip.decompress((Path(__file__).parent / "schemas" / "0007.db.gz").read_bytes()))
    before = {row["arm_no"]: row for row in _dump(path)["posterior"]}
    maintenance.upgrade(path)
    after = {row["arm_no"]: row for row in _dump(path)["posterior"]}
    assert [(before[arm_no]["pulls"], after[arm_no]["pulls"]) for arm_no in (2, 3)] == [(6, 3), (2, 0)]
    assert [after[arm_no]["part_micro"] for arm_no in (2, 3)] == [1_000_000, 700_001]
    context = context_at(path)
    found = {one.arm[-1]: (one.pulls, one.pulls_exact) for one in queries.posteriors(context)}
    assert (found["b"], found["c"]) == ((4, None), (0, 0.700001))
    assert queries.verify(context).clean


def _said(dump: Mapping[str, Sequence[Mapping[str, object]]]) -> set[tuple[object, ...]]:
    """Who said what of a fact, whether in one table or, as it was before 0007, in two of which one had columns of two
    meanings.
    """
    said: set[tuple[object, ...]] = set()
    for row in dump.get("provenance", ()):
        said.add((*(row[name] for name in ("kind", "no", "import_no", "revision")), *_what(row)))
    for row in dump.get("sighting", ()):
        of_arm = row["kind"] == "arm"
        place = (row["no"], row["import_no"], row["revision"])
        if not of_arm:
            said.add((row["kind"], *place, row["rank"], row["trace"], row["digest"], None))
        if of_arm and row["import_no"]:
            said.add(("arm", *place, 0, 0, 0, None))
        if of_arm and row["rank"]:
            said.add(("prior", *place, 0, 0, 0, f"{row['rank']} {row['trace']}"))
    for row in dump.get("description", ()):
        for kind, value, revision in (
            ("cost", "token_cost", "cost_revision"),
            ("label", "label", "label_revision"),
        ):
            if row[value] is not None:
                said.add((kind, row["arm_no"], row["import_no"], row[revision], 0, 0, 0, str(row[value])))
    if "provenance" not in dump and "description" not in dump:  # before 0002 only the arm itself said it
        said |= {
            (kind, row["arm_no"], 0, 0, 0, 0, 0, str(row[value]))
            for row in dump["arm"]
            for kind, value in (("cost", "token_cost"), ("label", "label"))
            if row[value] is not None
        }
    return said


def _what(row: Mapping[str, object]) -> tuple[object, ...]:
    return tuple(row[name] for name in ("rank", "trace", "digest", "said"))


def _use(context: Context, folder: Path) -> None:
    """What an upgraded learner knew it knows, and it goes on; what is told now can be taken back."""
    assert queries.verify(context).clean
    known, beliefs, n_runs = described(context), queries.posteriors(context), queries.status(context).runs
    assert known["tool:other:priced"] == (70, None)
    assert known["tool:other:named"] == (30, "Named")
    assert "tool:other:left" not in known
    more: list[dict[str, object]] = [
        {"kind": "arm", "key": "tool:other:named", "label": "Other"},
        run_line("more"),
    ]
    told = import_files(context, [lines_file(folder / "more.jsonl", *more)])
    assert described(context)["tool:other:named"] == (30, "Other")
    undo(context, told.id)
    assert (described(context), queries.posteriors(context)) == (known, beliefs)
    record(context, run_of("later"))
    assert queries.status(context).runs == n_runs + 1
    assert queries.verify(context).clean


def _dump(path: Path) -> dict[str, list[dict[str, object]]]:
    """Every row of every table, by the names of its columns: a later schema may have more."""
    driver = sqlite3.connect(path)
    driver.row_factory = sqlite3.Row
    names = [name for (name,) in driver.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {name: [dict(row) for row in driver.execute(f'SELECT * FROM "{name}"')] for name in names}
    driver.close()
    return found


def test_upgrading_what_is_up_to_date_changes_nothing(fresh: Path) -> None:
    before = fresh.read_bytes()
    assert maintenance.upgrade(fresh) == maintenance.UpgradeAnswer(
        database=str(fresh), before=HEAD, after=HEAD
    )
    assert fresh.read_bytes() == before


def test_upgrading_nothing_makes_a_database(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    assert maintenance.upgrade(path).before is None
    assert queries.status(context_at(path)).runs == 0


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE arm_states (context_hash TEXT, arm_id TEXT)",),
        ("CREATE TABLE alembic_version (version_num TEXT)", "INSERT INTO alembic_version VALUES ('0001')"),
        ("CREATE TABLE alembic_version (version_num TEXT)", "CREATE TABLE learner (a)"),
    ],
)
def test_a_foreign_database_is_left_alone(tmp_path: Path, statements: tuple[str, ...]) -> None:
    path = tmp_path / "foreign.db"
    execute(path, *statements)
    before = path.read_bytes()
    with pytest.raises(StoreUnusable, match="another program") as refused:
        Store(path)
    assert "import" in refused.value.next_step
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir() if not one.name.endswith((".lock", "-shm", "-wal"))] == [
        "foreign.db"
    ]


@pytest.mark.parametrize(
    "content", [b"hello, world\n" * 400, b"\x00" * 9000, b"SQLite format 3\x00" + b"\xff" * 5000]
)
def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(StoreUnusable) as refused:
        Store(path)
    assert "--database" in refused.value.next_step
    assert path.read_bytes() == content


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_a_truncated_database_is_an_error_with_a_way_out(tmp_path: Path, part: float) -> None:
    context = context_at(tmp_path / "whole.db")
    for number in range(30):
        record(context, run_of(f"r{number}"))
    context.store.close()
    content = (tmp_path / "whole.db").read_bytes()
    path = tmp_path / "cut.db"
    path.write_bytes(content[: int(len(content) * part)])
    with pytest.raises(StoreUnusable) as refused:
        queries.posteriors(context_at(path))
    assert "backup" in refused.value.next_step


def test_a_folder_a_device_and_an_impossible_name_are_no_database(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/null"), tmp_path / ("x" * 400)):
        with pytest.raises(StoreUnusable) as refused:
            Store(path)
        assert "--database" in refused.value.next_step
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnusable):
        Store(tmp_path / "file" / "a.db")


def test_upgrading_replaces_what_other_programs_cannot_keep(tmp_path: Path) -> None:
    """A U+0000 in whatever text, in a session and in a uid of which the other spelling is there already."""
    path = tmp_path / "old.db"
    path.write_bytes(gzip.decompress((Path(__file__).parent / "schemas" / "0004.db.gz").read_bytes()))
    with closing(sqlite3.connect(path)) as driver:
        (first,), (second,) = driver.execute("SELECT uid FROM run ORDER BY run_no LIMIT 2").fetchall()
        for uid, was in (("a\0b", first), ("a\ufffdb", second)):
            driver.execute("UPDATE run SET uid = ?, session = ? WHERE uid = ?", [uid, "s\0", was])
        driver.execute("UPDATE observation SET reason = ? WHERE observation_no = 1", ["w\0hy"])
        driver.commit()
    assert maintenance.upgrade(path).texts_mended == 4
    context = context_at(path)
    assert queries.verify(context).clean
    with context.reading() as snapshot:
        rows = snapshot.connection.rows("SELECT uid, session FROM run ORDER BY run_no LIMIT 2")
        reasons = snapshot.connection.rows("SELECT reason FROM observation WHERE observation_no = 1")
    assert rows == [("a\ufffdb\ufffd2", "s\ufffd"), ("a\ufffdb", "s\ufffd")]
    assert reasons == [("w\ufffdhy",)]
    assert maintenance.upgrade(path).texts_mended == 0
