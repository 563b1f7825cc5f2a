"""Views for SQL programs. `core.store.schema` makes them after the newest migration, as it does after each one.

Revision ID: 0027
"""

from __future__ import annotations

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """Change no table."""
