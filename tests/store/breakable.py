"""A PostgreSQL of a test's own that may break: it is restarted, it crashes, its disk is full, its machine is gone."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from secrets import randbelow, token_hex
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

import psycopg

from core.settings import Server
from core.store.store import Store
from tests.store.postgres import NAME, done, make_data, programs_for, stepped_down

_OPTIONS: Final = ("listen_addresses=", "max_connections=100")
"""What is promised to the disk stands as PostgreSQL has it."""
_EMPTY: Final = "armscope_empty"
_PATIENCE_S: Final = 120


@dataclass
class Breakable:
    """A server that listens in a folder."""

    folder: Path
    data: Path
    user: int | None
    programs: Path
    options: Sequence[str]
    within: Sequence[str] = ()
    """What its programs are started by, if not by ourselves."""

    @property
    def socket(self) -> Path:
        return self.folder / ".s.PGSQL.5432"

    @property
    def asked(self) -> dict[str, str]:
        """Where it listens, as the driver names it."""
        return {"host": str(self.folder)}

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
        """Have the system kill a process that serves a client: the server drops all of them and starts again."""
        ((process,),) = self.ask(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            " LIMIT 1"
        )
        os.kill(process, signal.SIGKILL)

    def fill(self) -> None:
        """Leave no room on its disk but what it has begun to use: a piece of its log of writes, for one."""
        self.ask("SELECT pg_switch_wal()")
        self.run("sh", "-c", f"cat /dev/zero >{self.data}/filler || true")

    def make_room(self) -> None:
        self.run("rm", self.data / "filler")

    @property
    def log(self) -> str:
        """What it has said."""
        return (self.folder / "log").read_text(errors="replace")

    def is_running(self) -> bool:
        try:
            self.control("status")
        except AssertionError:
            return False
        return True

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
    with _folder() as (folder, user):
        programs = programs_for(folder, user)
        data = make_data(programs, folder, user)
        with _running(Breakable(folder, data, user, programs, (*_OPTIONS, *options))) as made:
            yield made


@contextmanager
def on_a_small_disk(n_mib: int, *options: str, log_is_elsewhere: bool) -> Iterator[Breakable]:
    """One that runs, whose data lie on a disk of their own of so many MiB; its log of writes (WAL) may lie elsewhere.

    The disk is there for its programs only. Raises `LookupError` where the system lets no one but root have one.
    """
    with _folder() as (folder, user):
        programs = programs_for(folder, user)
        with _small_disk(folder / "data", user, n_mib) as within:
            asked = ["--wal-segsize=1", *([f"--waldir={folder / 'wal'}"] if log_is_elsewhere else [])]
            data = make_data(programs, folder, user, within=within, asked=asked)
            with _running(Breakable(folder, data, user, programs, (*_OPTIONS, *options), within)) as made:
                yield made


@contextmanager
def on_another_machine() -> Iterator[tuple[Breakable, Server, Callable[[], None]]]:
    """One that runs on what is another machine to us, by a network of its own; an empty database there, as it is
    reached from here; and what takes that machine away from one moment to the next, so that nothing comes back.

    Raises `LookupError` where the system lets us have no networks.
    """
    away = f"armscope-{token_hex(2)}"
    network = f"198.18.{randbelow(256)}"  # of the addresses that are for tests of networks (RFC 2544)
    here, there = f"{network}.1", f"{network}.2"
    ends = f"{away[-4:]}-here", f"{away[-4:]}-there"
    with _folder() as (folder, user), ExitStack() as leaving:
        _network("ip", "netns", "add", away)
        leaving.callback(_network, "ip", "netns", "del", away)
        _network("ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1], "netns", away)
        # By itself it goes when the last has gone of what was sent, and was never answered.
        leaving.callback(_network, "ip", "link", "del", ends[0])
        for place, end, own in ((["ip"], ends[0], here), (["ip", "-n", away], ends[1], there)):
            _network(*place, "addr", "add", f"{own}/30", "dev", end)
            _network(*place, "link", "set", end, "up")
        programs = programs_for(folder, user)
        data = make_data(programs, folder, user)
        with (data / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {here}/32 trust\n")
        within = [
            "ip",
            "netns",
            "exec",
            away,
            *([] if user is None else ["setpriv", f"--reuid={user}", "--clear-groups"]),
        ]
        options = (f"listen_addresses={there}", *_OPTIONS[1:])
        with _running(Breakable(folder, data, None, programs, options, within)) as made:
            made.fresh("away")
            server = Server(f"postgresql://{NAME}@{there}/away")
            yield made, server, partial(_network, "ip", "-n", away, "link", "set", ends[1], "down")


def _network(*command: str) -> None:
    try:
        done(command, Path(), None)
    except (AssertionError, FileNotFoundError) as problem:
        raise LookupError(str(problem)) from problem


@contextmanager
def _folder() -> Iterator[tuple[Path, int | None]]:
    """A folder of the user that a server runs as."""
    with TemporaryDirectory(prefix="armscope-breakable-") as place:
        yield Path(place), stepped_down(Path(place))


@contextmanager
def _running(made: Breakable) -> Iterator[Breakable]:
    made.start()
    try:
        yield made
    finally:
        with suppress(AssertionError):  # it may be gone by itself
            made.control("-m", "immediate", "stop")


@contextmanager
def _small_disk(place: Path, user: int | None, n_mib: int) -> Iterator[list[str]]:
    """A disk in memory that only what is started by these words sees: it takes no root, and goes with that."""
    mounting = (
        f"mkdir {place} && mount -t tmpfs -o size={n_mib}m,mode=700 tmpfs {place} && echo mounted && exec cat"
    )
    try:
        holder = subprocess.Popen(
            ["unshare", "--map-current-user", "--keep-caps", "--mount", "sh", "-c", mounting],
            user=user,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    except FileNotFoundError as problem:
        raise LookupError(str(problem)) from problem
    with holder:
        assert holder.stdout is not None
        assert holder.stderr is not None
        if holder.stdout.readline() != "mounted\n":
            raise LookupError(holder.stderr.read().strip())
        yield ["nsenter", "--preserve-credentials", "--user", "--mount", f"--target={holder.pid}"]
