"""Mended: acts that hold a difference between a chain and its rows.

Revision ID: 0041
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"


def upgrade() -> None:
    """Add the table; no difference so far is held."""
    op.create_table(
        "mended",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("link_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("explained", sa.Text(), nullable=False),
        sa.Column("difference", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["learner_id"], ["learner.learner_id"], name=op.f("fk_mended_learner_id")),
        sa.PrimaryKeyConstraint("learner_id", "link_no", name=op.f("pk_mended")),
        sqlite_with_rowid=False,
    )
