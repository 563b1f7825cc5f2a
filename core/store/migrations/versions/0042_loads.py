"""Index of the loads of skills.

Revision ID: 0042
"""

from __future__ import annotations

from core.store.migrations import add_partial

revision = "0042"
down_revision = "0041"


def upgrade() -> None:
    """Add the index."""
    add_partial(
        "ix_evidence_load", "evidence", "arm_no", "run_no", "place", where="place IN ('call', 'typed')"
    )
