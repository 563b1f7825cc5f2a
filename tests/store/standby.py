"""Two PostgreSQL servers, a primary and its standby: what is left when the first is gone at once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from core.settings import Server
from tests.store.postgres import NAME, done, make_data, programs_for, reached, served, stepped_down

_STANDBY = "standby"
_OPTIONS = ("listen_addresses=", "max_connections=100", "wal_level=replica", "max_wal_senders=4")
"""What is promised to the disk stands as PostgreSQL has it."""


@dataclass(frozen=True)
class Pair:
    """A primary, its standby, and the address by which a client finds whichever may be written to."""

    primary: Popen[bytes]
    primary_address: str
    standby_address: str

    def server(self, database: str) -> Server:
        first, second = (_folder(one) for one in (self.primary_address, self.standby_address))
        return Server(
            f"postgresql://{NAME}@/{database}?host={first},{second}&target_session_attrs=read-write"
        )

    def standby(self, database: str) -> Server:
        """The standby alone."""
        return Server(f"postgresql://{NAME}@/{database}?host={_folder(self.standby_address)}")

    def follow(self) -> None:
        """Wait until the standby has all that the primary wrote."""
        ((place,),) = self.ask_primary("SELECT pg_current_wal_lsn()::text")
        while not self.ask_standby(f"SELECT 1 WHERE pg_last_wal_replay_lsn() >= '{place}'"):
            time.sleep(0.01)

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Whoever asks the standby is shown nothing new."""
        self.ask_standby("SELECT pg_wal_replay_pause()")
        while self.ask_standby("SELECT pg_get_wal_replay_pause_state()") != [("paused",)]:
            time.sleep(0.01)
        try:
            yield
        finally:
            self.ask_standby("SELECT pg_wal_replay_resume()")

    def receive_nothing(self) -> None:
        """Take the standby's receiver away, and wait until it is gone: from here on it lags behind."""
        self.ask_standby("ALTER SYSTEM SET primary_conninfo = ''")
        self.ask_standby("SELECT pg_reload_conf()")
        while self.ask_standby("SELECT 1 FROM pg_stat_wal_receiver"):
            time.sleep(0.01)

    def kill_primary(self) -> None:
        """Every process of it at once, as if the machine were gone."""
        self.primary.send_signal(signal.SIGSTOP)  # it would start others in their place
        for process in (*_children(self.primary.pid), self.primary.pid):
            os.kill(process, signal.SIGKILL)
        self.primary.wait()

    def promote(self) -> None:
        """Make the standby the one that is written to; it is when this returns."""
        assert self.ask_standby("SELECT pg_promote(true, 600)") == [(True,)]

    def ask_primary(self, sql: str) -> list[tuple[Any, ...]]:
        return _rows_of(self.primary_address, sql)

    def ask_standby(self, sql: str) -> list[tuple[Any, ...]]:
        return _rows_of(self.standby_address, sql)


@contextmanager
def pair(*, synchronous: bool) -> Iterator[Pair]:
    """Both, on disk; ``synchronous``: a commit is answered when the standby has it, too."""
    with TemporaryDirectory(prefix="armscope-pair-") as place, ExitStack() as running:
        folders = [Path(place) / name for name in ("first", "second")]
        Path(place).chmod(0o755)
        for folder in folders:
            folder.mkdir()
        user, _ = [stepped_down(folder) for folder in folders]
        programs = programs_for(folders[0], user)
        first = make_data(programs, folders[0], user)
        primary = running.enter_context(served(programs, first, folders[0], user, _OPTIONS))
        primary_address = reached(primary, folders[0])
        second = folders[1] / "data"
        done(
            [programs / "pg_basebackup", "-D", second, "-d", primary_address, "-X", "stream", "-c", "fast"],
            folders[1],
            user,
        )
        (second / "standby.signal").touch()
        (second / "postgresql.auto.conf").write_text(
            f"primary_conninfo = 'host={folders[0]} user={NAME} application_name={_STANDBY}'\n"
        )
        standby = running.enter_context(served(programs, second, folders[1], user, _OPTIONS))
        both = Pair(primary, primary_address, reached(standby, folders[1]))
        if synchronous:
            both.ask_primary(f"ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 ({_STANDBY})'")
            both.ask_primary("SELECT pg_reload_conf()")
        wanted = [("sync" if synchronous else "async",)]
        while both.ask_primary("SELECT sync_state FROM pg_stat_replication") != wanted:
            time.sleep(0.01)
        yield both


def _rows_of(address: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(address, autocommit=True) as driver:
        asked = driver.execute(sql)
        return asked.fetchall() if asked.description else []


def _folder(address: str) -> str:
    return address.removeprefix("host=").partition(" ")[0]


def _children(parent: int) -> Sequence[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:  # ended meanwhile
                continue
            if int(stat.rpartition(")")[2].split()[1]) == parent:
                found.append(int(entry.name))
    return found
