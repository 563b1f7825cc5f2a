"""Machines: what the agents of a person's machine carry, as an import of own sessions read it.

Revision ID: 0028
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "machine",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("import_no", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["learner_id"], ["learner.learner_id"], name=op.f("fk_machine_learner_id")),
        sa.PrimaryKeyConstraint("learner_id", "actor", "name", name=op.f("pk_machine")),
        sqlite_with_rowid=False,
    )
