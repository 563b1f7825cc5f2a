"""Trials: their plans and results, and the sessions of their runs.

Revision ID: 0044
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"


def upgrade() -> None:
    """Add the tables and the index of the runs of trials; no earlier run is of a trial."""
    op.add_column(
        "learner", sa.Column("next_trial_no", sa.BigInteger(), nullable=False, server_default=sa.text("1"))
    )
    op.create_table(
        "trial",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("trial_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("form", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("import_no", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("standing", sa.BigInteger(), nullable=False),
        sa.Column("undone", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["learner_id"], ["learner.learner_id"], name=op.f("fk_trial_learner_id")),
        sa.PrimaryKeyConstraint("learner_id", "trial_no", name=op.f("pk_trial")),
        sqlite_with_rowid=False,
    )
    is_imported = sa.text("uid <> ''")
    op.create_index(
        "uq_trial_uid",
        "trial",
        ["learner_id", "uid"],
        unique=True,
        sqlite_where=is_imported,
        postgresql_where=is_imported,
    )
    op.create_table(
        "trial_session",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("trial_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("learner_id", "session", "trial_no", name=op.f("pk_trial_session")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_trial_session_trial", "trial_session", ["learner_id", "trial_no"])
    is_of_trial = sa.text("standing = 2")
    op.create_index(
        "ix_run_trial",
        "run",
        ["learner_id", "at_ms", "run_no"],
        sqlite_where=is_of_trial,
        postgresql_where=is_of_trial,
    )
