"""History: digests of the messages of runs, which know a run again under other ids.

Revision ID: 0038
"""

from __future__ import annotations

import sqlalchemy as sa

from core.store.migrations import add_partial, add_table, key

revision = "0038"
down_revision = "0037"


def upgrade() -> None:
    """Add the table; a run so far has no history on record."""
    add_table(
        "history",
        key("run_no"),
        sa.Column("history_key", sa.BigInteger(), nullable=False),
        sa.Column("marks", sa.LargeBinary(), nullable=False),
    )
    add_partial("ix_history_key", "history", "history_key", where="history_key <> 0")
