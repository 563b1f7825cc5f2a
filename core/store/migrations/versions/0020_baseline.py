"""Baseline schema: the tables of version 0.2.0, as text for each engine.

Revision ID: 0020
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0020"
down_revision = None


def upgrade() -> None:
    """Create every table and index of an empty database."""
    bind = op.get_bind()
    text = Path(__file__).with_name(f"0020_{bind.dialect.name}.sql").read_text(encoding="utf-8")
    for statement in text.split(";\n\n"):
        bind.exec_driver_sql(statement)
