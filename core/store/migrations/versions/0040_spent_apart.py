"""Tokens and searches that providers bill apart.

Revision ID: 0040
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"

_KEY = ("learner_id", "run_no", "by_sub_agent", "model", "tier", "region", "context")
_COUNTS = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "unsplit")


def upgrade() -> None:
    """Add the table; what a run so far spent apart is among its other tokens."""
    op.create_table(
        "spent_apart",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("run_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("by_sub_agent", sa.BigInteger(), autoincrement=False, nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("model", "tier", "region")),
        sa.Column("context", sa.BigInteger(), autoincrement=False, nullable=False),
        *(sa.Column(f"{name}_tokens", sa.BigInteger(), nullable=False) for name in _COUNTS),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("assumed", "searches", "unread")),
        sa.PrimaryKeyConstraint(*_KEY, name=op.f("pk_spent_apart")),
        sqlite_with_rowid=False,
    )
