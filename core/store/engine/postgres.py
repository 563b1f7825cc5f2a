"""PostgreSQL engine: connections to a server, and their transactions.

Writers begin ``READ COMMITTED``. They wait for the learner's row, which a write updates first, so learners never wait
for each other. Readers begin ``REPEATABLE READ READ ONLY``. Advisory locks order only schema changes and imports in
parts. A lost connection clears its caches, and a rolled-back write is repeated.

**Round trips.** A server is remote, so each trip adds the network's delay. Statements that only change rows wait in
``_waiting``. The next query, or COMMIT, sends them in one pipeline of psycopg: many statements, one trip. BEGIN goes
with the first statement. `Connection._send_ahead` opens a pipeline early, so the server writes while we prepare more.

**Queries together.** `Connection.together` runs each work in a greenlet, a function that can pause. A work pauses at
its query and hands it over. When every work is paused or finished, one pipeline sends the queries, and each work
continues with its cursor. So works of three queries each cost three trips in all, and are written as plain code.

**Many rows** go as one array per column (``unnest``), or as COPY from `_ROWS_COPIED` rows on.

**A lost COMMIT.** If the reply is lost, `Database._has_landed` looks for the write in a second transaction.

**A pooler** in transaction mode (PgBouncer) gives each transaction any of its server connections. So through one,
nothing is prepared, settings go with BEGIN, and an advisory lock belongs to a transaction. A transaction that waits
would keep a server connection that others need, so we ask for such a lock again and again.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import copy_context
from functools import lru_cache
from itertools import chain, count, groupby, islice, repeat
from operator import itemgetter
from selectors import EVENT_READ, DefaultSelector
from threading import local
from typing import Any, Final, NoReturn
from weakref import WeakKeyDictionary, finalize
from zlib import crc32

import msgspec
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
from sqlalchemy.exc import TimeoutError as NoneFree
from sqlalchemy.pool import NullPool, PoolProxiedConnection, QueuePool

from core.errors import StoreError, StoreUnsure, StoreUnusable
from core.records.status import ServerState
from core.settings import UNREADABLE_ADDRESS, Server
from core.store.engine import citus, dialect, port
from core.store.engine.port import LEAST_S, PATIENCE_S, WAITS, Distribution, Row, T
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
"""Oldest supported version of PostgreSQL."""
_PAUSE_S: Final = 0.05
_POOLER: Final = re.compile("(?<=[?&])pooler=([^&]*)&?")
_TRANSACTION: Final = "transaction"
"""Our own member of an address, and its one value."""
_LEAST_TIMEOUT_S: Final = 2
"""The driver's lower bound."""
_POOLED: Final = 4
"""Number of connections that stay open."""
_MOST: Final = 24
"""Maximum number of open connections."""
_AREA: Final = int.from_bytes(b"arms", "big")
_SCHEMA, _IMPORT = 1, 2
"""Keys of our advisory locks: common first key, then one per purpose."""
_WRITE: Final = b"BEGIN ISOLATION LEVEL READ COMMITTED"
_READ: Final = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_HOLD: Final = b"BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY"
"""It has no number, and no snapshot between statements, so it delays no VACUUM."""
_NUMBER: Final = b"SELECT pg_current_xact_id()::text"
_IS_TAKEN_BACK: Final = (
    b"SELECT pg_xact_status(batch.number) = 'aborted' FROM (SELECT $1::text::xid8 AS number) batch"
    b" WHERE batch.number < pg_current_xact_id()"
)
"""Query for a transaction's number, and whether the transaction of a number was rolled back."""
_ROWS_FIRST: Final = 16
_ROWS_AT_ONCE: Final = 2_000
_VALUES_AT_ONCE: Final = 100_000
"""Batch sizes: rows of the first fetch, rows of a later fetch (at most), and values of one insert."""
_ROWS_AHEAD: Final = 128
_ROWS_COPIED: Final = 2_048
"""Thresholds in rows. From `_ROWS_COPIED` on an insert of new rows is a COPY, which waits for the server. Others
are arrays, one statement per batch, sent ahead from `_ROWS_AHEAD` on.
"""
_MOST_WAITING: Final = 100
"""Maximum of waiting statements; the last of them sends all."""

