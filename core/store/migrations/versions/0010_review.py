"""Review: queues of what is to be judged, what was set aside, and what people do on the way to a judgement.

Revision ID: 0010
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_TEXTS: Final = frozenset(
    [
        "uid",
        "name",
        "asks",
        "rubric",
        "actor",
        "why",
        "control",
        "assigned_to",
        "queue",
        "reason",
        "fields",
    ]
)
_ABOUT: Final = ("actor", "at_ms", "import_no", "revision", "standing", "undone")


def upgrade() -> None:
    """Add the tables, and the numbers of their next rows."""
    for name in ("review_queue", "review_aside"):
        op.add_column(
            "learner", sa.Column(f"next_{name}_no", sa.BigInteger(), server_default="1", nullable=False)
        )
    _table(
        "review_queue",
        "review_queue_no",
        *("uid", "name", "asks", "n_reviewers", "blind", "rubric", "control_micro", "due_ms?"),
        *_ABOUT,
        refers=True,
    )
    _table(
        "review_aside", "review_aside_no", "uid", "queue", "item_no", "reason", "final", *_ABOUT, refers=True
    )
    op.create_index("ix_review_aside_queue", "review_aside", ["learner_id", "queue", "item_no"])
    item = "review_queue_no item_no"
    _table(
        "review_item",
        item,
        *("layer_no", "execution_no", "run_no", "arm_no", "why", "control", "assigned_to"),
    )
    op.create_index(
        "ix_review_item_subject", "review_item", ["learner_id", "execution_no", "run_no", "arm_no"]
    )
    _table("review_hold", f"{item} actor", "until_ms", "repeats")
    _table("review_skip", f"{item} actor", "later", "at_ms")
    _table("review_draft", f"{item} actor", "fields", "until_ms")
    _table("review_repeat", f"{item} actor", "first_no", "second_no")


def _table(name: str, key: str, *columns: str, refers: bool = False) -> None:
    """One table; a name with ? may hold nothing."""
    keys = ["learner_id", *key.split()]
    reference = op.f(f"fk_{name}_learner_id")
    more = [sa.ForeignKeyConstraint(["learner_id"], ["learner.learner_id"], name=reference)] if refers else []
    op.create_table(
        name,
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        *(_column(column, is_key=True) for column in keys[1:]),
        *(_column(column) for column in columns),
        *more,
        sa.PrimaryKeyConstraint(*keys, name=op.f(f"pk_{name}")),
        sqlite_with_rowid=False,
    )


def _column(said: str, *, is_key: bool = False) -> sa.Column[str] | sa.Column[int]:
    name = said.rstrip("?")
    if name in _TEXTS:
        return sa.Column(name, sa.Text(), nullable=False)
    if is_key:
        return sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=False)
    return sa.Column(name, sa.BigInteger(), nullable=said.endswith("?"))
