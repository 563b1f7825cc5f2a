"""Usage by baseline probability, with logarithms of tokens; the session of a run whose class a coin decided.

What the new rollups hold is folded from the runs afterwards (`core.store.refold`).

Revision ID: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the rollups of usage anew, empty; add the column and its index."""
    for name, place in (("usage_day", "day"), ("usage_hour", "hour")):
        op.drop_table(name)
        op.create_table(name, *_columns(name, place), sqlite_with_rowid=False)
    op.add_column("run", sa.Column("session_key", sa.BigInteger(), nullable=True))
    decided = sa.text("session_key IS NOT NULL")
    op.create_index(
        "ix_run_session", "run", ["learner_id", "session_key"], sqlite_where=decided, postgresql_where=decided
    )


def _columns(name: str, place: str) -> list[sa.schema.SchemaItem]:
    texts = ("class", "model", "channel", "status", "outcome")
    of_tokens = ("tokens", "tokens_squared_high", "tokens_squared_low", "log_micro", "log_squared_micro")
    of_time = ("n_timed", "duration_ms", "duration_squared_high", "duration_squared_low")
    sums = ("n", "n_truncated", *of_tokens, *of_time)
    key = ("learner_id", place, *texts, "prob_micro", "bucket")
    return [
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column(place, sa.BigInteger(), autoincrement=False, nullable=False),
        *(sa.Column(text, sa.Text(), nullable=False) for text in texts),
        *(
            sa.Column(part, sa.BigInteger(), autoincrement=False, nullable=False)
            for part in ("prob_micro", "bucket")
        ),
        *(sa.Column(one, sa.BigInteger(), nullable=False) for one in sums),
        sa.PrimaryKeyConstraint(*key, name=op.f(f"pk_{name}")),
    ]
