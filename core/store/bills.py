"""Bills: the cost of each run, a cache of its tokens and the prices of its time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from core.records.bill import UNKNOWN_BILL, Bill, ModelPrices, Spent, bill_of
from core.store.tables import beyond
from core.store.transaction import Facts, Transaction
from core.store.version import SPENT_COLUMNS, TOKEN_COLUMNS, spent_of, usage_rows

_CHUNK: Final = 5_000
"""Runs read at a time."""
_RUNS: Final = (
    f"SELECT run_no, bill_pico, bill_marks, model, at_ms, {', '.join(TOKEN_COLUMNS)} FROM run"
    " WHERE learner_id = ? AND run_no > ? ORDER BY run_no LIMIT ?"
)
_WRITE: Final = "UPDATE run SET bill_pico = ?, bill_marks = ? WHERE learner_id = ? AND run_no = ?"


def bill_again(txn: Transaction, before: Mapping[str, ModelPrices]) -> None:
    """Recompute the bills that changed prices concern, those of a staged import too."""
    now = txn.settings.prices
    models = {model for model in {*before, *now} if before.get(model) != now.get(model)}
    rows = [
        (*expected, txn.learner_id, run_no)
        for run_no, stored, expected in _bills(txn, now, models)
        if stored != expected
    ]
    for start in range(0, len(rows), _CHUNK):
        txn.connection.many(_WRITE, rows[start : start + _CHUNK])


def wrong_bills(facts: Facts) -> Iterator[tuple[int, Bill, Bill]]:
    """Return runs whose stored bill is not that of their tokens and prices: number, stored, expected."""
    return (row for row in _bills(facts, facts.settings.prices, None) if row[1] != row[2])


def _bills(
    facts: Facts, prices: Mapping[str, ModelPrices], models: set[str] | None
) -> Iterator[tuple[int, Bill, Bill]]:
    """Yield runs with the stored and the recomputed bill; with ``models`` only runs that have tokens of one."""
    last = 0
    while rows := facts.connection.rows(_RUNS, [facts.learner_id, last, _CHUNK]):
        spent = _spent(facts, last, rows[-1][0])
        last = beyond(last, rows[-1][0])
        for run_no, pico, marks, model, at_ms, *tokens in rows:
            named = spent.get(run_no, ())
            if models is None or model in models or any(row.model in models for row in named):
                known = (
                    bill_of(named or usage_rows(*tokens), model, at_ms, prices) if prices else UNKNOWN_BILL
                )
                yield run_no, Bill(pico, marks), known


def _spent(facts: Facts, after: int, upto: int) -> dict[int, tuple[Spent, ...]]:
    """Return the rows of the runs with numbers above ``after``."""
    rows: dict[int, list[list[object]]] = defaultdict(list)
    for run_no, *row in facts.connection.rows(
        f"SELECT run_no, {', '.join(SPENT_COLUMNS)} FROM spent"
        " WHERE learner_id = ? AND run_no > ? AND run_no <= ?",
        [facts.learner_id, after, upto],
    ):
        rows[run_no].append(row)
    return {run_no: spent_of(of_run) for run_no, of_run in rows.items()}
