"""A database of another program, read safely: nothing beside it is written, and nothing of its schema is executed.

The file comes from a stranger. It is opened read-only, and only named tables may be read: an authorizer refuses a
view, trigger, generated column or virtual table. The work is bounded by the file's size, because a crafted one can
hold more rows than bytes. A copy on which nothing else works is not even locked. Where a log lies beside it, a copy
of both is opened, because reading them makes files.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from core.errors import UnreadableSource
from core.formats.reading import Head, Reading
from core.formats.stream import Bytes

MAGIC: Final = b"SQLite format 3\0"

_TABLES: Final = re.compile(rb"CREATE TABLE\s+[`\"\[']?(\w+)", re.IGNORECASE)
_STEPS_PER_LOOK: Final = 10_000
_FEWEST_STEPS: Final = 1_000_000
_STEPS_PER_BYTE: Final = 20  # a row takes ten bytes at least, and some hundred steps


def tables_in(head: Head) -> set[str]:
    """Return the tables that the beginning of a database names, none for another file."""
    if not head.start.startswith(MAGIC):
        return set()
    return {name.decode() for name in _TABLES.findall(head.start)}


@contextmanager
def opened(
    reading: Reading, program: str, layouts: Sequence[Sequence[str]], most_cell_bytes: int
) -> Iterator[tuple[sqlite3.Connection, frozenset[str]]]:
    """Yield the database, for reading the tables of those layouts that it has whole, and their names.

    Texts are bytes.

    Raises
    ------
    UnreadableSource
        It has no layout, or the file is damaged, locked or made to hurt.
    """
    try:
        with TemporaryDirectory(prefix="armscope-") as folder:
            database, n_bytes = _opened(reading, Path(folder))
            with closing(database):
                yield database, _restrict(database, n_bytes, layouts, most_cell_bytes)
    except (sqlite3.Error, OSError, UnicodeDecodeError) as problem:  # a message may quote what is no text
        shown = str(problem).partition("(")[0].strip()[:80]
        raise UnreadableSource(
            f"A {program} database must be whole and readable, got {shown!r} ({reading.file}).",
            next_step="Close what has it open, copy it again, and import the copy.",
        ) from None


def _opened(reading: Reading, folder: Path) -> tuple[sqlite3.Connection, int]:
    """The database, and how large it is."""
    path = reading.path.resolve()
    with path.open("rb") as file:
        is_plain = file.read(len(MAGIC)) == MAGIC
    if not is_plain:
        return _in_memory(reading)
    beside = [one for end in ("-wal", "-journal") if (one := path.with_name(path.name + end)).is_file()]
    if any(one.stat().st_size for one in beside):
        for one in (path, *beside):
            shutil.copyfile(one, folder / one.name)
        path = folder / path.name
        address = path.as_uri()
    else:
        address = f"{path.as_uri()}?mode=ro&immutable=1"
    database = sqlite3.connect(address, uri=True, isolation_level=None)
    return database, sum(one.stat().st_size for one in (path, *beside))


def _in_memory(reading: Reading) -> tuple[sqlite3.Connection, int]:
    """A compressed file, unpacked."""
    with Bytes(reading.path, reading.file, reading.limits) as content:
        image = bytearray(content.document())
    image[18:20] = b"\1\1"  # a database with a write-ahead log can't be opened without a place for it
    database = sqlite3.connect(":memory:", isolation_level=None)
    database.deserialize(bytes(image))
    return database, len(image)


def _restrict(
    database: sqlite3.Connection, n_bytes: int, layouts: Sequence[Sequence[str]], most_cell_bytes: int
) -> frozenset[str]:
    """Allow nothing from here on but reading these tables, of bounded cells, for a bounded time."""
    database.text_factory = bytes
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "query_only = ON"):
        database.execute(f"PRAGMA {pragma}")
    known = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
    names = {name.decode() for (name,) in database.execute(known)}
    tables = frozenset(table for layout in layouts if names.issuperset(layout) for table in layout)
    if not tables:
        missing = next(table for table in layouts[0] if table not in names)
        raise sqlite3.DatabaseError(f"no table {missing}")
    for table in sorted(tables):
        if any(column[6] for column in database.execute(f"PRAGMA table_xinfo({table})")):
            raise sqlite3.DatabaseError("columns that are computed")
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, most_cell_bytes)

    def authorise(action: int, table: str | None, *_: str | None) -> int:
        is_read = action == sqlite3.SQLITE_READ and (table in tables or table == "sqlite_master")
        return sqlite3.SQLITE_OK if is_read or action == sqlite3.SQLITE_SELECT else sqlite3.SQLITE_DENY

    database.set_authorizer(authorise)
    looks = iter(range((_FEWEST_STEPS + _STEPS_PER_BYTE * n_bytes) // _STEPS_PER_LOOK))
    database.set_progress_handler(lambda: next(looks, -1) < 0, _STEPS_PER_LOOK)
    return tables
