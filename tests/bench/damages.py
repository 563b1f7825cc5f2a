"""Damages: random values of random rows changed past all flows, and random acts deleted; how much verify misses.

A change that is missed because it is of no settled act is counted apart, by its reason.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

from core.flows.context import Context
from core.store.tables import ACTS, metadata
from tests.bench.harness import FULL, QUICK, Row, Scale
from tests.store.damaging import changed_and_checked, drawn, end, rows_of, tried, worlds

_CHANGES: Final = {FULL: 10_000, QUICK: 500}
_FEWEST: Final = 30


def missed(scale: Scale, folder: Path) -> list[Row]:
    """Changes of facts and of what follows from them, of work in progress, and deleted acts that verify misses."""
    dice, n_changes = Random(1), _CHANGES.get(scale, _FEWEST)
    contexts = worlds(folder)
    excused: Counter[str] = Counter()
    names: Counter[str] = Counter()
    n_tried = 0
    for _ in range(n_changes):
        context, place = drawn(contexts, dice)
        result = tried(context, place, dice)
        n_tried += result.is_found is not None
        if result.excuse is not None:
            excused[result.excuse] += 1
        elif result.is_found is False:
            names[f"{place.table.name}.{place.column.name}"] += 1
    sys.stdout.write(f"missed: {dict(names.most_common(20))}, of no settled act: {dict(excused)}\n")
    deletions = [_deleted(contexts, dice) for _ in range(n_changes // 10)]
    end(contexts)
    n_excused = excused.total()
    return [
        _row("facts, and values that follow", names.total(), n_tried - n_excused, 0.0),
        _row("of no settled act", n_excused, n_tried, None),
        _row("deleted acts", deletions.count(False), len(deletions), 0.0),
    ]


def _row(name: str, n_missed: int, n: int, goal: float | None) -> Row:
    return Row(
        name=f"verify: {name} missed",
        base="changes",
        figure=100 * n_missed / max(n, 1),
        unit="pt",
        goal=goal,
        n=n,
    )


def _deleted(contexts: list[Context], dice: Random) -> bool | None:
    while True:
        context, name = dice.choice(contexts), dice.choice(list(ACTS.values()))
        if rows := rows_of(context, metadata.tables[name]):
            row = dice.choice(rows)
            return changed_and_checked(
                context,
                f'DELETE FROM "{name}" WHERE learner_id = {row["learner_id"]} AND {name}_no = {row[f"{name}_no"]}',
            )
