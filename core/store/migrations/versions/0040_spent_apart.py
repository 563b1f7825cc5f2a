"""Tokens and searches that providers bill apart.

Revision ID: 0040
"""

from __future__ import annotations

from core.store.migrations import add_table, ints, key

revision = "0040"
down_revision = "0039"

_COUNTS = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "unsplit")


def upgrade() -> None:
    """Add the table; what a run so far spent apart is among its other tokens."""
    add_table(
        "spent_apart",
        key("run_no"),
        key("by_sub_agent"),
        *(key(name, is_text=True) for name in ("model", "tier", "region")),
        key("context"),
        *ints(*(f"{name}_tokens" for name in _COUNTS), "assumed", "searches", "unread"),
    )
