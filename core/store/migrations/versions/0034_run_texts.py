"""Transcripts of runs, where texts are kept.

Revision ID: 0034
"""

from __future__ import annotations

from core.store.migrations import add_table, key, texts

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    """Add the table; runs so far have no transcript until they are imported again."""
    add_table(
        "run_text",
        key("run_no"),
        key("trace"),
        *texts("messages"),
    )
