"""Away: what an agent loses and waits while its database or server fails: ``python -m tests.bench.away``.

Each scene has its requests, some of them while the server is absent, silent, slow or restarting, the file is locked,
the disk is full, or the agent itself is killed. The added wait of a request is the time of the two ends of its block.
It is judged apart for requests that began with closed breakers, and for later ones. At the end every run that was not
dropped must be in the database, once.
"""

from __future__ import annotations

import argparse
import logging
import os
import resource
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from core import Client, LearnerProtocol, open_learner
from tests.conftest import ROOT
from tests.doors.front import Front, Mode
from tests.doors.http.test_served import server as serving

FIRST_S: Final = 1.6
LATER_S: Final = 0.05
_TOOLS: Final[list[dict[str, Any]]] = [
    {"name": name, "input_schema": {}} for name in ("search", "fetch", "Read", "Write", "Bash")
]
_LEARNER: Final = "agents"
_PATIENCE_S: Final = 120.0
_RESTART_S: Final = 0.3


@dataclass
class Seen:
    """What one scene showed: runs by outcome, answers, and the longest added waits in seconds."""

    outcomes: dict[str, str] = field(default_factory=dict)
    n_requests: int = 0
    n_answers: int = 0
    n_stored: int = 0
    n_twice: int = 0
    n_missing: int = 0
    is_clean: bool = False
    first: list[float] = field(default_factory=list)
    later: list[float] = field(default_factory=list)

    def request(self, learner: LearnerProtocol, uid: str) -> None:
        """Answer one request of an agent, which must come to its answer."""
        self.n_requests += 1
        is_later = any(learner._attempts._is_open.values())
        began = time.monotonic()
        with learner.run(_TOOLS, uid=uid, session="s") as run:
            waited = time.monotonic() - began
            run.called(run.tools[0]["name"])
            run.used(input=900, output=100)
            self.n_answers += 1
            began = time.monotonic()
        (self.later if is_later else self.first).append(waited + time.monotonic() - began)
        self.outcomes[uid] = str(run.outcome)

    def compare(self, path: Path) -> None:
        """Compare with the runs of the database."""
        with closing(sqlite3.connect(path)) as database:
            stored = dict(database.execute("SELECT uid, count(*) FROM run GROUP BY uid"))
        self.n_stored = len(stored)
        self.n_twice = sum(n > 1 for n in stored.values())
        self.n_missing = sum(
            outcome != "dropped" and uid not in stored for uid, outcome in self.outcomes.items()
        )
        with open_learner(path, _LEARNER) as learner:
            self.is_clean = learner.verify().clean

    @property
    def is_good(self) -> bool:
        """True if nothing was lost, and no wait was beyond its bound."""
        return (
            self.n_answers == self.n_requests
            and self.n_twice == self.n_missing == 0
            and self.is_clean
            and max(self.first, default=0) <= FIRST_S
            and max(self.later, default=0) <= LATER_S
        )


def _until_sent(learner: LearnerProtocol) -> None:
    end = time.monotonic() + _PATIENCE_S
    while learner._attempts.counts().waiting and time.monotonic() < end:
        time.sleep(0.05)


