"""Delete archived versions of runs that no source has: a longer version of the same source replaced them.

Revision ID: 0031
"""

from __future__ import annotations

from alembic import op

from core.store.version import NO_SOURCE

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    """Delete them, except those of a learner with an import in progress: its next import does."""
    op.execute(
        "DELETE FROM version WHERE learner_id IN (SELECT learner_id FROM learner WHERE staged_import_no = 0)"
        + NO_SOURCE.replace("?1", "version.learner_id")
    )