_SERVER_STATE: Final = b"""
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
"""Query for the role, replication and lag. The lag is 0 for a standby that has replayed all and still receives."""
_IDENTITY: Final = (
    b"SELECT system_identifier || '/' || pg_catalog.current_database() FROM pg_catalog.pg_control_system()"
)
_spoken: Final = dialect.speaker(dialect.POSTGRESQL)
logging.getLogger("psycopg").addHandler(logging.NullHandler())  # it raises for a lost connection, too

Query = tuple[bytes, Sequence[Any]]
"""Statement and its values."""

_SHARED_OUT: Final[WeakKeyDictionary[psycopg.Connection[Any], bool]] = WeakKeyDictionary()
"""Cache of each connection's server: every page asks."""
_SETTINGS: Final[WeakKeyDictionary[psycopg.Connection[Any], bytes]] = WeakKeyDictionary()
"""Statement with the settings of a transaction, for each connection through a pooler; a direct one needs none."""

_KINDS: Final = {
    BigInteger: "bigint",
    Integer: "bigint",
    Text: "text",
    Float: "float8",
    LargeBinary: "bytea",
}

_INT_ONLY: Final = {int}
_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END_OF_COPY: Final = b"\xff\xff"

_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})

_READS_ON: Final = (
    b"SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    b" AND backend_xmin IS NOT NULL AND xact_start < $1 LIMIT 1"
)
"""Finds a transaction that began before a time and goes on."""
_LEFT_STATISTICS: Final = (
    b"SELECT s.tablename, s.attname, format_type(a.atttypid, a.atttypmod)"
    b" || CASE WHEN a.attcollation <> 0 THEN ' COLLATE \"C\"' ELSE '' END FROM pg_stats s JOIN pg_class c"
    b" ON c.relname = s.tablename AND c.relnamespace = current_schema()::regnamespace"
    b" JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = s.attname"
    b" WHERE s.schemaname = current_schema() AND c.reltuples = 0 AND a.atttypid::regtype::text"
    b" IN ('text', 'bytea', 'tsvector') AND NOT EXISTS (SELECT 1 FROM information_schema.view_column_usage v"
    b" WHERE v.table_name = s.tablename AND v.column_name = s.attname)"
)
"""Columns of empty tables with statistics of deleted rows: ANALYZE keeps those, a change of type does not."""
_LEFT_ON_WORKERS: Final = (
    b"SELECT result FROM run_command_on_workers($$SELECT coalesce(json_agg(json_build_array("
    b"regexp_replace(tablename, '_[0-9]+$', ''), attname, kind)), '[]') FROM (%s) s (tablename, attname, kind)$$)"
    b" WHERE success" % _LEFT_STATISTICS
)
"""The same of a cluster's workers, which name a part of a table after it."""

_OF_POOLER: Final = "08P01"
"""Code of a pooler's own errors."""
_REFUSES_OPTIONS: Final = "unsupported startup parameter"
"""Words of a pooler that takes no settings of a connection."""
_PROCESS: Final = b"SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('synchronous_commit')"
_DURABLE: Final = (
    "set_config('synchronous_commit',"
    " coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), true)"
)
_UNLIMITED: Final = (
    "SELECT set_config(name, '0', true) FROM pg_catalog.pg_settings"
    " WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')"
)


@lru_cache(maxsize=2_048)
def _translated(sql: str, kind: str = "") -> bytes:
    """Return a text in PostgreSQL's own form: numbered values, and one array of a ``kind`` for ``{}``.

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


class _Asker(greenlet):
    """Greenlet of one work in `Connection.together`: it pauses at each query until its cursor is there."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.among = getcurrent()
        """Greenlet that collects the queries and sends them."""
        super().__init__(work, self.among)
        self.gr_context = copy_context()


