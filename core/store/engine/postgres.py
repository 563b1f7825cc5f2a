"""PostgreSQL engine: connections to a server, and their transactions.

Writers begin ``READ COMMITTED``. They wait for the learner's row, which a write updates first, so learners never wait
for each other. Readers begin ``REPEATABLE READ READ ONLY``. Advisory locks order only schema changes and imports in
parts. A lost connection clears its caches, and a rolled-back write is repeated.

A server is remote, so round trips are saved. A transaction begins together with its first statement. Changes of rows
are sent with the next query. Independent queries are sent together. No caller waits for the end of a read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import copy_context
from functools import lru_cache, partial
from itertools import chain, count, groupby, islice, repeat
from operator import itemgetter
from selectors import EVENT_READ, DefaultSelector
from threading import local
from typing import Any, Final, NoReturn
from weakref import WeakKeyDictionary, finalize

import numpy as np
import psycopg
from greenlet import getcurrent, greenlet
from psycopg import RawCursor
from psycopg.adapt import Dumper, Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.types.bool import BoolDumper, BoolLoader
from psycopg.types.numeric import Int8Dumper
from sqlalchemy import BigInteger, Float, Integer, LargeBinary, Text, create_engine
from sqlalchemy import Connection as Transacted
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoneFree
from sqlalchemy.pool import NullPool, PoolProxiedConnection, QueuePool

from core.errors import StoreError, StoreUnsure, StoreUnusable
from core.records.standing import Standing
from core.settings import Server
from core.store.engine import citus, port, words
from core.store.engine.port import PATIENCE_S, Distribution, Row, T
from core.store.engine.refused import (
    GOING,
    is_lost,
    is_of_another,
    is_passing,
    is_refused_for_now,
    translated,
)
from core.store.tables import metadata

OLDEST: Final = 15
"""The oldest PostgreSQL that is spoken to."""
_PAUSE_S: Final = 0.05
_LEAST_TIMEOUT_S: Final = 2
"""The driver's lower bound."""
_POOLED: Final = 4
_MOST: Final = 24
"""Connections that are kept for the next, and how many there may be."""
_AREA: Final = int.from_bytes(b"arms", "big")
_SCHEMA, _IMPORT = 1, 2
"""Our advisory locks: under which number, and what for."""
_WRITE: Final = b"BEGIN ISOLATION LEVEL READ COMMITTED"
_READ: Final = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_NUMBER: Final = b"SELECT pg_current_xact_id()::text"
_IS_TAKEN_BACK: Final = (
    b"SELECT pg_xact_status(told.number) = 'aborted' FROM (SELECT $1::text::xid8 AS number) told"
    b" WHERE told.number < pg_current_xact_id()"
)
"""Query for a transaction's number, and whether the transaction of a number was rolled back."""
_ROWS_FIRST: Final = 16
_ROWS_AT_ONCE: Final = 2_000
_VALUES_AT_ONCE: Final = 100_000
"""Rows that are asked for at first and later, and values that are sent, at a time."""
_ROWS_AHEAD: Final = 128
_ROWS_COPIED: Final = 2_048
"""From so many rows on they are copied, which the server is waited for. Fewer go as arrays, one statement however
many there are, and from so many on at once: the server writes them while we make what comes next.
"""
_CACHED_TEXTS: Final = 2_048
_MOST_WAITING: Final = 100
"""So many statements go in one round trip; more are not kept back."""

_STANDING: Final = b"""
SELECT pg_catalog.pg_is_in_recovery(),
    pg_catalog.current_setting('synchronous_standby_names') <> ''
        AND pg_catalog.current_setting('synchronous_commit') IN ('on', 'remote_apply', 'remote_write'),
    (SELECT count(*) FROM pg_catalog.pg_stat_replication WHERE coalesce(state, 'streaming') = 'streaming'),
    CASE WHEN NOT pg_catalog.pg_is_in_recovery()
        THEN (SELECT max(CASE WHEN replay_lsn = pg_catalog.pg_current_wal_lsn() THEN 0
            ELSE extract(epoch FROM replay_lag) END) FROM pg_catalog.pg_stat_replication)
    WHEN pg_catalog.pg_last_wal_receive_lsn() = pg_catalog.pg_last_wal_replay_lsn()
        AND EXISTS (SELECT 1 FROM pg_catalog.pg_stat_wal_receiver) THEN 0
    ELSE extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.pg_last_xact_replay_timestamp()) END::float8
"""
"""A standby that has replayed all it received, and goes on receiving, is level, however long nothing was written."""
_IDENTITY: Final = (
    b"SELECT system_identifier || '/' || pg_catalog.current_database() FROM pg_catalog.pg_control_system()"
)
_spoken: Final = words.speaker(words.POSTGRESQL)
logging.getLogger("psycopg").addHandler(logging.NullHandler())  # it raises for a lost connection, too


