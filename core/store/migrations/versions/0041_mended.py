"""Mended: acts that hold a difference between a chain and its rows.

Revision ID: 0041
"""

from __future__ import annotations

import sqlalchemy as sa

from core.store.migrations import add_table, ints, key

revision = "0041"
down_revision = "0040"


def upgrade() -> None:
    """Add the table; no difference so far is held."""
    add_table(
        "mended",
        key("link_no"),
        *ints("revision", "at_ms"),
        sa.Column("explained", sa.Text(), nullable=False),
        sa.Column("difference", sa.LargeBinary(), nullable=False),
        refers=True,
    )
