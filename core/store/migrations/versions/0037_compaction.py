"""Compaction: sums of deleted runs, digests of their uids, and the imports that lost runs.

Revision ID: 0037
"""

from __future__ import annotations

import sqlalchemy as sa

from core.store.migrations import add_int, add_table, ints, key

revision = "0037"
down_revision = "0036"


def upgrade() -> None:
    """Add the tables; no run so far is compacted."""
    add_int("learner", "next_compaction_no", 1)
    add_table(
        "compaction",
        key("compaction_no"),
        *ints("revision", "at_ms", "until_ms"),
        sa.Column("first_ms", sa.BigInteger(), nullable=True),
        sa.Column("last_ms", sa.BigInteger(), nullable=True),
        sa.Column("n_runs", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("sums", sa.LargeBinary(), nullable=False),
    )
    add_table(
        "compacted",
        key("uid_high"),
        key("uid_low"),
        *ints("compaction_no", "trace"),
    )
    add_table(
        "compacted_import",
        key("import_no"),
        key("compaction_no"),
        sa.Column("n_runs", sa.BigInteger(), nullable=False),
        refers=True,
    )