@lru_cache(maxsize=_CACHED_TEXTS)
def _translated(sql: str, kind: str = "") -> bytes:
    """A text with our marks as PostgreSQL reads it: numbered values, and for ``{}`` one array of a ``kind``.

    >>> _translated("SELECT 'why?' FROM arm WHERE key = ? AND arm_no NOT IN ({})", "bigint")
    b"SELECT 'why?' FROM arm WHERE key = $1 AND arm_no <> ALL($2::bigint[])"
    >>> _translated("SELECT 1 FROM run WHERE learner_id = ?1 AND uid = ? AND run_no IN (SELECT 2 WHERE x = ?1)")
    b'SELECT 1 FROM run WHERE learner_id = $1 AND uid = $2 AND run_no IN (SELECT 2 WHERE x = $1)'
    """
    spoken = _spoken(sql).replace("NOT IN ({})", "<> ALL({})").replace("IN ({})", "= ANY({})")
    numbers, listed = count(2 if "?1" in spoken else 1), 0
    parts = spoken.split("'")  # every second part is between quotes
    for index in range(0, len(parts), 2):
        pieces = parts[index].replace("{}", "?\0").split("?")
        numbered = [pieces[0]]
        for piece in pieces[1:]:
            if piece.startswith("1"):
                numbered += ("$", piece)
                continue
            if not piece.startswith("\0"):
                numbered += (f"${next(numbers)}", piece)
                continue
            listed = listed or next(numbers)
            numbered += (f"${listed}::{kind}[]", piece.removeprefix("\0"))
        parts[index] = "".join(numbered)
    return "'".join(parts).encode()


Query = tuple[bytes, Sequence[Any]]
"""A statement, and its values."""


