"""Repairs: automatic observations of arms in a span of time, taken back.

Revision ID: 0030
"""

from __future__ import annotations

from alembic import op

from core.store.migrations import add_int, add_partial, add_table, ints, key, source, texts

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    """Add the tables; an outcome so far is in no repair."""
    add_int("learner", "next_repair_no", 1)
    add_table(
        "repair",
        key("repair_no"),
        *texts("uid"),
        *ints("since_ms", "until_ms"),
        *texts("actor", "reason"),
        *ints("n_arms", "n_observations"),
        *source(),
        refers=True,
    )
    add_table(
        "retraction",
        key("run_no"),
        key("arm_no"),
        key("observation_no"),
        key("repair_no"),
        *ints("referenced"),
    )
    op.create_index("ix_retraction_repair", "retraction", ["learner_id", "repair_no"])
    add_partial("ix_retraction_report", "retraction", "observation_no", where="observation_no <> 0")
