"""What each import says of an arm's token cost and label, so that undoing it takes that back too.

Who said what there is already was not kept: it becomes what was recorded directly, and stays.

Revision ID: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table; import 0 said what arms have, before everything else."""
    op.create_table(
        "description",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("arm_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("import_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("token_cost", sa.BigInteger(), nullable=True),
        sa.Column("cost_revision", sa.BigInteger(), nullable=False),
        sa.Column("label", sa.Text(), nullable=True),
        sa.Column("label_revision", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["learner_id"], ["learner.learner_id"], name=op.f("fk_description_learner_id")
        ),
        sa.PrimaryKeyConstraint("learner_id", "arm_no", "import_no", name=op.f("pk_description")),
        sqlite_with_rowid=False,
    )
    op.execute(
        "INSERT INTO description SELECT learner_id, arm_no, 0, token_cost, 0, label, 0 FROM arm"
        " WHERE token_cost IS NOT NULL OR label IS NOT NULL"
    )
