"""Index of the loads of skills.

Revision ID: 0042
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"


def upgrade() -> None:
    """Add the index."""
    is_load = sa.text("place IN ('call', 'typed')")
    op.create_index(
        "ix_evidence_load",
        "evidence",
        ["learner_id", "arm_no", "run_no", "place"],
        sqlite_where=is_load,
        postgresql_where=is_load,
    )
