"""Measured counts for a monitor: sums of rollups, and new selections."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from core.records.arm import MICRO
from core.records.judged import INCLUDED
from core.store.engine.words import ACTIVE
from core.store.transaction import Snapshot
from core.store.version import Choice

MOST_CHOSEN: Final = 10_000
_NEWEST: Final = "AND at_ms >= 0 ORDER BY at_ms DESC LIMIT 1"
_LAST_RUN: Final = f"SELECT at_ms FROM run WHERE learner_id = ? AND revision <= ? AND {ACTIVE} {_NEWEST}"
_LAST_IMPORT: Final = (
    f"SELECT at_ms FROM import WHERE learner_id = ? AND revision <= ? AND undone = 0 {_NEWEST}"
)


class Counted(NamedTuple):
    """Active runs by class, the sums of all observations in all epochs, and the times of the last run and import."""

    runs: dict[str, int]
    success: float
    failure: float
    last_run_ms: int | None = None
    last_import_ms: int | None = None


def counted(snapshot: Snapshot) -> Counted:
    """Return the counts of a learner, from the days of its rollups."""
    runs = snapshot.connection.rows(
        "SELECT class, sum(n) FROM usage_day WHERE learner_id = ? GROUP BY class ORDER BY class",
        [snapshot.learner_id],
    )
    row = snapshot.connection.row(
        "SELECT sum(success_micro), sum(failure_micro) FROM arm_day WHERE learner_id = ?",
        [snapshot.learner_id],
    )
    success, failure = row or (0, 0)
    return Counted(
        {name: int(n) for name, n in runs},
        float(success or 0) / MICRO,
        float(failure or 0) / MICRO,
        _last_ms(snapshot, _LAST_RUN),
        _last_ms(snapshot, _LAST_IMPORT),
    )


def _last_ms(snapshot: Snapshot, sql: str) -> int | None:
    row = snapshot.connection.row(sql, [snapshot.learner_id, snapshot.revision])
    return None if row is None else int(row[0])


def last_run_no(snapshot: Snapshot) -> int:
    """The newest number of a run; 0 where there is none."""
    row = snapshot.connection.row("SELECT max(run_no) FROM run WHERE learner_id = ?", [snapshot.learner_id])
    return 0 if row is None or row[0] is None else int(row[0])


def budgets_used(snapshot: Snapshot, after_no: int) -> tuple[int, list[int]]:
    """Tokens that were in the prompt of each run that was chosen within a budget, from a number on.

    At most 10,000 runs are looked at: the number of the last of them is there, too. An arm of unknown cost counts
    for nothing, as it did when it was chosen.
    """
    rows = snapshot.connection.rows(
        "SELECT run_no, choice FROM run WHERE learner_id = ? AND run_no > ? AND revision <= ? AND standing > 0"
        " ORDER BY run_no LIMIT ?",
        [snapshot.learner_id, after_no, snapshot.revision, MOST_CHOSEN],
    )
    within = [no for no, choice in rows if choice and msgspec.json.decode(choice, type=Choice).budget_tokens]
    used = snapshot.connection.rows_in(
        "SELECT run_no, sum(CASE WHEN token_cost > 0 THEN token_cost ELSE 0 END) FROM outcome"
        f" WHERE learner_id = ? AND flags & {INCLUDED} <> 0 AND run_no IN ({{}}) GROUP BY run_no",
        [snapshot.learner_id],
        within,
    )
    costs: dict[int, int] = dict(used)
    return (rows[-1][0] if rows else after_no), [int(costs.get(no, 0)) for no in within]
