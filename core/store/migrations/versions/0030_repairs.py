"""Repairs: automatic observations of arms in a span of time, taken back.

Revision ID: 0030
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    """Add the tables; an outcome so far is in no repair."""
    op.add_column(
        "learner", sa.Column("next_repair_no", sa.BigInteger(), nullable=False, server_default=sa.text("1"))
    )
    op.create_table(
        "repair",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("repair_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("n_arms", sa.BigInteger(), nullable=False),
        sa.Column("n_observations", sa.BigInteger(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("import_no", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("standing", sa.BigInteger(), nullable=False),
        sa.Column("undone", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["learner_id"], ["learner.learner_id"], name=op.f("fk_repair_learner_id")),
        sa.PrimaryKeyConstraint("learner_id", "repair_no", name=op.f("pk_repair")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "retraction",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("run_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("arm_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("observation_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("repair_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("referenced", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "learner_id", "run_no", "arm_no", "observation_no", "repair_no", name=op.f("pk_retraction")
        ),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_retraction_repair", "retraction", ["learner_id", "repair_no"])
    is_report = sa.text("observation_no <> 0")
    op.create_index(
        "ix_retraction_report",
        "retraction",
        ["learner_id", "observation_no"],
        sqlite_where=is_report,
        postgresql_where=is_report,
    )
