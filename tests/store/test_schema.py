"""The schema: migrations say what the tables say; what is no database of ours is left alone."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
import time
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
from core import open_learner
from core.columns import DECLARED_COIN
from core.errors import NoDatabase, SchemaMismatch, StoreUnusable
from core.flows import maintenance, queries
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record
from core.store.schema import BASELINE, HEAD, UPGRADES_OLDER, migrate
from core.store.store import Store, open_database
from core.store.tables import metadata
from core.store.text_index import NAME
from core.store.views import VIEWS
from tests.store.child import Living
from tests.worlds import a_run, context_at, lines_file, run_line
from tests.worlds.history import described

pytestmark = pytest.mark.of_file  # of files that older versions left

MIGRATIONS = Path(core.store.__path__[0]) / "migrations"
SCHEMAS = Path(__file__).parent / "schemas"
OLD = sorted(path for path in SCHEMAS.glob("*.db.gz") if path.name >= BASELINE)

PROMISED = ["outcome", "observation", "posterior", "arm_hour", "arm_day", "usage_hour", "usage_day"]

_CHAIN = {"chain_sum", "chain_head", "chain_held", "next_link_no"}
"""Columns of a learner that change where an upgrade brings transcripts under the chain."""

_BACK_TO_0021 = (
    *(f"DROP VIEW {view.name}" for view in VIEWS),
    "ALTER TABLE decision DROP COLUMN chance",
    "DROP INDEX ix_run_trial",
    "DROP TABLE trial",
    "DROP TABLE trial_session",
    "ALTER TABLE learner DROP COLUMN next_trial_no",
    *(f"DROP TABLE {name}" for name in ("experiment", "assignment")),
    *(f"ALTER TABLE learner DROP COLUMN next_{name}_no" for name in ("experiment", "assignment")),
    "DROP TABLE achieved",
    "DROP TABLE whole_reward",
    "ALTER TABLE learner DROP COLUMN next_achieved_no",
    "ALTER TABLE posterior DROP COLUMN changed",
    "DROP TABLE defined",
    "DROP TABLE definition",
    "DROP TABLE run_text",
    "DROP TABLE text_index",
    "DROP TABLE retraction",
    "DROP TABLE repair",
    "ALTER TABLE learner DROP COLUMN next_repair_no",
    "DROP TABLE mended",
    "DROP TABLE compaction",
    "DROP TABLE compacted",
    "DROP TABLE compacted_import",
    "DROP TABLE history",
    "ALTER TABLE learner DROP COLUMN next_compaction_no",
    "DROP TABLE judged_in",
    "DROP TABLE browser",
    "ALTER TABLE learner DROP COLUMN next_browser_no",
    *(
        f"ALTER TABLE {table} DROP COLUMN {name}"
        for table in ("posterior", "arm_hour", "arm_day", "staged_hour", "staged_day")
        for name in ("n_named", "n_loaded")
    ),
    "DROP INDEX ix_run_named",
    *(
        statement
        for table in ("run", "observation", "evaluation", "episode")
        for statement in (f"DROP INDEX ix_{table}_changed", f"ALTER TABLE {table} DROP COLUMN changed")
    ),
    "DROP TABLE link",
    *(
        f"ALTER TABLE learner DROP COLUMN {name}"
        for name in (
            "chain_key",
            "chain_sum",
            "chain_head",
            "chain_held",
            "staged_sum",
            "chain_at",
            "next_link_no",
        )
    ),
    "DROP TABLE spent",
    "DROP TABLE spent_apart",
    "ALTER TABLE run DROP COLUMN bill_pico",
    "ALTER TABLE run DROP COLUMN bill_marks",
    "DROP TABLE hold",
    "DROP INDEX ix_evidence_load",
    "DROP TABLE machine",
    "ALTER TABLE learner DROP COLUMN sticky",
    "UPDATE learner SET settings = json_remove(settings, '$.sticky')",
)
"""What later migrations have added."""


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
        return [one for one in compare_metadata(context, metadata) if NAME not in str(one)]


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


def test_an_empty_file_is_as_good_as_none_and_folders_on_the_way_are_made(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    context = context_at(path)
    record(context, a_run("r"))
    assert queries.status(context).runs == 1
    context = context_at(tmp_path / "a" / "b" / "c.db")
    assert queries.status(context).runs == 0


def test_a_link_leads_to_the_one_database_and_its_one_lock(tmp_path: Path) -> None:
    real = context_at(tmp_path / "real.db")
    link = tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "real.db")
    record(context_at(link), a_run("r"))
    assert queries.status(real).runs == 1
    assert [path.name for path in link.parent.iterdir()] == ["link.db"]


def test_an_older_schema_is_refused_with_the_command_that_upgrades_it(fresh: Path) -> None:
    execute(fresh, "UPDATE alembic_version SET version_num = '0000'")
    with pytest.raises(SchemaMismatch, match=f"{BASELINE}.*0000") as refused:
        Store(fresh)
    assert "armscope upgrade" in refused.value.next_step


def test_a_schema_nobody_here_knows_is_left_as_it_is(fresh: Path) -> None:
    execute(fresh, "UPDATE alembic_version SET version_num = '9999'")
    before = fresh.read_bytes()
    with pytest.raises(SchemaMismatch, match="9999 of a newer") as refused:
        maintenance.upgrade(fresh)
    assert "newer armscope" in refused.value.next_step
    assert fresh.read_bytes() == before


@pytest.mark.parametrize("old", OLD, ids=lambda old: old.name)
def test_an_old_database_is_upgraded_and_used(old: Path, tmp_path: Path) -> None:
    """The first two are at the baseline: one was created there, one was upgraded to it (`schema.UPGRADES_OLDER`).

    Each other one was written by the version that had its schema (`tests.store.schemas.make`).
    """
    path, version = unpacked(old, tmp_path), old.name.removesuffix(".db.gz")[-4:]
    before = _dump(path)
    if version == HEAD:
        Store(path).close()
    else:
        with pytest.raises(SchemaMismatch, match=f"got {version}") as refused:
            Store(path)
        assert "armscope upgrade" in refused.value.next_step
    assert _dump(path) == before, "no conversion"
    assert maintenance.upgrade(path).before == version
    assert _differences(path) == []
    after = _dump(path)
    for name in (one for one in before if one != "alembic_version" and not one.startswith(NAME)):
        moves = _CHAIN if name == "learner" else set()
        for earlier, later in zip(before[name], after[name], strict=name != "link"):
            kept = {column: value for column, value in earlier.items() if column not in moves}
            assert {column: later[column] for column in kept} == kept, f"the rows of {name} stay as they are"
    _use(context_at(path), tmp_path)


@pytest.mark.parametrize("part", [0.3, 0.7, 0.95])
def test_an_upgrade_that_is_killed_is_done_again(part: float, tmp_path: Path) -> None:
    """All migrations are one transaction; the chain and the index of texts go on where they were."""
    whole, path = (tmp_path / name for name in ("whole.db", "killed.db"))
    for one in (whole, path):
        one.write_bytes(gzip.decompress(OLD[-1].read_bytes()))
    seconds: list[float] = []
    for one in (whole, path):
        child = Living("upgrade", one)
        assert child.stdout.readline() == "ready\n"
        began = time.perf_counter()
        child.join(part * seconds[0] if seconds else None)
        child.kill()
        seconds.append(time.perf_counter() - began)
        child.end()
    maintenance.upgrade(path)
    both = [_dump(one) for one in (whole, path)]
    for dump in both:
        for row in dump["learner"]:
            row.update(chain_key=None, chain_sum=None, chain_head=None, chain_held=None)
        dump["link"] = [row | {"sum": None, "head": None} for row in dump["link"]]
    assert both[0] == both[1]
    assert queries.verify(context_at(path)).clean
    _use(context_at(path), tmp_path)


def test_a_database_before_the_baseline_is_refused_with_the_way_to_upgrade_it(tmp_path: Path) -> None:
    path = unpacked(SCHEMAS / "0001.db.gz", tmp_path)
    before = path.read_bytes()
    for action in (Store, maintenance.upgrade):
        with pytest.raises(SchemaMismatch, match="must be 0020 or newer, got 0001") as refused:
            action(path)
        assert f"git checkout {UPGRADES_OLDER[:7]}" in refused.value.next_step
        assert f"armscope upgrade --database {path}" in refused.value.next_step
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", ["0001", "0010", "0019"])
def test_the_export_of_an_older_database_is_imported(version: str, tmp_path: Path) -> None:
    """The commit that `schema.UPGRADES_OLDER` names upgraded and exported it; the beliefs are those it reported."""
    lines = unpacked(SCHEMAS / f"{version}.jsonl.gz", tmp_path)
    context = context_at(tmp_path / "imported.db")
    answer = import_files(context, [lines])
    assert answer.rejected_count == 0
    expected = json.loads((SCHEMAS / "posteriors.json").read_text(encoding="utf-8"))[version]
    beliefs = {one.arm: [one.alpha, one.beta, one.pulls] for one in queries.posteriors(context)}
    assert beliefs == expected
    assert queries.verify(context).clean
    export_file(context, tmp_path / "again.jsonl")
    assert facts(tmp_path / "again.jsonl") == facts(lines)


def facts(path: Path) -> list[str]:
    """The lines of an export without revisions, and without the learner's line: its identity is new."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return sorted(json.dumps({**line, "revision": None}) for line in lines if line["kind"] != "learner")


