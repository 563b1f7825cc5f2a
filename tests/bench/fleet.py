"""Fleet: many learners at a glance, against the statements that it takes alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from core.flows.context import Context
from core.flows.learners import learners
from core.store import fleet
from core.store.engine import dialect
from tests.bench.harness import Row, Scale, pairs
from tests.bench.pages import filled

_COPIED: Final = ("arm", "posterior", "run", "usage_hour", "usage_day")
_SPOKEN: Final = dialect.speaker(dialect.SQLITE)
_RUNS: Final = 300
_AT_A_TIME: Final = 500
_STATEMENTS: Final = (fleet._DAYS, fleet._LAST, fleet._ARMS, fleet._COMPARED, fleet._HEADS)


def data(scale: Scale, folder: Path) -> list[Row]:
    """What the list of learners reads and says, against its own SQL."""
    context = many_learners(folder / "fleet.db", scale.n_learners, min(scale.n_page_runs, _RUNS))
    driver = sqlite3.connect(folder / "fleet.db")
    numbers = [number for (number,) in driver.execute("SELECT learner_id FROM learner WHERE learner_id > 0")]
    timed = pairs(
        lambda _: _fetch(driver, numbers),
        lambda _: _ask(context, scale.n_learners),
        scale.n_fleet_pairs,
        collect=False,
    )
    driver.close()
    context.store.close()
    return [timed.row(f"page data: {scale.n_learners:,} learners at a glance", "its own SQL", 1.5)]


def many_learners(path: Path, n_learners: int, n_runs: int) -> Context:
    """So many learners, each with the same runs: one is recorded, the others are copies of its rows."""
    context = filled(path, n_runs)
    context.store.close()
    with sqlite3.connect(path) as driver:
        (first,) = driver.execute("SELECT max(learner_id) FROM learner").fetchone()
        copies = [(number, f"agent {number:05}") for number in range(first + 1, first + n_learners)]
        for table in ("learner_name", "learner"):
            driver.executemany(_copying(driver, table, first, "learner_id", "name"), copies)
        for table in _COPIED:
            driver.executemany(_copying(driver, table, first, "learner_id"), [one[:1] for one in copies])
    driver.close()
    return context


def _copying(driver: sqlite3.Connection, table: str, learner_id: int, *given: str) -> str:
    """A statement that copies a learner's rows; some columns are given."""
    names = [row[1] for row in driver.execute(f'PRAGMA table_info("{table}")') if row[1] not in given]
    kept = [f'"{name}"' for name in names]
    return (
        f'INSERT INTO "{table}" ({", ".join([*given, *kept])}) SELECT {", ".join(["?" for _ in given] + kept)}'
        f' FROM "{table}" WHERE learner_id = {learner_id}'
    )


def _fetch(driver: sqlite3.Connection, numbers: Sequence[int]) -> None:
    for start in range(0, len(numbers), _AT_A_TIME):
        part = numbers[start : start + _AT_A_TIME]
        for sql in _STATEMENTS:
            marks = ",".join("?" * len(part))
            driver.execute(_SPOKEN(sql).replace("{}", marks), [*part] * sql.count("{}")).fetchall()


def _ask(context: Context, n_learners: int) -> None:
    if len(learners(context)) != n_learners:
        raise AssertionError("every learner must be in the list")
