"""Links held: a learner's row holds its latest links, until the table takes them together.

Revision ID: 0025
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    """Add the column; links so far are in the table."""
    op.add_column("learner", sa.Column("chain_held", sa.LargeBinary(), nullable=True))