def unpacked(packed: Path, folder: Path) -> Path:
    """A copy of a stored file, unpacked."""
    path = folder / packed.stem
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    return path


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
    record(context, a_run("later"))
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


def test_coins_that_a_file_declares_are_marked(tmp_path: Path) -> None:
    """Schema 0020 kept the coin of an imported run like one of our own."""
    path, lines = tmp_path / "declared.db", tmp_path / "ours.jsonl"
    with open_learner(tmp_path / "ours.db") as ours:
        for _ in range(12):
            with ours.run(["tool:fs:Read", "tool:web:search"]) as run:
                run.called("search")
        ours.export(lines)
    lines.write_text(re.sub(r', ?"chance": ?[\d.]+', "", lines.read_text()))  # no old selection had them
    with open_learner(path) as learner:
        learner.import_files(lines)
        assert learner.verify().clean
    tables = ("usage_hour", "usage_day")
    with closing(sqlite3.connect(path)) as driver:
        marked = [driver.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall() for table in tables]
        assert {row[0] >= DECLARED_COIN for row in driver.execute("SELECT prob_micro FROM usage_hour")} == {
            True
        }
    execute(
        path,
        *(f"UPDATE {table} SET prob_micro = prob_micro - {DECLARED_COIN}" for table in tables),
        *_BACK_TO_0021,
        "UPDATE alembic_version SET version_num = '0020'",
    )
    assert maintenance.upgrade(path).before == "0020"
    with closing(sqlite3.connect(path)) as driver:
        upgraded = [driver.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall() for table in tables]
    assert upgraded == marked
    with open_learner(path) as learner:
        assert learner.verify().clean
        before = learner.status().head
        assert [one.arm for one in learner.arms(since=0)] == ["tool:fs:Read", "tool:web:search"]
        assert learner.reward("tool:fs:Read", 1.0).id
        assert [one.arm for one in learner.arms(since=before)] == ["tool:fs:Read"]


def test_upgrading_what_is_up_to_date_changes_nothing(fresh: Path) -> None:
    before = fresh.read_bytes()
    assert maintenance.upgrade(fresh) == maintenance.UpgradeAnswer(
        database=str(fresh), before=HEAD, after=HEAD
    )
    assert fresh.read_bytes() == before


@pytest.mark.parametrize("name", ["new.db", "no/folder/new.db"])
def test_a_path_without_a_file_is_refused_and_stays_so(name: str, tmp_path: Path) -> None:
    with pytest.raises(NoDatabase) as refused:
        maintenance.upgrade(tmp_path / name)
    assert "armscope import" in refused.value.next_step
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_named_as_one_and_gets_its_tables(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    path.touch()
    with pytest.raises(NoDatabase, match="is there and empty") as refused:
        Store(path, create=False)
    assert "armscope upgrade" in refused.value.next_step
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
        record(context, a_run(f"r{number}"))
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
