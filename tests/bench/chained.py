"""Chained: what the chain of acts adds to an act and to an import, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from core.flows.context import Context
from core.flows.importing import import_files
from core.flows.learn import record, record_all
from core.flows.reward import reward
from core.settings import Located
from core.store import transaction
from core.store.chain import Chain
from tests.bench.durable import orders, partly
from tests.bench.engines import cluster
from tests.bench.harness import Row, Scale, pairs
from tests.bench.worlds import context_at, runs, write_lines

_WARM: Final = 20
_ACT: Final = 1.05
_IMPORT: Final = 1.03
_ACTS_A_PAIR: Final = 5
Act = Callable[[Context, int], object]


@contextmanager
def unchained() -> Iterator[None]:
    """Write without links: what is written meanwhile does not verify."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transaction, "Watched", lambda connection, *_: connection)
        patch.setattr(Chain, "add", lambda *_: None)
        patch.setattr(Chain, "change", lambda *_: None)
        patch.setattr(Chain, "link", lambda *_: None)
        yield


def costs(scale: Scale, folder: Path) -> list[Row]:
    """One run, one reward and one import of many runs, with the chain and without it."""
    with cluster() as server:
        places: dict[str, Callable[[str], Located]] = {
            "SQLite": lambda name: folder / f"{name}.db",
            "PostgreSQL": lambda name: server.fresh(folder / f"{name} served"),
        }
        return [row for engine, place in places.items() for row in _costs(scale, folder, engine, place)]


def _costs(scale: Scale, folder: Path, engine: str, place: Callable[[str], Located]) -> Iterator[Row]:
    n = scale.n_durable_pairs + 1
    told = [partly(run) for run in runs(_WARM + n * _ACTS_A_PAIR)]
    asked = orders(n * _ACTS_A_PAIR)
    acts: dict[str, Act] = {
        "one run": lambda context, number: record(context, told[_WARM + number]),
        "one reward": lambda context, number: reward(
            context, asked[number].arm, asked[number].value, reason=asked[number].reason
        ),
    }
    for name, act in acts.items():
        bare, ours = context_at(place(f"{name} bare")), context_at(place(f"{name} ours"))
        for context in (bare, ours):
            record_all(context, told[:_WARM])
            context.store.settle()
        timed = pairs(_unchained(bare, act), _several(ours, act), n - 1, collect=False)
        yield timed.row(f"{engine}: the chain, {name}", "the same without it", _ACT)
        for context in (bare, ours):
            context.store.close()
    yield _import(scale, folder, engine, place)


def _several(context: Context, act: Act) -> Callable[[int], None]:
    def work(pair: int) -> None:
        for number in range(pair * _ACTS_A_PAIR, (pair + 1) * _ACTS_A_PAIR):
            act(context, number)

    return work


def _unchained(context: Context, act: Act) -> Callable[[int], None]:
    work = _several(context, act)

    def without(pair: int) -> None:
        with unchained():
            work(pair)

    return without


def _import(scale: Scale, folder: Path, engine: str, place: Callable[[str], Located]) -> Row:
    path, n = folder / "runs.jsonl", 2 * scale.n_bulk_pairs
    write_lines(path, scale.n_bulk_runs)
    bare, ours = (
        [context_at(place(f"{name} {number}")) for number in range(n + 1)] for name in ("bare", "ours")
    )

    def without(number: int) -> None:
        with unchained():
            import_files(bare[number], [path])

    timed = pairs(without, lambda number: import_files(ours[number], [path]), n)
    for context in (*bare, *ours):
        context.store.close()
    return timed.row(
        f"{engine}: the chain, an import of {scale.n_bulk_runs:,} runs", "the same without it", _IMPORT
    )
