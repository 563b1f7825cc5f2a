"""SQLite engine: connections to a file, and their transactions.

Writers lock one lock file around transaction and checkpoint, then ``BEGIN IMMEDIATE``. Readers open the file
``mode=ro`` and ``BEGIN``. Only the holder of the lock checkpoints (any other connection would on close). This avoids
the reset race of the write-ahead log in SQLite before 3.51.3.

Making of an SQLite file that is missing or has an older schema.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import quote

import msgspec
from sqlalchemy import Connection as Transacted
from sqlalchemy import create_engine, event
from sqlalchemy.pool import NullPool

from core.errors import ArmscopeError, InvalidInput, StoreBusy, StoreUnusable
from core.records.times import DAY_MS
from core.store.engine import dialect, port
from core.store.engine.file_faults import (
    NOTHING,
    OPENING,
    Doing,
    FileIdentity,
    Note,
    as_invalid,
    begin_anew,
    damaged,
    from_driver,
    from_os,
    holds_something,
    is_damage,
    is_left_alone,
    leave_note,
    log_is_foreign,
    lost_acts,
    missing,
    note_at,
)
from core.store.engine.port import LEAST_S, WAITS, Row, T
from core.store.files import make_file, make_folder, refuse_network, sync_names
from core.store.lock import WritersLock

LOCK_TIMEOUT_S: Final = 60.0
_IMPORT_TIMEOUT_S: Final = 7 * 24 * 3600.0
SQLITE: Final = sqlite3.sqlite_version
_BUSY_TIMEOUT_S: Final = 30
"""SQLite's time limit for an exclusive lock of another process, which is always short."""
_CHECKPOINT_BYTES: Final = 4 << 20
_CHECKED_ROWS: Final = 500
"""From this number of rows on the log may have grown by much since its last check."""
_LOG_BYTES: Final = 1 << 20
"""Size limit of a folded log; without it its size would have no meaning."""
_POOLED_READERS: Final = 8
_MAX_VARIABLES: Final = 500
_ROWS_PER_STATEMENT: Final = 64
_WIDE: Final = 10
"""Columns from which on rows are written one by one."""
_ROWS_TURNED: Final = 256
_CACHED_STATEMENTS: Final = 512
"""Prepared statements a connection keeps: rests of up to 63 rows have statements of their own, and who verifies asks
400 of them.
"""

_spoken: Final = dialect.speaker(dialect.SQLITE)


def is_empty(path: Path) -> bool:
    """Return whether a path has no file yet; raises `StoreUnusable` for something that can't be a database."""
    try:
        info = path.stat()
    except FileNotFoundError:
        return True
    except OSError as problem:
        raise from_os(problem, path, "read") from problem
    if stat.S_ISDIR(info.st_mode):
        raise StoreUnusable(
            f"The database must be a file, got the folder {path}.",
            next_step="Name a file in it with --database.",
        )
    if not stat.S_ISREG(info.st_mode):
        raise StoreUnusable(
            f"The database must be a file on a disk, got {path}, which is a device, pipe or socket.",
            next_step="Name a file on a disk with --database.",
        )
    return info.st_size == 0


def roll_back(path: Path) -> None:
    """Roll back what a crash left unfinished: a reader finds the journal, may not write, and fails.

    Only a new database has a journal; later it has a log. The caller holds the writers' lock.
    """
    with translated(path, "write"):
        _execute_alone(path, "SELECT count(*) FROM sqlite_master")


@contextmanager
def migrating(path: Path) -> Iterator[tuple[Transacted, sqlite3.Connection]]:
    """One transaction, and the driver's connection that it is of."""
    with translated(path, "write"):
        make_file(path)
        _execute_alone(path, "PRAGMA journal_mode=WAL")
        engine = create_engine(
            "sqlite+pysqlite://",
            creator=lambda: sqlite3.connect(path, isolation_level=None, timeout=30),
            poolclass=NullPool,
        )
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        with port.unwrapped(sqlite3.Error), engine.begin() as transacted:
            driver = transacted.connection.driver_connection
            assert isinstance(driver, sqlite3.Connection)  # noqa: S101 - narrows the pool's Any
            yield transacted, driver


