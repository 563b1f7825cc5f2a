"""Growth: a run, a reward and a page of runs at a million runs, against a small database in turns, on each engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from core.flows.context import Context
from core.flows.learn import record_all, reward
from core.records.run_page import Cursor
from core.records.run_query import RunFilter, View
from core.settings import Located
from core.store.reads.run_pages import run_page
from tests.bench.durable import orders
from tests.bench.engines import cluster
from tests.bench.harness import Row, Scale, pairs
from tests.bench.worlds import MINUTE_MS, START_MS, context_at, runs

_AT_ONCE: Final = 20_000
_PAGE: Final = 50
_DEPTHS: Final = (0.0, 0.1, 0.5, 0.9, 1.0)
"""How far down the pages of runs are asked for: 0 is the first, 1 the last."""
_GOAL: Final = 1.2


def grown(scale: Scale, folder: Path) -> list[Row]:
    """The same on SQLite and on PostgreSQL."""
    rows = [*_grown("SQLite", scale, folder / "small.db", folder / "large.db")]
    with cluster() as server:
        small, large = server.fresh(folder / "small served"), server.fresh(folder / "large served")
        return [*rows, *_grown("PostgreSQL", scale, small, large)]


def _grown(engine: str, scale: Scale, first: Located, then: Located) -> Iterator[Row]:
    n_small, n_large, n_each = scale.n_grown_from, scale.n_grown_to, scale.n_grown_runs
    small, large = _filled(first, n_small), _filled(then, n_large)
    what = f"{engine}: {{}}, {n_large:,} runs"
    base = f"the same at {n_small:,} runs"
    asked = orders(scale.n_durable_pairs + 1)

    def give(context: Context, number: int) -> None:
        order = asked[number]
        reward(context, order.arm, order.value, reason=order.reason)

    timed = pairs(
        lambda number: give(small, number),
        lambda number: give(large, number),
        scale.n_durable_pairs,
        collect=False,
    )
    yield timed.row(what.format("one reward"), base, _GOAL)
    for depth in _DEPTHS:
        timed = pairs(
            lambda _, depth=depth: _page(small, _place(n_small, depth)),  # type: ignore[misc]
            lambda _, depth=depth: _page(large, _place(n_large, depth)),  # type: ignore[misc]
            scale.n_durable_pairs,
            collect=False,
        )
        yield timed.row(what.format(f"page of runs {depth:.0%} down"), base, _GOAL)
    told = [
        {
            place: list(runs(n_each, first=n + number * n_each))
            for place, n in (("s", n_small), ("l", n_large))
        }
        for number in range(scale.n_grown_pairs + 1)
    ]
    timed = pairs(
        lambda number: record_all(small, told[number]["s"]),
        lambda number: record_all(large, told[number]["l"]),
        scale.n_grown_pairs,
    )
    yield timed.row(what.format(f"{n_each:,} more runs"), base, _GOAL)
    small.store.close()
    large.store.close()


def _filled(place: Located, n_runs: int) -> Context:
    context = context_at(place)
    for first in range(0, n_runs, _AT_ONCE):
        record_all(context, list(runs(min(_AT_ONCE, n_runs - first), first=first)))
    context.store.settle()
    return context


def _place(n_runs: int, depth: float) -> Cursor | None:
    """Where the page begins that so large a part of all runs comes before."""
    number = max(round(n_runs * (1 - depth)), min(_PAGE, n_runs - 1))
    return None if depth == 0 else Cursor(START_MS + number * MINUTE_MS, number + 1)


def _page(context: Context, cursor: Cursor | None) -> None:
    with context.reading() as snapshot:
        page = run_page(snapshot, RunFilter(), View(), cursor=cursor, limit=_PAGE)
    if len(page.rows) != _PAGE:
        raise AssertionError(f"a page must hold {_PAGE} runs, got {len(page.rows)}")
