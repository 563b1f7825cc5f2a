"""Holds: selections that hold within a session, and how long selections of a new learner hold.

Revision ID: 0022
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Add the table and the column; in learners so far each run has a selection of its own."""
    op.add_column("learner", sa.Column("sticky", sa.Text(), nullable=False, server_default=sa.text("'run'")))
    op.create_table(
        "hold",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("began_ms", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("used_ms", sa.BigInteger(), nullable=False),
        sa.Column("class", sa.Text(), nullable=False),
        sa.Column("prob_micro", sa.BigInteger(), nullable=False),
        sa.Column("seed", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("choice", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["learner_id"], ["learner.learner_id"], name=op.f("fk_hold_learner_id")),
        sa.PrimaryKeyConstraint("learner_id", "session", "began_ms", name=op.f("pk_hold")),
        sqlite_with_rowid=False,
    )
    is_open = sa.text("choice <> ''")
    for name, column, unique in (("uq_hold_open", "session", True), ("ix_hold_used", "used_ms", False)):
        op.create_index(
            name,
            "hold",
            ["learner_id", column],
            unique=unique,
            sqlite_where=is_open,
            postgresql_where=is_open,
        )
