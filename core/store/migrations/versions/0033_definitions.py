"""Definitions: versions of the arms in the prompt of a run.

Revision ID: 0033
"""

from __future__ import annotations

from alembic import op

from core.store.migrations import add_table, ints, key, texts

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    """Add the tables; a run so far has no definition on record."""
    add_table(
        "defined",
        key("run_no"),
        *ints("set_key"),
    )
    op.create_index("ix_defined_set", "defined", ["learner_id", "set_key"])
    add_table(
        "definition",
        key("set_key"),
        key("arm_no"),
        *texts("version"),
        refers=True,
    )
    op.create_index("ix_definition_arm", "definition", ["learner_id", "arm_no"])
