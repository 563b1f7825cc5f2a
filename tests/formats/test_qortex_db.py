"""qortex databases: what they carry, and files that pretend to be one."""

from __future__ import annotations

import gzip
import random
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from core.errors import InvalidInput, UnreadableSource
from core.formats import Entry, Rejected, Remark, open_sources, recognise
from core.records.arm import UNIFORM
from core.records.ledger_lines import ArmLine, RewardLine
from tests.formats.builders import put, read, rejected

TABLE = (
    "CREATE TABLE arm_states (context_hash TEXT NOT NULL, arm_id TEXT NOT NULL, alpha REAL, beta REAL,"
    " pulls INTEGER, total_reward REAL, last_updated TEXT, PRIMARY KEY (context_hash, arm_id))"
)
FIELDS = ("alpha", "beta", "pulls", "total_reward", "last_updated")
TIME = "2026-02-05T10:00:00+00:00"
Row = tuple[object, ...]

COLUMNS = (
    "'c' context_hash, 'tool:fs:Read' arm_id, 2.0 alpha, 1.0 beta, 1 pulls, 1 total_reward, '' last_updated"
)


def state(arm: object = "tool:fs:Read", *, context: str = "default", **values: object) -> Row:
    found = {"alpha": 3.5, "beta": 2.0, "pulls": 3, "total_reward": 2.5, "last_updated": TIME, **values}
    return (context, arm, *found.values())


def database(folder: Path, rows: Iterable[Row], *, table: str = TABLE, name: str = "learner.db") -> Path:
    path = folder / name
    with closing(sqlite3.connect(path)) as made:
        made.execute(table)
        made.executemany("INSERT INTO arm_states VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        made.commit()
    return path


def rows_of(entries: Iterable[Entry]) -> list[RewardLine]:
    return [entry for entry in entries if isinstance(entry, RewardLine)]


def test_a_belief_becomes_a_prior_and_one_row(tmp_path: Path) -> None:
    path = database(tmp_path, [state()])
    assert recognise(path) == "qortex-db"
    arm, row = read(path)
    assert arm == ArmLine(key="tool:fs:Read", prior=UNIFORM)
    assert isinstance(row, RewardLine)
    assert (row.observation, row.success_micro, row.failure_micro, row.pulls) == (
        "carried",
        2_500_000,
        1_000_000,
        3,
    )
    assert row.at_ms == 1_770_285_600_000
    assert row.context.reason == "Carried from a qortex database."


def test_contexts_of_an_arm_are_added_up_and_a_note_says_so(tmp_path: Path) -> None:
    rows = [state(), state(context="other", alpha=1.25, beta=1.5, pulls=1), state("skill:go:main")]
    entries = read(database(tmp_path, rows))
    skill, tool = rows_of(entries)
    assert (tool.success_micro, tool.failure_micro, tool.pulls) == (2_750_000, 1_500_000, 4)
    assert (skill.success_micro, skill.pulls) == (2_500_000, 3)
    assert [entry.text[:40] for entry in entries if isinstance(entry, Remark)] == [
        "1 arms had beliefs in several contexts, w"[:40]
    ]


def test_a_seed_that_began_higher_carries_it_without_pulls(tmp_path: Path) -> None:
    (row,) = rows_of(read(database(tmp_path, [state(alpha=2.0, beta=1.0, pulls=0)])))
    assert (row.success_micro, row.failure_micro, row.pulls) == (1_000_000, 0, 0)


def test_the_same_belief_has_the_same_id_wherever_it_lies(tmp_path: Path) -> None:
    (first,) = rows_of(read(database(tmp_path, [state()])))
    (again,) = rows_of(read(database(tmp_path, [state(), state("file:a:b")], name="other.sqlite")))[1:]
    (later,) = rows_of(read(database(tmp_path, [state(pulls=4)], name="later")))
    assert first.id == again.id != later.id


def test_compressed_and_in_use(tmp_path: Path) -> None:
    path = database(tmp_path, [state()])
    packed = put(tmp_path, gzip.compress(path.read_bytes()), "learner.db.gz")
    assert rows_of(read(packed)) == rows_of(read(path))
    with closing(sqlite3.connect(path)) as busy:
        busy.execute("PRAGMA journal_mode = WAL")
        busy.execute("UPDATE arm_states SET pulls = 9")
        busy.commit()
        before = path.read_bytes()
        (row,) = rows_of(read(path))
        assert (row.pulls, path.read_bytes()) == (9, before)
    packed.write_bytes(gzip.compress(path.read_bytes()))  # its header still says that it has a log
    assert rows_of(read(packed)) == [row]


def test_reading_leaves_nothing_behind(tmp_path: Path) -> None:
    path = database(tmp_path, [state()])
    path.chmod(0o400)
    before = (sorted(tmp_path.iterdir()), path.stat().st_mtime_ns)
    assert rows_of(read(path))
    assert (sorted(tmp_path.iterdir()), path.stat().st_mtime_ns) == before


@pytest.mark.parametrize(
    "values",
    [
        {"alpha": 0.5},
        {"beta": -1.0},
        {"alpha": None},
        {"alpha": "3"},
        {"alpha": float("inf")},
        {"alpha": 1e12},
        {"beta": b"\x00"},
        {"pulls": -1},
        {"pulls": 1.5},
        {"pulls": None},
        {"pulls": 2**62},
    ],
)
def test_a_belief_that_can_be_none_is_rejected_and_the_rest_read(
    tmp_path: Path, values: dict[str, object]
) -> None:
    table = TABLE.replace("REAL", "BLOB").replace("INTEGER", "BLOB")
    bad = (*state()[:2], *{**dict(zip(FIELDS, state()[2:], strict=True)), **values}.values())
    entries = read(database(tmp_path, [bad, state("tool:fs:Write")], table=table))
    (refused,) = rejected(entries)
    assert "tool:fs:Read" in refused.reason
    assert [row.arm for row in rows_of(entries)] == ["tool:fs:Write"]


def test_one_bad_context_leaves_the_whole_arm_out(tmp_path: Path) -> None:
    entries = read(database(tmp_path, [state(), state(context="other", alpha=0.1)]))
    assert [type(entry) for entry in entries] == [Rejected, Remark]


@pytest.mark.parametrize(
    "arm", ["weird:a:b", "", "tool:x", "tool:a:b\nc", "x" * 900, None, 7, b"tool:\xff:a"]
)
def test_ids_that_are_none_are_rejected(tmp_path: Path, arm: object) -> None:
    table = TABLE.replace("arm_id TEXT NOT NULL", "arm_id BLOB")
    entries = read(database(tmp_path, [state(arm)], table=table))
    assert [type(entry) for entry in entries] == [Rejected]


def test_times_that_are_none_are_unknown(tmp_path: Path) -> None:
    for told in ("", "soon", None, 12):
        (row,) = rows_of(read(database(tmp_path, [state(last_updated=told)], name=f"a{told}")))
        assert row.at_ms is None


def test_units_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="unit"):
        open_sources([database(tmp_path, [state()])], unit="turn")