@contextmanager
def _front(folder: Path) -> Iterator[Front]:
    """A front before a server in a process of its own, as an agent has it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with serving(folder, port):
        front = Front(f"http://127.0.0.1:{port}")
        yield front
        front.close()


def server(mode: Mode, seen: Seen, folder: Path, n_requests: int) -> None:
    """The server is away for the middle half of the requests."""
    with _front(folder) as front, Client(front.url, learner=_LEARNER, spool=folder) as client:
        for number in range(n_requests):
            if number in {n_requests // 4, 3 * n_requests // 4}:
                front.be(mode if number == n_requests // 4 else "passing")
            seen.request(client, f"r{number}")
        _until_sent(client)


def restarting(seen: Seen, folder: Path, n_requests: int) -> None:
    """The server goes and comes all the time."""
    with _front(folder) as front, Client(front.url, learner=_LEARNER, spool=folder) as client:
        is_there, turn = True, time.monotonic()
        for number in range(n_requests):
            if time.monotonic() - turn > _RESTART_S:
                is_there, turn = not is_there, time.monotonic()
                front.be("passing" if is_there else "refused")
            seen.request(client, f"r{number}")
        front.be("passing")
        _until_sent(client)


def locked(seen: Seen, folder: Path, n_requests: int) -> None:
    """Another program has begun to write to the file."""
    path = folder / "a.db"
    with open_learner(path, _LEARNER, spool=folder) as learner, closing(_browser(path)) as browser:
        for number in range(n_requests):
            if number in {n_requests // 4, 3 * n_requests // 4}:
                browser.execute("BEGIN IMMEDIATE" if number == n_requests // 4 else "ROLLBACK")
            seen.request(learner, f"r{number}")
        _until_sent(learner)


def _browser(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


def full(seen: Seen, folder: Path, n_requests: int) -> None:
    """No file may grow: neither that of the database nor one of the spool."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open_learner(folder / "a.db", _LEARNER, spool=folder) as learner:
        for number in range(n_requests):
            if number in {n_requests // 4, 3 * n_requests // 4}:
                limit = 1 if number == n_requests // 4 else most
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
            seen.request(learner, f"r{number}")
        _until_sent(learner)


_AGENT: Final = """
import sys
from pathlib import Path
from core import Client
from tests.bench.away import Seen

seen = Seen()
client = Client(sys.argv[1], learner="agents", spool=sys.argv[2])
for number in range(int(sys.argv[3]), int(sys.argv[4])):
    seen.request(client, f"r{number}")
    longest = max(seen.first, default=0), max(seen.later, default=0)
    print(f"r{number}", seen.outcomes[f"r{number}"], *longest, flush=True)
"""


def killed(seen: Seen, folder: Path, n_requests: int) -> None:
    """The agent is killed again and again, its server is away half of the time, and another process goes on."""
    with _front(folder) as front:
        number, n_kills = 0, 0
        while number < n_requests:
            front.be("refused" if n_kills % 2 else "passing")
            number = _killed_agent(seen, front.url, folder, number, n_requests)
            n_kills += 1
        front.be("passing")
        with Client(front.url, learner=_LEARNER, spool=folder) as client:
            client._attempts._send_what_waits()
            _until_sent(client)


def _killed_agent(seen: Seen, url: str, folder: Path, number: int, n_requests: int) -> int:
    """Run an agent until it has answered some requests. Return the number of the next one."""
    line = [sys.executable, "-c", _AGENT, url, str(folder), str(number), str(n_requests)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    last = min(number + n_requests // 8, n_requests) - 1
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
    ) as agent:
        assert agent.stdout is not None
        for answered in agent.stdout:
            uid, outcome, first, later = answered.split()
            seen.n_requests += 1
            seen.n_answers += 1
            seen.outcomes[uid] = outcome
            seen.first.append(float(first))
            seen.later.append(float(later))
            if uid == f"r{last}":
                agent.send_signal(signal.SIGKILL)
    return len(seen.outcomes)


Scene = Callable[[Seen, Path, int], None]
SCENES: Final[Mapping[str, Scene]] = {
    "server absent": partial(server, "refused"),
    "server silent": partial(server, "silent"),
    "server fails": partial(server, "failing"),
    "a byte at a time": partial(server, "dripping"),
    "server restarts": restarting,
    "file locked": locked,
    "disk full": full,
    "agent killed": killed,
}


def measured(name: str, n_requests: int) -> Seen:
    """Play one scene in a folder of its own."""
    seen = Seen()
    with tempfile.TemporaryDirectory(prefix="armscope-away-") as folder:
        SCENES[name](seen, Path(folder), n_requests)
        seen.compare(Path(folder) / "a.db")
    return seen


def main() -> None:
    """Measure and print; the exit status is 1 where a bound was missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.away", description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000, metavar="N", help="requests of each scene")
    parser.add_argument("--only", action="append", choices=list(SCENES))
    chosen = parser.parse_args()
    logging.disable()
    heads = (
        "scene",
        "requests",
        "answers lost",
        "spooled",
        "dropped",
        "missing",
        "twice",
        "first s",
        "later ms",
        "",
    )
    _say(heads)
    is_good = True
    for name in chosen.only or SCENES:
        seen = measured(name, chosen.requests)
        is_good &= seen.is_good
        outcomes = list(seen.outcomes.values())
        _say(
            (
                name,
                seen.n_requests,
                seen.n_requests - seen.n_answers,
                outcomes.count("spooled"),
                outcomes.count("dropped"),
                seen.n_missing,
                seen.n_twice,
                f"{max(seen.first, default=0):.2f}",
                f"{1000 * max(seen.later, default=0):.0f}",
                f"{1000 * statistics.median(seen.later or [0]):.1f}",
                sum(one > LATER_S for one in seen.later),
                "met" if seen.is_good else "MISSED" if seen.is_clean else "NOT CLEAN",
            )
        )
    sys.exit(0 if is_good else 1)


def _say(cells: tuple[Any, ...]) -> None:
    sys.stdout.write(f"{cells[0]:<18}" + "".join(f"{cell!s:>13}" for cell in cells[1:]) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
