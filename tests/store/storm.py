"""A storm: writers of one file are killed; what was acknowledged is there once, and whatever readers see agrees."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import msgspec

from core.flows import queries
from core.store.compacted import uid_key
from tests.store.child import ARMS, Living, expected
from tests.worlds import context_at

ENDLESS = 10**6


@dataclass
class Companion:
    """A process beside others, and what it says."""

    arguments: tuple[str, ...]
    lines: list[list[str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    process: Living = field(init=False)
    _listener: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.process = Living(*self.arguments)
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        for line in self.process.stdout:
            self.lines.append(line.split())

    def said(self, kind: str) -> Iterable[str]:
        """Everything it said of a kind."""
        return (word for line in list(self.lines) if line[0] == kind for word in line[1:])

    def wait_for(self, kind: str) -> None:
        """Until it has said such a thing; starting takes a while on a busy machine."""
        while not any(self.said(kind)) and self.process.returncode is None:
            time.sleep(0.02)

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> None:
        """Let it finish: a writer what it has to write, a reader at once."""
        self.process.stdin.close()
        self._listener.join()
        self.problems.append(self.process.end()[1])

    def again(self) -> Companion:
        """The same from its beginning: a writer sends once more all that it had sent."""
        return Companion(self.arguments)


def writer(path: Path, seed: int, n_batches: int, n_runs: int = 3) -> Companion:
    """A process that writes batches of up to so many runs, each with two rewards after it."""
    return Companion(("write", str(path), str(seed), str(n_batches), str(n_runs)))


def reader(path: Path) -> Companion:
    """A process that ends with a complaint if a moment contradicts itself or comes before the last."""
    return Companion(("read", str(path)))


def compactor(path: Path) -> Companion:
    """A process that compacts the runs that are there, again and again, a few a piece."""
    return Companion(("compact", str(path)))


class Figures(msgspec.Struct, kw_only=True):
    """What came of a storm, in observations: three of a run, one of a reward. ``moments`` were looked at."""

    writers: int
    readers: int
    kills: int
    sent: int
    acknowledged: int
    lost: int
    double: int
    verified: int
    unclean: int
    moments: int


@dataclass
class Storm:
    """Everybody who ever wrote to a file or read it, and what verify said meanwhile."""

    path: Path
    writers: list[Companion] = field(default_factory=list)
    readers: list[Companion] = field(default_factory=list)
    n_kills: int = 0
    verified: list[bool] = field(default_factory=list)

    def rage(
        self, working: list[Companion], looking: list[Companion], *, n_kills: int, random: Random
    ) -> None:
        """Kill one after the other at random moments, and start each again; verify after each kill."""
        self.writers += working
        self.readers += looking
        for number in range(n_kills):
            if looking and number % 4 == 3:
                self.readers.append(self._strike(looking, "saw", random))
            else:
                self.writers.append(self._strike(working, "runs", random))
            self.verify()
        for companion in (*working, *looking):
            companion.wait_for("saw" if companion in looking else "runs")
            companion.end()
            assert companion.process.returncode == 0, companion.problems
        self.verify()

    def _strike(self, companions: list[Companion], kind: str, random: Random) -> Companion:
        place = random.randrange(len(companions))
        companions[place].wait_for(kind)
        time.sleep(random.random() * 0.3)
        companions[place].kill()
        self.n_kills += 1
        companions[place] = companions[place].again()
        return companions[place]

    def verify(self) -> None:
        context = context_at(self.path)
        self.verified.append(queries.verify(context).clean)
        context.store.close()

    def figures(self) -> Figures:
        uids, keys = self.said("runs"), self.said("rewards")
        stored_uids = {str(uid).removeprefix("run-") for (uid,) in rows(self.path, "SELECT uid FROM run")}
        compacted = set(rows(self.path, "SELECT uid_high, uid_low FROM compacted WHERE trace <> 0"))
        gone = {uid for uid in uids if uid_key(f"run-{uid}") in compacted}
        assert not gone & stored_uids, "a compacted run has no row"
        stored_keys = {str(key) for (key,) in rows(self.path, "SELECT key FROM reply")}
        (counted,) = rows(self.path, "SELECT sum(pulls) FROM posterior")[0]
        distinct = len(ARMS) * (len(stored_uids) + len(compacted)) + len(stored_keys)
        return Figures(
            writers=len({one.arguments for one in self.writers}),
            readers=len(self.readers),
            kills=self.n_kills,
            sent=sum(int(number) for one in self.writers for number in one.said("sending")),
            acknowledged=len(ARMS) * len(uids) + len(keys),
            lost=len(ARMS) * len(uids - stored_uids - gone) + len(keys - stored_keys),
            double=int(str(counted)) - distinct,
            verified=len(self.verified),
            unclean=self.verified.count(False),
            moments=sum(1 for one in self.readers for _ in one.said("saw")),
        )

    def said(self, kind: str) -> set[str]:
        return {word for one in self.writers for word in one.said(kind)}

    def n_compacted(self) -> int:
        """Runs whose rows are deleted."""
        ((n_runs,),) = rows(self.path, "SELECT coalesce(sum(n_runs), 0) FROM compaction")
        return int(str(n_runs))

    def check(self) -> None:
        """Nothing is lost, nothing double, no one complained, and beliefs are what was recorded."""
        assert {problem for one in (*self.writers, *self.readers) for problem in one.problems} == {""}
        found = self.figures()
        assert (found.lost, found.double, found.unclean) == (0, 0, 0), found
        ((n_runs, n_uids),) = rows(self.path, "SELECT count(*), count(DISTINCT uid) FROM run")
        keys = [str(key) for (key,) in rows(self.path, "SELECT key FROM reply")]
        assert n_runs == n_uids
        assert rows(self.path, "SELECT count(*) FROM observation") == [(len(set(keys)),)]
        beliefs = {
            one.arm: (one.alpha, one.beta, one.pulls) for one in queries.posteriors(context_at(self.path))
        }
        assert beliefs == {
            arm: (alpha / 1e6, beta / 1e6, pulls)
            for arm, alpha, beta, pulls in expected(int(str(n_runs)) + self.n_compacted(), keys)
        }


def rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    """What a query finds in a database."""
    driver = sqlite3.connect(path)
    found = driver.execute(sql).fetchall()
    driver.close()
    return found