# --- hostile ----------------------------------------------------------------------------------------------


def hostile_database(folder: Path, *statements: str) -> Path:
    path = folder / "hostile.db"
    with closing(sqlite3.connect(path)) as found:
        for statement in statements:
            found.execute(statement)
        found.commit()
    return path


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE VIEW arm_states AS SELECT {COLUMNS}",
        f"CREATE VIEW arm_states AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT {COLUMNS} "
        "FROM n",
        "CREATE VIRTUAL TABLE arm_states USING fts5(context_hash, arm_id, alpha, beta, pulls, last_updated)",
        "CREATE TABLE arm_states (context_hash, arm_id, alpha)",
        "CREATE TABLE other (arm_states)",
        "CREATE TABLE arm_states (context_hash, arm_id TEXT AS (printf('%s', context_hash)), alpha, beta, pulls,"
        " last_updated)",
    ],
)
def test_a_schema_that_would_run_something_is_refused(tmp_path: Path, statement: str) -> None:
    with pytest.raises(UnreadableSource):
        read(
            hostile_database(
                tmp_path, statement, "CREATE TABLE filler (a)", "INSERT INTO filler VALUES ('arm_states')"
            )
        )


def test_a_trigger_is_never_run(tmp_path: Path) -> None:
    path = hostile_database(
        tmp_path, TABLE, "CREATE TRIGGER t AFTER INSERT ON arm_states BEGIN DELETE FROM arm_states; END"
    )
    assert read(path) == []


def test_a_database_without_the_table_is_foreign(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSource, match="none of them"):
        read(hostile_database(tmp_path, "CREATE TABLE other (a)"))


@pytest.mark.parametrize("n_flips", [1, 8, 64])
def test_damaged_databases_are_read_or_refused(tmp_path: Path, n_flips: int) -> None:
    content = database(tmp_path, [state(f"tool:fs:t{number}") for number in range(300)]).read_bytes()
    dice = random.Random(n_flips)
    for number in range(60):
        image = bytearray(content[: dice.randrange(200, len(content))] if number % 3 == 0 else content)
        for _ in range(n_flips):
            image[dice.randrange(16, len(image))] ^= 1 << dice.randrange(8)
        path = put(tmp_path, bytes(image), "damaged")
        try:
            entries = read(path, format="qortex-db")
        except UnreadableSource:
            continue
        assert len(rows_of(entries)) <= 300
