"""Experiments: their starts and later acts, and the sessions that they assigned.

Revision ID: 0045
"""

from __future__ import annotations

from alembic import op

from core.store.migrations import add_int, add_partial, add_table, ints, key, source, texts

revision = "0045"
down_revision = "0044"


def upgrade() -> None:
    """Add the tables; no session was assigned before."""
    for name in ("experiment", "assignment"):
        add_int("learner", f"next_{name}_no", 1)
    add_table(
        "experiment",
        key("experiment_no"),
        *texts("uid", "form"),
        *ints("start_no"),
        *texts("content", "secret", "actor"),
        *source(),
        refers=True,
    )
    add_partial("uq_experiment_uid", "experiment", "uid", where="uid <> ''", unique=True)
    add_table(
        "assignment",
        key("assignment_no"),
        *texts("uid"),
        *ints("experiment_no"),
        *texts("session", "run", "side"),
        *ints("chance_micro", "n_fitting"),
        *texts("actor"),
        *source(),
    )
    add_partial("uq_assignment_uid", "assignment", "uid", where="uid <> ''", unique=True)
    for name in ("session", "run"):
        add_partial(f"ix_assignment_{name}", "assignment", name, where=f"{name} <> ''")
    op.create_index("ix_assignment_experiment", "assignment", ["learner_id", "experiment_no"])
