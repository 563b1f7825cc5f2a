"""With ``--engine postgres`` every database that a test names by a path is one of a PostgreSQL server. With
``--engine pooler`` it is reached through PgBouncer.

A path stands for a database of its own, made of a template in a few hundredths of a second. What is about a file
itself is marked ``of_file`` and left out; what brings its own engines, ``own_engines``, and goes as ever.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import Any, Final
from urllib.parse import quote
from weakref import WeakSet

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from core.flows.maintenance import upgrade
from core.settings import Located, Server
from core.store import store as stores
from core.store.engine import port
from core.store.engine.sqlite import LOCK_TIMEOUT_S
from core.store.engine.sqlite import Database as FileDatabase
from core.store.files import files_of
from core.store.store import Store, open_database
from core.store.tables import metadata
from core.store.text_index import NAME
from tests.store.pooler import Pooler, pooling
from tests.store.postgres import address

_OWN = (f"{token_hex(4)}_{number}" for number in count())
"""What the databases of a cluster go by: others may have theirs on the same server, or have left them there."""
_MOST_SPARE = 16
"""Databases that are kept to be given out again, of some 10 MB each."""

_N_SHARDS: Final = 4

COORDINATOR: Final = "ARMSCOPE_TEST_CITUS"
"""Names the coordinator of a Citus cluster, whose user may make databases on all its servers."""


class Cluster:
    """A server, and which of its databases stands for which path."""

    def __init__(self, place: str) -> None:
        own = next(_OWN)
        self._template, self._bare = f"armscope_empty_{own}", f"armscope_bare_{own}"
        self.asked = conninfo_to_dict(place)
        self._admin = psycopg.connect(place, autocommit=True)
        self._names: dict[Path, str] = {}
        self._spare: list[str] = []
        self._number = count()
        self._open: WeakSet[port.Database] = WeakSet()
        self._make(self._template, "template0")
        Store(self.server(self._template)).close()
        with psycopg.connect(self.server(self._template).url) as driver:
            self._nobody = {table: _copied(driver, table) for table in ("learner_name", "learner")}

    def server(self, name: str) -> Server:
        """The address of a database."""
        user, host = (quote(str(self.asked.get(part) or ""), safe="") for part in ("user", "host"))
        port = f"&port={self.asked['port']}" if self.asked.get("port") else ""
        return Server(f"postgresql://{user}@/{name}?host={host}{port}")

    def at(self, path: Path, *, template: str = "template0") -> Server:
        """The database that stands for a path, made if there is none: without a table, but from a template."""
        real = Path(os.path.realpath(path))
        if real not in self._names:
            if template == self._template and self._spare:
                self._names[real] = self._spare.pop()
            else:
                of = self._bare if template == "template0" else template.rpartition("-")[0] or template
                name = f"{of}-{next(self._number)}"
                self._make(name, template)
                self._names[real] = name
        return self.server(self._names[real])

    def path_of(self, server: Server) -> Path:
        """What it stands for."""
        return next(path for path, name in self._names.items() if name == server.name)

    def fresh(self, path: Path) -> Server:
        """A new database with our tables."""
        return self.at(path, template=self._template)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """As who may do everything."""
        asked = self._admin.execute(sql.encode())
        return asked.fetchall() if asked.description else []

    def snapshot(self, server: Server) -> None:
        """Keep a database as it is at this moment, while no one has it open."""
        self.ask(f'CREATE DATABASE "{server.name}-kept" TEMPLATE "{server.name}"')

    def roll_back(self, server: Server) -> None:
        """Let what happened since be lost, as by a standby that had not heard of it: who is connected is cut off."""
        self.ask(f'DROP DATABASE "{server.name}" WITH (FORCE)')
        self.ask(f'ALTER DATABASE "{server.name}-kept" RENAME TO "{server.name}"')

    def replace(self, path: Path, by: Path) -> None:
        """Put the database that stands for one path into the place of another's: who is connected is cut off."""
        for database in list(self._open):
            database.close()
        name = self.at(path).name
        self.ask(f'DROP DATABASE "{name}" WITH (FORCE)')
        self._make(name, self.at(by).name)

    def put_empty(self, path: Path) -> None:
        """Have a new database with our tables where there is nothing."""
        self.at(path, template=self._template)

    def copy(self, source: Path, target: Path) -> None:
        """Have what stands for the paths in one folder for the same in another, too; or of one path for another."""
        for database in list(self._open):
            database.close()
        for path, name in list(self._names.items()):
            if path.is_relative_to(real := Path(os.path.realpath(source))):
                self.at(target / path.relative_to(real), template=name)

    def opened(self, place: Located, *, lock_timeout_s: float = LOCK_TIMEOUT_S) -> port.Database:
        """What opens a database meanwhile; a file that is there, a backup say, is one."""
        if isinstance(place, Path) and not place.is_file():
            place = self.at(place)
        found = open_database(place, lock_timeout_s=lock_timeout_s)
        self._open.add(found)
        return found

    def forget(self) -> None:
        """Close what is open, and have every database empty, to be given out again."""
        for database in list(self._open):
            database.close()
        for name in self._names.values():
            if name.startswith(self._template) and len(self._spare) < _MOST_SPARE:
                self._empty(name)
            else:
                self._admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())
        self._names.clear()

    def _empty(self, name: str) -> None:
        with psycopg.connect(self.server(name).url) as driver:
            for table in reversed(metadata.sorted_tables):
                driver.execute(f'DELETE FROM "{table.name}"'.encode())
            for table, rows in self._nobody.items():
                with driver.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
                    copy.write(rows)
            driver.execute("SELECT setval(pg_get_serial_sequence('learner_name', 'learner_id'), 1, false)")
        self._spare.append(name)

    def close(self) -> None:
        self.forget()
        for name in [*self._spare, self._template]:
            self._admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())
        self._admin.close()

    def _make(self, name: str, template: str) -> None:
        self._admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"'.encode())


