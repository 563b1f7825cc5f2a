"""Writers: many processes that give rewards at the same time, and how long one of them waits at most."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Final

from filelock import lock_descriptor

from core.flows.learn import record_all, reward
from core.store.engine.sqlite import Database
from core.store.lock import Files, WritersLock
from tests.bench.harness import Row, Scale
from tests.bench.worlds import N_ARMS, context_at, runs

_POLL_S: Final = 0.01
_TIMEOUT_S: Final = 60.0


class Polled(WritersLock):
    """The base, without turns: who finds the lock taken asks again a hundredth of a second later."""

    def _taken_in_turn(self, files: Files, deadline: float) -> bool:
        while not lock_descriptor(files.lock, blocking=False):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True


@dataclass(frozen=True)
class Round:
    """What came of one: the time from start to end, and how long each write took, waiting included."""

    all_ms: float
    writes_ms: list[float]

    @property
    def longest_ms(self) -> float:
        return max(self.writes_ms)


def many_writers(scale: Scale, folder: Path) -> list[Row]:
    """Rewards by many processes, on one learner and each on a learner of its own."""
    return [*_writers(scale, folder, "one learner"), *_writers(scale, folder, "each its own")]


def _writers(scale: Scale, folder: Path, learners: str) -> list[Row]:
    def rounds(kind: str, lock: type[WritersLock], n_writers: int) -> Callable[[int], Round]:
        places = [folder / f"{learners} {kind} {number}.db" for number in range(scale.n_writer_rounds)]
        return lambda number: _round(places[number], lock, n_writers, scale.n_writes, learners=learners)

    alone = rounds("alone", WritersLock, 1)
    base, ours = rounds("base", Polled, scale.n_writers), rounds("ours", WritersLock, scale.n_writers)
    told = []
    for number in range(scale.n_writer_rounds):
        fair_first = ours(number) if number % 2 else None
        polled = base(number)
        told.append((alone(number), polled, fair_first or ours(number)))
    turns_ms = [scale.n_writers * statistics.median(one.writes_ms) for one, _, _ in told]
    longest = [fair.longest_ms for _, _, fair in told]
    unfair = statistics.median(without.longest_ms for _, without, _ in told)
    rate = scale.n_writers * scale.n_writes / statistics.median(fair.all_ms for _, _, fair in told) * 1_000
    n = scale.n_writer_rounds
    return [
        Row(
            name=f"{scale.n_writers} writers, {learners}: longest wait",
            base="as many writes, one after the other",
            figure=statistics.median(wait / turn for wait, turn in zip(longest, turns_ms, strict=True)),
            goal=3.0,
            base_ms=statistics.median(turns_ms),
            ours_ms=statistics.median(longest),
            n=n,
            note=f"{unfair:.0f} ms without turns",
        ),
        Row(
            name=f"{scale.n_writers} writers, {learners}: all their writes",
            base="the same without turns",
            figure=statistics.median(fair.all_ms / polled.all_ms for _, polled, fair in told),
            goal=1.11,
            base_ms=statistics.median(polled.all_ms for _, polled, _ in told),
            ours_ms=statistics.median(fair.all_ms for _, _, fair in told),
            n=n,
            note=f"{rate:.0f} rewards a second",
        ),
    ]


@dataclass(frozen=True)
class _Writer:
    """What one process is to do."""

    path: Path
    learner: str
    lock: type[WritersLock]
    n_writes: int


def _round(path: Path, lock: type[WritersLock], n_writers: int, n_writes: int, *, learners: str) -> Round:
    names = ["all" if learners == "one learner" else f"own-{number}" for number in range(n_writers)]
    context = context_at(path)
    for name in set(names):
        record_all(context.of(name), list(runs(20)))
    context.store.close()
    started = multiprocessing.get_context("forkserver")
    started.set_forkserver_preload([__name__])
    begun, told = started.Barrier(n_writers + 1), started.Queue()
    jobs = [_Writer(path, name, lock, n_writes) for name in names]
    writers = [started.Process(target=_write, args=(job, begun, told)) for job in jobs]
    for writer in writers:
        writer.start()
    begun.wait()
    since = time.perf_counter()
    waits = [wait for _ in writers for wait in told.get()]
    all_ms = (time.perf_counter() - since) * 1_000
    for writer in writers:
        writer.join()
    return Round(all_ms, waits)


def _write(job: _Writer, begun: Barrier, told: Queue[list[float]]) -> None:
    context = context_at(job.path).of(job.learner)
    assert isinstance(context.store.database, Database)
    context.store.database._lock = job.lock(f"{job.path}.lock", timeout_s=_TIMEOUT_S)
    reward(context, "tool:other:tool_00000", 1.0)  # opens what a process opens once
    begun.wait()
    waits = []
    for number in range(job.n_writes):
        since = time.perf_counter()
        reward(context, f"tool:other:tool_{number % N_ARMS:05}", number % 101 / 100)
        waits.append((time.perf_counter() - since) * 1_000)
    told.put(waits)
