"""Repairs: automatic observations of arms in a span of time, taken back.

Revision ID: 0030
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from core.store.migrations import add_int, add_partial, add_table, key, source

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    """Add the tables; an outcome so far is in no repair."""
    add_int("learner", "next_repair_no", 1)
    add_table(
        "repair",
        key("repair_no"),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("n_arms", sa.BigInteger(), nullable=False),
        sa.Column("n_observations", sa.BigInteger(), nullable=False),
        *source(),
        refers=True,
    )
    add_table(
        "retraction",
        key("run_no"),
        key("arm_no"),
        key("observation_no"),
        key("repair_no"),
        sa.Column("referenced", sa.BigInteger(), nullable=False),
    )
    op.create_index("ix_retraction_repair", "retraction", ["learner_id", "repair_no"])
    add_partial("ix_retraction_report", "retraction", "observation_no", where="observation_no <> 0")
