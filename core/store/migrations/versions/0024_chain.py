"""Chain: one link per act over the sum of all facts. `core.store.links.build` then builds the chains so far.

Revision ID: 0024
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from core.store.migrations import add_int, add_table, ints, key

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    """Add the table and the columns; learners so far have a chain that is begun. An import in progress is void."""
    add_table(
        "link",
        key("link_no"),
        *ints("encoding", "revision", "at_ms"),
        sa.Column("sum", sa.LargeBinary(), nullable=False),
        sa.Column("head", sa.LargeBinary(), nullable=False),
    )
    for name in ("chain_key", "chain_sum", "chain_head", "staged_sum"):
        op.add_column("learner", sa.Column(name, sa.LargeBinary(), nullable=True))
    op.add_column("learner", sa.Column("chain_at", sa.Text(), nullable=False, server_default=sa.text("''")))
    add_int("learner", "next_link_no", 1)
    op.execute("UPDATE learner SET chain_at = 'begun' WHERE learner_id > 0 OR revision > 1")
    op.execute("UPDATE learner SET staged_parts = -1 WHERE staged_import_no > 0")
