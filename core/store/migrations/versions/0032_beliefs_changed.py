"""Beliefs changed: the revision that changed an arm and its belief last.

Revision ID: 0032
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    """Add the column; a belief so far counts as changed now, because when it was is unknown."""
    column = sa.Column("changed", sa.BigInteger(), nullable=False, server_default=sa.text("0"))
    op.add_column("posterior", column)
    op.execute(
        "UPDATE posterior SET changed = (SELECT revision FROM learner l WHERE l.learner_id = posterior.learner_id)"
    )
