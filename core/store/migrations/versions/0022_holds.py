"""Holds: selections that hold within a session, and how long selections of a new learner hold.

Revision ID: 0022
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from core.store.migrations import add_partial, add_table, key

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Add the table and the column; in learners so far each run has a selection of its own."""
    op.add_column("learner", sa.Column("sticky", sa.Text(), nullable=False, server_default=sa.text("'run'")))
    add_table(
        "hold",
        key("session", is_text=True),
        key("began_ms"),
        sa.Column("used_ms", sa.BigInteger(), nullable=False),
        sa.Column("class", sa.Text(), nullable=False),
        sa.Column("prob_micro", sa.BigInteger(), nullable=False),
        sa.Column("seed", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("choice", sa.Text(), nullable=False),
        refers=True,
    )
    add_partial("uq_hold_open", "hold", "session", where="choice <> ''", unique=True)
    add_partial("ix_hold_used", "hold", "used_ms", where="choice <> ''")
