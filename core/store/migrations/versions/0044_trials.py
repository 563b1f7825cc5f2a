"""Trials: their plans and results, and the sessions of their runs.

Revision ID: 0044
"""

from __future__ import annotations

from alembic import op

from core.store.migrations import add_int, add_partial, add_table, key, source, texts

revision = "0044"
down_revision = "0043"


def upgrade() -> None:
    """Add the tables and the index of the runs of trials; no earlier run is of a trial."""
    add_int("learner", "next_trial_no", 1)
    add_table(
        "trial",
        key("trial_no"),
        *texts("uid", "form", "plan", "content", "actor"),
        *source(),
        refers=True,
    )
    add_partial("uq_trial_uid", "trial", "uid", where="uid <> ''", unique=True)
    add_table(
        "trial_session",
        key("session", is_text=True),
        key("trial_no"),
    )
    op.create_index("ix_trial_session_trial", "trial_session", ["learner_id", "trial_no"])
    add_partial("ix_run_trial", "run", "at_ms", "run_no", where="standing = 2")