def _execute_alone(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as driver:
        driver.execute(sql).fetchall()


class Connection(port.Connection):
    """A driver connection inside one transaction."""

    looks_after_itself = False

    def __init__(self, driver: sqlite3.Connection, identity: FileIdentity = NOTHING) -> None:
        self._driver = driver
        self.file = identity[:2]

    def together(self, *works: Callable[[], Any]) -> tuple[Any, ...]:
        return tuple([work() for work in works])

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        return self._driver.execute(_spoken(sql), values).fetchall()

    def each(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        """Run the query when the first row is read, so a caller can prepare several and read some."""
        return chain.from_iterable(self._driver.execute(_spoken(sql), one) for one in (values,))

    def columns(self, sql: str, values: Sequence[Any] = ()) -> list[list[Any]]:
        """All rows; turned a handful at a time, while they are still in the processor's cache."""
        cursor = self._driver.execute(_spoken(sql), values)
        columns: list[list[Any]] = [[] for _ in cursor.description]
        while rows := cursor.fetchmany(_ROWS_TURNED):
            for column, part in zip(columns, zip(*rows, strict=True), strict=True):
                column.extend(part)
        return columns

    def row(self, sql: str, values: Sequence[Any] = ()) -> Row | None:
        row: Row | None = self._driver.execute(_spoken(sql), values).fetchone()
        return row

    def row_later(self, sql: str) -> Callable[[], Row | None]:
        return self._driver.execute(sql).fetchone

    def run(self, sql: str, values: Sequence[Any] = ()) -> None:
        self._driver.execute(_spoken(sql), values)

    def run_in(self, sql: str, head: Sequence[Any], values: Sequence[Any]) -> None:
        for start in range(0, len(values), _MAX_VARIABLES):
            part = values[start : start + _MAX_VARIABLES]
            self._driver.execute(_listed(sql, len(part)), [*head, *part])

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        self._driver.executemany(_spoken(sql), rows)

    def n_changed(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        return max(self._driver.executemany(_spoken(sql), rows).rowcount, 0)  # -1 where there were none

    def insert(
        self, table: str, columns: Sequence[str], learner_id: int, values: Iterable[Any], *, upsert: str = ""
    ) -> None:
        """Many narrow rows in a statement, which halves what each of them costs; wide ones gain nothing by it."""
        flat = iter(values)
        names, width = tuple(columns), len(columns)
        if width > _WIDE:
            rows = zip(repeat(learner_id), *[flat] * width, strict=False)  # the flat values end all at once
            self._driver.executemany(_insert_sql(table, names, 1, upsert), rows)
            return
        size = _ROWS_PER_STATEMENT * width
        rest = (learner_id, *islice(flat, size))
        if len(rest) <= size:
            if len(rest) > 1:
                sql = _insert_sql(table, names, (len(rest) - 1) // width, upsert)
                self._driver.execute(sql, rest)
            return

        def filled() -> Iterator[tuple[Any, ...]]:
            nonlocal rest
            while len(rest) > size:
                yield rest
                rest = (learner_id, *islice(flat, size))

        self._driver.executemany(_insert_sql(table, names, _ROWS_PER_STATEMENT, upsert), filled())
        # A statement of just so many rows would be read by SQLite for this once, and takes longer than its rows.
        last = ((learner_id, *rest[at : at + width]) for at in range(1, len(rest), width))
        self._driver.executemany(_insert_sql(table, names, 1, upsert), last)

    def amend(
        self, table: str, changes: Mapping[str, str], key: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        self._driver.executemany(_amend_sql(table, tuple(changes.items()), tuple(key)), rows)

    def rows_in(
        self, sql: str, head: Sequence[Any], values: Sequence[Any], tail: Sequence[Any] = ()
    ) -> list[Row]:
        if not values:
            return []
        n_lists = sql.count("{}")
        at_most = _MAX_VARIABLES // n_lists
        if len(values) <= at_most:
            text = _listed(sql, len(values))
            return self._driver.execute(
                text, [*head, *chain.from_iterable([values] * n_lists), *tail]
            ).fetchall()
        rows: list[Row] = []
        for start in range(0, len(values), at_most):
            rows += self.rows_in(sql, head, values[start : start + at_most], tail)
        return rows

    def go_on_numbering(self) -> None:
        """Do nothing: SQLite does it by itself."""

    def tables(self) -> frozenset[str]:
        cursor = self._driver.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return frozenset(name for (name,) in cursor)

    def size(self) -> int:
        ((n_pages,),) = self._driver.execute("PRAGMA page_count")
        ((page_bytes,),) = self._driver.execute("PRAGMA page_size")
        return int(n_pages) * int(page_bytes)


@lru_cache(maxsize=1_024)
def _listed(sql: str, n_values: int) -> str:
    """A statement with places for so many values of its list."""
    return _spoken(sql).replace("{}", ",".join("?" * n_values))


@lru_cache(maxsize=4 * _ROWS_PER_STATEMENT)
def _insert_sql(table: str, columns: tuple[str, ...], n_rows: int, upsert: str) -> str:
    width = len(columns)
    rows = (range(2 + row * width, 2 + (row + 1) * width) for row in range(n_rows))
    marks = ", ".join(f"(?1, {', '.join(f'?{index}' for index in places)})" for places in rows)
    return _spoken(f"INSERT INTO {table} (learner_id, {', '.join(columns)}) VALUES {marks} {upsert}")


@lru_cache(maxsize=64)
def _amend_sql(table: str, changes: tuple[tuple[str, str], ...], key: tuple[str, ...]) -> str:
    changed = ", ".join(f"{name} = {what}" for name, what in changes)
    condition = " AND ".join(f"{name} = ?" for name in ("learner_id", *key))
    return _spoken(f"UPDATE {table} SET {changed} WHERE {condition}")


class Database(port.Database):
    """One SQLite file: a writer connection behind a lock, and reader connections for reuse.

    Every block uses the file that is at the path then: another may have replaced it. Raises `StoreUnusable` for a
    network file system, a folder or a file that is no database.
    """

    def __init__(self, path: Path, *, lock_timeout_s: float = LOCK_TIMEOUT_S) -> None:
        # Through a link or not, one database has one lock file and one log.
        self.location = self.path = Path(os.path.realpath(path))
        self._file = str(self.path)
        self._log = f"{self.path}-wal"
        self._lock_file = f"{self.path}.lock"
        self._lock_timeout_s = lock_timeout_s
        self._lock = WritersLock(self._lock_file, timeout_s=lock_timeout_s)
        self._write_driver: sqlite3.Connection | None = None
        self._ids = NOTHING
        self._readers: deque[tuple[sqlite3.Connection, FileIdentity]] = deque()
        self.has_written = False
        self.remembered: dict[str, Any] = {}
        self.is_unsure = False
        """True if the file differs from the last writer's and was not checked since."""
        self.looked_over_ms = 0
        """When a writer last looked it over; 0 = never."""
        refuse_network(self.path)

    def write(self, work: Callable[[port.Connection], T], has_landed: object = None) -> T:  # noqa: ARG002
        """Call ``work`` once: a file is local, so the result of a commit is never lost."""
        with self.locked(), translated(self.path, "write"):
            driver = self._write_driver_at_path()
            driver.execute("BEGIN IMMEDIATE")
            is_ending = False
            n_before = driver.total_changes
            try:
                answer = work(Connection(driver, self._ids))
                is_long = driver.total_changes - n_before > _CHECKED_ROWS or self._log_is_long()
                is_ending = True
                driver.execute("COMMIT")
            except BaseException:
                if driver.in_transaction:
                    driver.execute("ROLLBACK")
                    is_ending = False
                raise
            finally:
                self.has_written |= is_ending
            if is_long:
                self._checkpoint(driver)
        return answer

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with translated(self.path, "read"):
            driver, identity = self._take_reader()
            try:
                driver.execute("BEGIN")
                yield Connection(driver, identity)
                driver.execute("ROLLBACK")
            except BaseException:
                driver.close()  # what it was in the middle of ends with it
                raise
            self._readers.append((driver, identity))
            if len(self._readers) > _POOLED_READERS:
                self._close_readers(_POOLED_READERS)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the writers' lock, in this process and against all others."""
        self._take_lock()
        try:
            yield
        finally:
            self._lock.release()

    @contextmanager
    def importing(self, waiting: Callable[[], None] | None) -> Iterator[None]:
        lock = WritersLock(f"{self.path}.import.lock", timeout_s=_IMPORT_TIMEOUT_S)
        try:
            if not lock.acquire(0):
                if waiting is not None:
                    waiting()
                if not lock.acquire():
                    raise self._busy()
        except OSError as problem:
            raise from_os(problem, self.path, "write") from problem
        try:
            yield
        finally:
            lock.release()
            lock.close()

    def _take_lock(self) -> None:
        """Alone in its ``try``: what happens under the lock may be an OSError that is not about the lock."""
        began = time.monotonic()
        try:
            taken = self._lock.acquire()
        except OSError as problem:
            raise from_os(problem, self.path, "write") from problem
        if (waited := time.monotonic() - began) >= LEAST_S:
            WAITS.observe("write_lock", waited)
        if not taken:
            raise self._busy()

    def _busy(self) -> StoreBusy:
        return StoreBusy(
            f"Another process has been writing to {self.path.name} for {self._lock_timeout_s:g} seconds.",
            next_step="Try again; if it lasts, look for an armscope process that hangs.",
        )

    def copy_into(self, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
        """Copy a connection's database into an existing file; an error names the file that failed."""
        with self.reading() as connection:
            copy_into(connection._driver, target, progress)

    def replace_by(self, source: Path) -> None:
        """Replace the content by another database's, in one transaction: open connections continue."""
        with self.locked(), translated(self.path, "write"):
            driver = self._write_driver_at_path()
            with closing(_connect(source, read_only=True)) as other:
                other.backup(driver)
            driver.execute(
                "PRAGMA busy_timeout=0"
            )  # who is reading may go on for long, and writers wait meanwhile
            driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            driver.execute(f"PRAGMA busy_timeout={_BUSY_TIMEOUT_S * 1000}")
            self.remembered.clear()
            self._leave_note()

    def scour(self, *, wait_s: float | None = None) -> bool:
        """Rewrite the file without erased bytes, and empty its log.

        Returns False if a reader has blocked it for longer than ``wait_s``, by default at most as long as a writer
        waits. SQLite leaves deleted bytes until other rows overwrite them.
        """
        with self.locked(), translated(self.path, "write"):
            driver = self._write_driver_at_path()
            driver.execute(
                "INSERT INTO text_index(text_index) VALUES('optimize')"
            )  # else words stay as deleted
            driver.execute("VACUUM")
            longest_s = min(_BUSY_TIMEOUT_S, self._lock_timeout_s) if wait_s is None else wait_s
            driver.execute(f"PRAGMA busy_timeout={round(longest_s * 1000)}")
            is_busy = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            driver.execute(f"PRAGMA busy_timeout={_BUSY_TIMEOUT_S * 1000}")
            self.remembered.clear()
            self._leave_note()
        return not is_busy

    def give_way(self, source: Path, backup: Path | None) -> None:
        """Replace an unreadable file, which stays under another name; processes that have it open see the change."""
        with self.locked():
            self._close_readers()
            self._forget_writer()
            if backup is not None:
                self.path.replace(backup)
                for beside in ("-wal", "-journal"):
                    with suppress(FileNotFoundError):
                        Path(f"{self.path}{beside}").replace(f"{backup}{beside}")
            Path(f"{self.path}-shm").unlink(missing_ok=True)
            source.replace(self.path)
            sync_names(self.path.parent)

    def distribute(self) -> NoReturn:
        raise InvalidInput(
            f"{self.path} is one file, which can't be distributed over servers.",
            next_step="Copy it to a server with Citus first: armscope copy FILE postgresql://HOST/DATABASE",
        )

    def close(self) -> None:
        """Close every connection; the writer under the lock, because closing may checkpoint."""
        self._close_readers()
        if self._write_driver is not None:
            with self.locked():
                same = look_at(self._file, self._log).opens_like(self._ids)
                self._forget_writer()
                if same:
                    self._leave_note()
        self._lock.close()

    def is_due(self, now_ms: int | None) -> bool:
        """Return whether the file differs from the last writer's, or a day has passed."""
        return self.is_unsure or (now_ms is not None and not 0 <= now_ms - self.looked_over_ms < DAY_MS)

    def was_looked_over(self, now_ms: int | None) -> None:
        self.is_unsure = False
        if now_ms is not None:
            self.looked_over_ms = now_ms
        self._leave_note()

    def settle(self) -> None:
        """Do nothing: its query plans need no statistics."""

    def tables(self) -> frozenset[str]:
        if os.path.lexists(f"{self.path}-journal") and not is_empty(self.path):
            with self.locked():
                roll_back(self.path)
        if is_empty(self.path):
            return frozenset()
        with self.reading() as connection:
            return connection.tables()

    @contextmanager
    def making(self) -> Iterator[None]:
        """Hold the writers' lock, in a folder that a power loss won't take away."""
        try:
            make_folder(self.path.parent)
        except OSError as problem:
            raise from_os(problem, self.path, "write") from problem
        with self.locked():
            if is_empty(self.path) and holds_something(self._log):
                raise StoreUnusable(
                    f"{self._log} holds acts of a database that is no longer at {self.path}.",
                    next_step="Put the database back, or move its log away and try again.",
                )
            yield

    @contextmanager
    def migrating(
        self, finish: Callable[[port.Connection], None] = port.unfinished
    ) -> Iterator[tuple[Transacted, Connection]]:
        with migrating(self.path) as (transacted, driver):
            connection = Connection(driver)
            yield transacted, connection
            finish(connection)

    # The file at the path

    def _write_driver_at_path(self) -> sqlite3.Connection:
        """Return the open connection, if it has the file at the path and no other program has changed it."""
        now = look_at(self._file, self._log)
        if self._write_driver is not None and now == self._ids:
            return self._write_driver
        if is_empty(self.path):  # a file made here would have its log, which the moved file needs, deleted
            raise missing(self.path)
        if self._write_driver is not None:
            note = note_at(self._lock_file)
            if (
                note is not None and note.identity == now and now.opens_like(self._ids)
            ):  # another writer's fold
                self._ids = now
                return self._write_driver
            self._without_foreign_log()  # first: closing a file that lies there still would fold the log into it
            self._forget_writer()
        return self._open_writer()

    def _open_writer(self) -> sqlite3.Connection:
        self._close_readers()
        before = self._without_foreign_log()
        note = note_at(self._lock_file)
        self.is_unsure = note is None or note.identity._replace(log=0) != before._replace(log=0)
        self.looked_over_ms = 0 if note is None else note.looked_over_ms
        if holds_something(self._log):
            # The first read of the log leaves out what is damaged, without a word.
            if n_lost := lost_acts(Path(self._log)):
                raise damaged(self.path, f"{n_lost} acts in its log can't be read any more")
            self.is_unsure |= is_left_alone(self._file)
        driver = _connect(self.path, read_only=False)
        driver.execute("SELECT 1 FROM learner LIMIT 0")  # another program's file is left as it is
        driver.execute("PRAGMA journal_mode=WAL").fetchall()
        driver.execute("PRAGMA synchronous=FULL")
        driver.execute("PRAGMA foreign_keys=ON")
        driver.execute("PRAGMA wal_autocheckpoint=0")
        driver.execute(f"PRAGMA journal_size_limit={_LOG_BYTES}").fetchall()
        driver.execute("PRAGMA cache_size=-65536")
        self._write_driver = driver
        driver.execute("SELECT count(*) FROM sqlite_master").fetchall()  # from now on there is a log
        self._leave_note()
        return driver

    def _without_foreign_log(self) -> FileIdentity:
        """Return the file at the path after removing a log of another file; only inside `locked`."""
        now = look_at(self._file, self._log)
        if log_is_foreign(self._file, self._log, now, note_at(self._lock_file)):
            begin_anew(self._file, self._log)
            now = look_at(self._file, self._log)
        return now

    def _forget_writer(self) -> None:
        if self._write_driver is not None:
            self._write_driver.close()
        self._write_driver = None
        self.remembered.clear()

    def _leave_note(self) -> None:
        """Note how the file lies there, as this writer leaves it; only inside `locked`."""
        self._ids = look_at(self._file, self._log)
        leave_note(self._lock_file, Note(identity=self._ids, looked_over_ms=self.looked_over_ms))

    def _take_reader(self) -> tuple[sqlite3.Connection, FileIdentity]:
        """Return an unused connection to the file at the path: the last used, whose cache is warm, or a new one."""
        now = look_at(self._file, self._log)
        with suppress(IndexError):
            while True:
                driver, identity = self._readers.pop()
                if identity.opens_like(now):
                    return driver, identity
                driver.close()
        if log_is_foreign(self._file, self._log, now, note_at(self._lock_file)):
            with self.locked():
                now = self._without_foreign_log()
        driver = _connect(self.path, read_only=True)
        driver.execute("PRAGMA query_only=ON")
        driver.execute("PRAGMA cache_size=-32768")
        opened = look_at(self._file, self._log)  # the first reader makes the log
        return driver, opened if opened[:2] == now[:2] and not now.log else now

    def _close_readers(self, n_left: int = 0) -> None:
        """Close unused connections beyond this number."""
        with suppress(IndexError):  # others may take them meanwhile
            while len(self._readers) > n_left:
                self._readers.popleft()[0].close()

    def _checkpoint(self, driver: sqlite3.Connection) -> None:
        """Fold a grown log into the file, still under the lock.

        The write is on disk already. So a failed fold (a full disk, for example) is no failed write, and the next
        writer repeats it.
        """
        with suppress(sqlite3.Error):
            if self._log_is_long():
                driver.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                self._leave_note()

    def _log_is_long(self) -> bool:
        """Return whether the log is long; called before a commit, because later it costs several times as much."""
        try:
            return os.stat(self._log).st_size > _CHECKPOINT_BYTES  # noqa: PTH116 - at every write
        except OSError:
            return False


def look_at(path: str, log: str) -> FileIdentity:
    """Return the present identity of the file."""
    try:
        file = os.stat(path)  # noqa: PTH116 - at every read and write
    except FileNotFoundError:
        return NOTHING
    try:
        logged = os.stat(log).st_ino  # noqa: PTH116 - at every read and write
    except FileNotFoundError:
        logged = 0
    return FileIdentity(file.st_dev, file.st_ino, logged, file.st_size, file.st_mtime_ns)


@contextmanager
def translated(
    path: Path, doing: Doing, *, unless: Callable[[sqlite3.Error], bool] = lambda _: False
) -> Iterator[None]:
    """Turn the driver's errors into ours, each with the next step; ``unless`` they are about something else."""
    try:
        yield
    except ArmscopeError:
        raise
    except sqlite3.Error as problem:
        if unless(problem):
            raise
        raise from_driver(problem, path, doing) from problem
    except (UnicodeEncodeError, OverflowError) as problem:
        raise as_invalid(problem) from problem
    except (UnicodeDecodeError, msgspec.DecodeError) as problem:
        raise damaged(path, f"it holds a value that can't be read ({problem})") from problem


def copy_file(source: Path, target: Path) -> None:
    """Copy a database file that may lie anywhere, with what its log holds, into one that is there."""
    with translated(source, "read"), closing(_connect(source, read_only=True)) as driver:
        copy_into(driver, target)


def copy_into(
    driver: sqlite3.Connection, target: Path, progress: Callable[[int, int], None] | None = None
) -> None:
    """Copy a connection's database into an existing file; an error names the file that failed."""

    def report(_: int, remaining: int, total: int) -> None:
        if progress is not None:
            progress(total - remaining, total)

    with (
        closing(sqlite3.connect(target, isolation_level=None)) as copy,
        translated(target, "write", unless=is_damage),  # nothing can be damaged yet but what is read
    ):
        copy.execute("PRAGMA journal_mode=MEMORY")  # nothing beside it that could be left behind
        driver.backup(copy, pages=1_024, progress=report)
        copy.execute("PRAGMA journal_mode=DELETE")


def _connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    with OPENING:
        if read_only:
            flags = "mode=ro"
            if not os.access(path.parent, os.W_OK) and not Path(f"{path}-wal").exists():
                flags += "&immutable=1"  # no process can be writing there, and no shared memory can be made
        else:
            flags = "mode=rw"
        driver = sqlite3.connect(
            f"file:{quote(os.fsencode(path.absolute()))}?{flags}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=_BUSY_TIMEOUT_S,
            cached_statements=_CACHED_STATEMENTS,
        )
    driver.create_function("sha256", 1, lambda data: hashlib.sha256(data).digest(), deterministic=True)
    return driver
