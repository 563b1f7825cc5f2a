"""Copying every row of one database into another, on any engines."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, groupby
from operator import itemgetter

from core.errors import Conflict
from core.store.engine import Connection
from core.store.tables import metadata
from core.store.text_index import build_all

Progress = Callable[[int, int], None]


def copy_rows(source: Connection, target: Connection, progress: Progress | None = None) -> None:
    """Copy one database into another with empty tables of ours.

    ``progress`` gets the number of copied tables and of all. Raises `Conflict` where the other holds rows.
    """
    if target.row("SELECT 1 FROM learner WHERE learner_id > 0 OR revision > 1 LIMIT 1") is not None:
        raise Conflict(
            "A database is copied into an empty one, got one that holds something; nothing was copied.",
            next_step="Name a database that is new.",
        )
    for own in ("learner", "learner_name"):
        target.run(f"DELETE FROM {own} WHERE learner_id = ?", [0])  # the source brings its own
    tables = metadata.sorted_tables
    for number, table in enumerate(tables, 1):
        names = [f'"{column.name}"' for column in table.columns if column.name != "learner_id"]
        key = ", ".join(f'"{column.name}"' for column in table.primary_key)
        rows = source.each(f'SELECT learner_id, {", ".join(names)} FROM "{table.name}" ORDER BY {key}')
        for learner_id, part in groupby(rows, itemgetter(0)):
            target.insert(f'"{table.name}"', names, learner_id, chain.from_iterable(row[1:] for row in part))
        if progress is not None:
            progress(number, len(tables))
    target.go_on_numbering()
    build_all(target)