class Spread(Cluster):
    """The same of a Citus cluster, whose coordinator is at that address: each database is one of all its servers, and
    spread over them. Made of no template, they take some seconds each, so they are given out again.
    """

    def __init__(self, place: str) -> None:
        with psycopg.connect(place, autocommit=True) as driver:
            self._workers = driver.execute(
                "SELECT node_name, node_port FROM citus_get_active_worker_nodes()"
            ).fetchall()
        super().__init__(place)

    def server(self, name: str) -> Server:
        user, host, at = (
            quote(str(self.asked.get(part) or ""), safe="") for part in ("user", "host", "port")
        )
        return Server(f"postgresql://{user}@{host}:{at}/{name}")

    def _make(self, name: str, template: str) -> None:
        assert template in {"template0", self._template}, "a database of many servers is no template"
        nodes = [(self.asked["host"], self.asked["port"]), *self._workers]
        for host, at in nodes:
            with psycopg.connect(**{**self.asked, "host": host, "port": at}, autocommit=True) as driver:
                driver.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())
                driver.execute(f'CREATE DATABASE "{name}" TEMPLATE template0'.encode())
            with psycopg.connect(**{**self.asked, "host": host, "port": at, "dbname": name}) as driver:
                driver.execute("CREATE EXTENSION citus")
        with psycopg.connect(self.server(name).url, autocommit=True) as driver:
            driver.execute(f'ALTER DATABASE "{name}" SET citus.shard_count = {_N_SHARDS}'.encode())
            driver.execute("SELECT citus_set_coordinator_host(%s, %s)", nodes[0])
            for host, at in self._workers:
                driver.execute("SELECT citus_add_node(%s, %s)", (host, at))
        if template == self._template:
            upgrade(self.server(name), distribute=True)

    def _empty(self, name: str) -> None:
        with psycopg.connect(self.server(name).url, autocommit=True) as driver:
            tables = ", ".join(f'"{table}"' for table in metadata.tables)
            driver.execute(f"TRUNCATE {tables}".encode())
            for table, rows in self._nobody.items():
                with driver.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
                    copy.write(rows)
            driver.execute("SELECT setval(pg_get_serial_sequence('learner_name', 'learner_id'), 1, false)")
        self._spare.append(name)


