"""A PostgreSQL of a test's own that may break: it is restarted, it crashes, its disk is full."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

import psycopg

from core.settings import Server
from core.store.store import Store
from tests.store.postgres import NAME, done, make_data, programs_for, stepped_down

_OPTIONS: Final = ("listen_addresses=", "max_connections=100")
"""What is promised to the disk stands as PostgreSQL has it."""
_EMPTY: Final = "armscope_empty"
_MIB: Final = 2**20
_PATIENCE_S: Final = 120


@dataclass
class Breakable:
    """A server that listens in a folder."""

    folder: Path
    data: Path
    user: int | None
    programs: Path
    options: Sequence[str]
    within: Sequence[str | Path] = ()
    """What its programs are started by, if not by ourselves."""

    @property
    def socket(self) -> Path:
        return self.folder / ".s.PGSQL.5432"

    def server(self, database: str) -> Server:
        return Server(f"postgresql://{NAME}@/{database}?host={self.folder}")

    def fresh(self, database: str) -> Server:
        """A new database with our tables."""
        if not self.ask(f"SELECT 1 FROM pg_database WHERE datname = '{_EMPTY}'"):
            self.ask(f"CREATE DATABASE {_EMPTY} TEMPLATE template0")
            Store(self.server(_EMPTY)).close()
        self.ask(f"CREATE DATABASE {database} TEMPLATE {_EMPTY}")
        return self.server(database)

    def ask(self, sql: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """As who may do everything."""
        with psycopg.connect(self.server(database).url, autocommit=True) as driver:
            asked = driver.execute(sql.encode())
            return asked.fetchall() if asked.description else []

    def start(self) -> None:
        self.control("start")

    def restart(self, mode: Literal["fast", "immediate"]) -> None:
        """Whoever is connected is told to go, or (immediate) everything is dropped as in a crash."""
        self.control("-m", mode, "restart")

    def crash(self) -> None:
        """Have the system kill one of the processes that serve clients: the server drops all of them and starts anew,
        because none can be trusted any more.
        """
        ((process,),) = self.ask(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            " LIMIT 1"
        )
        os.kill(process, signal.SIGKILL)

    def control(self, *words: str) -> None:
        options = " ".join(
            f"-c {option}" for option in (*self.options, f"unix_socket_directories={self.folder}")
        )
        program = self.programs / "pg_ctl"
        log = self.folder / "log"
        self.run(program, "-D", self.data, "-l", log, "-t", str(_PATIENCE_S), "-o", options, *words)

    def run(self, *command: str | Path) -> None:
        done([*self.within, *command], self.folder, self.user)


@contextmanager
def breakable(*options: str) -> Iterator[Breakable]:
    """One that runs, on a disk like any other."""
    with TemporaryDirectory(prefix="armscope-breakable-") as place:
        folder = Path(place)
        user = stepped_down(folder)
        programs = programs_for(folder, user)
        made = Breakable(folder, make_data(programs, folder, user), user, programs, (*_OPTIONS, *options))
        with _running(made):
            yield made


@contextmanager
def _running(made: Breakable) -> Iterator[None]:
    made.start()
    try:
        yield
    finally:
        with suppress(AssertionError):  # it may be gone by itself
            made.control("-m", "immediate", "stop")
