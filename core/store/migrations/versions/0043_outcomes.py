"""Outcomes of runs by their programs, and rewards that were given to a whole run.

Revision ID: 0043
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from core.store.migrations import add_int, add_partial, add_table, key, source, texts

revision = "0043"
down_revision = "0042"


def upgrade() -> None:
    """Add the tables; which earlier rewards were of a whole run is not known."""
    add_int("learner", "next_achieved_no", 1)
    add_table(
        "achieved",
        key("achieved_no"),
        *texts("uid", "run"),
        sa.Column("value", sa.Float(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        *source(),
        sa.CheckConstraint("value >= 0 AND value <= 1", name=op.f("ck_achieved_value")),
    )
    add_partial("uq_achieved_uid", "achieved", "uid", where="uid <> ''", unique=True)
    op.create_index("ix_achieved_run", "achieved", ["learner_id", "run"])
    add_table("whole_reward", key("observation_no"))