class Pooled(Cluster):
    """The same of one server behind PgBouncer, which keeps connections to databases that it was asked for."""

    def __init__(self, place: str, pooler: Pooler) -> None:
        self._pooler = pooler
        super().__init__(place)

    def server(self, name: str) -> Server:
        return self._pooler.to(super().server(name))

    def snapshot(self, server: Server) -> None:
        self._leave(server.name)
        super().snapshot(server)

    def _make(self, name: str, template: str) -> None:
        self._leave(template)
        super()._make(name, template)

    def _leave(self, name: str) -> None:
        """End every connection to a database: a template has none."""
        self.ask(f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{name}'")


def _copied(driver: psycopg.Connection[Any], table: str) -> bytes:
    """All rows of a table, as the server copies them."""
    with driver.cursor().copy(f'COPY "{table}" TO STDOUT'.encode()) as copy:
        return b"".join(copy)


def copy_world(source: Path, target: Path) -> None:
    """Copy a folder, or a database, for a test of its own."""
    if source.is_dir():
        shutil.copytree(source, target)
    elif not _RUNNING:
        shutil.copy(source, target)
    if _RUNNING:
        _RUNNING[-1].copy(source, target)


def kept_in(store: Store) -> Path:
    """The file that a store is kept in."""
    assert isinstance(store.location, Path), "a test of the file itself"
    return store.location


def located(path: Path) -> Located:
    """Where what a test names by a path is, for a process that knows of no server."""
    return _RUNNING[-1].at(path) if _RUNNING else path


def address_of(path: Path) -> str:
    """What a command line names it by."""
    place = located(path)
    return place.url if isinstance(place, Server) else str(place)


def database_rows(path: Path, sql: str) -> list[Any]:
    """The rows with which a database answers one statement, said past the store."""
    place = located(path)
    if isinstance(place, Server):
        with psycopg.connect(place.url) as driver:
            said = driver.execute(sql.encode())
            return said.fetchall() if said.description else []
    with closing(sqlite3.connect(place, timeout=30)) as file, file:
        return file.execute(sql).fetchall()


def named(store: Store) -> Path:
    """The path that a test names a database by, no matter what keeps it."""
    return _RUNNING[-1].path_of(store.location) if isinstance(store.location, Server) else store.location


def content(store: Store) -> bytes:
    """All that a store keeps: as it lies in files, or as the server's tables have it."""
    if not isinstance(store.location, Server):
        return b"".join(file.read_bytes() for file in files_of(store.location))
    with psycopg.connect(store.location.url) as driver:
        return b"".join(_copied(driver, table) for table in (*sorted(metadata.tables), NAME))


def file_database(store: Store) -> FileDatabase:
    """The database of a store that is kept in a file."""
    assert isinstance(store.database, FileDatabase), "a test of the file itself"
    return store.database


_RUNNING: list[Cluster] = []


def running() -> Cluster | None:
    """The server that keeps what tests name by paths; None: files do."""
    return _RUNNING[-1] if _RUNNING else None


@contextmanager
def redirected(config: pytest.Config) -> Iterator[None]:
    """Whatever a path names is a database of a server meanwhile."""
    with cluster_asked(config) as cluster, pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "open_database", cluster.opened)
        _RUNNING.append(cluster)
        yield
        _RUNNING.pop()


@contextmanager
def interrupted() -> Iterator[None]:
    """A path names a file again meanwhile."""
    if not _RUNNING:
        yield
        return
    cluster = _RUNNING.pop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "open_database", open_database)
        yield
    _RUNNING.append(cluster)


@contextmanager
def cluster_asked(config: pytest.Config) -> Iterator[Cluster]:
    """The server that tests run on, or the cluster."""
    if config.getoption("--engine") == "citus":
        cluster: Cluster = Spread(os.environ[COORDINATOR])
        yield cluster
        cluster.close()
        return
    with address() as place, ExitStack() as running:
        if config.getoption("--engine") == "pooler":
            cluster = Pooled(place, running.enter_context(pooling(conninfo_to_dict(place))))
        else:
            cluster = Cluster(place)
        yield cluster
        cluster.close()


def is_asked(config: pytest.Config) -> bool:
    """Whether tests run on PostgreSQL, be it many servers of it."""
    return config.getoption("--engine") in {"postgres", "pooler", "citus"}
