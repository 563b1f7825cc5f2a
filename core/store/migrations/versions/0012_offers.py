"""Offers: what a door gave away and waits to be told about, and the sessions that clients begin and end.

Revision ID: 0012
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_TEXTS: Final = frozenset(["session", "class", "choice", "uid", "name"])


def upgrade() -> None:
    """Add the tables, and the numbers of their next rows."""
    for name in ("offer", "agent_session"):
        op.add_column(
            "learner", sa.Column(f"next_{name}_no", sa.BigInteger(), server_default="1", nullable=False)
        )
    _table("offer", "offer_no", "session", "at_ms", "class", "choice", "run_no", refers=True)
    _table("offer_arm", "arm_no offer_no")
    unique = sa.UniqueConstraint("learner_id", "uid", name=op.f("uq_agent_session_learner_id_uid"))
    _table("agent_session", "agent_session_no", "uid", "name", "started_ms", "ended_ms?", unique, refers=True)
    waiting = sa.text("choice <> ''")
    op.create_index(
        "ix_offer_open", "offer", ["learner_id", "at_ms"], sqlite_where=waiting, postgresql_where=waiting
    )
    op.create_index("ix_offer_arm_offer", "offer_arm", ["learner_id", "offer_no"])


def _table(name: str, key: str, *columns: str | sa.UniqueConstraint, refers: bool = False) -> None:
    """One table; a name with ? may hold nothing."""
    keys = ["learner_id", *key.split()]
    reference = op.f(f"fk_{name}_learner_id")
    more = [sa.ForeignKeyConstraint(["learner_id"], ["learner.learner_id"], name=reference)] if refers else []
    op.create_table(
        name,
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        *(sa.Column(column, sa.BigInteger(), autoincrement=False, nullable=False) for column in keys[1:]),
        *(_column(column) if isinstance(column, str) else column for column in columns),
        *more,
        sa.PrimaryKeyConstraint(*keys, name=op.f(f"pk_{name}")),
        sqlite_with_rowid=False,
    )


def _column(said: str) -> sa.Column[str] | sa.Column[int]:
    name = said.rstrip("?")
    if name in _TEXTS:
        return sa.Column(name, sa.Text(), nullable=False)
    return sa.Column(name, sa.BigInteger(), nullable=said.endswith("?"))
