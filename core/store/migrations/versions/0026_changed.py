"""Changed: the revision that changed a listed row last, and the runs of a session by its name.

Revision ID: 0026
"""

from __future__ import annotations

from alembic import op

from core.store.migrations import add_int, add_partial

revision = "0026"
down_revision = "0025"

_LISTED = ("run", "observation", "evaluation", "episode")


def upgrade() -> None:
    """Add columns and indexes; a row so far counts as changed now, because when it was is unknown."""
    for table in _LISTED:
        add_int(table, "changed")
        op.execute(
            f"UPDATE {table} SET changed = (SELECT CASE WHEN l.revision > {table}.revision THEN l.revision"
            f" ELSE {table}.revision END FROM learner l WHERE l.learner_id = {table}.learner_id)"
        )
        op.create_index(f"ix_{table}_changed", table, ["learner_id", "changed", f"{table}_no"])
    add_partial("ix_run_named", "run", "session", "at_ms", "run_no", where="session IS NOT NULL")
