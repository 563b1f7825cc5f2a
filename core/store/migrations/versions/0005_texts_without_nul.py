"""Texts without U+0000, which other programs cut short or can't keep: one that is there is shown as what can't be read.

Revision ID: 0005
"""

from __future__ import annotations

import sqlite3
from itertools import count

import sqlalchemy as sa
from alembic import context, op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

MENDED = "texts mended"
"""Under which name the number of texts is left for whoever runs the migrations."""


def upgrade() -> None:
    """Replace it in every column of texts; where that would make two keys one, the later gets a number.

    PostgreSQL never took one.
    """
    bind = op.get_bind()
    if bind.dialect.name != "sqlite":
        return
    driver = bind.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)  # noqa: S101 - narrows the pool's Any
    numbers = count(2)
    driver.create_function("mended", 1, lambda text: text.replace("\0", "\ufffd"))
    driver.create_function(
        "mended_apart", 1, lambda text: text.replace("\0", "\ufffd") + f"\ufffd{next(numbers)}"
    )
    n_mended = 0
    for table in sa.inspect(bind).get_table_names():
        for column in sa.inspect(bind).get_columns(table):
            if isinstance(column["type"], sa.Text):
                n_mended += _mend(driver, table, column["name"])
    context.config.attributes[MENDED] = n_mended


def _mend(driver: sqlite3.Connection, table: str, column: str) -> int:
    having = f'WHERE instr("{column}", char(0)) > 0'
    try:
        return driver.execute(f'UPDATE "{table}" SET "{column}" = mended("{column}") {having}').rowcount
    except sqlite3.IntegrityError:
        return driver.execute(f'UPDATE "{table}" SET "{column}" = mended_apart("{column}") {having}').rowcount
