"""Engine: opens the SQLite file and gives out transactions. The one place that begins and commits.

Writers take one lock file around transaction and checkpoint, then ``BEGIN IMMEDIATE``; readers open the file
``mode=ro`` and ``BEGIN``. Only the holder of the lock ever checkpoints (any other connection would on close),
which closes the reset race that the write-ahead log has in SQLite before 3.51.3.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.pool import StaticPool

from core.errors import (
    ArmscopeError,
    InvalidInput,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnusable,
)
from core.store.lock import WritersLock

LOCK_TIMEOUT_S: Final = 60.0
_CHECKPOINT_BYTES: Final = 4 << 20
_LOG_BYTES: Final = 1 << 20
"""The log is cut back to this once it has been folded back, or its size would tell nothing any more."""
_NETWORK_FILE_SYSTEMS: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ncpfs", "ceph", "glusterfs", "lustre", "fuse.sshfs"}
)
_NO_ROOM: Final = frozenset(
    (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_SHMSIZE)
)
"""What SQLite makes of a quota or a size limit; only a full disk has a code of its own."""
_KEPT_READERS: Final = 8
_PAGES_PER_REPORT: Final = 1_024
_MAX_VARIABLES: Final = 500
_ROWS_PER_STATEMENT: Final = 64
_ROWS_TURNED: Final = 256
_KEPT_STATEMENTS: Final = 256
"""Prepared statements a writer keeps: rests of up to 63 rows have statements of their own."""

Row = tuple[Any, ...]


class Link:
    """A driver connection inside one transaction: statements with tuples, rows as tuples."""

    def __init__(self, driver: sqlite3.Connection) -> None:
        self._driver = driver

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        return self._driver.execute(sql, values).fetchall()

    def each(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        """Rows one by one, for results larger than memory should hold."""
        return iter(self._driver.execute(sql, values))

    def columns(self, sql: str, values: Sequence[Any] = ()) -> list[list[Any]]:
        """The same as columns; turned a handful of rows at a time, while they are still in the processor's cache."""
        found = self._driver.execute(sql, values)
        columns: list[list[Any]] = [[] for _ in found.description]
        while rows := found.fetchmany(_ROWS_TURNED):
            for column, part in zip(columns, zip(*rows, strict=True), strict=True):
                column.extend(part)
        return columns

    def row(self, sql: str, values: Sequence[Any] = ()) -> Row | None:
        found: Row | None = self._driver.execute(sql, values).fetchone()
        return found

    def run(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Execute one statement; number of rows it changed."""
        return self._driver.execute(sql, values).rowcount

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        """Execute a statement once a row; the rows may come from an iterator and are never all held. Number of
        rows it changed.
        """
        return max(self._driver.executemany(sql, rows).rowcount, 0)  # -1 where there were none

    def insert(
        self, table: str, learner_id: int, values: Iterable[Any], *, width: int, upsert: str = ""
    ) -> None:
        """Insert rows of one learner, many in a statement, which halves what each of them costs.

        ``values`` are those of all rows, one after the other, ``width`` in each. No two may have the same key.
        """
        flat = iter(values)
        size = _ROWS_PER_STATEMENT * width
        rest = (learner_id, *islice(flat, size))

        def filled() -> Iterator[tuple[Any, ...]]:
            nonlocal rest
            while len(rest) > size:
                yield rest
                rest = (learner_id, *islice(flat, size))

        if len(rest) > size:
            self._driver.executemany(_insert_sql(table, width, _ROWS_PER_STATEMENT, upsert), filled())
        if len(rest) > 1:
            self._driver.execute(_insert_sql(table, width, (len(rest) - 1) // width, upsert), rest)

    def rows_in(
        self, sql: str, head: Sequence[Any], values: Sequence[Any], tail: Sequence[Any] = ()
    ) -> list[Row]:
        """Run ``sql``, whose ``{}`` stands for a list of values, over as many values as there are."""
        found: list[Row] = []
        for start in range(0, len(values), _MAX_VARIABLES):
            part = values[start : start + _MAX_VARIABLES]
            marks = ",".join("?" * len(part))
            found += self.rows(sql.replace("{}", marks), [*head, *part, *tail])
        return found


@lru_cache(maxsize=4 * _ROWS_PER_STATEMENT)
def _insert_sql(table: str, width: int, n_rows: int, upsert: str) -> str:
    rows = (range(2 + row * width, 2 + (row + 1) * width) for row in range(n_rows))
    marks = ", ".join(f"(?1, {', '.join(f'?{place}' for place in places)})" for places in rows)
    return f"INSERT INTO {table} VALUES {marks} {upsert}"


class Database:
    """One SQLite file: a writer connection behind a lock, and readers that are kept for the next.

    Raises `StoreUnusable` for a network file system, a folder or a file that is no database.
    """

    def __init__(self, path: Path, *, lock_timeout_s: float = LOCK_TIMEOUT_S) -> None:
        # Through a link or not, one database has one lock file and one log.
        self.path = Path(os.path.realpath(path))
        self._lock_timeout_s = lock_timeout_s
        self._lock = WritersLock(f"{self.path}.lock", timeout_s=lock_timeout_s)
        self._log = f"{self.path}-wal"
        self._writer: Engine | None = None
        self._write_driver: sqlite3.Connection | None = None
        self._readers: deque[sqlite3.Connection] = deque()
        refuse_network(self.path)

    @contextmanager
    def writing(self) -> Iterator[Link]:
        """One write transaction: all of it is on disk after the block, or none of it."""
        with self.locked(), translated(self.path):
            driver = self._write_driver or self._open_writer()
            driver.execute("BEGIN IMMEDIATE")
            try:
                yield Link(driver)
                driver.execute("COMMIT")
            except BaseException:
                if driver.in_transaction:
                    driver.execute("ROLLBACK")
                raise
            self._checkpoint(driver)

    @contextmanager
    def reading(self) -> Iterator[Link]:
        """One read transaction: everything read inside is of one moment."""
        with translated(self.path):
            driver = self._take_reader()
            try:
                driver.execute("BEGIN")
                yield Link(driver)
                driver.execute("ROLLBACK")
            except BaseException:
                driver.close()  # what it was in the middle of ends with it
                raise
            self._readers.append(driver)
            if len(self._readers) > _KEPT_READERS:
                self._close_readers(_KEPT_READERS)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the writers' lock, in this process and against all others."""
        self._take_lock()
        try:
            yield
        finally:
            self._lock.release()

    def _take_lock(self) -> None:
        """Alone in its ``try``: what happens under the lock may be an OSError that is not about the lock."""
        try:
            taken = self._lock.acquire()
        except OSError as problem:
            raise from_os(problem, self.path) from problem
        if not taken:
            raise self._busy()

    def _busy(self) -> StoreBusy:
        return StoreBusy(
            f"Somebody else has been writing to {self.path.name} for {self._lock_timeout_s:g} seconds.",
            next_step="Try again; if it lasts, look for an armscope process that hangs.",
        )

    def backup(self, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
        """Copy the database as it is at one moment into ``target``, while others read and write.

        ``progress`` is told how many pages are copied, of how many.
        """

        def told(_: int, remaining: int, total: int) -> None:
            if progress is not None:
                progress(total - remaining, total)

        with translated(self.path), self.reading() as link:
            copy = sqlite3.connect(target, isolation_level=None)
            try:
                link._driver.backup(copy, pages=_PAGES_PER_REPORT, progress=told)
                copy.execute("PRAGMA journal_mode=DELETE")
            finally:
                copy.close()

    def close(self) -> None:
        """Close every connection; the writer under the lock, because closing may checkpoint."""
        self._close_readers()
        if self._writer is not None:
            with self.locked():
                self._writer.dispose()
            self._writer = self._write_driver = None
        self._lock.close()

    def _open_writer(self) -> sqlite3.Connection:
        self._write_driver = _driver_of(self._write_engine())
        return self._write_driver

    def _write_engine(self) -> Engine:
        if self._writer is None:
            self._writer = create_engine(
                "sqlite+pysqlite://",
                creator=lambda: _connect(self.path, read_only=False),
                poolclass=StaticPool,
                pool_reset_on_return=None,
            )
            event.listen(self._writer, "connect", _prepare_writer)
        return self._writer

    def _take_reader(self) -> sqlite3.Connection:
        """A connection nobody uses: the one used last, whose pages are the warmest, or a new one."""
        try:
            return self._readers.pop()
        except IndexError:
            driver = _connect(self.path, read_only=True)
            _prepare_reader(driver)
            return driver

    def _close_readers(self, n_kept: int = 0) -> None:
        """Close connections nobody uses, down to so many."""
        with suppress(IndexError):  # others may take them meanwhile
            while len(self._readers) > n_kept:
                self._readers.popleft().close()

    def _checkpoint(self, driver: sqlite3.Connection) -> None:
        """Fold the log back when it has grown; still under the lock.

        What was written is on disk already: a fold that fails (a full disk, say) must not be told as a write
        that failed, and the next writer tries it again.
        """
        with suppress(sqlite3.Error, OSError):
            if os.stat(self._log).st_size > _CHECKPOINT_BYTES:  # noqa: PTH116 - after every write
                driver.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def refuse_network(path: Path, mounts: Path = Path("/proc/mounts")) -> None:
    """Raise `StoreUnusable` if ``path`` lies on a network file system, whose locks can't be trusted."""
    if not mounts.exists():
        return
    place = path.absolute().parent.resolve()
    best, kind = "", ""
    for line in mounts.read_text(errors="replace").splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        mount = fields[1].replace("\\040", " ")
        if len(mount) >= len(best) and place.is_relative_to(mount):
            best, kind = mount, fields[2]
    if kind in _NETWORK_FILE_SYSTEMS:
        raise StoreUnusable(
            f"The database must be on a local disk, got {path} on a network file system ({kind}), "
            "where file locks don't hold and acknowledged writes can be lost.",
            next_step="Name a file on a local disk with --database.",
        )


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, with their names on disk: what is written there must not go with them."""
    missing = [one for one in (folder, *folder.parents) if not os.path.lexists(one)]
    folder.mkdir(parents=True, exist_ok=True)
    for one in missing:
        sync_names(one.parent)


def sync_names(folder: Path) -> None:
    """Have the names in a folder on disk, where the file system can: a file synced alone may still lose its name."""
    with suppress(OSError):
        sync_file(folder)


def sync_file(path: Path) -> None:
    """Have what a file holds on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn the driver's errors into ours, each with the next step."""
    try:
        yield
    except ArmscopeError:
        raise
    except sqlite3.Error as problem:
        raise _from_driver(problem, path) from problem
    except UnicodeEncodeError as problem:
        raise InvalidInput(
            "A text must be whole Unicode, got one with a lone surrogate; nothing was recorded.",
            next_step="Decode it as UTF-8, replacing what is no text, and send it again.",
        ) from problem
    except OverflowError as problem:
        raise InvalidInput(
            "A whole number must fit into 64 bits, got a larger one; nothing was recorded.",
            next_step="Correct the number and send it again.",
        ) from problem
    except msgspec.DecodeError as problem:
        raise StoreUnusable(
            f"{path} holds a value that was damaged: {problem}.",
            next_step="Restore a backup; armscope verify tells whether it is sound.",
        ) from problem


def _connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    if read_only:
        flags = "mode=ro"
        if not os.access(path.parent, os.W_OK) and not Path(f"{path}-wal").exists():
            flags += "&immutable=1"  # nobody can be writing there, and no shared memory can be made
        name = f"file:{quote(os.fsencode(path.absolute()))}?{flags}"
        return sqlite3.connect(name, uri=True, isolation_level=None, check_same_thread=False, timeout=30)
    make_folder(path.parent)
    return sqlite3.connect(
        path,
        isolation_level=None,
        check_same_thread=False,
        timeout=30,
        cached_statements=_KEPT_STATEMENTS,
    )


def _prepare_writer(driver: sqlite3.Connection, _record: object) -> None:
    driver.execute("PRAGMA journal_mode=WAL").fetchall()
    driver.execute("PRAGMA synchronous=FULL")
    driver.execute("PRAGMA foreign_keys=ON")
    driver.execute("PRAGMA wal_autocheckpoint=0")
    driver.execute(f"PRAGMA journal_size_limit={_LOG_BYTES}").fetchall()
    driver.execute("PRAGMA cache_size=-65536")


def _prepare_reader(driver: sqlite3.Connection) -> None:
    driver.execute("PRAGMA query_only=ON")
    driver.execute("PRAGMA cache_size=-32768")


def _driver_of(engine: Engine) -> sqlite3.Connection:
    driver = engine.raw_connection().driver_connection
    assert isinstance(driver, sqlite3.Connection)  # noqa: S101 - narrows the pool's Any
    return driver


def from_os(problem: OSError, path: Path) -> StoreError:
    """The error for what the operating system refused."""
    if problem.errno in {errno.ENOSPC, errno.EDQUOT}:
        return _full(path)
    if problem.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return _read_only(path)
    return StoreUnusable(
        f"{path} can't be used as a database: {problem.strerror or problem}.",
        next_step="Name another file with --database.",
    )


def _from_driver(problem: sqlite3.Error, path: Path) -> StoreError:
    code = getattr(problem, "sqlite_errorcode", None)
    base = None if code is None else code & 0xFF
    if base in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return StoreBusy(
            f"{path.name} is locked by another program.",
            next_step="Close what else has it open (a database browser, say) and try again.",
        )
    if (
        base == sqlite3.SQLITE_FULL
        or code in _NO_ROOM
        or (base == sqlite3.SQLITE_IOERR and _disk_is_full(path))
    ):
        return _full(path)
    if base == sqlite3.SQLITE_READONLY or (base == sqlite3.SQLITE_CANTOPEN and path.exists()):
        return _read_only(path)
    if base in {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}:
        return StoreUnusable(
            f"{path} is not a usable SQLite database: {problem}.",
            next_step="Name another file with --database, or restore a backup.",
        )
    return StoreUnusable(
        f"{path} can't be used as a database: {problem}.",
        next_step="Name another file with --database.",
    )


def _disk_is_full(path: Path) -> bool:
    try:
        room = os.statvfs(path.parent)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize < 1 << 20


def _full(path: Path) -> StoreFull:
    return StoreFull(
        f"The disk that holds {path} takes no more (it is full, or over a quota or size limit); "
        "nothing of this was written.",
        next_step="Free some space and send it again: what is already stored is recognised.",
    )


def _read_only(path: Path) -> StoreReadOnly:
    return StoreReadOnly(
        f"{path} can't be written: it or its folder is read-only for this user.",
        next_step="Change its permissions, or name another file with --database.",
    )
