"""Index of kept texts, for the search.

Revision ID: 0035
"""

from __future__ import annotations

from alembic import op

from core.store.text_index import DEFINITIONS

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the index, empty; texts so far are indexed afterwards, some at a time."""
    for statement in DEFINITIONS[op.get_bind().dialect.name]:
        op.execute(statement)
