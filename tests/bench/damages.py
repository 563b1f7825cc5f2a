"""Damages: random values of random rows changed past all flows, and random acts deleted; how much verify misses.

No act records work in progress, so the chain does not cover it: its values are counted apart.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Final

from sqlalchemy import Table

from core.flows.context import Context
from core.store.tables import ACTS, metadata
from tests.bench.harness import FULL, QUICK, Row, Scale
from tests.store.damaging import Place, changed_and_checked, finds, worlds
from tests.store.marks import MARKS

_CHANGES: Final = {FULL: 10_000, QUICK: 500}
_FEWEST: Final = 30


def missed(scale: Scale, folder: Path) -> list[Row]:
    """Changes of facts and of what follows from them, of work in progress, and deleted acts that verify misses."""
    dice, n_changes = Random(1), _CHANGES.get(scale, _FEWEST)
    contexts = worlds(folder)
    found: Counter[tuple[str, bool | None]] = Counter()
    names: Counter[str] = Counter()
    for _ in range(n_changes):
        context, place = _drawn(contexts, dice)
        is_contradicted = place.column.name in MARKS[place.table.name].contradicted.split()
        kind = "contradicted" if is_contradicted else "plain"
        result = finds(context, place, dice)
        found[kind, result] += 1
        if is_contradicted and result is False:
            names[f"{place.table.name}.{place.column.name}"] += 1
    sys.stdout.write(f"missed among contradicted: {dict(names.most_common(20))}\n")
    deletions = [_deleted(contexts, dice) for _ in range(n_changes // 10)]
    return [
        _row("facts, and values that follow", found["contradicted", False], _n(found, "contradicted"), 0.0),
        _row("values of work in progress", found["plain", False], _n(found, "plain"), None),
        _row("deleted acts", deletions.count(False), len(deletions), 0.0),
    ]


def _n(found: Counter[tuple[str, bool | None]], kind: str) -> int:
    return sum(count for (name, _), count in found.items() if name == kind)


def _row(name: str, n_missed: int, n: int, goal: float | None) -> Row:
    return Row(
        name=f"verify: {name} missed",
        base="changes",
        figure=100 * n_missed / max(n, 1),
        unit="pt",
        goal=goal,
        n=n,
    )


def _rows(context: Context, table: Table) -> list[dict[str, Any]]:
    names = [column.name for column in table.columns]
    listed = ", ".join(f'"{name}"' for name in names)
    with context.store.database.reading() as connection:
        rows = connection.rows(f'SELECT {listed} FROM "{table.name}" WHERE learner_id = 1')
    return [dict(zip(names, row, strict=True)) for row in rows]


def _drawn(contexts: list[Context], dice: Random) -> tuple[Context, Place]:
    """A value of a random table, of a learner's first rows."""
    while True:
        context, table = dice.choice(contexts), dice.choice(metadata.sorted_tables)
        if rows := _rows(context, table):
            row, column = dice.choice(rows), dice.choice(list(table.columns))
            key = tuple(row[one.name] for one in table.primary_key.columns)
            return context, Place(table, column, key, row[column.name])


def _deleted(contexts: list[Context], dice: Random) -> bool | None:
    while True:
        context, name = dice.choice(contexts), dice.choice(list(ACTS.values()))
        if rows := _rows(context, metadata.tables[name]):
            number = dice.choice(rows)[f"{name}_no"]
            return changed_and_checked(
                context, f'DELETE FROM "{name}" WHERE learner_id = 1 AND {name}_no = {number}'
            )
