"""Another process, for what only another process can do: hold the lock, be killed, be poor or unprivileged.

It is forked from a process that has loaded all of this and done nothing yet. A start of its own takes a hundred times
as long.
"""

from __future__ import annotations

import io
import os
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from types import FrameType
from typing import IO
from unittest.mock import patch

from core.doors.cli import main
from core.flows.compact import compact
from core.flows.context import Context
from core.flows.evaluate import evaluate_all
from core.flows.importing.files import import_in_steps
from core.flows.learn import record, record_all, reward_all
from core.flows.maintenance import upgrade
from core.formats import open_sources
from core.records.actor import Actor
from core.records.observation import RewardOrder
from core.records.times import DAY_MS
from core.settings import Server
from core.store import compacting
from core.store.engine.sqlite import Database
from core.store.store import Store
from tests.engine import file_database
from tests.store import judging
from tests.store.forking import FORKING
from tests.store.steady import is_over, keep_acting
from tests.worlds import IN_PARTS, START_MS, a_run, context_at

NOBODY = 65_534
N_RUNS = 10**6
ARMS = [f"tool:other:{name}" for name in "abc"]


class Living:
    """A forked child with pipes for its standard streams: it reads and answers until it ends or is killed."""

    def __init__(self, *arguments: str | Path) -> None:
        pipes = [FORKING.Pipe(duplex=False) for _ in range(3)]
        theirs = pipes[0][0], pipes[1][1], pipes[2][1]
        self.stdin, self.stdout, self.stderr = (
            os.fdopen(os.dup(end.fileno()), mode)
            for end, mode in ((pipes[0][1], "w"), (pipes[1][0], "r"), (pipes[2][0], "r"))
        )
        self._process = FORKING.Process(target=_piped, args=[theirs, list(map(str, arguments))], daemon=True)
        self._process.start()
        for one in pipes:
            one[0].close()
            one[1].close()
        self.kill, self.join = self._process.kill, self._process.join

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def end(self, said: str = "", timeout: float = 600) -> tuple[str, str]:
        """Say the last words, and return the rest of the output and of the errors once the child has ended."""
        if not self.stdin.closed:
            with suppress(BrokenPipeError):
                self.stdin.write(said)
                self.stdin.close()
        answered = self.stdout.read(), self.stderr.read()
        self._process.join(timeout)
        self.stdout.close()
        self.stderr.close()
        return answered


