"""Counts of runs that had an arm by name, and of those that found it.

Revision ID: 0029
"""

from __future__ import annotations

from core.store.migrations import add_int

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    """Add the columns. No arm was by name in any run so far."""
    for table in ("posterior", "arm_hour", "arm_day", "staged_hour", "staged_day"):
        for name in ("n_named", "n_loaded"):
            add_int(table, name)
