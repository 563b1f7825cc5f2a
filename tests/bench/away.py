"""Away: what an agent loses and waits while its database or server fails: ``python -m tests.bench.away``.

Each scene has its requests, some of them while the server is absent, silent, slow or restarting, the file is locked,
the disk is full, or the agent itself is killed. In the scene "nothing fails" all is well. The added wait of a request
is the time of those ends of its block that got no answer. It is judged apart for requests that waited for an answer,
and for later ones, which an open breaker kept from it. ``usual`` are the ends that were answered. On a busy machine a
thread waits for a processor. Where Linux reports that time, ``queued``, it is not judged. At the end every run that
was not dropped must be in the database, once.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from core import Client, LearnerProtocol, open_learner
from tests.bench.servers import free_port
from tests.conftest import ROOT
from tests.doors.front import Front, Mode
from tests.doors.http.slow import server as serving

FIRST_S: Final = 1.6
LATER_S: Final = 0.05
_TOOLS: Final[list[dict[str, Any]]] = [
    {"name": name, "input_schema": {}} for name in ("search", "fetch", "Read", "Write", "Bash")
]
_LEARNER: Final = "agents"
_PATIENCE_S: Final = 120.0
_RESTART_S: Final = 0.3

_AGENT: Final = """
import json
import sys
from pathlib import Path
from core import Client
from tests.bench.away import Seen

seen = Seen()
client = Client(sys.argv[1], learner="agents", spool=sys.argv[2])
for number in range(int(sys.argv[3]), int(sys.argv[4])):
    seen.request(client, f"r{number}")
    waits = [seen.first, seen.later, seen.usual]
    print(json.dumps([f"r{number}", seen.outcomes[f"r{number}"], waits]), flush=True)
    for one in waits:
        one.clear()
