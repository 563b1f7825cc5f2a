"""Making of an SQLite file that is missing or has an older schema."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection as Transacted
from sqlalchemy import create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from core.errors import StoreUnusable
from core.store.failures import from_os, translated
from core.store.files import make_file


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
        driver = sqlite3.connect(path, isolation_level=None, timeout=30)
        try:
            driver.execute("SELECT count(*) FROM sqlite_master").fetchall()
        finally:
            driver.close()


@contextmanager
def migrating(path: Path) -> Iterator[tuple[Transacted, sqlite3.Connection]]:
    """One transaction, and the driver's connection that it is of."""
    with translated(path, "write"):
        make_file(path)
        _turn_on_log(path)
        engine = create_engine(
            "sqlite+pysqlite://",
            creator=lambda: sqlite3.connect(path, isolation_level=None, timeout=30),
            poolclass=NullPool,
        )
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        with _unwrapped(), engine.begin() as transacted:
            driver = transacted.connection.driver_connection
            assert isinstance(driver, sqlite3.Connection)  # noqa: S101 - narrows the pool's Any
            yield transacted, driver


@contextmanager
def _unwrapped() -> Iterator[None]:
    """Hand the driver's own error on, so that it is translated like everywhere else."""
    try:
        yield
    except DBAPIError as problem:
        if isinstance(problem.orig, sqlite3.Error):
            raise problem.orig from problem
        raise


def _turn_on_log(path: Path) -> None:
    driver = sqlite3.connect(path, isolation_level=None, timeout=30)
    try:
        driver.execute("PRAGMA journal_mode=WAL").fetchall()
    finally:
        driver.close()
