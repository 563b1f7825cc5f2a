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
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from core.errors import UnreadableSource
from core.formats.entries import MIB
from core.formats.reading import Head, Reading
from core.formats.stream import Bytes, whole

MAGIC: Final = b"SQLite format 3\0"

_TABLES: Final = re.compile(rb"CREATE TABLE\s+[`\"\[']?(\w+)", re.IGNORECASE)
_NEXT: Final = {
    "a": "Check what made it, and import a copy without that row.",
    "more": "Check what made it, or export its sessions from its program and import those.",
}
"""Next steps for a cell, and for work, beyond the limits."""
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

    Texts are bytes. Raises `UnreadableSource` without a layout, or if the file is damaged, locked or made to hurt.
    """
    try:
        with TemporaryDirectory(prefix="armscope-") as folder:
            database, n_bytes = _opened(reading, Path(folder))
            with closing(database):
                yield database, _restrict(database, n_bytes, layouts, most_cell_bytes)
    except (sqlite3.Error, OSError, UnicodeDecodeError) as problem:  # a message may quote what is no text
        shown = str(problem).partition("(")[0].strip()[:80]
        if isinstance(problem, sqlite3.DataError):
            shown = f"a cell of more than {most_cell_bytes:,} bytes"
        elif shown == "interrupted":
            shown = "more work than its size allows"
        raise UnreadableSource(
            f"A {program} database must be whole and readable, got {shown!r} ({reading.file}).",
            next_step=_NEXT.get(
                shown.split(" ")[0], "Close what has it open, copy it again, and import the copy."
            ),
        ) from None


class Rows:
    """Groups of rows by one column, in an order and without an index; long texts of a too large cell are cut."""

    def __init__(self, reading: Reading, database: sqlite3.Connection) -> None:
        self._reading = reading
        self._database = database
        self._numbers: dict[str, dict[object, array[int]]] = {}
        self._n_rows = 0

    def gather(self, table: str, column: str, *order: str) -> None:
        """Gather the rows of a table."""
        most, of_table = self._reading.limits, self._numbers.setdefault(table, {})
        ordered = ", ".join((column, *order))
        for key, number in self._database.execute(f"SELECT {column}, rowid FROM {table} ORDER BY {ordered}"):
            group = of_table.setdefault(key, array("q"))
            group.append(number)
            self._n_rows += 1
            is_full = self._n_rows > most.rows or len(group) > most.session_rows
            if is_full or len(of_table) > most.sessions:
                raise UnreadableSource(
                    f"A database must have at most {most.rows:,} rows of {most.sessions:,} sessions, and "
                    f"{most.session_rows:,} of one session in a table, got more ({self._reading.file}).",
                    next_step="Export the sessions that you need from its program, and import those.",
                )

    def all(self, query: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query."""
        yield from self._database.execute(query)

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns."""
        return [one[0] for one in self._database.execute(f"SELECT * FROM {table} LIMIT 0").description]

    def of(self, table: str, key: object) -> Sequence[int]:
        """Return the numbers of the rows with this value in the column."""
        return self._numbers[table].get(key, array("q"))

    def cells(self, table: str, columns: str, numbers: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        """Yield small cells of rows."""
        for number in numbers:
            yield from self._database.execute(f"SELECT {columns} FROM {table} WHERE rowid = ?", (number,))

    def text(self, table: str, column: str, number: int) -> bytes | None:
        """Return a cell with JSON, its long texts cut if it is larger than the limit; None for one without text."""
        try:
            (value,) = next(self.cells(table, column, (number,)))
        except sqlite3.DataError:
            with self._database.blobopen(table, column, number, readonly=True) as cell:
                pieces = [*iter(partial(cell.read, MIB), b"")]
            self._reading.cut.append(self._reading.file)
            return whole(pieces, self._reading.limits.line_bytes)
        return value if isinstance(value, bytes) else None


def _opened(reading: Reading, folder: Path) -> tuple[sqlite3.Connection, int]:
    """The database, and how large it is."""
    path = reading.path.resolve()
    with path.open("rb") as file:
        is_plain = file.read(len(MAGIC)) == MAGIC
    if not is_plain:
        return _unpacked(reading, folder)
    beside = [one for end in ("-wal", "-journal") if (one := path.with_name(path.name + end)).is_file()]
    if any(one.stat().st_size for one in beside):
        for one in (path, *beside):
            shutil.copyfile(one, folder / one.name)
        path = folder / path.name
        address = path.as_uri()
    else:
        address = f"{path.as_uri()}?mode=ro&immutable=1"
    return _connected(address), sum(one.stat().st_size for one in (path, *beside))


def _unpacked(reading: Reading, folder: Path) -> tuple[sqlite3.Connection, int]:
    """A compressed file, unpacked."""
    path = folder / "unpacked"
    with Bytes(reading.path, reading.file, reading.limits) as content, path.open("wb") as file:
        for piece in content.slices():
            file.write(piece)
        file.seek(18)
        file.write(b"\1\1")  # a database with a write-ahead log can't be opened without a place for it
    return _connected(f"{path.as_uri()}?mode=ro&immutable=1"), path.stat().st_size


def _connected(address: str) -> sqlite3.Connection:
    return sqlite3.connect(address, uri=True, isolation_level=None)


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
