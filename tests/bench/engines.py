"""Engines: the same work on SQLite and on a PostgreSQL server, both of which keep their files in one file system.

The server is one of our own, with the settings of a small one that is meant: what it acknowledges is on its disk. It
is asked through a socket of the same machine; what lies between two machines comes on top.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

from core.flows import queries
from core.flows.context import Context
from core.flows.importing import import_files
from core.flows.learn import record, record_all, reward, reward_all
from core.settings import Located
from tests.bench.durable import orders, partly
from tests.bench.harness import Pairs, Row, Scale, pairs
from tests.bench.worlds import N_ARMS, context_at, runs, write_lines
from tests.engine import COORDINATOR, Cluster, Spread
from tests.store.crowd import Writer, all_write
from tests.store.forking import FORKING
from tests.store.postgres import address

SETTINGS: Final = (
    "listen_addresses=",
    "max_connections=100",
    "shared_buffers=512MB",
    "effective_cache_size=2GB",
    "max_wal_size=4GB",
    "random_page_cost=1.1",
)
"""``fsync``, ``synchronous_commit`` and ``full_page_writes`` are on, as they come."""
_BASE: Final = "SQLite, on the same disk"
_WARM: Final = 20
_ARM: Final = "tool:other:tool_00007"
_MANY: Final = 1_000
_OF_WAITS: Final = 12.0
_RECORDERS: Final = 8
_KEYED: Final = 20
"""Rewards that each of many writers gives."""

Work = Callable[[Context, int], object]
Question = Callable[[Context], object]


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A server that keeps what it acknowledges."""
    with address(SETTINGS) as place, closing(Cluster(place)) as made:
        yield made


def side_by_side(scale: Scale, folder: Path) -> list[Row]:
    """Imports, acts and batches: PostgreSQL against SQLite."""
    with cluster() as server:
        return [
            *_imports(scale, folder, server),
            *_acts(scale, folder, server),
            *_writers(scale, folder, server),
            *_rates(scale, folder, server),
        ]


def _timed(both: tuple[Context, Context], work: Work, n: int, *, collect: bool = False) -> Pairs:
    """The work on SQLite and on PostgreSQL in turns."""
    file, server = both
    return pairs(lambda number: work(file, number), lambda number: work(server, number), n, collect=collect)


def _imports(scale: Scale, folder: Path, server: Cluster) -> Iterator[Row]:
    told = list(runs(scale.n_bulk_runs))
    path = folder / "runs.jsonl"
    write_lines(path, scale.n_bulk_runs)
    ways: dict[str, tuple[Question, float | None]] = {
        "bulk ingest from records": (lambda context: record_all(context, told), 2.0),
        "bulk ingest from our JSON lines": (lambda context: import_files(context, [path]), 2.0),
    }
    n = scale.n_bulk_pairs
    for name, (ingest, goal) in ways.items():
        files = [context_at(folder / f"{name} {number}.db") for number in range(n + 1)]
        kept = [context_at(server.fresh(folder / f"{name} served {number}")) for number in range(n + 1)]
        empty = [context.store.size() for context in (files[0], kept[0])]
        timed = pairs(
            lambda number: ingest(files[number]),  # noqa: B023 - asked at once
            lambda number: ingest(kept[number]),  # noqa: B023
            n,
        )
        _check(files[0], kept[0])
        full = [context.store.size() for context in (files[0], kept[0])]
        per_run = [(now - before) / scale.n_bulk_runs for now, before in zip(full, empty, strict=True)]
        for context in (*files, *kept):
            context.store.close()
        rate = scale.n_bulk_runs / timed.ours_ms * 1_000
        note = (
            f"{scale.n_bulk_runs:,} runs, {N_ARMS} arms; {rate:,.0f} runs/s; {per_run[0]:,.0f} and"
            f" {per_run[1]:,.0f} B a run"
        )
        yield timed.row(f"PostgreSQL: {name}", _BASE, goal, note)