def _piped(streams: Sequence[Connection], arguments: Sequence[str]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    # The old ones remember whether a file that pytest captures into can be sought in.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    run(arguments)


class Forked:
    """A child that ends by itself, with its standard output and errors in files of a folder."""

    def __init__(self, folder: Path, *arguments: str | Path) -> None:
        self._arguments = list(map(str, arguments))
        self._out, self._problem = folder / "out", folder / "problem"
        self._child = FORKING.Process(target=_forked, args=[self._out, self._problem, self._arguments])
        self._child.start()

    def wait_for(self, word: str) -> None:
        """Until it has said so, or is gone."""
        while self._child.is_alive() and not (self._out.exists() and word in self._out.read_text()):
            time.sleep(0.002)

    def end(self) -> tuple[int, str]:
        """Exit code and standard output."""
        self._child.join(60)
        said = self._problem.read_text()
        assert self._child.exitcode is not None, f"{self._arguments} has not ended: {said}"
        assert "Traceback" not in said, said
        return self._child.exitcode, self._out.read_text()


def answer(*arguments: str | Path) -> tuple[int, str]:
    """Exit code and standard output of a child that ends by itself."""
    with tempfile.TemporaryDirectory() as folder:
        return Forked(Path(folder), *arguments).end()


def crowd(path: Path, *children: Sequence[str | Path]) -> list[tuple[int, str]]:
    """The answers of children who all say ``ready``, and then wait for one lock until all of them do."""
    with tempfile.TemporaryDirectory() as place:
        begun = []
        with Database(path).locked():
            for number, arguments in enumerate(children):
                folder = Path(place) / str(number)
                folder.mkdir()
                begun.append(Forked(folder, *arguments))
            for child in begun:
                child.wait_for("ready")
        return [child.end() for child in begun]


def _forked(out: Path, problem: Path, arguments: Sequence[str]) -> None:
    """What a child does, its standard output and errors in files."""
    for stream, path in ((1, out), (2, problem)):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(handle, stream)
        os.close(handle)
    run(arguments)


def say(line: str, stream: IO[str] | None = None) -> None:
    print(line, file=stream or sys.stdout, flush=True)


def hold(path: str) -> None:
    """Hold the writers' lock until standard input ends."""
    with Database(Path(path)).locked():
        say("held")
        sys.stdin.read()


def leave(path: str, *uids: str) -> None:
    """Record runs and end unawares, so that the log stays."""
    context = context_at(Path(path))
    for uid in uids:
        record(context, a_run(uid))
    os._exit(0)


def first_runs(path: str, uid: str, *learners: str) -> None:
    """Record a run of learners that no one has made, as soon as a line comes; say whether it is new."""
    context = context_at(Path(path))
    say("ready")
    sys.stdin.readline()
    for name in learners:
        say(record(replace(context, learner=name), a_run(uid)).told)


def next_run(path: str, learner: str, arm: str, *uids: str) -> None:
    """Record a run with this arm for each line that comes, knowing what the run before it left known."""
    context = context_at(Path(path), learner=learner)
    for uid in uids:
        say(record(context, a_run(uid, arms=[arm], calls=[arm])).told)
        sys.stdin.readline()


def in_parts(path: str, source: str) -> None:
    """Import a file in parts of two runs, say each, and wait for a line until the next."""
    context = replace(context_at(Path(path)), pace=IN_PARTS)
    for _ in import_in_steps(context, open_sources([Path(source)])):
        say("part")
        sys.stdin.readline()


def upgrade_it(path: str) -> None:
    """Upgrade a database, once this is announced."""
    say("ready")
    upgrade(Path(path))


def struck(name: str, where: str, *command: str) -> None:
    """A command line that gets a signal when it calls a function of this name; a shell may have SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def strike(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_qualname == where:
            sys.setprofile(None)
            os.kill(os.getpid(), signal.Signals[name])

    sys.setprofile(strike)
    main(command)


def limited(n_bytes: str, *command: str) -> None:
    """A command line whose files may not grow beyond a size."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(n_bytes), int(n_bytes)))
    main(command)


def stranger(*command: str) -> None:
    """A command line as someone to whom permission bits apply."""
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
        context = context_at(Path(folder) / "warm.db")
        record(context, a_run("r"))
        context.store.close()
        main(["--database", f"{folder}/warm.db", "status", "--json"])


def judge_until(path: str, case: str, number: str) -> None:
    """Send evaluations, and be killed just before the statement of this number; after the last one, just after it,
    when it is on disk and no one has been told. 0: nothing happens, and how many statements there were is said.
    """
    context = context_at(Path(path))
    # Whoever is the first to write to a copied file looks it over: that is no part of what is sent.
    replace(context, clock=lambda: START_MS).rehearse("evaluate", lambda _: None)
    statements: list[str] = []

    def listen(statement: str) -> None:
        statements.append(statement)
        if len(statements) == int(number):
            os.kill(os.getpid(), signal.SIGKILL)

    with file_database(context.store).locked():
        file_database(context.store)._write_driver_at_path().set_trace_callback(listen)
    judging.send(context, case)
    if int(number):
        os.kill(os.getpid(), signal.SIGKILL)
    say(str(len(statements)))


def judge(path: str, rater: str, *keys: str) -> None:
    """Send an evaluation under each key, one after the other; say what each was answered."""
    context = context_at(Path(path), name=rater)
    say("ready")
    for key in keys:
        (given,) = evaluate_all(context, [judging.order_under(key, rater)])
        say(f"{key} {given.id}")


def write(path: str, seed: str, n_batches: str, n_runs: str) -> None:
    """Record runs and rewards, some of them again; say how many observations are sent, then what is on disk."""
    random, most = Random(int(seed)), int(n_runs)
    Store(Path(path)).close()  # made here, where others may be making it too
    context = context_at(Path(path))
    told: list[int] = []
    for number in range(int(n_batches)):
        first = int(seed) * N_RUNS + number * most
        batch = [first + place for place in range(random.randrange(1, most + 1))]
        again = random.sample(told, min(len(told), 2))
        say(f"sending {len(ARMS) * len(batch + again)}")
        record_all(
            context, [a_run(f"run-{one}", at_ms=START_MS + one % 977 * 60_000) for one in batch + again]
        )
        told += batch
        say(f"runs {' '.join(map(str, batch))}")
        keys = [f"key-{random.randrange(n_keys(number))}" for _ in range(2)]
        say(f"sending {len(keys)}")
        reward_all(context, [order_of(key) for key in keys])
        say(f"rewards {' '.join(keys)}")


def act(url: str, learner: str, seed: str) -> None:
    """Act until standard input ends; say each answer, and when."""
    context = Context(
        store=Store(Server(url)), learner=learner, actor=Actor(name=f"mara-{seed}"), clock=lambda: START_MS
    )

    keep_acting(context, seed, is_over, lambda said: say(said.line))


def read(path: str) -> None:
    """Look at one moment after the other until standard input ends; end with a complaint if one can't be."""
    Store(Path(path)).close()
    context = context_at(Path(path))
    last = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        with context.reading() as snapshot:
            ((n_runs,),) = snapshot.connection.rows(
                "SELECT (SELECT count(*) FROM run) + (SELECT coalesce(sum(n_runs), 0) FROM compaction)"
            )
            keys = [key for (key,) in snapshot.connection.rows("SELECT key FROM reply")]
            found = snapshot.connection.rows(
                "SELECT key, base_alpha_micro + success_micro, base_beta_micro + failure_micro, pulls"
                " FROM posterior JOIN arm USING (learner_id, arm_no) ORDER BY key"
            )
        assert not found or found == expected(n_runs, keys), "a posterior is its prior and what was recorded"
        assert snapshot.revision >= last, "a revision never goes back"
        last = snapshot.revision
        say(f"saw {last}")


def compact_on(path: str) -> None:
    """Compact what was recorded so far, a few runs a piece, until standard input ends; say how many each time."""
    Store(Path(path)).close()
    context = replace(context_at(Path(path)), clock=lambda: START_MS + 9 * DAY_MS)
    with patch.object(compacting, "PIECE", 5):
        while not select.select([sys.stdin], [], [], 0)[0]:
            say(f"saw {compact(context, keep_days=1).runs}")


def expected(n_runs: int, keys: Sequence[str]) -> list[tuple[str, int, int, int]]:
    """Each arm's alpha, beta (in millionths) and pulls: runs call a, not b and c; keys add what they state."""
    sums = {arm: [3_000_000, 1_000_000, n_runs] for arm in ARMS}
    for arm in ARMS:
        sums[arm][0 if arm == ARMS[0] else 1] += n_runs * 1_000_000
    for key in keys:
        order = order_of(key)
        success = round(order.reward * 1_000_000)
        for place, amount in enumerate((success, 1_000_000 - success, 1)):
            sums[order.arm][place] += amount
    return [(arm, alpha, beta, pulls) for arm, (alpha, beta, pulls) in sums.items()]


def n_keys(number: int) -> int:
    """Few enough that other writers send the same keys, more as time goes on."""
    return 5 + number * 2


def order_of(key: str) -> RewardOrder:
    """The same key always says the same."""
    return RewardOrder(arm=ARMS[hash_of(key) % 3], value=hash_of(key) % 101 / 100, key=key)


def hash_of(key: str) -> int:
    return sum(ord(char) * 31**place for place, char in enumerate(key))


def run(arguments: Sequence[str]) -> None:
    """What the first argument names, with the others."""
    verbs: dict[str, Callable[..., None]] = {
        "act": act,
        "compact": compact_on,
        "hold": hold,
        "first_runs": first_runs,
        "next_run": next_run,
        "in_parts": in_parts,
        "struck": struck,
        "leave": leave,
        "judge": judge,
        "judge_until": judge_until,
        "limited": limited,
        "stranger": stranger,
        "upgrade": upgrade_it,
        "write": write,
        "read": read,
    }
    verbs[arguments[0]](*arguments[1:])
