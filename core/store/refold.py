"""Refold: an older database, brought to our tables → what they hold that follows from its facts."""

from __future__ import annotations

from collections.abc import Sequence

from core.store.caches import CHUNK, apply_usage, tally_usage
from core.store.engine import Link
from core.store.reads import numbered_runs
from core.store.transaction import Snapshot
from core.store.version import session_key


def refold(link: Link) -> None:
    """Fold the rollups of usage from the runs, and give each its session key, of every learner."""
    for (name,) in link.rows("SELECT name FROM learner ORDER BY learner_id"):
        snapshot = Snapshot(link, name)
        for table in ("usage_hour", "usage_day"):
            link.run(f"DELETE FROM {table} WHERE learner_id = ?", [snapshot.learner_id])
        for run_nos in numbered_runs(snapshot, CHUNK):
            _give_keys(snapshot, run_nos)
            apply_usage(snapshot, tally_usage(snapshot, run_nos))


def _give_keys(snapshot: Snapshot, run_nos: Sequence[int]) -> None:
    rows = snapshot.link.rows_in(
        "SELECT run_no, class, session FROM run WHERE learner_id = ? AND run_no IN ({})",
        [snapshot.learner_id],
        run_nos,
    )
    keys = ((session_key(*row), snapshot.learner_id, row[0]) for row in rows)
    snapshot.link.many("UPDATE run SET session_key = ? WHERE learner_id = ? AND run_no = ?", keys)
