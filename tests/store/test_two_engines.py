"""Every statement of the store, asked of SQLite once, is prepared on a real PostgreSQL; none can be forgotten."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.pq import ExecStatus
from sqlalchemy import BigInteger, Engine, create_engine, inspect
from sqlalchemy.pool import NullPool

from core.store.engine import dialect
from core.store.tables import metadata
from core.store.text_index import DEFINITIONS, NAME
from tests.store.said import Said, Statement, numbered, places_in_the_sources, sources

SQLITES_OWN = {
    "core/store/damage.py:_broken": "PRAGMA integrity_check: the pages of its file",
    "core/store/damage.py:_file": "PRAGMA database_list: where its file lies",
    "core/store/damage.py:_mistyped": "typeof: nobody else stores what isn't of the column's type",
    "core/store/damage.py:_orphaned": "PRAGMA foreign_key_check: others never let it happen",
}
"""What only SQLite is asked: it is about its file. Another engine has other ways to be broken."""

TYPES: dict[type | None, int] = {int: 20, float: 701, bytes: 17, bool: 16, str: 0, None: 0}
"""As what values are sent: numbers always as int8 and float8; what a text or a NULL is, the statement says."""


pytestmark = pytest.mark.own_engines

_PLAIN = {"ACTIVE", "OF_TRIAL", "PRESENT"}
"""Conditions in plain SQL, the same on every engine."""
MARKS = {
    name: mark
    for name, mark in vars(dialect).items()
    if isinstance(mark, str) and name.isupper() and name not in _PLAIN
}


@pytest.fixture(scope="module")
def tables(postgres: str) -> Iterator[Engine]:
    """A PostgreSQL with our tables in a schema of their own."""
    schema = f"armscope_test_{os.getpid()}"
    with psycopg.connect(postgres, autocommit=True) as driver:
        driver.execute(f'CREATE SCHEMA "{schema}"'.encode())
    engine = create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(postgres, options=f"-c search_path={schema}"),
        poolclass=NullPool,
    )
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num text NOT NULL)")
        for statement in DEFINITIONS["postgresql"]:
            connection.exec_driver_sql(statement)
    yield engine
    with psycopg.connect(postgres, autocommit=True) as driver:
        driver.execute(f'DROP SCHEMA "{schema}" CASCADE'.encode())


def prepared(driver: psycopg.Connection[Any], one: Statement) -> str:
    """What PostgreSQL says against a statement; '' where it knows what to do."""
    sql = numbered(dialect.speaker(dialect.POSTGRESQL)(one.sql))
    answer = driver.pgconn.prepare(b"", sql.encode(), [TYPES[kind] for kind in one.kinds])
    if answer.status == ExecStatus.COMMAND_OK:
        return ""
    return f"{answer.get_error_message()}\n  said by {', '.join(sorted(one.by))}: {one.sql}"


def faults(said: Said, engine: Engine) -> dict[str, str]:
    """By who says it, as ``file:function``, what is wrong with a statement."""
    found: dict[str, str] = {}
    with engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        driver.autocommit = True
        for one in said.statements.values():
            fault = prepared(driver, one) or unnamed(one.sql) or truth(one)
            found.update(dict.fromkeys(one.by if fault else (), fault))
    return found


def unnamed(sql: str) -> str:
    """Rows that are written without the names of their columns go wrong with the first column more."""
    bare = re.match(r"INSERT INTO \S+ (?!\()", sql)
    return f"The columns must be named: {sql}" if bare else ""


def truth(one: Statement) -> str:
    """Columns are numbers and texts, and PostgreSQL takes neither for a truth value."""
    return f"Truth must be said as a number, got a bool: {one.sql}" if bool in one.kinds else ""


def test_postgresql_understands_all_that_the_store_says(said: Said, tables: Engine) -> None:
    found = faults(said, tables)
    assert "\n".join(fault for by, fault in found.items() if by not in SQLITES_OWN) == ""
    assert SQLITES_OWN.keys() - found.keys() == set(), "nothing is wrong with these"


def test_all_that_the_sources_say_was_said(said: Said) -> None:
    """Or a statement would not have been looked at: let `tests.store.everything` ask it."""
    there = places_in_the_sources()
    assert [at for place, at in there.items() if place not in said.places] == []
    assert said.places <= there.keys(), "somebody speaks to a link under another name"
    assert len(there) > 200


def test_nothing_is_said_past_the_link() -> None:
    """Only the engines have a driver in hand."""
    past = {
        f"{file}:{node.lineno}"
        for file, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in {"execute", "executemany", "executescript"}
    }
    assert past == set()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT group_concat(arm_no) FROM arm",
        "SELECT max(epoch, 0) FROM posterior",
        "SELECT 1 FROM arm WHERE 1",
        "SELECT key, count(*) FROM arm GROUP BY type",
        "SELECT 1 FROM observation INDEXED BY ix_observation_run",
        "SELECT 1 FROM run r CROSS JOIN outcome o ON o.run_no = r.run_no",
        "INSERT INTO reset_arm VALUES (?, ?, ?)",
        "INSERT INTO reset_arm (learner_id, reset_no, arm_no) VALUES (?, ?, ?)"
        " ON CONFLICT (learner_id, reset_no, arm_no) DO UPDATE SET arm_no = arm_no + 1",
        "INSERT OR IGNORE INTO reset_arm (learner_id, reset_no, arm_no) VALUES (?, ?, ?)",
        "SELECT ifnull(label, '') FROM arm",
        "SELECT sum(flags & 1 <> 0) FROM outcome",
    ],
)
def test_what_only_sqlite_understands_is_found(tables: Engine, sql: str) -> None:
    said = Said()
    said.statements[sql] = Statement(sql, (int,) * sql.count("?"), {"core/store/runs.py:anybody"})
    assert faults(said, tables).keys() == {"core/store/runs.py:anybody"}


def test_the_tables_are_there_with_numbers_as_large_as_ours(tables: Engine) -> None:
    there = inspect(tables)
    assert {*there.get_table_names()} == {*metadata.tables, NAME, "alembic_version"}
    for table in metadata.sorted_tables:
        types = {one["name"]: one["type"] for one in there.get_columns(table.name)}
        assert types.keys() == {*table.columns.keys()}
        for column in table.columns:
            if isinstance(column.type, BigInteger):
                assert isinstance(types[column.name], BigInteger), f"{table.name}.{column.name}"


def test_every_word_has_its_mark_and_every_engine_says_it(said: Said) -> None:
    hints = {mark for mark in MARKS.values() if mark.startswith("{INDEXED BY ")}
    assert dialect.SQLITE.by_mark.keys() == dialect.POSTGRESQL.by_mark.keys() == {*MARKS.values()} - hints
    for engine in (dialect.SQLITE, dialect.POSTGRESQL):
        speak = dialect.speaker(engine)
        assert speak(" ".join(dialect.SQLITE.by_mark)) == " ".join(
            engine.by_mark[mark] for mark in dialect.SQLITE.by_mark
        )
        assert [sql for sql in said.statements if re.search(r"\{\w", speak(sql))] == [], "no word for a mark"
    assert {dialect.speaker(dialect.SQLITE)(hint) for hint in hints} == {hint[1:-1] for hint in hints}
    assert {dialect.speaker(dialect.POSTGRESQL)(hint) for hint in hints} == {""}
    assert [name for name, mark in MARKS.items() if not any(mark in sql for sql in said.statements)] == []


def test_the_ways_that_sqlite_is_told_are_there() -> None:
    indexes = {index.name for table in metadata.tables.values() for index in table.indexes}
    said = [mark.strip("{}").split() for name, mark in MARKS.items() if name.startswith("BY_")]
    assert said
    assert all(way[:2] == ["INDEXED", "BY"] and way[2] in indexes for way in said)


def test_partial_indexes_are_partial_on_a_server(tables: Engine) -> None:
    """Their condition is told to a server only when they are made there."""
    partial = {
        str(index.name)
        for table in metadata.tables.values()
        for index in table.indexes
        if index.dialect_options["sqlite"]["where"] is not None
    }
    with tables.connect() as connection:
        sql = "SELECT indexrelid::regclass::text FROM pg_index WHERE indpred IS NOT NULL"
        made = {str(name).rpartition(".")[2] for (name,) in connection.exec_driver_sql(sql)}
    assert partial
    assert partial == {name for name in made if name.startswith(("ix_", "uq_"))}
