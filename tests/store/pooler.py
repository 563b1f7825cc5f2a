"""PgBouncer in transaction mode, in front of a PostgreSQL of the tests: a process of its own in the server's folder.

It is a program of the system (Debian package ``pgbouncer``). Tests that need it are skipped without it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import quote

import psycopg
import pytest

from core.settings import Server
from tests.store.postgres import NAME, stepped_down

PROGRAM: Final = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
needs_pgbouncer: Final = pytest.mark.skipif(PROGRAM is None, reason="needs PgBouncer (apt install pgbouncer)")
_PORT: Final = 6432
_PATIENCE_S: Final = 30


@dataclass
class Pooler:
    """A pool of server connections that listens in a folder of its own; it can be killed and started again."""

    folder: Path
    user: int | None
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def to(self, server: Server, *, is_named: bool = False) -> Server:
        """The same database through the pool; with ``is_named`` the address says so."""
        named = "&pooler=transaction" if is_named else ""
        host = quote(str(self.folder), safe="")
        return Server(f"postgresql://{NAME}@/{server.name}?host={host}&port={_PORT}{named}")

    def start(self) -> None:
        assert PROGRAM is not None
        (self.folder / "pid").unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [PROGRAM, "-q", self.folder / "pgbouncer.ini"], user=self.user, stdout=log, stderr=log
            )
        deadline = time.monotonic() + _PATIENCE_S
        while not self._answers():
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.02)

    def kill(self) -> None:
        """End it from one moment to the next, as a crash does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def crash(self) -> None:
        """Kill it, and start it again."""
        self.kill()
        self.start()

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def _answers(self) -> bool:
        try:
            with psycopg.connect(
                host=str(self.folder), port=_PORT, dbname="pgbouncer", user=NAME, autocommit=True
            ) as driver:
                driver.execute(b"SHOW VERSION", prepare=False)
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def pooling(server: Mapping[str, Any], *, n_connections: int = 3, **settings: str) -> Iterator[Pooler]:
    """A pool to each database of a ``server`` (the driver's names), by PgBouncer's ``settings``."""
    with TemporaryDirectory(prefix="armscope-pooler-") as place:
        folder = Path(place)
        chosen = {
            "pool_mode": "transaction",
            "default_pool_size": str(n_connections),
            "min_pool_size": "0",
            "max_client_conn": "300",
            "listen_port": str(_PORT),
            "unix_socket_dir": str(folder),
            "auth_type": "any",
            "server_login_retry": "0.1",
            "query_wait_timeout": "30",
            "server_round_robin": "1",
            "admin_users": NAME,
            **settings,
        }
        lines = [
            "[databases]",
            f"* = host={server['host']} port={server.get('port') or 5432} user={NAME}",
            "[pgbouncer]",
        ]
        (folder / "pgbouncer.ini").write_text(
            "\n".join([*lines, *(f"{name} = {value}" for name, value in chosen.items()), ""])
        )
        user = stepped_down(folder)  # PgBouncer refuses to run as root
        pooler = Pooler(folder, user)
        try:
            yield pooler
        finally:
            pooler.kill()