def _acts(scale: Scale, folder: Path, server: Cluster) -> Iterator[Row]:
    n = scale.n_durable_pairs + 1
    told = [partly(run) for run in runs(_WARM + n)]
    single = orders(n)
    batches = [orders(min(_MANY, scale.n_batch_rewards), seed=number) for number in range(n)]
    both = (context_at(folder / "acts.db"), context_at(server.fresh(folder / "acts served")))
    for context in both:
        record_all(context, told[:_WARM])
        context.store.settle()

    def run(context: Context, number: int) -> None:
        record(context, told[_WARM + number])

    def one(context: Context, number: int) -> None:
        order = single[number]
        reward(context, order.arm, order.value, reason=order.reason)

    def keyed(context: Context, number: int) -> None:
        order = single[number]
        reward(context, order.arm, order.value, reason=order.reason, key=f"key-{number}")

    n_batches = max(scale.n_durable_pairs // 10, 1)
    ways: dict[str, tuple[Work, int, float | None]] = {
        "one run, durable": (run, n - 1, 2.5),
        "one reward, durable, audited": (one, n - 1, 2.5),
        "one reward with a key": (keyed, n - 1, 2.5),
        f"{len(batches[0]):,} rewards in one batch": (
            lambda context, number: reward_all(context, batches[number]),
            n_batches,
            1.5,
        ),
    }
    for name, (work, n_pairs, goal) in ways.items():
        timed = _timed(both, work, n_pairs, collect=work is not run and n_pairs == n_batches)
        yield timed.row(f"PostgreSQL: {name}", _BASE, goal)
    _check(*both)
    for context in both:
        context.store.close()


def _check(file: Context, served: Context) -> None:
    one, other = ({each.arm: each for each in queries.posteriors(context)} for context in (file, served))
    if one != other or not one:
        raise AssertionError("both engines must come to the same posteriors")


# Many writers


def _writers(scale: Scale, folder: Path, server: Cluster) -> Iterator[Row]:
    """How evenly who writes waits, of many processes that do at the same time."""
    n = scale.n_writers
    for whose in ("one learner", "each its own"):
        for engine in ("SQLite", "PostgreSQL"):
            place = folder / f"{whose}.db"
            at = place if engine == "SQLite" else server.fresh(folder / f"{whose} served")
            waits, all_ms = _crowd(at, n, whose)
            usual, late = statistics.median(waits), statistics.quantiles(waits, n=100)[98]
            rate = n * _KEYED / all_ms * 1_000
            yield Row(
                name=f"{engine}: {n} writers, {whose}: a long wait",
                base="the wait of half of them",
                figure=late / usual,
                goal=_OF_WAITS if engine == "PostgreSQL" else None,
                base_ms=usual,
                ours_ms=late,
                n=len(waits),
                note=f"at most {max(waits):.0f} ms; {rate:.0f} rewards a second; all kept once",
            )


def _crowd(place: Located, n_writers: int, whose: str) -> tuple[list[float], float]:
    """Every wait, and how long it took until all had written; fails where one failed, or one reward is not there."""
    names = ["all" if whose == "one learner" else f"own {number}" for number in range(n_writers)]
    context = context_at(place)
    for name in set(names):
        record_all(context.of(name), list(runs(_WARM)))
    context.store.settle()
    told = all_write([Writer(place, name, _ARM, f"w{at}", _KEYED) for at, name in enumerate(names)])
    problems = [one.problem for one in told if one.problem]
    kept = {(name, each) for name, one in zip(names, told, strict=True) for each in one.ids}
    found = sum(
        len(queries.rewards(context.of(name), limit=n_writers * (_KEYED + 1))) - names.count(name)
        for name in set(names)
    )
    is_clean = queries.verify(context).clean
    context.store.close()
    if problems or len(kept) != n_writers * _KEYED or found != len(kept) or not is_clean:
        raise AssertionError(f"every reward must be kept once, got {found} of {len(kept)}: {problems[:1]}")
    return [wait for one in told for wait in one.waits_ms], max(sum(one.waits_ms) for one in told)


# How much an installation takes


def _rates(scale: Scale, folder: Path, server: Cluster) -> Iterator[Row]:
    """Runs a second of processes that record for a learner of its own each; of a cluster, too, where one is named."""
    places: dict[str, Callable[[], Located]] = {
        "SQLite": lambda: folder / "rates.db",
        "PostgreSQL": lambda: server.fresh(folder / "rates served"),
    }
    with ExitStack() as clusters:
        if COORDINATOR in os.environ:
            spread = clusters.enter_context(closing(Spread(os.environ[COORDINATOR])))
            places["Citus"] = lambda: spread.fresh(folder / "rates spread")
        for engine, place in places.items():
            at, n = place(), min(scale.n_writers, _RECORDERS)
            context_at(at).store.close()
            with FORKING.Pool(n) as pool:
                pool.starmap(_recorded, [(at, f"warm {one}", _WARM) for one in range(n)], chunksize=1)
                began = time.perf_counter()
                done = pool.starmap(
                    _recorded, [(at, f"own {one}", scale.n_writes) for one in range(n)], chunksize=1
                )
                took_s = time.perf_counter() - began
            yield Row(
                name=f"{engine}: runs a second",
                base="none",
                figure=sum(done) / took_s,
                unit="/s",
                goal=None,
                n=sum(done),
                note=f"{n} processes, {N_ARMS} arms a run, each run on disk before the next",
            )


def _recorded(place: Located, learner: str, n_runs: int) -> int:
    """Runs of one learner, one after the other; how many stand."""
    context = context_at(place).of(learner)
    for run in runs(n_runs):
        record(context, run)
    found = queries.revision(context).n_runs
    context.store.close()
    return found
