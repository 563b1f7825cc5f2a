"""Machines: what the agents of a person's machine carry, as an import of own sessions read it.

Revision ID: 0028
"""

from __future__ import annotations

from core.store.migrations import add_table, ints, key, texts

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    """Add the table."""
    add_table(
        "machine",
        key("actor", is_text=True),
        key("name", is_text=True),
        *ints("at_ms", "import_no"),
        *texts("content"),
        refers=True,
    )
