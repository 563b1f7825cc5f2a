"""Browsers: the names of browsers that judged without sign-in, and which of them an operator confirmed.

Revision ID: 0036
"""

from __future__ import annotations

from alembic import op

from core.store.migrations import add_int, add_table, key, source, texts

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    """Add the tables; the browser of a judgement so far is unknown."""
    add_int("learner", "next_browser_no", 1)
    add_table(
        "judged_in",
        key("evaluation_no"),
        *texts("browser", "named", "person"),
    )
    add_table(
        "browser",
        key("browser_no"),
        *texts("uid", "browser", "named", "actor"),
        *source(),
        refers=True,
    )
    op.create_index("ix_browser_browser", "browser", ["learner_id", "browser"])
