"""Damage: unreadable values and broken references, in the full file or in one second's part of it.

It is reported as differences, for every error of the read: a wrong page shows as a wrong type, a missing key or an
invalid text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec
from sqlalchemy import Column, Float, Integer, LargeBinary, Table, Text

from core.errors import ArmscopeError, StoreDamaged, StoreUnusable
from core.records.verification import Difference
from core.store.engine.file_faults import head_of, lost_acts
from core.store.tables import metadata
from core.store.transaction import Snapshot

UNREADABLE: Final = (
    sqlite3.Error,
    msgspec.MsgspecError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Errors that reading damaged bytes can raise."""

_TABLES: Final = tuple(metadata.sorted_tables)
"""Sorted once: sorting each time takes as long as checking a small table."""
_WHOLE_FILE_BYTES: Final = 64 << 20
"""Up to this size every page of a file is checked, in less than half a second."""
_LATEST_RUNS: Final = 1_000
_SMALL: Final = ("learner", "arm", "posterior", "setting", "import", "reset", "reset_arm", "alembic_version")
_TYPES: Final = {Text: ("text",), Integer: ("integer",), Float: ("real", "integer"), LargeBinary: ("blob",)}


_HEAD: Final = (
    (0, 16, (b"SQLite format 3\0",)),
    (18, 20, (b"\2\2", b"\1\1")),
    (20, 24, (b"\0\x40\x20\x20",)),
    (44, 48, (b"\0\0\0\4",)),
    (48, 56, (bytes(8),)),
    (56, 60, (b"\0\0\0\1",)),
    (60, 92, (bytes(32),)),
)
"""Constant bytes at the beginning of our files, with their positions (SQLite file format, section 1.3)."""

_WITH_ROWS: Final = " UNION ALL ".join(
    f"SELECT '{table.name}' WHERE EXISTS (SELECT 1 FROM \"{table.name}\")" for table in _TABLES
)

_TO_COME: Final = (
    " AND NOT EXISTS (SELECT 1 FROM staged_arm s WHERE s.learner_id = c.learner_id AND s.arm_no = c.arm_no)"
)
"""Except arms of an import in progress."""

_COMPACTED: Final = " AND NOT EXISTS (SELECT 1 FROM compaction s WHERE s.learner_id = c.learner_id)"
"""Except closed offers of runs that were compacted."""


def words_of(difference: Difference) -> str:
    """A difference in a few words."""
    return f"{difference.table}, {difference.key}: {difference.stored} instead of {difference.recomputed}"


def guarded(table: str, checked: Iterator[Difference]) -> Iterator[Difference]:
    """Yield a check's differences; an error of the check becomes a difference too, and ends it."""
    try:
        yield from checked
    except (*UNREADABLE, StoreUnusable) as problem:
        if isinstance(problem, StoreDamaged):
            raise
        reason = (
            problem.problem if isinstance(problem, ArmscopeError) else f"{type(problem).__name__}: {problem}"
        )
        yield Difference(table, "what is stored", f"can't be read ({reason})", "rows that fit together")


def damage(snapshot: Snapshot) -> Iterator[Difference]:
    """Yield all damage of the file, of every learner."""
    is_file = not snapshot.connection.looks_after_itself
    if is_file:
        yield from guarded("file", _headed(snapshot))
        yield from guarded("file", _lost(snapshot))
        yield from guarded("file", _broken(snapshot, ""))
        yield from guarded("file", _orphaned(snapshot))
    yield from guarded("file", _missing_tables(snapshot))
    for table in _tables_with_rows(snapshot) if is_file else _TABLES:
        if is_file:
            yield from guarded(table.name, _mistyped(snapshot, table))
            yield from guarded(table.name, _no_text(snapshot, table))
        yield from guarded(table.name, _dangling(snapshot, table))


def quick_check(snapshot: Snapshot) -> Iterator[Difference]:
    """Yield as much damage as one second finds, of one learner and only of a file."""
    yield from guarded("file", _headed(snapshot))
    yield from guarded("file", _missing_tables(snapshot))
    if snapshot.connection.size() <= _WHOLE_FILE_BYTES:
        yield from guarded("file", _broken(snapshot, ""))
        yield from guarded("file", _orphaned(snapshot))
    else:
        yield from chain.from_iterable(guarded(table, _broken(snapshot, f"('{table}')")) for table in _SMALL)
    yield from guarded("arm", _rows_of(snapshot))


def _headed(snapshot: Snapshot) -> Iterator[Difference]:
    """Yield damage of the file's first bytes, of which SQLite ignores some, or checks them only on a write."""
    head = head_of(_file(snapshot))
    is_new = head[28:32] == b"\0\0\0\1" and head[40:60] == bytes(
        20
    )  # one page: all there is lies in the log yet
    for start, end, allowed in _HEAD:
        if head[start:end] not in allowed and not (is_new and 40 <= start < 60):
            yield Difference("file", f"bytes {start} to {end}", head[start:end].hex(), allowed[0].hex())
    if head[24:28] != head[92:96]:
        yield Difference("file", "bytes 92 to 96", head[92:96].hex(), head[24:28].hex())


def _file(snapshot: Snapshot) -> str:
    return next(
        str(file) for _, name, file in snapshot.connection.rows("PRAGMA database_list") if name == "main"
    )


