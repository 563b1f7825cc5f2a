"""History: digests of the messages of runs, which know a run again under other ids.

Revision ID: 0038
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"


def upgrade() -> None:
    """Add the table; a run so far has no history on record."""
    op.create_table(
        "history",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("run_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("history_key", sa.BigInteger(), nullable=False),
        sa.Column("marks", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("learner_id", "run_no", name=op.f("pk_history")),
        sqlite_with_rowid=False,
    )
    is_known = sa.text("history_key <> 0")
    op.create_index(
        "ix_history_key",
        "history",
        ["learner_id", "history_key"],
        sqlite_where=is_known,
        postgresql_where=is_known,
    )
