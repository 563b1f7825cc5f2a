"""Refold: an older database, brought to our tables → what they hold that follows from its facts."""

from __future__ import annotations

from collections.abc import Sequence

from core.store.caches import CHUNK, apply_usage, rollup_usage, weigh
from core.store.engine import Connection
from core.store.reads import numbered_runs
from core.store.transaction import Snapshot
from core.store.version import session_key


def refold(connection: Connection) -> None:
    """Fold the rollups of usage from the runs, and give each its session key; count observations by their weight.

    Of every learner.
    """
    for (name,) in connection.rows("SELECT name FROM learner WHERE learner_id > 0 ORDER BY learner_id"):
        snapshot = Snapshot(connection, name)
        for table in ("usage_hour", "usage_day"):
            connection.run(f"DELETE FROM {table} WHERE learner_id = ?", [snapshot.learner_id])
        for run_nos in numbered_runs(snapshot, CHUNK):
            _give_keys(snapshot, run_nos)
            apply_usage(snapshot, rollup_usage(snapshot, run_nos))
        weigh(snapshot)


def _give_keys(snapshot: Snapshot, run_nos: Sequence[int]) -> None:
    rows = snapshot.connection.rows_in(
        "SELECT run_no, class, session FROM run WHERE learner_id = ? AND run_no IN ({})",
        [snapshot.learner_id],
        run_nos,
    )
    keys = ((session_key(*row), snapshot.learner_id, row[0]) for row in rows)
    snapshot.connection.many("UPDATE run SET session_key = ? WHERE learner_id = ? AND run_no = ?", keys)
