"""Outcomes of runs by their programs, and rewards that were given to a whole run.

Revision ID: 0043
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"


def upgrade() -> None:
    """Add the tables; which earlier rewards were of a whole run is not known."""
    op.add_column(
        "learner", sa.Column("next_achieved_no", sa.BigInteger(), nullable=False, server_default=sa.text("1"))
    )
    op.create_table(
        "achieved",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("achieved_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("import_no", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("standing", sa.BigInteger(), nullable=False),
        sa.Column("undone", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("value >= 0 AND value <= 1", name=op.f("ck_achieved_value")),
        sa.PrimaryKeyConstraint("learner_id", "achieved_no", name=op.f("pk_achieved")),
        sqlite_with_rowid=False,
    )
    is_imported = sa.text("uid <> ''")
    op.create_index(
        "uq_achieved_uid",
        "achieved",
        ["learner_id", "uid"],
        unique=True,
        sqlite_where=is_imported,
        postgresql_where=is_imported,
    )
    op.create_index("ix_achieved_run", "achieved", ["learner_id", "run"])
    op.create_table(
        "whole_reward",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("observation_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("learner_id", "observation_no", name=op.f("pk_whole_reward")),
        sqlite_with_rowid=False,
    )
