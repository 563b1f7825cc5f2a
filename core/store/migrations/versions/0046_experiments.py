"""Experiments: their starts and later acts, and the sessions that they assigned.

Revision ID: 0046
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from core.store.migrations import add_int, add_partial, add_table, key, source

revision = "0046"
down_revision = "0045"


def upgrade() -> None:
    """Add the tables; no session was assigned before."""
    for name in ("experiment", "assignment"):
        add_int("learner", f"next_{name}_no", 1)
    add_table(
        "experiment",
        key("experiment_no"),
        *_columns("uid", "form"),
        sa.Column("start_no", sa.BigInteger(), nullable=False),
        *_columns("content", "secret", "actor"),
        *source(),
        refers=True,
    )
    add_partial("uq_experiment_uid", "experiment", "uid", where="uid <> ''", unique=True)
    add_table(
        "assignment",
        key("assignment_no"),
        *_columns("uid"),
        sa.Column("experiment_no", sa.BigInteger(), nullable=False),
        *_columns("session", "run", "side"),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("chance_micro", "n_fitting")),
        *_columns("actor"),
        *source(),
    )
    add_partial("uq_assignment_uid", "assignment", "uid", where="uid <> ''", unique=True)
    for name in ("session", "run"):
        add_partial(f"ix_assignment_{name}", "assignment", name, where=f"{name} <> ''")
    op.create_index("ix_assignment_experiment", "assignment", ["learner_id", "experiment_no"])


def _columns(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]
