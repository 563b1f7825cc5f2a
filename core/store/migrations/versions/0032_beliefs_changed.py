"""Beliefs changed: the revision that changed an arm and its belief last.

Revision ID: 0032
"""

from __future__ import annotations

from alembic import op

from core.store.migrations import add_int

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    """Add the column; a belief so far counts as changed now, because when it was is unknown."""
    add_int("posterior", "changed")
    op.execute(
        "UPDATE posterior SET changed = (SELECT revision FROM learner l WHERE l.learner_id = posterior.learner_id)"
    )