class _Asker(greenlet):
    """One of several that ask together: it stops wherever it asks, until what the others ask is known, too."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.among = getcurrent()
        """Whoever brought them together."""
        super().__init__(work, self.among)
        self.gr_context = copy_context()


class Connection(port.Connection):
    """A driver connection inside one transaction."""

    looks_after_itself = True
    file = ()

    def __init__(
        self,
        driver: psycopg.Connection[Any],
        begin: bytes | None = None,
        *,
        renewed: Callable[[], psycopg.Connection[Any]] | None = None,
    ) -> None:
        """Open a transaction with ``begin``, which is sent with the first statement.

        Changes wait too, unless it is ``renewed``. Then it is for reading, and ``renewed`` returns a new connection
        in place of one that was lost before its first query.
        """
        self._driver = driver
        self._renewed = renewed
        self._names = count()
        self._most_waiting = 1 if begin is None or renewed is not None else _MOST_WAITING
        self._waiting: list[Query] = [] if begin is None else [(begin, ())]
        if begin == _WRITE:
            self._waiting.append((_NUMBER, ()))
        self._numbered: RawCursor[Any] | None = None
        self._under_way: ExitStack | None = None
        """What was sent ahead, until it is heard of."""

    def _ask(self, sql: bytes, values: Sequence[Any] = ()) -> RawCursor[Any]:
        """Execute a statement after all that waits, in one round trip."""
        (cursor,) = self._ask_all([(sql, values)])
        return cursor

    def _ask_all(self, queries: list[Query]) -> list[RawCursor[Any]]:
        """Send several queries together; inside `together` the coordinator sends them."""
        asker = getcurrent()
        if isinstance(asker, _Asker):
            cursors: list[RawCursor[Any]] = asker.among.switch(queries)
            return cursors
        while True:
            try:
                return self._send_all(queries)
            except psycopg.OperationalError as problem:
                if self._renewed is None or not is_lost(problem) or is_of_another(problem):
                    raise
                self._driver, self._waiting = self._renewed(), [(_READ, ())]

    def _send_all(self, queries: list[Query]) -> list[RawCursor[Any]]:
        if not self._waiting and self._under_way is None and len(queries) == 1:
            return [_executed(self._driver, *queries[0])]
        with self._heard():
            self._send()
            cursors = [_executed(self._driver, sql, values) for sql, values in queries]
        self._renewed = None  # from here on it is of one moment
        return cursors

    def together(self, *works: Callable[[], Any]) -> tuple[Any, ...]:
        askers = [_Asker(work) for work in works]
        try:
            return self._answered(askers)
        finally:
            for asker in askers:
                asker.throw()  # where one failed, the others wait for nothing

    def _answered(self, askers: list[_Asker]) -> tuple[Any, ...]:
        queries = [asker.switch() for asker in askers]
        while waiting := [index for index, asker in enumerate(askers) if not asker.dead]:
            cursors = iter(self._ask_all([one for index in waiting for one in queries[index]]))
            for index in waiting:
                queries[index] = askers[index].switch(list(islice(cursors, len(queries[index]))))
        return tuple(queries)

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for sql, values in waiting:
            cursor = _executed(self._driver, sql, values)
            if sql == _NUMBER:
                self._numbered = cursor

    def _later(self, sql: bytes, values: Sequence[Any]) -> None:
        self._waiting.append((sql, tuple(values)))
        if len(self._waiting) >= self._most_waiting:
            self.flush()

    def flush(self) -> None:
        """Execute what waits."""
        if self._waiting or self._under_way is not None:
            with self._heard():
                self._send()

    def _send_ahead(self) -> None:
        """Send what waits, and hear of it along with what is asked next: the server writes while we make more."""
        if self._waiting:
            self._under_way = self._heard()
            self._send()

    def _heard(self) -> ExitStack:
        """At its end all that was sent is heard of, ahead or within."""
        under_way, self._under_way = self._under_way, None
        if under_way is None:
            under_way = ExitStack()
            under_way.enter_context(self._driver.pipeline())
        return under_way

    @property
    def number(self) -> str | None:
        """The number of the transaction, once the server has reported it."""
        with suppress(psycopg.Error):
            row = None if self._numbered is None else self._numbered.fetchone()
            return None if row is None else str(row[0])
        return None

    def is_taken_back(self, number: str | None) -> bool:
        """Return whether the server confirms that a transaction left nothing; one server of a cluster can't."""
        if number is None or citus.is_distributed(self):
            return False
        row = self._ask(_IS_TAKEN_BACK, [number]).fetchone()
        return row is not None and bool(row[0])

    def commit(self) -> str | None:
        """Commit together with the waiting statements; return the server's reply."""
        return self._ask(b"COMMIT").statusmessage

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        return self._ask(_translated(sql), values).fetchall()

    def row(self, sql: str, values: Sequence[Any] = ()) -> Row | None:
        row: Row | None = self._ask(_translated(sql), values).fetchone()
        return row

    def each(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        """Yield rows of a server-side cursor, which ends with the transaction.

        The first few rows come with it, because a caller often needs no more.
        """
        name = f"armscope_{next(self._names)}".encode()
        _, few = self._ask_all(
            [
                (b"DECLARE %s NO SCROLL CURSOR FOR %s" % (name, _translated(sql)), values),
                (_fetch(name, _ROWS_FIRST), ()),
            ]
        )
        return self._fetched(name, few.fetchall())

    def _fetched(self, name: bytes, few: list[Row]) -> Iterator[Row]:
        rows, n_requested = few, _ROWS_FIRST
        while rows:
            yield from rows
            if len(rows) < n_requested:
                break
            n_requested = min(n_requested * _ROWS_FIRST, _ROWS_AT_ONCE)
            rows = self._ask(_fetch(name, n_requested)).fetchall()
        self._waiting.append((b"CLOSE %s" % name, ()))

    def columns(self, sql: str, values: Sequence[Any] = ()) -> list[list[Any]]:
        cursor = self._ask(_translated(sql), values)
        rows = cursor.fetchall()
        return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in cursor.description or ()]

    def rows_in(
        self, sql: str, head: Sequence[Any], values: Sequence[Any], tail: Sequence[Any] = ()
    ) -> list[Row]:
        if not values:
            return []
        kind = _kind_of(values)
        return self._ask(_translated(sql, kind), [*head, _array(kind, values), *tail]).fetchall()

    def run(self, sql: str, values: Sequence[Any] = ()) -> None:
        self._later(_translated(sql), values)

    def run_in(self, sql: str, head: Sequence[Any], values: Sequence[Any]) -> None:
        if values:
            kind = _kind_of(values)
            self._later(_translated(sql, kind), [*head, _array(kind, values)])

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        all_rows = iter(rows)
        few = list(islice(all_rows, _MOST_WAITING))
        if len(few) == _MOST_WAITING:
            self.n_changed(sql, chain(few, all_rows))
            return
        for values in few:
            self._later(_translated(sql), values)

    def n_changed(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        cursor = RawCursor(self._driver)
        with self._heard():
            self._send()
            cursor.executemany(_translated(sql), rows)
        return max(cursor.rowcount, 0)

    def insert(
        self, table: str, columns: Sequence[str], learner_id: int, values: Iterable[Any], *, upsert: str = ""
    ) -> None:
        """Copied where they are many and none can be there yet; else as one array a column."""
        flat, width, names = iter(values), len(columns), tuple(columns)
        parts = iter(lambda: list(islice(flat, max(_VALUES_AT_ONCE // width, 1) * width)), [])
        first = next(parts, [])
        if not upsert and len(first) >= _ROWS_COPIED * width:
            self._copy(table, names, learner_id, chain([first], parts))
            return
        kinds = _kinds(table, names)
        for part in chain(filter(None, [first]), parts):
            arrays = [_array(kind, part[index::width]) for index, kind in enumerate(kinds)]
            self._later(_insert_sql(table, names, kinds, upsert), [learner_id, *arrays])
            if len(part) >= _ROWS_AHEAD * width:
                self._send_ahead()

    def _copy(
        self, table: str, columns: tuple[str, ...], learner_id: int, parts: Iterator[list[Any]]
    ) -> None:
        """Insert rows of one form as one COPY: the server writes some while we make more."""
        copying = f"COPY {table} (learner_id, {_named(columns)}) FROM STDIN"
        self.flush()
        packed = (_copied_rows(table, columns, learner_id, part) for part in parts)
        for is_packed, group in groupby(packed, key=itemgetter(0)):
            form = " (FORMAT binary)" if is_packed else ""
            with RawCursor(self._driver) as cursor, cursor.copy(f"{copying}{form}".encode()) as copy:
                for rows in chain([_SIGNATURE] if is_packed else [], map(itemgetter(1), group)):
                    copy.write(rows)
                if is_packed:
                    copy.write(_END_OF_COPY)

    def amend(
        self, table: str, changes: Mapping[str, str], key: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        """As one array a value."""
        if not rows:
            return
        kinds = _kinds(table, (*changes, *key))
        turned = [*zip(*rows, strict=True)]
        (learner_id, *_) = turned.pop(len(changes))
        arrays = [_array(kind, column) for kind, column in zip(kinds, turned, strict=True)]
        self._later(_amend_sql(table, tuple(changes.items()), tuple(key)), [learner_id, *arrays])

    def go_on_numbering(self) -> None:
        self._ask(
            b"SELECT setval(pg_get_serial_sequence('learner_name', 'learner_id'),"
            b" coalesce(max(learner_id), 0) + 1, false) FROM learner_name"
        )

    def tables(self) -> frozenset[str]:
        rows = self._ask(b"SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema()")
        return frozenset(name for (name,) in rows)

    def servers(self) -> tuple[str, ...]:
        return citus.servers(self)

    def standing(self) -> Standing | None:
        (row,) = self._ask(_STANDING).fetchall()
        is_standby, synchronous, n_standbys, lag_s = row
        return Standing(
            role="standby" if is_standby else "primary",
            synchronous=None if is_standby else bool(synchronous),
            standbys=None if is_standby else int(n_standbys),
            lag_s=None if lag_s is None else max(float(lag_s), 0.0),
        )

    def identity(self) -> str | None:
        try:
            return str(self._ask(_IDENTITY).fetchall()[0][0])
        except psycopg.errors.InsufficientPrivilege:
            return None

    @property
    def is_shared_out(self) -> bool:
        known = _SHARED_OUT.get(self._driver)
        if known is None:
            known = _SHARED_OUT[self._driver] = citus.is_distributed(self)
        return known

    def size(self) -> int:
        if citus.is_distributed(self):
            return citus.size(self)
        ((size,),) = self._ask(
            b"SELECT pg_catalog.pg_database_size(pg_catalog.current_database())"
        ).fetchall()
        return int(size)


_SHARED_OUT: Final[WeakKeyDictionary[psycopg.Connection[Any], bool]] = WeakKeyDictionary()
"""Cache of each connection's server: every page asks."""


def _fetch(name: bytes, n_rows: int) -> bytes:
    return b"FETCH FORWARD %d FROM %s" % (n_rows, name)


def _executed(driver: psycopg.Connection[Any], sql: bytes, values: Sequence[Any]) -> RawCursor[Any]:
    """Execute without preparing: each cursor has another statement."""
    return RawCursor(driver).execute(sql, values, prepare=False if sql.startswith(b"FETCH ") else None)


def _named(columns: Sequence[str]) -> str:
    return ", ".join(columns)


@lru_cache(maxsize=256)
def _insert_sql(table: str, columns: tuple[str, ...], kinds: tuple[str, ...], upsert: str) -> bytes:
    arrays = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(kinds, 2))
    return (
        f"INSERT INTO {table} (learner_id, {_named(columns)})"
        f" SELECT $1, told.* FROM unnest({arrays}) AS told {_spoken(upsert)}"
    ).encode()


@lru_cache(maxsize=64)
def _amend_sql(table: str, changes: tuple[tuple[str, str], ...], key: tuple[str, ...]) -> bytes:
    """
    >>> _amend_sql("posterior", (("pulls", "pulls + ?"),), ("arm_no",)).decode()  # doctest: +NORMALIZE_WHITESPACE
    'UPDATE posterior SET pulls = pulls + told.v0 FROM unnest($2::bigint[], $3::bigint[]) AS told (v0, v1)
    WHERE learner_id = $1 AND arm_no = told.v1'
    """
    columns = tuple(name for name, _ in changes)
    values = [f"told.v{index}" for index in range(len(columns) + len(key))]
    changed = ", ".join(
        f"{name} = {_spoken(what).replace('?', value)}"
        for (name, what), value in zip(changes, values, strict=False)
    )
    where = " AND ".join(f"{name} = {value}" for name, value in zip(key, values[len(columns) :], strict=True))
    arrays = ", ".join(f"${index}::{kind}[]" for index, kind in enumerate(_kinds(table, (*columns, *key)), 2))
    names = ", ".join(value.removeprefix("told.") for value in values)
    return (
        f"UPDATE {table} SET {changed} FROM unnest({arrays}) AS told ({names}) WHERE learner_id = $1 AND {where}"
    ).encode()


_KINDS: Final = {
    BigInteger: "bigint",
    Integer: "bigint",
    Text: "text",
    Float: "float8",
    LargeBinary: "bytea",
}


@lru_cache(maxsize=256)
def _kinds(table: str, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return PostgreSQL's types of a table's columns."""
    types = [metadata.tables[table.strip('"')].columns[name.strip('"')].type for name in columns]
    return tuple(next(kind for known, kind in _KINDS.items() if isinstance(one, known)) for one in types)


def _kind_of(values: Sequence[Any]) -> str:
    """Return the type of a list of values, by its first."""
    if isinstance(values[0], str):
        return "text"
    return "bytea" if isinstance(values[0], bytes) else "bigint"


def _array(kind: str, values: Sequence[Any]) -> str:
    """Values as the text of an array.

    >>> _array("bigint", [1, None]), _array("bigint", [1, 2]), _array("text", ["a, b", ""])
    ('{1,NULL}', '{1, 2}', '{"a, b",""}')
    """
    if kind == "bigint" and set(map(type, values)) == _WHOLE:
        return f"{{{str([*values])[1:-1]}}}"
    return f"{{{','.join(map(_in_array[kind], values))}}}"


_WHOLE: Final = {int}
_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END_OF_COPY: Final = b"\xff\xff"


@lru_cache(maxsize=256)
def _whole(table: str, columns: tuple[str, ...]) -> np.dtype[Any] | None:
    """Return the binary COPY form of a table's row; None unless all its columns are whole numbers."""
    if set(_kinds(table, columns)) != {"bigint"}:
        return None
    fields = [("n", ">i2"), ("size", ">i4"), ("learner_id", ">i4")]
    for index in range(len(columns)):
        fields += ((f"size {index}", ">i4"), (f"value {index}", ">i8"))
    return np.dtype(fields)


def _packed(row: np.dtype[Any] | None, learner_id: int, part: list[Any]) -> bytes | None:
    """Whole numbers as rows of a binary copy, which takes neither side long; None where some are none."""
    if row is None or set(map(type, part)) != _WHOLE:
        return None
    width = len(row.names or ()) // 2 - 1
    try:
        values = np.array(part, dtype=np.int64).reshape(-1, width)
    except OverflowError:  # the server reports it
        return None
    rows = np.empty(len(values), dtype=row)
    rows["n"], rows["size"], rows["learner_id"] = width + 1, 4, learner_id
    for index in range(width):
        rows[f"size {index}"] = 8
        rows[f"value {index}"] = values[:, index]
    return rows.tobytes()


def _copied_rows(
    table: str, columns: tuple[str, ...], learner_id: int, part: list[Any]
) -> tuple[bool, bytes]:
    """Rows for a copy, and whether they are packed."""
    packed = _packed(_whole(table, columns), learner_id, part)
    return (False, _lines(_kinds(table, columns), learner_id, part)) if packed is None else (True, packed)


def _lines(kinds: Sequence[str], learner_id: int, part: list[Any]) -> bytes:
    """Rows as the lines of a copy."""
    width = len(kinds)
    fields = [_copied_column(kind, part[index::width]) for index, kind in enumerate(kinds)]
    own = repeat(str(learner_id), len(part) // width)
    return ("\n".join(map("\t".join, zip(own, *fields, strict=True))) + "\n").encode()


def _copied_column(kind: str, column: list[Any]) -> Iterable[str]:
    """A column as the texts of a copy; most texts hold nothing that would have to be written otherwise."""
    if kind == "bigint" and set(map(type, column)) == _WHOLE:
        return map(str, column)
    if kind == "text" and set(map(type, column)) == {str} and not _has_escapes("".join(column)):
        return column
    return map(_copied[kind], column)


def _has_escapes(value: str) -> bool:
    return "\\" in value or "\t" in value or "\n" in value or "\r" in value


def _number(value: int | float | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        _refuse_truth()
    return str(value)


def _copied_number(value: int | float | None) -> str:
    return "\\N" if value is None else _number(value)


def _quoted(value: str | None) -> str:
    if value is None:
        return "NULL"
    if "\\" in value or '"' in value:
        value = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{value}"'


_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def _copied_text(value: str | None) -> str:
    return "\\N" if value is None else value.translate(_ESCAPES)


def _in_array_bytes(value: bytes | None) -> str:
    return "NULL" if value is None else f'"\\\\x{value.hex()}"'


def _copied_bytes(value: bytes | None) -> str:
    return "\\N" if value is None else f"\\\\x{value.hex()}"


_in_array: Final[dict[str, Callable[[Any], str]]] = {
    "bigint": _number,
    "float8": _number,
    "text": _quoted,
    "bytea": _in_array_bytes,
}
_copied: Final[dict[str, Callable[[Any], str]]] = {
    "bigint": _copied_number,
    "float8": _copied_number,
    "text": _copied_text,
    "bytea": _copied_bytes,
}


class Database(port.Database):
    """One database of a PostgreSQL server.

    Raises `StoreUnusable` where the address can't be read or the server not be reached, or is too old.
    """

    location: Server

    def __init__(
        self, server: Server, *, lock_timeout_s: float = 60.0, patience_s: float = PATIENCE_S
    ) -> None:
        """``patience_s``: how long a write is tried again, and a connection waited for."""
        self.location = server
        self.remembered: dict[str, Any] = {}
        self.has_written = False
        self._held = local()
        """Of each thread what it imports by."""
        self._options = _read_address(server)
        settings = f"-c lock_timeout={round(lock_timeout_s * 1_000)} -c jit=off -c timezone=UTC"
        self._options["options"] = f"{self._options.get('options') or ''} {settings}".strip()
        for name, value in _usual(self._options, patience_s).items():
            self._options.setdefault(name, value)
        self._patience_s = patience_s
        self._connected = partial(_connected, server, self._options, patience_s)
        self._pool = QueuePool(
            self._connected,  # type: ignore[arg-type]
            pool_size=_POOLED,
            max_overflow=_MOST - _POOLED,
            timeout=patience_s,
            use_lifo=True,
            reset_on_return=None,
        )
        finalize(self, self._pool.dispose)  # for who only forgets it

    def write(
        self,
        work: Callable[[port.Connection], T],
        has_landed: Callable[[port.Connection, T], bool | None] | None = None,
    ) -> T:
        """Again, within ten seconds, where the server took it back or the connection was lost before the end."""
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                return self._written(work, is_checked=has_landed is not None)
            except _LostAtEnd as lost:
                self.remembered.clear()
                if has_landed is None:
                    raise _unsure(self.location) from lost.problem
                if self._stands(has_landed, lost, deadline):
                    answer: T = lost.answer
                    return answer
                if time.monotonic() > deadline:
                    with translated(self.location, "write"):
                        raise lost.problem from None
            except psycopg.Error as problem:
                self.remembered.clear()
                if not is_passing(problem) or time.monotonic() > deadline:
                    with translated(self.location, "write"):
                        raise
            time.sleep(_PAUSE_S)

    def _written(self, work: Callable[[Connection], T], *, is_checked: bool = True) -> T:
        """``is_checked``: whether it can be found out if it landed; else as little as may be goes with its end."""
        with translated(self.location, "write", unless=is_passing), self._lent() as loan:
            connection = Connection(loan.driver, _WRITE)
            answer = work(connection)
            self._check_held()
            if not is_checked:
                connection.flush()
            try:
                self.has_written = True
                _commit(connection, loan.driver, self.location)
            except psycopg.Error as problem:
                if is_lost(problem):
                    raise _LostAtEnd(answer, connection.number, problem) from problem
                raise
        return answer

    def _stands(
        self, has_landed: Callable[[port.Connection, T], bool | None], lost: _LostAtEnd, deadline: float
    ) -> bool:
        """Return whether a write whose reply was lost has succeeded.

        A write asks, because on a server with a synchronous standby an acknowledged write proves all earlier ones. An
        error of that write says nothing about the first.
        """

        def ask(connection: Connection) -> bool | None:
            stands = has_landed(
                connection, lost.answer
            )  # which waits for its end, if the server is not so far
            if stands is not False and connection.is_taken_back(lost.number):
                return False  # another writer recorded the same at the same time
            return stands

        while True:
            try:
                stands = self._written(ask)
            except (_LostAtEnd, psycopg.Error, StoreError) as problem:
                if time.monotonic() > deadline:
                    raise _unsure(self.location) from problem
                time.sleep(_PAUSE_S)
                continue
            if stands is None:
                raise _unsure(self.location)
            return stands

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with translated(self.location, "read"), self._lent() as loan:
            yield Connection(loan.driver, _READ, renewed=loan.renew)

    @contextmanager
    def _lent(self) -> Iterator[_Loan]:
        """Yield a connection of the pool; uncommitted work is rolled back."""
        loan = _Loan(self._pool, self.remembered)
        try:
            yield loan
        finally:
            loan.end()

    @contextmanager
    def importing(self, waiting: Callable[[], None] | None) -> Iterator[None]:
        with translated(self.location, "write"):
            driver = self._connected()
        lock = Connection(driver)
        try:
            with translated(self.location, "write"):
                row = lock.row("SELECT pg_try_advisory_lock(?::int, ?::int)", [_AREA, _IMPORT])
                if row is not None and not row[0]:
                    if waiting is not None:
                        waiting()
                    lock.run("SET lock_timeout = 0")
                    lock.rows("SELECT pg_advisory_lock(?::int, ?::int)", [_AREA, _IMPORT])
            self._held.by = lock
            yield
        finally:
            self._held.by = None
            driver.close()

    def _check_held(self) -> None:
        """Refuse further writes of an importer whose lock may be lost: the lock ends with its connection."""
        lock: Connection | None = getattr(self._held, "by", None)
        if lock is None:
            return
        try:
            lock.rows("SELECT 1")
        except psycopg.Error as problem:
            raise StoreUnusable(
                f"The connection to {self.location} that kept other imports waiting was lost; this one is void.",
                next_step="Import it again.",
            ) from problem

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the one that makes the schema or changes it."""
        with translated(self.location, "write"), self._lent() as loan:
            Connection(loan.driver, _WRITE).rows(
                "SELECT pg_advisory_xact_lock(?::int, ?::int)", [_AREA, _SCHEMA]
            )
            yield

    making = locked

    def tables(self) -> frozenset[str]:
        with self.reading() as connection:
            return connection.tables()

    @contextmanager
    def migrating(self) -> Iterator[tuple[Transacted, Connection]]:
        """One transaction; what it leaves is sorted as on every other engine."""
        engine = create_engine("postgresql+psycopg://", creator=self._connected_plainly, poolclass=NullPool)
        with translated(self.location, "write"), _unwrapped(), engine.begin() as transacted:
            driver = transacted.connection.driver_connection
            assert isinstance(driver, psycopg.Connection)  # noqa: S101 - narrows the pool's Any
            connection = Connection(driver)
            with citus.keeping_distributed(connection):
                yield transacted, connection
            _collate(connection)

    def is_due(self, now_ms: int | None) -> bool:  # noqa: ARG002
        return False  # it has checksums of its own, which its operator watches

    def was_looked_over(self, now_ms: int | None) -> None:
        """Do nothing: a server is not checked by us."""

    def scour(self) -> bool:
        """Remove what is erased from the server's tables; its log of writes and its own backups are out of reach."""
        with translated(self.location, "write"), self._lent() as loan:
            for table in sorted(metadata.tables):
                RawCursor(loan.driver).execute(f'VACUUM "{table}"'.encode(), prepare=False)
        return True

    def settle(self) -> None:
        """Count the tables, so that the server knows which way to take to few rows of many."""
        with translated(self.location, "write"), self._lent() as loan:
            RawCursor(loan.driver).execute(b"ANALYZE", prepare=False)

    def distribute(self) -> Distribution:
        with self.migrating() as (_, connection):
            return citus.distribute(connection, self.location)

    def apart(self, learner_ids: Sequence[int]) -> Sequence[Sequence[int]]:
        with self.reading() as connection:
            return citus.apart(connection, learner_ids)

    def close(self) -> None:
        self._pool.dispose()

    def _connected_plainly(self) -> psycopg.Connection[Any]:
        """As SQLAlchemy has them: a statement begins a transaction."""
        driver = self._connected()
        driver.autocommit = False
        driver.adapters.register_dumper(bool, BoolDumper)
        driver.adapters.register_loader("bool", BoolLoader)
        return driver


def _connected(location: Server, options: dict[str, Any], patience_s: float) -> psycopg.Connection[Any]:
    """A new connection; while the server has none to give, or starts, it is waited for."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            driver = psycopg.connect(**options, autocommit=True)
        except psycopg.OperationalError as problem:
            if not is_refused_for_now(problem) or time.monotonic() > deadline:
                raise problem.with_traceback(None) from None  # the driver's own frames hold the password
            time.sleep(_PAUSE_S)
        else:
            _prepare(driver, location)
            return driver


def _prepare(driver: psycopg.Connection[Any], location: Server) -> None:
    """Numbers go as int8 and come as int, truth comes as a number; what is committed is on disk."""
    version = driver.info.server_version
    if version < OLDEST * 10_000:
        driver.close()
        raise StoreUnusable(
            f"{location} is kept by PostgreSQL {version // 10_000}, and armscope needs {OLDEST} or newer.",
            next_step="Upgrade the server, or name another database with --database.",
        )
    driver.adapters.register_dumper(int, Int8Dumper)
    driver.adapters.register_dumper(bool, _NoTruth)
    driver.adapters.register_loader("numeric", _Whole)
    driver.adapters.register_loader("bool", _Truth)
    row = RawCursor(driver).execute(b"SHOW synchronous_commit", prepare=False).fetchone()
    if row is not None and row[0] == "off":
        RawCursor(driver).execute(b"SET synchronous_commit = on", prepare=False)


class _Loan:
    """A connection of the pool in use; uncommitted work is rolled back at its end."""

    def __init__(self, pool: QueuePool, remembered: dict[str, Any]) -> None:
        self._pool = pool
        self._remembered = remembered
        self._lend()

    def _lend(self) -> None:
        try:
            self._lent: PoolProxiedConnection = self._pool.connect()
        except NoneFree as problem:
            raise psycopg.errors.TooManyConnections from problem
        driver = self._lent.driver_connection
        assert isinstance(driver, psycopg.Connection)  # noqa: S101 - narrows the pool's Any
        self.driver: psycopg.Connection[Any] = driver
        if not _has_ended(driver):
            self.renew()

    def renew(self) -> psycopg.Connection[Any]:
        """Replace a connection that was lost while unused; its caches are cleared."""
        self._lent.invalidate()
        self._lent.close()
        self._remembered.clear()  # the next is another's, or a new one, which says why it can't be had
        self._lend()
        return self.driver

    def end(self) -> None:
        _end(self.driver)
        if self.driver.closed:
            self._lent.invalidate()
        self._lent.close()


class _LostAtEnd(Exception):
    """The connection was lost with ``problem`` during the COMMIT of ``answer``, in the transaction of that number."""

    def __init__(self, answer: Any, number: str | None, problem: psycopg.Error) -> None:  # noqa: ANN401
        super().__init__()
        self.answer = answer
        self.number = number
        self.problem = problem


def _commit(connection: Connection, driver: psycopg.Connection[Any], location: Server) -> None:
    """Commit; a warning means that a standby was not waited for, or that the server is stopping.

    Then its reply is not trusted, and the write is checked.
    """
    warnings: list[tuple[str, str]] = []

    def heard(notice: psycopg.errors.Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":
            warnings.append((notice.sqlstate or "", notice.message_primary or ""))

    driver.add_notice_handler(heard)
    try:
        ended = connection.commit()
    finally:
        driver.remove_notice_handler(heard)
    if warnings and all(state.startswith(GOING) for state, _ in warnings):
        raise psycopg.errors.CrashShutdown
    if warnings or ended != "COMMIT":
        raise _unsure(location, "; ".join(words for _, words in warnings))


def _end(driver: psycopg.Connection[Any]) -> None:
    """Take back what is not committed, without waiting to hear that it is; a connection that can't is closed.

    So is one on which a statement failed: what went along after it was not looked at by the server, and the driver
    may take statements for prepared there that are not, and would ask by their names for ever.
    """
    status = driver.info.transaction_status
    if status == TransactionStatus.IDLE:
        return
    if status == TransactionStatus.INTRANS:
        with suppress(psycopg.Error):
            driver.pgconn.send_query(b"ROLLBACK")
            if driver.pgconn.flush() == 0:
                return
    driver.close()


def _has_ended(driver: psycopg.Connection[Any]) -> bool:
    """Hear that what was read on it has ended; False where it was lost meanwhile."""
    connection = driver.pgconn
    with suppress(psycopg.Error):
        while connection.transaction_status == TransactionStatus.ACTIVE:
            connection.consume_input()
            while connection.is_busy():
                _wait_for(connection.socket)
                connection.consume_input()
            connection.get_result()
    return connection.transaction_status == TransactionStatus.IDLE


def _wait_for(socket: int) -> None:
    with DefaultSelector() as selector:
        selector.register(socket, EVENT_READ)
        selector.select()


@contextmanager
def _unwrapped() -> Iterator[None]:
    """Hand the driver's own error on, so that it is translated like everywhere else."""
    try:
        yield
    except DBAPIError as problem:
        if isinstance(problem.orig, psycopg.Error):
            raise problem.orig from problem
        raise


def _collate(connection: Connection) -> None:
    """Sort texts by their bytes, in a database of any language."""
    others = connection.rows(
        "SELECT c.table_name, string_agg(format('ALTER COLUMN %I TYPE text COLLATE \"C\"', c.column_name), ', ')"
        " FROM information_schema.columns c JOIN information_schema.tables t ON t.table_schema = c.table_schema"
        " AND t.table_name = c.table_name AND t.table_type = 'BASE TABLE'"
        " WHERE c.table_schema = current_schema() AND c.data_type = 'text'"
        " AND c.collation_name IS DISTINCT FROM 'C' GROUP BY c.table_name"
    )
    for table, changes in others:
        connection.run(f'ALTER TABLE "{table}" {changes}')


def _read_address(server: Server) -> dict[str, Any]:
    try:
        parts = conninfo_to_dict(server.url)
    except psycopg.Error:  # its words would show the password
        raise StoreUnusable(
            f"The address of {server.name} can't be read.",
            next_step="Write it as postgresql://USER@HOST:PORT/DATABASE.",
        ) from None
    return _Address({name: value for name, value in parts.items() if value is not None})


def _usual(named: Mapping[str, Any], patience_s: float) -> dict[str, Any]:
    """Return the driver's default options, which the address can override.

    All named servers can be tried within the time limit. A vanished machine is noticed in half of it; the system's
    own default is hours.
    """
    n_servers = str(named.get("host", "")).count(",") + 1
    seconds = max(round(patience_s / 2), _LEAST_TIMEOUT_S)
    return {
        "application_name": "armscope",
        "connect_timeout": max(round(patience_s / n_servers), _LEAST_TIMEOUT_S),
        "keepalives_idle": max(seconds // 2, 1),
        "keepalives_interval": 1,
        "keepalives_count": max(seconds // 2, 1),
        "tcp_user_timeout": seconds * 1_000,
    }


class _Address(dict[str, Any]):
    """Options of the driver, whose text and traceback show no password."""

    def __repr__(self) -> str:
        return "an address"


def _unsure(location: Server, warned: str = "") -> StoreUnsure:
    """Return the error for an unconfirmed commit; ``warned`` is the server's warning."""
    why = f"the server warned: {warned}" if warned else "the server did not say so to the end"
    return StoreUnsure(
        f"Whether {location} kept it is unknown: {why}.",
        next_step="Send it again, with the same id or key: it counts once.",
    )


def _refuse_truth() -> NoReturn:
    raise TypeError("A boolean must be sent as a number, got a bool")


class _NoTruth(Dumper):
    """Refuses booleans: our columns are numbers and texts."""

    def dump(self, obj: object) -> NoReturn:  # noqa: ARG002
        _refuse_truth()


class _Whole(Loader):
    """A sum of whole numbers, which the server makes a decimal."""

    def load(self, data: Any) -> int | float:  # noqa: ANN401 - a buffer, whichever the driver has
        text = bytes(data)
        return float(text) if b"." in text else int(text)


class _Truth(Loader):
    """Truth as a number."""

    def load(self, data: Any) -> int:  # noqa: ANN401 - a buffer, whichever the driver has
        return int(bytes(data) == b"t")
