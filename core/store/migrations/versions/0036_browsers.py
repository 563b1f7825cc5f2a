"""Browsers: the names of browsers that judged without sign-in, and which of them an operator confirmed.

Revision ID: 0036
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    """Add the tables; the browser of a judgement so far is unknown."""
    op.add_column(
        "learner", sa.Column("next_browser_no", sa.BigInteger(), nullable=False, server_default=sa.text("1"))
    )
    op.create_table(
        "judged_in",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("evaluation_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("browser", sa.Text(), nullable=False),
        sa.Column("named", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("learner_id", "evaluation_no", name=op.f("pk_judged_in")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "browser",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("browser_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("browser", sa.Text(), nullable=False),
        sa.Column("named", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("import_no", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("standing", sa.BigInteger(), nullable=False),
        sa.Column("undone", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["learner_id"], ["learner.learner_id"], name=op.f("fk_browser_learner_id")),
        sa.PrimaryKeyConstraint("learner_id", "browser_no", name=op.f("pk_browser")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_browser_browser", "browser", ["learner_id", "browser"])
