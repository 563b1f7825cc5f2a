"""Chance of each arm of a selection.

Revision ID: 0046
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"


def upgrade() -> None:
    """Add the column; the chances of earlier selections are unknown."""
    op.add_column("decision", sa.Column("chance", sa.Float(), nullable=True))
