"""What tells each state of a learner from every other, also where a revision comes twice: a token of each write.

Revision ID: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; the next write draws the first token."""
    op.add_column("learner", sa.Column("token", sa.BigInteger(), server_default=sa.text("0"), nullable=False))
