"""Compaction: sums of deleted runs, digests of their uids, and the imports that lost runs.

Revision ID: 0037
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"


def upgrade() -> None:
    """Add the tables; no run so far is compacted."""
    op.add_column(
        "learner",
        sa.Column("next_compaction_no", sa.BigInteger(), nullable=False, server_default=sa.text("1")),
    )
    op.create_table(
        "compaction",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("compaction_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
        sa.Column("first_ms", sa.BigInteger(), nullable=True),
        sa.Column("last_ms", sa.BigInteger(), nullable=True),
        sa.Column("n_runs", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("sums", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("learner_id", "compaction_no", name=op.f("pk_compaction")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "compacted",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("uid_high", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("uid_low", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("compaction_no", sa.BigInteger(), nullable=False),
        sa.Column("trace", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("learner_id", "uid_high", "uid_low", name=op.f("pk_compacted")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "compacted_import",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("import_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("compaction_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("n_runs", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["learner_id"], ["learner.learner_id"], name=op.f("fk_compacted_import_learner_id")
        ),
        sa.PrimaryKeyConstraint("learner_id", "import_no", "compaction_no", name=op.f("pk_compacted_import")),
        sqlite_with_rowid=False,
    )
