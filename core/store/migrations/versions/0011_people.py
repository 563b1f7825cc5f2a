"""People: the hidden learner 0, its members, tokens and denials; and which evaluations a token claimed for somebody.

Revision ID: 0011
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables, the numbers of their next rows, and the learner under which they lie."""
    for name in ("member", "token"):
        op.add_column(
            "learner", sa.Column(f"next_{name}_no", sa.BigInteger(), server_default="1", nullable=False)
        )
    op.add_column("evaluation", sa.Column("claimed_by", sa.Text(), server_default="", nullable=False))
    one = sa.text("counts = 1 AND (execution_no <> 0 OR run_no <> 0)")
    op.drop_index("uq_evaluation_key", "evaluation")
    op.create_index(
        "uq_evaluation_key",
        "evaluation",
        [
            "learner_id",
            *("layer_no", "execution_no", "run_no", "arm_no"),
            *("rater", "model", "rubric", "claimed_by"),
        ],
        unique=True,
        sqlite_where=one,
        postgresql_where=one,
    )
    op.execute(
        "INSERT INTO learner (learner_id, name, origin, created_at_ms, settings, revision)"
        " VALUES (0, '', '', 0, '{}', 1)"
    )
    times = ("invited_until_ms", "not_before_ms", "removed_ms")
    _table(
        "member",
        [_number("member_no")],
        [*_texts("issuer", "subject", "email", "name"), *_numbers(*times), *_texts("by"), *_numbers("at_ms")],
        unique=["name"],
    )
    op.create_index(
        "uq_member_subject",
        "member",
        ["learner_id", "issuer", "subject"],
        unique=True,
        sqlite_where=sa.text("subject <> ''"),
        postgresql_where=sa.text("subject <> ''"),
    )
    _table("member_role", [_number("member_no"), *_texts("learner")], _texts("role"))
    _table(
        "token",
        [_number("token_no")],
        [
            *_texts("digest", "name", "scopes", "learners"),
            *_numbers("member_no"),
            *_texts("by"),
            *_numbers("at_ms", "expires_ms", "used_hour", "revoked_ms"),
        ],
        unique=["digest", "name"],
    )
    _table("denial", [_number("minute"), *_texts("actor", "action")], _numbers("n"))


_Columns = list[sa.Column[str] | sa.Column[int]]


def _table(name: str, keys: _Columns, columns: _Columns, unique: list[str] | None = None) -> None:
    op.create_table(
        name,
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        *keys,
        *columns,
        sa.ForeignKeyConstraint(["learner_id"], ["learner.learner_id"], name=op.f(f"fk_{name}_learner_id")),
        *(
            sa.UniqueConstraint("learner_id", column, name=op.f(f"uq_{name}_learner_id_{column}"))
            for column in unique or []
        ),
        sa.PrimaryKeyConstraint("learner_id", *(key.name for key in keys), name=op.f(f"pk_{name}")),
        sqlite_with_rowid=False,
    )


def _texts(*names: str) -> _Columns:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=False)


def _numbers(*names: str) -> _Columns:
    return [_number(name) for name in names]
