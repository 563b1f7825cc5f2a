"""Definitions: versions of the arms in the prompt of a run.

Revision ID: 0033
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    """Add the tables; a run so far has no definition on record."""
    op.create_table(
        "defined",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("run_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("set_key", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("learner_id", "run_no", name=op.f("pk_defined")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_defined_set", "defined", ["learner_id", "set_key"])
    op.create_table(
        "definition",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("set_key", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("arm_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["learner_id"], ["learner.learner_id"], name=op.f("fk_definition_learner_id")
        ),
        sa.PrimaryKeyConstraint("learner_id", "set_key", "arm_no", name=op.f("pk_definition")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_definition_arm", "definition", ["learner_id", "arm_no"])