class Connection(port.Connection):
    """A driver connection inside one transaction."""

    looks_after_itself = True

    def __init__(
        self,
        driver: psycopg.Connection[Any],
        begin: bytes | None = None,
        *,
        renewed: Callable[[], psycopg.Connection[Any]] | None = None,
    ) -> None:
        """Open a transaction with ``begin``, which is sent with the first statement, as are a pooler's settings.

        Changes wait too, unless it is ``renewed``. Then it is for reading, and ``renewed`` returns a new connection
        in place of one that was lost before its first query.
        """
        self._driver = driver
        self.file = (crc32(driver.info.dbname.encode()),)  # the same on a standby
        self._renewed = renewed
        self._names = count()
        self._most_waiting = 1 if begin is None or renewed is not None else _MOST_WAITING
        self._waiting: list[Query] = [] if begin is None else [(begin, ()), *_settings(driver)]
        self._cursors_by_query: dict[bytes, RawCursor[Any] | None] = {}
        """Queries that are sent with the first statement, and their cursors."""
        if begin == _WRITE:
            self._send_along(_NUMBER)
        self._under_way: ExitStack | None = None
        """Open pipeline of statements that were sent ahead; None if there is none."""

    def _ask(self, sql: bytes, values: Sequence[Any] = ()) -> RawCursor[Any]:
        """Execute the waiting statements and then this one, in one round trip."""
        (cursor,) = self._ask_all([(sql, values)])
        return cursor

    def _ask_all(self, queries: list[Query]) -> list[RawCursor[Any]]:
        """Send several queries together; inside `together` the coordinator sends them."""
        asker = getcurrent()
        if isinstance(asker, _Asker):
            cursors: list[RawCursor[Any]] = asker.among.switch(queries)
            return cursors
        n_left = _MOST
        while True:
            try:
                return self._send_all(queries)
            except psycopg.OperationalError as problem:
                if self._renewed is None or not is_lost(problem) or is_of_another(problem) or not n_left:
                    raise
                # After so many the lost ones of the pool are gone. A pooler may refuse every connection alike.
                n_left = 0 if problem.sqlstate == _OF_POOLER else n_left - 1
                self._driver = self._renewed()
                self._waiting = [(_READ, ()), *_settings(self._driver)]
                for query in self._cursors_by_query:
                    self._send_along(query)

    def _send_all(self, queries: list[Query]) -> list[RawCursor[Any]]:
        if not self._waiting and self._under_way is None and len(queries) == 1:
            return [_executed(self._driver, *queries[0])]
        with self._heard():
            self._send()
            cursors = [_executed(self._driver, sql, values) for sql, values in queries]
        self._renewed = None  # a new connection would have another snapshot
        return cursors

    def together(self, *works: Callable[[], Any]) -> tuple[Any, ...]:
        askers = [_Asker(work) for work in works]
        try:
            return self._answered(askers)
        finally:
            for asker in askers:
                asker.throw()  # after an error, end the paused works

    def _answered(self, askers: list[_Asker]) -> tuple[Any, ...]:
        # A paused work returns its queries from `switch`, a finished one its result. One list holds both.
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
            if sql in self._cursors_by_query:
                self._cursors_by_query[sql] = cursor

    def _later(self, sql: bytes, values: Sequence[Any]) -> None:
        self._waiting.append((sql, tuple(values)))
        if len(self._waiting) >= self._most_waiting:
            self.flush()

    def flush(self) -> None:
        """Execute the waiting statements."""
        if self._waiting or self._under_way is not None:
            with self._heard():
                self._send()

    def _send_ahead(self) -> None:
        """Send the waiting statements without reading the replies, which the next query reads."""
        if self._waiting:
            self._under_way = self._heard()
            self._send()

    def _heard(self) -> ExitStack:
        """Return the open pipeline, or a new one; leaving it reads all replies."""
        under_way, self._under_way = self._under_way, None
        if under_way is None:
            under_way = ExitStack()
            under_way.enter_context(self._driver.pipeline())
        return under_way

    @property
    def number(self) -> str | None:
        """The number of the transaction, once the server has reported it."""
        with suppress(psycopg.Error):
            cursor = self._cursors_by_query.get(_NUMBER)
            row = None if cursor is None else cursor.fetchone()
            return None if row is None else str(row[0])
        return None

    def was_rolled_back(self, number: str | None) -> bool:
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

    def row_later(self, sql: str) -> Callable[[], Row | None]:
        text = _translated(sql)
        self._send_along(text)

        def received() -> Row | None:
            cursor = self._cursors_by_query[text]
            return None if cursor is None else cursor.fetchone()

        return received

    def _send_along(self, query: bytes) -> None:
        self._cursors_by_query[query] = None
        self._waiting.append((query, ()))

    def each(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        """Yield rows of a server-side cursor. The first few come with it: a caller often needs no more."""
        name = f"armscope_{next(self._names)}".encode()
        _, few = self._ask_all(
            [
                (b"DECLARE %s NO SCROLL CURSOR FOR %s" % (name, _translated(sql)), values),
                (b"FETCH FORWARD %d FROM %s" % (_ROWS_FIRST, name), ()),
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
            rows = self._ask(b"FETCH FORWARD %d FROM %s" % (n_requested, name)).fetchall()
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
        """Insert by COPY if rows are many and must be new, else by one array per column."""
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
        """Insert consecutive parts of one form (binary or text) by one COPY, without holding all of them."""
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
        """Change all rows by one UPDATE, with one array per column."""
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

    def server_state(self) -> ServerState | None:
        (row,) = self._ask(_SERVER_STATE).fetchall()
        is_standby, synchronous, n_standbys, lag_s = row
        return ServerState(
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


def _settings(driver: psycopg.Connection[Any]) -> list[Query]:
    """Return what a transaction on this connection begins with."""
    return [(_SETTINGS[driver], ())] if driver in _SETTINGS else []


def _executed(driver: psycopg.Connection[Any], sql: bytes, values: Sequence[Any]) -> RawCursor[Any]:
    """Execute a statement; FETCH is not prepared, because its text is new for each cursor."""
    return RawCursor(driver).execute(sql, values, prepare=False if sql.startswith(b"FETCH ") else None)


def _named(columns: Sequence[str]) -> str:
    return ", ".join(columns)


@lru_cache(maxsize=256)
def _insert_sql(table: str, columns: tuple[str, ...], kinds: tuple[str, ...], upsert: str) -> bytes:
    arrays = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(kinds, 2))
    return (
        f"INSERT INTO {table} (learner_id, {_named(columns)})"
        f" SELECT $1, batch.* FROM unnest({arrays}) AS batch {_spoken(upsert)}"
    ).encode()


@lru_cache(maxsize=64)
def _amend_sql(table: str, changes: tuple[tuple[str, str], ...], key: tuple[str, ...]) -> bytes:
    """
    >>> _amend_sql("posterior", (("pulls", "pulls + ?"),), ("arm_no",)).decode()  # doctest: +NORMALIZE_WHITESPACE
    'UPDATE posterior SET pulls = pulls + batch.v0 FROM unnest($2::bigint[], $3::bigint[]) AS batch (v0, v1)
    WHERE learner_id = $1 AND arm_no = batch.v1'
    """
    columns = tuple(name for name, _ in changes)
    values = [f"batch.v{index}" for index in range(len(columns) + len(key))]
    changed = ", ".join(
        f"{name} = {_spoken(what).replace('?', value)}"
        for (name, what), value in zip(changes, values, strict=False)
    )
    where = " AND ".join(f"{name} = {value}" for name, value in zip(key, values[len(columns) :], strict=True))
    arrays = ", ".join(f"${index}::{kind}[]" for index, kind in enumerate(_kinds(table, (*columns, *key)), 2))
    names = ", ".join(value.removeprefix("batch.") for value in values)
    return (
        f"UPDATE {table} SET {changed} FROM unnest({arrays}) AS batch ({names}) WHERE learner_id = $1 AND {where}"
    ).encode()


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
    """Return values as the text of an array.

    >>> _array("bigint", [1, None]), _array("bigint", [1, 2]), _array("text", ["a, b", ""])
    ('{1,NULL}', '{1, 2}', '{"a, b",""}')
    """
    if kind == "bigint" and set(map(type, values)) == _INT_ONLY:
        return f"{{{str([*values])[1:-1]}}}"
    return f"{{{','.join(map(_ARRAY_WRITERS[kind], values))}}}"


@lru_cache(maxsize=256)
def _binary_row_type(table: str, columns: tuple[str, ...]) -> np.dtype[Any] | None:
    """Return the binary COPY form of a table's row; None unless all its columns are whole numbers."""
    if set(_kinds(table, columns)) != {"bigint"}:
        return None
    fields = [("n", ">i2"), ("size", ">i4"), ("learner_id", ">i4")]
    for index in range(len(columns)):
        fields += ((f"size {index}", ">i4"), (f"value {index}", ">i8"))
    return np.dtype(fields)


def _packed(row: np.dtype[Any] | None, learner_id: int, part: list[Any]) -> bytes | None:
    """Return whole numbers as rows of a binary COPY, the fastest form; None if a value is of another type."""
    if row is None or set(map(type, part)) != _INT_ONLY:
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
    """Return whether the rows are binary, and the rows."""
    packed = _packed(_binary_row_type(table, columns), learner_id, part)
    return (False, _lines(_kinds(table, columns), learner_id, part)) if packed is None else (True, packed)


def _lines(kinds: Sequence[str], learner_id: int, part: list[Any]) -> bytes:
    """Return rows as the lines of a COPY in text form."""
    width = len(kinds)
    fields = [_copied_column(kind, part[index::width]) for index, kind in enumerate(kinds)]
    own = repeat(str(learner_id), len(part) // width)
    return ("\n".join(map("\t".join, zip(own, *fields, strict=True))) + "\n").encode()


def _copied_column(kind: str, column: list[Any]) -> Iterable[str]:
    """Return a column as texts of a COPY; a column without special characters is not escaped value by value."""
    if kind == "bigint" and set(map(type, column)) == _INT_ONLY:
        return map(str, column)
    if kind == "text" and set(map(type, column)) == {str} and not _has_escapes("".join(column)):
        return column
    return map(_COPY_WRITERS[kind], column)


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


def _copied_text(value: str | None) -> str:
    return "\\N" if value is None else value.translate(_ESCAPES)


def _in_array_bytes(value: bytes | None) -> str:
    return "NULL" if value is None else f'"\\\\x{value.hex()}"'


def _copied_bytes(value: bytes | None) -> str:
    return "\\N" if value is None else f"\\\\x{value.hex()}"


_ARRAY_WRITERS: Final[dict[str, Callable[[Any], str]]] = {
    "bigint": _number,
    "float8": _number,
    "text": _quoted,
    "bytea": _in_array_bytes,
}
_COPY_WRITERS: Final[dict[str, Callable[[Any], str]]] = {
    "bigint": _copied_number,
    "float8": _copied_number,
    "text": _copied_text,
    "bytea": _copied_bytes,
}


class Database(port.Database):
    """One database of a PostgreSQL server.

    Raises `StoreUnusable` for an unreadable address, an unreachable server or a version that is too old.
    """

    location: Server

    def __init__(
        self, server: Server, *, lock_timeout_s: float = 60.0, patience_s: float = PATIENCE_S
    ) -> None:
        """Open the pool lazily; ``patience_s`` limits the retries of a write and the wait for a connection."""
        self.location = server
        self.remembered: dict[str, Any] = {}
        self.has_written = False
        self._held = local()
        """Connection that holds the import lock, per thread."""
        self._lock_timeout_s = lock_timeout_s
        self._patience_s = patience_s
        self._connected = _Opener(server, lock_timeout_s, patience_s)
        self._pool = QueuePool(
            self._connected,  # type: ignore[arg-type]
            pool_size=_POOLED,
            max_overflow=_MOST - _POOLED,
            timeout=patience_s,
            use_lifo=True,
            reset_on_return=None,
        )
        finalize(self, self._pool.dispose)  # for callers that do not close it

    def write(
        self,
        work: Callable[[port.Connection], T],
        has_landed: Callable[[port.Connection, T], bool | None] | None = None,
    ) -> T:
        """Run a write; retry it for ``patience_s`` after a rollback or a lost connection."""
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                return self._written(work, is_checked=has_landed is not None)
            except _LostAtEnd as lost:
                self.remembered.clear()
                if has_landed is None:
                    raise _unsure(self.location) from lost.problem
                if self._has_landed(has_landed, lost, deadline):
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
        """Run a write once. Without ``is_checked`` all statements are sent before COMMIT, so fewer end unsure."""
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

    def _has_landed(
        self, has_landed: Callable[[port.Connection, T], bool | None], lost: _LostAtEnd, deadline: float
    ) -> bool:
        """Return whether a write whose reply was lost has succeeded.

        A write asks, because on a server with a synchronous standby an acknowledged write proves all earlier ones. An
        error of that write says nothing about the first.
        """

        def ask(connection: Connection) -> bool | None:
            # This waits for the first write if the server still runs it.
            landed = has_landed(connection, lost.answer)
            if landed is not False and connection.was_rolled_back(lost.number):
                return False  # another writer recorded the same at the same time
            return landed

        while True:
            try:
                landed = self._written(ask)
            except (_LostAtEnd, psycopg.Error, StoreError) as problem:
                if time.monotonic() > deadline:
                    raise _unsure(self.location) from problem
                time.sleep(_PAUSE_S)
                continue
            if landed is None:
                raise _unsure(self.location)
            return landed

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
        try:
            with translated(self.location, "write"):
                self._held.by = _held_for_import(driver, waiting)
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
        """Hold the lock for creating or changing the schema."""
        with translated(self.location, "write"), self._lent() as loan:
            if _settings(loan.driver):
                _held_in_turn(loan.driver, _SCHEMA, self._lock_timeout_s)
            else:
                Connection(loan.driver, _WRITE).rows(
                    "SELECT pg_advisory_xact_lock(?::int, ?::int)", [_AREA, _SCHEMA]
                )
            yield

    making = locked

    def tables(self) -> frozenset[str]:
        with self.reading() as connection:
            return connection.tables()

    @contextmanager
    def migrating(
        self, finish: Callable[[port.Connection], None] = port.unfinished
    ) -> Iterator[tuple[Transacted, Connection]]:
        """Yield one transaction; its new text columns then get the sort order of all engines."""
        engine = create_engine("postgresql+psycopg://", creator=self._connected_plainly, poolclass=NullPool)
        with translated(self.location, "write"), port.unwrapped(psycopg.Error), engine.begin() as transacted:
            driver = transacted.connection.driver_connection
            assert isinstance(driver, psycopg.Connection)  # noqa: S101 - narrows the pool's Any
            connection = Connection(driver)
            for sql, _ in _settings(driver):
                RawCursor(driver).execute(sql)
            with citus.keeping_distributed(connection):
                yield transacted, connection
            _collate(connection)
            finish(connection)

    def is_due(self, now_ms: int | None) -> bool:  # noqa: ARG002
        return False  # the server has checksums, which its operator watches

    def was_looked_over(self, now_ms: int | None) -> None:
        """Do nothing: a server is not checked by us."""

    def scour(self) -> bool:
        """Rewrite the server's tables, indexes and statistics without erased bytes.

        The server's write-ahead log and backups are out of reach. Returns False if a transaction that began before
        may still read erased rows.
        """
        with self.reading() as connection:
            is_spread = bool(connection.servers())
        with translated(self.location, "write"), self._lent() as loan:
            cursor = RawCursor(loan.driver)
            began = cursor.execute(b"SELECT clock_timestamp()", prepare=False).fetchone()
            for table in (*sorted(metadata.tables), "text_index"):
                cursor.execute(f'VACUUM (FULL, ANALYZE) "{table}"'.encode(), prepare=False)
            left = cursor.execute(_LEFT_STATISTICS, prepare=False).fetchall()
            if is_spread:
                for (listed,) in cursor.execute(_LEFT_ON_WORKERS, prepare=False).fetchall():
                    left += msgspec.json.decode(listed, type=list[tuple[str, str, str]])
            for table, column, kind in sorted({*left}):
                forget = f'ALTER TABLE "{table}" ALTER COLUMN "{column}" TYPE {kind}'
                cursor.execute(forget.encode(), prepare=False)
            cursor.execute(b"VACUUM FULL pg_statistic", prepare=False)
            if is_spread:
                cursor.execute(b"SELECT run_command_on_workers('VACUUM FULL pg_statistic')", prepare=False)
            return cursor.execute(_READS_ON, began, prepare=False).fetchone() is None

    def settle(self) -> None:
        """Refresh the statistics of the tables for the query planner."""
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
        """Return a connection in SQLAlchemy's mode: the first statement begins a transaction."""
        driver = self._connected()
        driver.autocommit = False
        driver.adapters.register_dumper(bool, BoolDumper)
        driver.adapters.register_loader("bool", BoolLoader)
        return driver


class _Opener:
    """Opens connections: direct ones with our settings, and others through a pooler, which keeps none of them."""

    def __init__(self, location: Server, lock_timeout_s: float, patience_s: float) -> None:
        self._location = location
        self._patience_s = patience_s
        self._address, self._is_pooled = _read_address(location)
        self._has_options = "options" in self._address
        for name, value in _usual(self._address, patience_s).items():
            self._address.setdefault(name, value)
        settings = {"lock_timeout": str(round(lock_timeout_s * 1_000)), "jit": "off", "timezone": "UTC"}
        ours = " ".join(f"-c {name}={value}" for name, value in settings.items())
        self._direct = _Address(self._address, options=f"{self._address.get('options') or ''} {ours}".strip())
        local = [f"set_config('{name}', '{value}', true)" for name, value in settings.items()]
        self._settings = f"SELECT {', '.join([*local, _DURABLE])}".encode()

    def __call__(self) -> psycopg.Connection[Any]:
        """Return a new connection; wait while the server starts or has none free."""
        deadline = time.monotonic() + self._patience_s
        while True:
            address = _Address(self._address, options="") if self._is_pooled else self._direct
            try:
                driver = psycopg.connect(**address, autocommit=True)
            except psycopg.OperationalError as problem:
                if not self._is_pooled and _REFUSES_OPTIONS in str(problem):
                    self._is_pooled = True
                    continue
                if not is_refused_for_now(problem) or time.monotonic() > deadline:
                    raise problem.with_traceback(None) from None  # the driver's own frames hold the password
                time.sleep(_PAUSE_S)
            else:
                self._prepare(driver)
                return driver

    def _prepare(self, driver: psycopg.Connection[Any]) -> None:
        """Set the types (int as int8, sums as int, booleans as numbers) and durable commits.

        A pooler is recognised by the process of the server, which is not the one that the connection began with.
        """
        version = driver.info.server_version
        if version < OLDEST * 10_000:
            driver.close()
            raise StoreUnusable(
                f"{self._location} is kept by PostgreSQL {version // 10_000}, and armscope needs {OLDEST} or newer.",
                next_step="Upgrade the server, or name another database with --database.",
            )
        driver.adapters.register_dumper(int, Int8Dumper)
        driver.adapters.register_dumper(bool, _NoTruth)
        driver.adapters.register_loader("numeric", _NumericLoader)
        driver.adapters.register_loader("bool", _Truth)
        ((process, synchronous),) = RawCursor(driver).execute(_PROCESS, prepare=False).fetchall()
        if self._is_pooled or process != driver.info.backend_pid:
            self._pass_through_pooler(driver)
        elif synchronous == "off":
            RawCursor(driver).execute(b"SET synchronous_commit = on", prepare=False)

    def _pass_through_pooler(self, driver: psycopg.Connection[Any]) -> None:
        if self._has_options:
            driver.close()
            raise StoreUnusable(
                f"{self._location} is behind a pooler in transaction mode, which keeps no options of a connection.",
                next_step="Leave them out of the address, and set them for the user: ALTER ROLE … SET ….",
            )
        driver.prepare_threshold = None
        _SETTINGS[driver] = self._settings


def _held_for_import(driver: psycopg.Connection[Any], waiting: Callable[[], None] | None) -> Connection:
    """Return a connection that holds the lock of imports: in its session, or through a pooler in a transaction."""
    if _settings(driver):
        lock = _held_in_turn(driver, _IMPORT, None, waiting)
        lock.rows(_UNLIMITED)
        return lock
    lock = Connection(driver)
    row = lock.row("SELECT pg_try_advisory_lock(?::int, ?::int)", [_AREA, _IMPORT])
    if row is not None and not row[0]:
        if waiting is not None:
            waiting()
        lock.run("SET lock_timeout = 0")
        lock.rows("SELECT pg_advisory_lock(?::int, ?::int)", [_AREA, _IMPORT])
    return lock


def _held_in_turn(
    driver: psycopg.Connection[Any],
    key: int,
    timeout_s: float | None,
    waiting: Callable[[], None] | None = None,
) -> Connection:
    """Return a transaction that holds an advisory lock; between two attempts it keeps nothing of the pooler."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        lock = Connection(driver, _HOLD)
        row = lock.row("SELECT pg_try_advisory_xact_lock(?::int, ?::int)", [_AREA, key])
        if row is not None and row[0]:
            return lock
        lock.commit()
        if waiting is not None:
            waiting()
            waiting = None
        if deadline is not None and time.monotonic() > deadline:
            raise psycopg.errors.LockNotAvailable
        time.sleep(_PAUSE_S)


class _Loan:
    """A connection of the pool in use; uncommitted work is rolled back at its end."""

    def __init__(self, pool: QueuePool, remembered: dict[str, Any]) -> None:
        self._pool = pool
        self._remembered = remembered
        self._lend()

    def _lend(self) -> None:
        began = time.monotonic()
        try:
            self._lent: PoolProxiedConnection = self._pool.connect()
        except NoneFree as problem:
            raise psycopg.errors.TooManyConnections from problem
        finally:
            if (waited := time.monotonic() - began) >= LEAST_S:
                WAITS.observe("connection", waited)
        driver = self._lent.driver_connection
        assert isinstance(driver, psycopg.Connection)  # noqa: S101 - narrows the pool's Any
        self.driver: psycopg.Connection[Any] = driver
        if not _is_ready(driver):
            self.renew()

    def renew(self) -> psycopg.Connection[Any]:
        """Replace a connection that was lost while unused; its caches are cleared."""
        self._lent.invalidate()
        self._lent.close()
        self._remembered.clear()  # the database may be another
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
    """Commit; after a warning, of a standby or of a server that stops, the reply is not trusted."""
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
    """Roll back uncommitted work without waiting for the reply, or close the connection.

    A connection with a failed statement is closed. The server skipped the statements after it in the pipeline, but
    the driver may believe that they are prepared there.
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


def _is_ready(driver: psycopg.Connection[Any]) -> bool:
    """Read the outstanding reply to ROLLBACK; return False if the connection was lost."""
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


def _read_address(server: Server) -> tuple[_Address, bool]:
    """Return the driver's options, and whether the address names a pooler in transaction mode."""
    if not server.is_readable:
        raise StoreUnusable(UNREADABLE_ADDRESS[0], next_step=UNREADABLE_ADDRESS[1])
    modes = set(_POOLER.findall(server.url))
    if unknown := modes - {_TRANSACTION}:
        raise StoreUnusable(
            f"The mode of a pooler in the address of the database is {_TRANSACTION!r}, got {min(unknown)!r}.",
            next_step=f"Write pooler={_TRANSACTION}, or leave it out for a direct connection.",
        )
    try:
        parts = conninfo_to_dict(_POOLER.sub("", server.url))
    except psycopg.Error:  # its words would show the password
        raise StoreUnusable(
            "The address of the database can't be read: PostgreSQL's client library knows not all of its "
            "options.",
            next_step="Write it as postgresql://USER@HOST:PORT/DATABASE, with options such as ?sslmode=require.",
        ) from None
    return _Address({name: value for name, value in parts.items() if value is not None}), bool(modes)


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


class _NumericLoader(Loader):
    """Loader of sums of whole numbers, which the server returns as decimals."""

    def load(self, data: Any) -> int | float:  # noqa: ANN401 - a buffer, whichever the driver has
        text = bytes(data)
        return float(text) if b"." in text else int(text)


class _Truth(Loader):
    """Loader of booleans as numbers."""

    def load(self, data: Any) -> int:  # noqa: ANN401 - a buffer, whichever the driver has
        return int(bytes(data) == b"t")