def _lost(snapshot: Snapshot) -> Iterator[Difference]:
    if n_lost := lost_acts(Path(f"{_file(snapshot)}-wal")):
        yield Difference("file", "log", f"{n_lost} acts behind a damaged place", "acts that can be read")


def _broken(snapshot: Snapshot, part: str) -> Iterator[Difference]:
    for (finding,) in snapshot.connection.rows(f"PRAGMA integrity_check{part}"):
        if finding != "ok":
            yield Difference("file", "integrity_check", finding, "ok")


def _orphaned(snapshot: Snapshot) -> Iterator[Difference]:
    for table, row, parent, _ in snapshot.connection.rows("PRAGMA foreign_key_check"):
        yield Difference(table, str(row), "a missing parent", parent)


def _missing_tables(snapshot: Snapshot) -> Iterator[Difference]:
    for name in sorted(metadata.tables.keys() - snapshot.connection.tables()):
        yield Difference(name, "the table", "nothing", "a table")


def _tables_with_rows(snapshot: Snapshot) -> tuple[Table, ...]:
    """Return the tables with rows; all tables where one is unreadable.

    Most tables of a small file are empty. Preparing four queries for each takes longer than running them.
    """
    try:
        named = {str(name) for (name,) in snapshot.connection.rows(_WITH_ROWS)}
    except UNREADABLE:
        return _TABLES
    return tuple(table for table in _TABLES if table.name in named)


def _mistyped(snapshot: Snapshot, table: Table) -> Iterator[Difference]:
    """Yield values of another type than their column: SQLite stores any type."""
    for (n_rows,) in snapshot.connection.rows(
        f'SELECT count(*) FROM "{table.name}" WHERE {_is_mistyped(table)}'
    ):
        if n_rows:
            yield Difference(
                table.name, "values", f"{n_rows} rows of a wrong type", "values of their column's type"
            )


@cache
def _is_mistyped(table: Table) -> str:
    return " OR ".join(f'typeof("{column.name}") NOT IN ({_types_of(column)})' for column in table.columns)


def _types_of(column: Column[Any]) -> str:
    names = [name for known, types in _TYPES.items() if isinstance(column.type, known) for name in types]
    return ", ".join(f"'{name}'" for name in (*names, *(["null"] if column.nullable else [])))


def _no_text(snapshot: Snapshot, table: Table) -> Iterator[Difference]:
    """Texts that are no UTF-8: reading them is what finds them. The check of the chain reads transcripts."""
    if columns := _texts_of(table):
        for _ in snapshot.connection.each(f'SELECT {columns} FROM "{table.name}"'):
            pass
    yield from ()


@cache
def _texts_of(table: Table) -> str:
    return ", ".join(
        f'"{column.name}"'
        for column in table.columns
        if isinstance(column.type, Text) and table.name != "run_text"
    )


def _dangling(snapshot: Snapshot, table: Table) -> Iterator[Difference]:
    """Rows about a run or an arm that there isn't: the tables with the most rows name no parents."""
    for parent in ("run", "arm"):
        key = f"{parent}_no"
        if table.name == parent or key not in table.columns:
            continue
        exempt = _TO_COME if parent == "arm" else _COMPACTED if table.name == "offer" else ""
        for learner_id, number in snapshot.connection.rows(
            f'SELECT c.learner_id, c.{key} FROM "{table.name}" c LEFT JOIN {parent} p'
            f" ON p.learner_id = c.learner_id AND p.{key} = c.{key}"
            f" WHERE c.{key} <> 0 AND p.{key} IS NULL{exempt} LIMIT 100"
        ):
            yield Difference(table.name, f"learner {learner_id}", f"{parent} {number}", "one that there is")


def _rows_of(snapshot: Snapshot) -> Iterator[Difference]:
    """Rows of a learner that don't fit together: arms without a belief, and what the latest runs refer to."""
    learner_key = [snapshot.learner_id]
    for name in ("arm", "posterior"):
        table = metadata.tables[name]
        snapshot.connection.rows(f'SELECT * FROM "{name}" WHERE learner_id = ?', learner_key)
        yield from _mistyped(snapshot, table)
        yield from _dangling(snapshot, table)
    for arm_no, key in snapshot.connection.rows(
        "SELECT a.arm_no, a.key FROM arm a LEFT JOIN posterior p ON p.learner_id = a.learner_id"
        " AND p.arm_no = a.arm_no WHERE a.learner_id = ? AND p.arm_no IS NULL",
        learner_key,
    ):
        yield Difference("posterior", f"arm {arm_no}", "nothing", f"a belief in {key!r}")
    latest = (
        f"SELECT run_no FROM run WHERE learner_id = ? ORDER BY learner_id, run_no DESC LIMIT {_LATEST_RUNS}"
    )
    snapshot.connection.rows(
        f"SELECT * FROM run WHERE learner_id = ? AND run_no IN ({latest})", learner_key * 2
    )
    for run_no, arm_no in snapshot.connection.rows(
        "SELECT c.run_no, c.arm_no FROM outcome c LEFT JOIN arm a ON a.learner_id = c.learner_id"
        f" AND a.arm_no = c.arm_no WHERE c.learner_id = ? AND c.run_no IN ({latest}) AND a.arm_no IS NULL{_TO_COME}",
        learner_key * 2,
    ):
        yield Difference("outcome", f"run {run_no}", f"arm {arm_no}", "one that there is")
