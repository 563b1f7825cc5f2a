"""What observations of weight below 1 add to the pulls: their weight, beside the whole ones.

Revision ID: 0008
"""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the sums; what is counted so far is weighed anew where it is folded (`core.store.refold`)."""
    column = "ADD COLUMN part_micro BIGINT DEFAULT 0 NOT NULL"
    for table in ("arm_hour", "arm_day", "staged_hour", "staged_day"):
        op.execute(f"ALTER TABLE {table} {column}")
    op.execute(f"ALTER TABLE posterior {column} CONSTRAINT ck_posterior_part CHECK (part_micro >= 0)")
