"""Machines: what the agents of a person's machine carry, as an import of own sessions read it.

Revision ID: 0028
"""

from __future__ import annotations

import sqlalchemy as sa

from core.store.migrations import add_table, key

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    """Add the table."""
    add_table(
        "machine",
        key("actor", is_text=True),
        key("name", is_text=True),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("import_no", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        refers=True,
    )
