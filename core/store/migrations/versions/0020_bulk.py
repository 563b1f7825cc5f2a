"""Runs, observations and the audit without a reference to their learner, which a server looks up for each of them.

Revision ID: 0020
"""

from __future__ import annotations

import re
from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_TOLD_IN_BULK: Final = ("run", "observation", "audit")
_REFERENCE: Final = r",\s*CONSTRAINT {} FOREIGN KEY\(learner_id\) REFERENCES learner \(learner_id\)"


def upgrade() -> None:
    """Drop the references."""
    if op.get_bind().dialect.name == "sqlite":
        _reword()
        return
    for table in _TOLD_IN_BULK:
        op.drop_constraint(op.f(f"fk_{table}_learner_id"), table, type_="foreignkey")


def _reword() -> None:
    """What SQLite says of a table is a text, and none of its rows lies otherwise for it: making the tables anew would
    copy them (https://www.sqlite.org/lang_altertable.html, "Making Other Kinds Of Table Schema Changes").
    """
    bind = op.get_bind()
    op.execute("PRAGMA writable_schema = ON")
    for table in _TOLD_IN_BULK:
        place = {"table": table}
        said = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = :table"
        (text,) = bind.execute(sa.text(said), place).one()
        without = re.sub(_REFERENCE.format(f"fk_{table}_learner_id"), "", text)
        change = "UPDATE sqlite_master SET sql = :without WHERE type = 'table' AND name = :table"
        bind.execute(sa.text(change), {**place, "without": without})
    ((version,),) = bind.exec_driver_sql("PRAGMA schema_version").fetchall()
    op.execute(f"PRAGMA schema_version = {version + 1}")  # whoever has the file open reads it again
    op.execute("PRAGMA writable_schema = OFF")
