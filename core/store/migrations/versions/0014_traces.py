"""Traces that wait to become runs, with their spans; tokens that are bridges, and whom senders of chats are.

Revision ID: 0014
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables, and what tells a bridge."""
    op.add_column("token", sa.Column("is_bridge", sa.BigInteger(), server_default="0", nullable=False))
    op.create_table(
        "trace",
        _learner(),
        *_texts("uid", "session", "said"),
        *_numbers("is_rooted", "n_spans", "n_bytes", "n_told", "last_ms"),
        _reference("trace"),
        sa.PrimaryKeyConstraint("learner_id", "uid", name=op.f("pk_trace")),
        sqlite_with_rowid=False,
    )
    due = sa.text("n_told < n_spans")
    op.create_index(
        "ix_trace_due", "trace", ["learner_id", "last_ms"], sqlite_where=due, postgresql_where=due
    )
    op.create_table(
        "span",
        _learner(),
        *_texts("trace", "uid"),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("learner_id", "trace", "uid", name=op.f("pk_span")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "bridge_sender",
        _learner(),
        *_texts("channel", "sender"),
        *_numbers("member_no"),
        *_texts("by"),
        *_numbers("at_ms"),
        _reference("bridge_sender"),
        sa.PrimaryKeyConstraint("learner_id", "channel", "sender", name=op.f("pk_bridge_sender")),
        sqlite_with_rowid=False,
    )


def _learner() -> sa.Column[int]:
    return sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False)


def _reference(name: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["learner_id"], ["learner.learner_id"], name=op.f(f"fk_{name}_learner_id"))


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _numbers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in names]
