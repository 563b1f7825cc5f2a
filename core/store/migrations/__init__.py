"""Parts of migrations: how they add tables, columns and indexes of a part of the rows."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.schema import SchemaItem


def key(name: str, *, is_text: bool = False) -> sa.Column[Any]:
    """Return a column of the primary key, a number or a text."""
    kind = sa.Text() if is_text else sa.BigInteger()
    return sa.Column(name, kind, primary_key=True, autoincrement=False, nullable=False)


def texts(*names: str) -> list[sa.Column[Any]]:
    """Return columns of texts, which no row may lack."""
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def ints(*names: str) -> list[sa.Column[Any]]:
    """Return columns of whole numbers, which no row may lack."""
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in names]


def source() -> list[sa.Column[Any]]:
    """Return the last columns of an act, from its time on."""
    return ints("at_ms", "import_no", "revision", "standing", "undone")


def add_table(name: str, *parts: SchemaItem, refers: bool = False) -> None:
    """Create a table in the order of its key, which the learner leads; ``refers``: the learner's row must exist."""
    learner = sa.Column("learner_id", sa.Integer(), primary_key=True, autoincrement=False, nullable=False)
    named = op.f(f"fk_{name}_learner_id")
    owner = sa.ForeignKeyConstraint(["learner_id"], ["learner.learner_id"], name=named)
    primary = sa.PrimaryKeyConstraint(name=op.f(f"pk_{name}"))
    op.create_table(name, learner, *parts, *([owner] if refers else []), primary, sqlite_with_rowid=False)


def add_int(table: str, name: str, default: int = 0) -> None:
    """Add a column of a whole number, with its value in the rows so far."""
    start = sa.text(str(default))
    op.add_column(table, sa.Column(name, sa.BigInteger(), nullable=False, server_default=start))


def add_partial(name: str, table: str, *columns: str, where: str, unique: bool = False) -> None:
    """Create an index of a learner's rows of which something holds."""
    holds = sa.text(where)
    named = ["learner_id", *columns]
    op.create_index(name, table, named, unique=unique, sqlite_where=holds, postgresql_where=holds)
