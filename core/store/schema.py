"""Schema: creates an empty database, refuses an older or foreign one, upgrades on request."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from core.errors import NoDatabase, SchemaMismatch, StoreUnusable
from core.store.engine.sqlite import Connection, Database
from core.store.failures import from_os, translated
from core.store.files import make_file, make_folder
from core.store.refold import refold

HEAD: Final = max(
    script.name.partition("_")[0]
    for script in (Path(__file__).parent / "migrations/versions").glob("[0-9]*_*.py")
)
"""The newest migration."""


def prepare(database: Database, *, create: bool) -> None:
    """Make sure the file holds our newest schema; with ``create`` it is made where there is nothing yet.

    Raises `NoDatabase` where there is nothing, `SchemaMismatch` for another schema, `StoreUnusable` for a foreign
    file.
    """
    found = _version(database)
    if found is None and not create:
        raise NoDatabase(
            f"There is no database at {database.path}.",
            next_step="Make it with: armscope import FILES (or name another with --database).",
        )
    if found is None:
        with _making(database):
            if _version(database) is None:  # nobody was quicker
                _migrate(database)
        return
    if found != HEAD:
        raise SchemaMismatch(
            f"{database.path} has schema {found}, this version of armscope needs {HEAD}.",
            next_step="Run: armscope upgrade (an older database), or install the newer armscope that wrote it.",
        )


def upgrade(database: Database) -> Upgraded:
    """Bring an older schema up to date. Up to date already: nothing happens."""
    with _making(database):
        found = _version(database)
        n_mended = 0 if found == HEAD else _migrate(database)
    return Upgraded(found, HEAD, n_mended)


class Upgraded(NamedTuple):
    """The schema before (None = there was nothing) and after, and how many texts had to be mended."""

    before: str | None
    after: str
    n_mended: int


@contextmanager
def _making(database: Database) -> Iterator[None]:
    """Hold the writers' lock, in a folder that a power loss won't take away."""
    try:
        make_folder(database.path.parent)
    except OSError as problem:
        raise from_os(problem, database.path, "write") from problem
    with database.locked():
        yield


def _version(database: Database) -> str | None:
    """The schema a file holds; None where there is no file or an empty one."""
    path = database.path
    if not _is_empty(path):
        _roll_back(database)
    if _is_empty(path):
        return None
    with database.reading() as connection:
        tables = {name for (name,) in connection.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            return None
        return _stamp(connection, tables, path)


def _roll_back(database: Database) -> None:
    """Take back what a crash left half-made: a reader finds the journal, may write nothing, and can't go on.

    Only the first moments of a database have a journal; from then on it has its log.
    """
    path = database.path
    if not os.path.lexists(f"{path}-journal"):
        return
    with database.locked(), translated(path, "write"):  # whoever is making it now is waited for
        driver = sqlite3.connect(path, isolation_level=None, timeout=30)
        try:
            driver.execute("SELECT count(*) FROM sqlite_master").fetchall()
        finally:
            driver.close()


def _is_empty(path: Path) -> bool:
    """Whether there is nothing at a path yet; raises `StoreUnusable` for what can't hold a database."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return True
    except OSError as problem:
        raise from_os(problem, path, "read") from problem
    if stat.S_ISDIR(found.st_mode):
        raise StoreUnusable(
            f"The database must be a file, got the folder {path}.",
            next_step="Name a file in it, for example --database armscope.db.",
        )
    if not stat.S_ISREG(found.st_mode):
        raise StoreUnusable(
            f"The database must be a file on a disk, got {path}, which is a device, pipe or socket.",
            next_step="Name a file, for example --database armscope.db.",
        )
    return found.st_size == 0


def _stamp(connection: Connection, tables: set[str], path: Path) -> str:
    row = connection.row("SELECT version_num FROM alembic_version") if "alembic_version" in tables else None
    if row is None or "learner" not in tables:
        some = ", ".join(sorted(tables)[:3])
        raise StoreUnusable(
            f"{path} is a database of another program (tables {some}).",
            next_step="Name another file with --database; to read its data use: armscope import.",
        )
    return str(row[0])


def _migrate(database: Database) -> int:
    """Run the migrations, and fold what they leave to be folded, in one transaction; how many texts they mended.

    Alembic is imported here: it is needed once in a database's life.
    """
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415
    from sqlalchemy import create_engine, event  # noqa: PLC0415
    from sqlalchemy.pool import NullPool  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    with translated(database.path, "write"):
        make_file(database.path)
        _turn_on_log(database.path)
        engine = create_engine(
            "sqlite+pysqlite://",
            creator=lambda: sqlite3.connect(database.path, isolation_level=None, timeout=30),
            poolclass=NullPool,
        )
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        with _unwrapped(), engine.begin() as connection:
            config.attributes["connection"] = connection
            try:
                command.upgrade(config, "head")
            except CommandError as problem:
                raise SchemaMismatch(
                    f"{database.path} has a schema that this version of armscope does not know: {problem}.",
                    next_step="Install the newer armscope that wrote it; nothing was changed.",
                ) from problem
            driver = connection.connection.driver_connection
            assert isinstance(driver, sqlite3.Connection)  # noqa: S101 - narrows the pool's Any
            refold(Connection(driver))
    return int(config.attributes.get("texts mended", 0))


@contextmanager
def _unwrapped() -> Iterator[None]:
    """Hand the driver's own error on, so that it is translated like everywhere else."""
    try:
        yield
    except Exception as problem:
        origin = getattr(problem, "orig", None)
        if isinstance(origin, sqlite3.Error):
            raise origin from problem
        raise


def _turn_on_log(path: Path) -> None:
    driver = sqlite3.connect(path, isolation_level=None, timeout=30)
    try:
        driver.execute("PRAGMA journal_mode=WAL").fetchall()
    finally:
        driver.close()