"""

_HEADS: Final = [
    f"{name} {part}" for name in ("later", "usual") for part in ("n", "p50", "p99", "max", "queued")
]


class Wait(NamedTuple):
    """One wait in seconds, and for how long of it this thread waited for a processor."""

    s: float = 0.0
    queued_s: float = 0.0

    def __add__(self, other: Wait) -> Wait:  # type: ignore[override]  # a sum, no longer tuple
        return Wait(self.s + other.s, self.queued_s + other.queued_s)

    def __sub__(self, other: Wait) -> Wait:
        return Wait(self.s - other.s, self.queued_s - other.queued_s)


def _now() -> Wait:
    queued_ns = 0
    with suppress(OSError):
        queued_ns = int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1])
    return Wait(time.monotonic(), queued_ns / 1e9)


@dataclass
class Seen:
    """Results of one scene: runs by outcome, answers, and the waits."""

    outcomes: dict[str, str] = field(default_factory=dict)
    n_requests: int = 0
    n_answers: int = 0
    n_stored: int = 0
    n_twice: int = 0
    n_missing: int = 0
    is_clean: bool = False
    first: list[Wait] = field(default_factory=list)
    later: list[Wait] = field(default_factory=list)
    usual: list[Wait] = field(default_factory=list)

    def request(self, learner: LearnerProtocol, uid: str) -> None:
        """Answer one request of an agent, which must come to its answer."""
        self.n_requests += 1
        is_open = dict(learner._attempts._is_open)
        began = _now()
        with learner.run(_TOOLS, uid=uid, session="s") as run:
            select = _now() - began
            is_selected = run.selection.run_class != "fallback"
            run.called(run.tools[0]["name"])
            run.used(input=900, output=100)
            self.n_answers += 1
            is_open["record"] = learner._attempts._is_open["record"]
            began = _now()
        record = _now() - began
        self.outcomes[uid] = str(run.outcome)
        is_recorded = run.outcome == "recorded"
        has_waited = not (is_selected or is_open["select"]) or not (is_recorded or is_open["record"])
        answered = [one for one, is_one in ((select, is_selected), (record, is_recorded)) if is_one]
        self.usual += answered
        if has_waited:
            self.first.append(select + record)
        elif len(answered) < 2:
            self.later.append(sum((one for one in (select, record) if one not in answered), Wait()))

    def compare(self, path: Path) -> None:
        """Compare with the runs of the database."""
        with closing(sqlite3.connect(path)) as database:
            stored = dict(database.execute("SELECT uid, count(*) FROM run GROUP BY uid"))
        self.n_stored = len(stored)
        self.n_twice = sum(n > 1 for n in stored.values())
        self.n_missing = sum(
            outcome not in {"rejected", "dropped"} and uid not in stored
            for uid, outcome in self.outcomes.items()
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
            and max((one.s - one.queued_s for one in self.first), default=0) <= FIRST_S
            and max((one.s - one.queued_s for one in self.later), default=0) <= LATER_S
        )


def _until_sent(learner: LearnerProtocol) -> None:
    end = time.monotonic() + _PATIENCE_S
    while learner._attempts.counts().waiting and time.monotonic() < end:
        time.sleep(0.05)


@contextmanager
def _front(folder: Path) -> Iterator[Front]:
    """A front before a server in a process of its own, as an agent has it."""
    port = free_port()
    with serving(folder, port):
        front = Front(f"http://127.0.0.1:{port}")
        yield front
        front.close()


def well(seen: Seen, folder: Path, n_requests: int) -> None:
    """Nothing fails."""
    with _front(folder) as front, Client(front.url, learner=_LEARNER, spool=folder) as client:
        for number in range(n_requests):
            seen.request(client, f"r{number}")
        _until_sent(client)


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
            uid, outcome, waits = json.loads(answered)
            seen.n_requests += 1
            seen.n_answers += 1
            seen.outcomes[uid] = outcome
            for own, others in zip((seen.first, seen.later, seen.usual), waits, strict=True):
                own += [Wait(*one) for one in others]
            if uid == f"r{last}":
                agent.send_signal(signal.SIGKILL)
    assert len(seen.outcomes) > number, "the agent failed"
    return len(seen.outcomes)


Scene = Callable[[Seen, Path, int], None]
SCENES: Final[Mapping[str, Scene]] = {
    "nothing fails": well,
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
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="times that each scene is played")
    chosen = parser.parse_args()
    logging.disable()
    _say(
        (
            "scene",
            "requests",
            "lost",
            "spooled",
            "rejected",
            "dropped",
            "missing",
            "twice",
            "first s",
            *_HEADS,
            "",
        )
    )
    is_good = True
    for name in (chosen.only or list(SCENES)) * chosen.rounds:
        seen = measured(name, chosen.requests)
        is_good &= seen.is_good
        outcomes = list(seen.outcomes.values())
        _say(
            (
                name,
                seen.n_requests,
                seen.n_requests - seen.n_answers,
                outcomes.count("spooled"),
                outcomes.count("rejected"),
                outcomes.count("dropped"),
                seen.n_missing,
                seen.n_twice,
                f"{max(seen.first, default=Wait()).s:.2f}",
                *_spread(seen.later),
                *_spread(seen.usual),
                "met" if seen.is_good else "MISSED" if seen.is_clean else "NOT CLEAN",
            )
        )
    sys.exit(0 if is_good else 1)


def _spread(waits: Sequence[Wait]) -> tuple[str, ...]:
    """Return the number of waits, three of them in milliseconds, and the part of the longest for a processor."""
    if not waits:
        return ("0", *["-"] * 4)
    ordered = sorted(waits)
    n_waits = len(ordered)
    shown = [ordered[n_waits // 2].s, ordered[n_waits * 99 // 100].s, ordered[-1].s, ordered[-1].queued_s]
    return (str(n_waits), *(f"{1000 * one:.1f}" for one in shown))


def _say(cells: tuple[Any, ...]) -> None:
    sys.stdout.write(f"{cells[0]:<16}" + "".join(f"{cell!s:>13}" for cell in cells[1:]) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
