"""Episodes: what environments pay, step by step, on which scale; none is made of what was recorded before.

Revision ID: 0015
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_TEXTS: Final = frozenset(
    (
        *("name", "uid", "base", "actor", "format", "split", "task", "variant", "model", "status"),
        *("total_text", "final_text", "kind", "args_digest", "meta_digest", "note", "extra"),
        *("reward_sum", "reward_squares"),
    )
)
_FLOATS: Final = frozenset(
    ("step_lo", "step_hi", "lo", "hi", "threshold", "gamma", "total", "final", "reward", "value")
)


def upgrade() -> None:
    """Add the tables, the numbers of their next rows, and a key for digests."""
    for name in ("environment", "scale", "episode"):
        op.add_column(
            "learner", sa.Column(f"next_{name}_no", sa.BigInteger(), server_default="1", nullable=False)
        )
    op.add_column("learner", sa.Column("digest_key", sa.Text(), server_default=sa.text("''"), nullable=False))
    _table("environment", "environment_no", "name", refers=True, unique="name")
    _table(
        "scale",
        "scale_no",
        *("uid", "environment_no", "step_lo", "step_hi", "lo", "hi", "threshold", "base", "gamma", "actor"),
        *("at_ms", "import_no", "revision", "standing", "undone"),
        refers=True,
    )
    op.create_index("ix_scale_environment", "scale", ["learner_id", "environment_no"])
    _table(
        "episode",
        "episode_no",
        *("uid", "format", "environment_no", "split?", "task?", "variant?", "model?", "at_ms?", "n_steps"),
        *("n_paid", "finished", "status", "total_text?", "final_text?", "total?", "final?", "digest"),
        *("revision", "standing"),
        refers=True,
        unique="uid",
    )
    op.create_index("ix_episode_environment", "episode", ["learner_id", "environment_no", "at_ms"])
    _table(
        "step",
        "episode_no step_no",
        *("kind", "name", "reward?", "finished", "refused", "at_ms?", "n_chars_in?", "n_chars_out?"),
        *("args_digest?", "meta_digest?", "note?", "extra?"),
    )
    _table("episode_part", "episode_no name", "value", "kind")
    _table("episode_run", "episode_no run_no")
    op.create_index("ix_episode_run", "episode_run", ["learner_id", "run_no"])
    _table(
        "environment_day",
        "environment_no day split variant model",
        *("n", "n_paid", "n_finished", "successes", "reward_sum", "reward_squares"),
    )


def _table(name: str, key: str, *columns: str, refers: bool = False, unique: str | None = None) -> None:
    """One table; a name with ? may hold nothing."""
    keys = ["learner_id", *key.split()]
    more: list[sa.Constraint] = []
    if unique is not None:
        more.append(sa.UniqueConstraint("learner_id", unique, name=op.f(f"uq_{name}_learner_id_{unique}")))
    if refers:
        reference = op.f(f"fk_{name}_learner_id")
        more.append(sa.ForeignKeyConstraint(["learner_id"], ["learner.learner_id"], name=reference))
    op.create_table(
        name,
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        *(_key(column) for column in keys[1:]),
        *(_column(column) for column in columns),
        sa.PrimaryKeyConstraint(*keys, name=op.f(f"pk_{name}")),
        *more,
        sqlite_with_rowid=False,
    )


def _key(name: str) -> sa.Column[str] | sa.Column[int]:
    if name in _TEXTS:
        return sa.Column(name, sa.Text(), nullable=False)
    return sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=False)


def _column(said: str) -> sa.Column[str] | sa.Column[int] | sa.Column[float]:
    name, may_be_nothing = said.rstrip("?"), said.endswith("?")
    if name in _TEXTS:
        return sa.Column(name, sa.Text(), nullable=may_be_nothing)
    if name in _FLOATS:
        return sa.Column(name, sa.Float(), nullable=may_be_nothing)
    return sa.Column(name, sa.BigInteger(), nullable=may_be_nothing)
