"""Evaluations: what they are about, by what people judge, and what follows from it.

Revision ID: 0009
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_NUMBERED: Final = ("adapter", "layer", "execution", "rubric", "evaluation", "choice")
_FLOATS: Final = {"score", "bonus"}
_TEXTS: Final = frozenset(
    [
        "uri",
        "name",
        "version",
        "uid",
        "label",
        "task",
        "type",
        "domain",
        "tags",
        "session",
        "digest",
        "instruction",
        "response",
        "content",
        "rater",
        "model",
        "rubric",
        "outcome",
        "feedback",
        "mover",
        "actor",
        "chosen",
        "asks",
        "why",
        "control",
        "assigned_to",
        "state",
        "step",
        "reason",
        "fields",
    ]
)
_ABOUT: Final = ("uid", "actor", "at_ms", "import_no", "revision", "standing", "undone")


def upgrade() -> None:
    """Add the tables, the numbers of their next rows, and what an observation follows from."""
    for name in _NUMBERED:
        op.add_column("learner", _int(f"next_{name}_no", "1"))
    op.add_column("observation", _int("evaluation_no", "0"))
    _subjects()
    _judgements()
    _table("erased", "digest", "at_ms")


def _int(name: str, default: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), server_default=default, nullable=False)


def _subjects() -> None:
    _table("adapter", "adapter_no", "uri", "name?", "version?", unique="uri")
    _table(
        "layer",
        "layer_no",
        *(
            "uid",
            "adapter_no",
            "layer_index",
            "label?",
            "task?",
            "type?",
            "domain?",
            "tags",
            "bare",
            "standing",
        ),
        unique="uid",
    )
    op.create_index("ix_layer_adapter", "layer", ["learner_id", "adapter_no", "layer_index"])
    _table(
        "execution",
        "execution_no",
        *("uid", "adapter_no", "run_no", "session?", "at_ms?", "bare", "standing"),
        unique="uid",
    )
    _partial("ix_execution_run", "execution", ["run_no"], "run_no <> 0")
    _table(
        "training_pair",
        "execution_no layer_no",
        *("layer_index", "digest", "instruction?", "response?"),
        refers=False,
    )
    op.create_index("ix_training_pair_layer", "training_pair", ["learner_id", "layer_no"])
    _partial("ix_training_pair_digest", "training_pair", ["digest"], "digest <> ''")


def _judgements() -> None:
    _table("rubric", "rubric_no", "version", "content", *_ABOUT)
    op.create_index("ix_rubric_version", "rubric", ["learner_id", "version"])
    subject = ("layer_no", "execution_no", "run_no", "arm_no", "rater", "model", "rubric")
    _table(
        "evaluation",
        "evaluation_no",
        *subject,
        *("blank", "outcome", "score?", "feedback?", "mover", "supersedes", "counts"),
        *_ABOUT,
        check="outcome IN ('success', 'failure')",
    )
    one = "counts = 1 AND (execution_no <> 0 OR run_no <> 0)"
    _partial("uq_evaluation_key", "evaluation", list(subject), one, unique=True)
    _partial("uq_evaluation_uid", "evaluation", ["uid"], "uid <> ''", unique=True)
    op.create_index("ix_evaluation_layer", "evaluation", ["learner_id", "layer_no", "revision"])
    _partial("ix_evaluation_run", "evaluation", ["run_no"], "run_no <> 0")
    _table("credit", "evaluation_no arm_no", "weight_micro", refers=False)
    _table(
        "choice",
        "choice_no",
        *("layer_no", "first_no", "second_no", "chosen", "rater", "rubric", "feedback?"),
        *_ABOUT,
    )
    _table(
        "layer_quality",
        "layer_no",
        *("retrievals", "successes", "failures", "bonus", "last_no"),
    )
    _table("model_history", "layer_no model", "rank", "attempts", "successes")


def _table(
    name: str,
    key: str,
    *columns: str,
    unique: str | None = None,
    check: str | None = None,
    refers: bool = True,
) -> None:
    """One table; a name with ? may hold nothing."""
    keys = ["learner_id", *key.split()]
    more: list[sa.schema.SchemaItem] = []
    if refers:
        reference = op.f(f"fk_{name}_learner_id")
        more.append(sa.ForeignKeyConstraint(["learner_id"], ["learner.learner_id"], name=reference))
    if unique is not None:
        more.append(sa.UniqueConstraint("learner_id", unique, name=op.f(f"uq_{name}_learner_id_{unique}")))
    if check is not None:
        more.append(sa.CheckConstraint(check, name=op.f(f"ck_{name}_outcome")))
    op.create_table(
        name,
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        *(_column(column, is_key=True) for column in keys[1:]),
        *(_column(column) for column in columns),
        *more,
        sa.PrimaryKeyConstraint(*keys, name=op.f(f"pk_{name}")),
        sqlite_with_rowid=False,
    )


def _column(said: str, *, is_key: bool = False) -> sa.Column[object]:
    name = said.rstrip("?")
    kind: sa.types.TypeEngine[object] = sa.BigInteger()  # type: ignore[assignment]
    if name in _TEXTS:
        kind = sa.Text()  # type: ignore[assignment]
    elif name in _FLOATS:
        kind = sa.Float()  # type: ignore[assignment]
    if is_key and name not in _TEXTS:
        return sa.Column(name, kind, autoincrement=False, nullable=False)
    return sa.Column(name, kind, nullable=said.endswith("?"))


def _partial(name: str, table: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    op.create_index(
        name,
        table,
        ["learner_id", *columns],
        unique=unique,
        sqlite_where=sa.text(where),
        postgresql_where=sa.text(where),
    )
