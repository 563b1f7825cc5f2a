"""Another process, for what only another process can do: hold the lock, be killed, be poor or unprivileged.

Started as ``python -m tests.store.child WHAT ...`` from the project's root.
"""

from __future__ import annotations

import io
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from random import Random
from typing import IO

from core.doors.cli import main
from core.flows.learn import record_all
from core.flows.reward import RewardOrder, reward_all
from core.store.engine import Database
from core.store.store import Store
from tests.conftest import ROOT
from tests.flows.world import START_MS, desk_at, run_of

NOBODY = 65_534
N_RUNS = 10**6


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    """A child whose answers can be read."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.store.child", *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(*arguments: str | Path) -> tuple[int, str]:
    """Exit code and standard output of a child that ends by itself."""
    child = start(*arguments)
    out, problem = child.communicate(timeout=60)
    assert "Traceback" not in problem, problem
    return child.returncode, out


def say(line: str, stream: IO[str] | None = None) -> None:
    print(line, file=stream or sys.stdout, flush=True)


def hold(path: str) -> None:
    """Hold the writers' lock until standard input ends."""
    with Database(Path(path)).locked():
        say("held")
        sys.stdin.read()


def limited(n_bytes: str, *command: str) -> None:
    """A command line whose files may not grow beyond a size."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(n_bytes), int(n_bytes)))
    main(command)


def stranger(*command: str) -> None:
    """A command line as somebody to whom permission bits apply."""
    _warm_up()
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    main(command)


def _warm_up() -> None:
    """Import whatever a command imports: the stranger may not be allowed to read the libraries."""
    quiet = io.TextIOWrapper(io.BytesIO())
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(quiet), suppress(SystemExit):
        main(["--database", f"{folder}/warm.db", "status", "--json"])


def write(path: str, seed: str, n_batches: str) -> None:
    """Record runs and rewards without end, some of them again; say what is on disk once it is."""
    random = Random(int(seed))
    Store(Path(path)).close()  # made here, where others may be making it too
    desk = desk_at(Path(path))
    told: list[int] = []
    for number in range(int(n_batches)):
        batch = [int(seed) * N_RUNS + number * 4 + place for place in range(random.randrange(1, 4))]
        again = random.sample(told, min(len(told), 2))
        record_all(desk, [run_of(f"run-{one}", at_ms=START_MS + one % 977 * 60_000) for one in batch + again])
        told += batch
        say(f"runs {' '.join(map(str, batch))}")
        keys = [f"key-{random.randrange(n_keys(number))}" for _ in range(2)]
        reward_all(desk, [order_of(key) for key in keys])
        say(f"rewards {' '.join(keys)}")


def n_keys(number: int) -> int:
    """Few enough that other writers send the same keys, more as time goes on."""
    return 5 + number * 2


def order_of(key: str) -> RewardOrder:
    """The same key always says the same."""
    arm = f"tool:other:{'abc'[hash_of(key) % 3]}"
    return RewardOrder(arm=arm, value=hash_of(key) % 101 / 100, key=key)


def hash_of(key: str) -> int:
    return sum(ord(char) * 31**place for place, char in enumerate(key))


if __name__ == "__main__":
    verbs: dict[str, object] = {"hold": hold, "limited": limited, "stranger": stranger, "write": write}
    verb, rest = sys.argv[1], sys.argv[2:]

    def run(arguments: Sequence[str]) -> None:
        chosen = verbs[verb]
        assert callable(chosen)
        chosen(*arguments)

    run(rest)
