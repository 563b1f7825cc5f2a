"""Rollouts whose events are sent: those that wait for their start, and those that go on.

Revision ID: 0017
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables; of rollouts that were imported before nothing is kept."""
    op.create_table(
        "rollout",
        _learner(),
        *(_text(name) for name in ("uid", "started", "updated", "said")),
        *(_number(name) for name in ("n_events", "n_told", "last_ms")),
        sa.ForeignKeyConstraint(["learner_id"], ["learner.learner_id"], name=op.f("fk_rollout_learner_id")),
        sa.PrimaryKeyConstraint("learner_id", "uid", name=op.f("pk_rollout")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "rollout_message",
        _learner(),
        _text("rollout"),
        sa.Column("place", sa.BigInteger(), autoincrement=False, nullable=False),
        _text("content"),
        sa.PrimaryKeyConstraint("learner_id", "rollout", "place", name=op.f("pk_rollout_message")),
        sqlite_with_rowid=False,
    )


def _learner() -> sa.Column[int]:
    return sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)
