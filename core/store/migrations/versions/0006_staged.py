"""An import that is told in parts: where it stands, and what it adds up to until it does.

Revision ID: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns and the tables; nothing is staged."""
    for name in ("staged_import_no", "staged_revision", "staged_parts"):
        op.add_column(
            "learner", sa.Column(name, sa.BigInteger(), server_default=sa.text("0"), nullable=False)
        )
    once = sa.UniqueConstraint("learner_id", "key", name=op.f("uq_staged_arm_learner_id_key"))
    _create("staged_arm", ["arm_no"], ["key"], once, *_of_learner("staged_arm"))
    sums = ["inclusions", "pulls", "success_micro", "failure_micro"]
    _create("staged_hour", ["epoch", "hour", "arm_no"], sums)
    _create("staged_day", ["epoch", "arm_no", "day"], sums)
    _create("staged_usage", ["hour", *_KIND, "prob_micro", "bucket"], _USED)
    told = ["stretch", "rank", "trace", "digest", "counted"]
    _create("staged_claim", ["run_no"], told, *_of_learner("staged_claim"))


_KIND = ["class", "model", "channel", "status", "outcome"]
_TEXTS = {*_KIND, "key", "counted"}
_USED = [
    "n",
    "n_truncated",
    "tokens",
    "tokens_squared_high",
    "tokens_squared_low",
    "log_micro",
    "log_squared_micro",
    "n_timed",
    "duration_ms",
    "duration_squared_high",
    "duration_squared_low",
]


def _create(name: str, key: list[str], rest: list[str], *constraints: sa.schema.SchemaItem) -> None:
    """Key first: SQLite 3.40 takes a text that lies before it for NULL when it checks the table."""
    op.create_table(
        name,
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        *(
            sa.Column(one, sa.Text() if one in _TEXTS else sa.BigInteger(), nullable=False)
            for one in (*key, *rest)
        ),
        *constraints,
        sa.PrimaryKeyConstraint("learner_id", *key, name=op.f(f"pk_{name}")),
        sqlite_with_rowid=False,
    )


def _of_learner(table: str) -> list[sa.schema.SchemaItem]:
    name = op.f(f"fk_{table}_learner_id")
    return [sa.ForeignKeyConstraint(["learner_id"], ["learner.learner_id"], name=name)]
