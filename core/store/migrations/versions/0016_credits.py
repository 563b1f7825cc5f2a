"""Credits: what episodes were worth to the arms of their runs, as acts from which observations follow; and what their
steps were asked and answered.

Revision ID: 0016
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables, the number of the next credit, and what else an observation may follow from."""
    op.add_column(
        "learner", sa.Column("next_episode_credit_no", sa.BigInteger(), server_default="1", nullable=False)
    )
    op.add_column(
        "observation", sa.Column("episode_credit_no", sa.BigInteger(), server_default="0", nullable=False)
    )
    op.create_index(
        "ix_observation_credit",
        "observation",
        ["learner_id", "episode_credit_no"],
        sqlite_where=sa.text("episode_credit_no <> 0"),
        postgresql_where=sa.text("episode_credit_no <> 0"),
    )
    numbers = [
        sa.Column(name, sa.BigInteger(), nullable=False)
        for name in ("at_ms", "import_no", "revision", "standing", "undone")
    ]
    op.create_table(
        "episode_credit",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("episode_credit_no", sa.BigInteger(), autoincrement=False, nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("uid", "episode", "rule")),
        sa.Column("reward", sa.Float(), nullable=True),
        sa.Column("actor", sa.Text(), nullable=False),
        *numbers,
        sa.PrimaryKeyConstraint("learner_id", "episode_credit_no", name=op.f("pk_episode_credit")),
        sa.ForeignKeyConstraint(
            ["learner_id"], ["learner.learner_id"], name=op.f("fk_episode_credit_learner_id")
        ),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_episode_credit_episode", "episode_credit", ["learner_id", "episode"])
    keys = ["learner_id", "episode_no", "step_no", "digest"]
    op.create_table(
        "step_text",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        *(sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=False) for name in keys[1:]),
        *(sa.Column(name, sa.Text(), nullable=True) for name in ("asked", "answered")),
        sa.PrimaryKeyConstraint(*keys, name=op.f("pk_step_text")),
        sqlite_with_rowid=False,
    )
