"""The real server and the real commands, started as a person starts them."""

from __future__ import annotations

import http.client
import io
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest

from core import open_learner, restore
from core.doors.cli import main
from tests.bench.servers import wait_for
from tests.conftest import ROOT
from tests.engine import address_of, running
from tests.terminal import warm
from tests.waiting import until

_PAGES: Final = """
import importlib
from dashboard import server
for name in (*server._HEAVY, *server._own_modules()):
    importlib.import_module(name)
"""
_GRANTED: Final = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({0}, {0}))
from dashboard.launch import main
main()
"""
_NAME: Final = "journey.db"

Believed = tuple[float, float, int]
"""Alpha, beta and pulls."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """A dashboard on a database of its own."""

    url: str
    database: Path
    folder: Path

    def armscope(self, *arguments: str) -> object:
        """Run a command on the same database from another process than the server's; its JSON answer."""
        return armscope(self.database, *arguments)

    def begin_anew(self, content: bytes | None, folder: Path) -> None:
        """Replace the served database by a new one with these lines (None: empty), from a folder of its own."""
        _made(folder, content)
        if cluster := running():
            cluster.replace(self.database, by=folder / _NAME)
        else:
            restore(folder / _NAME, self.database)

    def put(self, content: bytes, name: str) -> Path:
        """A file for an import."""
        path = self.folder / name
        path.write_bytes(content)
        return path

    def posteriors(self) -> dict[str, Believed]:
        """What is believed of every arm, read by a process that isn't the server."""
        with open_learner(self.database) as learner:
            return {known.arm: (known.alpha, known.beta, known.pulls) for known in learner.posteriors()}

    def is_sound(self) -> bool:
        """Whether every cache equals what the facts say."""
        with open_learner(self.database) as learner:
            return learner.verify().clean


def mean_of(believed: Believed) -> float:
    alpha, beta, _pulls = believed
    return alpha / (alpha + beta)


def fields(answer: object) -> dict[str, object]:
    """An answer that is one object."""
    assert isinstance(answer, dict)
    return answer


def armscope(database: Path, *arguments: str) -> object:
    """One command on a database."""
    return run(["--database", address_of(database), *arguments])


def run(arguments: Sequence[str]) -> object:
    """JSON answer of a command after ``armscope``, run in the tests' own process; its exit code must be 0."""
    said, wrong = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(said), redirect_stderr(wrong), pytest.raises(SystemExit) as ended:
        main([*arguments, "--json"])
    told, problem = said.detach().getvalue(), wrong.detach().getvalue()
    assert ended.value.code == 0, (arguments, told, problem)
    answer: object = json.loads(told)
    return answer


def ask(served: Served, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str]]:
    """Status and headers of the answer; the connection is closed at once."""
    place = urlsplit(served.url).netloc
    connection = http.client.HTTPConnection(place, timeout=20)
    try:
        connection.putrequest(method, path, skip_host=True)
        for name, value in {"Host": place, **headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


@contextmanager
def serving(
    folder: Path,
    content: bytes | None = None,
    *more: str,
    n_handles: int | None = None,
    user: str | None = None,
    auth: Path | None = None,
) -> Iterator[Served]:
    """Serve a new database, with these lines in it if any are given; stopped afterwards. ``more`` options.

    ``n_handles``: as many as the server is granted. ``user``: whose server it is, on the database that is there.
    ``auth``: the secrets file by which people sign in.
    """
    database = folder / _NAME
    if content is not None:
        _made(folder, content)
    begun = [*warm(_PAGES), *([] if n_handles is None else ["-c", _GRANTED.format(n_handles)])]
    named = address_of(database)
    whose = "" if user is None else f" of {user}"
    said, log = folder / f"serve{whose}.json", folder / f"serve{whose}.log"
    with said.open("wb") as out, log.open("wb") as err:
        process = subprocess.Popen(
            [*begun, "--database", named, "serve", "--port", "0", "--no-browser", "--json", *more],
            cwd=ROOT,
            env=_environment()
            | ({} if user is None else {"LOGNAME": user})
            | ({} if auth is None else {"ARMSCOPE_AUTH": str(auth)}),
            stdout=out,
            stderr=err,
        )
    try:
        url = _url(process, said, log)
        yield Served(url=url, database=database, folder=folder)
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _made(folder: Path, content: bytes | None) -> None:
    """A database with these lines in it."""
    with open_learner(folder / _NAME) as learner:
        if content is not None:
            lines = folder / "first.jsonl"
            lines.write_bytes(content)
            learner.import_files(lines)


def _environment() -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("ARMSCOPE_", "STREAMLIT_"))
    }


def _url(process: subprocess.Popen[bytes], answer: Path, log: Path) -> str:
    """The address in the answer of ``serve --json``, once the server answers there."""
    until(lambda: process.poll() is not None or answer.read_text("utf-8").endswith("}\n"))
    assert process.poll() is None, f"the server did not answer: {log.read_text('utf-8', 'replace')[-2000:]}"
    url = str(json.loads(answer.read_text("utf-8"))["url"])
    wait_for(f"{url}/livez")
    return url
