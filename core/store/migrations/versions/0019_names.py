"""Names of learners in a table of their own, which gives them their numbers.

Revision ID: 0019
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table, with the learners there are; on a server numbers go on where they are."""
    op.create_table(
        "learner_name",
        sa.Column("learner_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("learner_id", name=op.f("pk_learner_name")),
        sa.UniqueConstraint("name", name=op.f("uq_learner_name_name")),
    )
    op.execute("INSERT INTO learner_name (learner_id, name) SELECT learner_id, name FROM learner")
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "SELECT setval(pg_get_serial_sequence('learner_name', 'learner_id'), coalesce(max(learner_id), 0) + 1, false)"
            " FROM learner_name"
        )
        op.execute("ALTER TABLE learner ALTER COLUMN learner_id DROP DEFAULT")
        op.execute("DROP SEQUENCE learner_learner_id_seq")
