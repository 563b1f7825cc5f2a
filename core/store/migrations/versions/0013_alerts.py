"""Alerts: conditions that were found, webhooks, and what each of them is told.

Revision ID: 0013
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_TEXTS: Final = frozenset(
    ["url", "learner", "pages", "secret_from", "by", "kind", "object", "ids", "uid", "state", "result"]
)


def upgrade() -> None:
    """Add the tables, and the numbers of their next rows."""
    for name in ("webhook", "alert", "alert_message"):
        op.add_column(
            "learner", sa.Column(f"next_{name}_no", sa.BigInteger(), server_default="1", nullable=False)
        )
    once = sa.UniqueConstraint("learner_id", "url", "learner", name=op.f("uq_webhook_learner_id_url_learner"))
    _table("webhook", "url learner pages secret_from private by at_ms removed_ms", once)
    _table("alert", "learner kind object count ids raised_ms quiet_ms cleared_ms")
    _index("uq_alert_standing", "alert", ["learner", "kind", "object"], "cleared_ms = 0", unique=True)
    times = "at_ms due_ms tries tried_ms result done_ms"
    _table("alert_message", f"webhook_no alert_no uid state {times}")
    _index("ix_alert_message_due", "alert_message", ["due_ms"], "done_ms = 0")
    op.create_index("ix_alert_message_webhook", "alert_message", ["learner_id", "webhook_no", "tried_ms"])


def _table(name: str, columns: str, *more: sa.UniqueConstraint) -> None:
    op.create_table(
        name,
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column(f"{name}_no", sa.BigInteger(), autoincrement=False, nullable=False),
        *(_column(column) for column in columns.split()),
        sa.ForeignKeyConstraint(["learner_id"], ["learner.learner_id"], name=op.f(f"fk_{name}_learner_id")),
        *more,
        sa.PrimaryKeyConstraint("learner_id", f"{name}_no", name=op.f(f"pk_{name}")),
        sqlite_with_rowid=False,
    )


def _column(name: str) -> sa.Column[str] | sa.Column[int]:
    if name in _TEXTS:
        return sa.Column(name, sa.Text(), nullable=False)
    return sa.Column(name, sa.BigInteger(), nullable=False)


def _index(name: str, table: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    some = sa.text(where)
    op.create_index(
        name, table, ["learner_id", *columns], unique=unique, sqlite_where=some, postgresql_where=some
    )
