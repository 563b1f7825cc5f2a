"""Transcripts of runs, where texts are kept.

Revision ID: 0034
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    """Add the table; runs so far have no transcript until they are imported again."""
    op.create_table(
        "run_text",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("run_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("trace", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("messages", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("learner_id", "run_no", "trace", name=op.f("pk_run_text")),
        sqlite_with_rowid=False,
    )
