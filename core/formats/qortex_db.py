"""qortex databases: an SQLite file whose table ``arm_states`` holds a belief for every context and arm.

The beliefs are carried (`core.formats.carried`). There is one posterior per arm here and context is metadata,
so what an arm gathered in several contexts is added up, which a note says.

The file comes from a stranger: it is opened read-only, only its one table may be read, nothing of its schema
is executed (a view, trigger, generated column or virtual table is refused by an authorizer), and the work is
bounded by the file's size, because a crafted one can hold more rows than bytes. A copy on which nothing else
works is not even locked.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from core.errors import InvalidInput, UnreadableSource
from core.formats.carried import Belief, beyond, carried
from core.formats.entries import Entry, Progress, Rejected, Remark
from core.formats.moments import utc_ms_of
from core.formats.reading import Format, Head, Reading
from core.formats.stream import Bytes
from core.formats.strict import UNDECODABLE, Flaw, reason

NAME: Final = "qortex-db"

_MAGIC: Final = b"SQLite format 3\0"
_TABLE: Final = "arm_states"
_IS_TABLE: Final = "SELECT 1 FROM sqlite_master WHERE name = 'arm_states' AND type = 'table' AND rootpage > 0"
_STATES: Final = "SELECT arm_id, alpha, beta, pulls, last_updated FROM arm_states"
_STEPS_PER_LOOK: Final = 10_000
_FEWEST_STEPS: Final = 1_000_000
_STEPS_PER_BYTE: Final = 20  # a row takes ten bytes at least, and some hundred steps
_MAX_CELL_BYTES: Final = 64 << 10
_MAX_ID_BYTES: Final = 4096  # of more than any id may have; the rest is not kept
_MAX_PULLS: Final = 10**15

_Row = tuple[Any, ...]


def _claims(head: Head) -> bool:
    return head.start.startswith(_MAGIC) and _TABLE.encode() in head.start


def _read(reading: Reading, progress: Progress | None) -> Iterator[Entry]:
    try:
        arms = _arms(reading)
    except (sqlite3.Error, OSError, UnicodeDecodeError) as problem:  # a message may quote what is no text
        raise _unreadable(reading.file, problem) from None
    for arm_id, gathered in sorted(arms.items()):
        yield from _entries_of(reading, arm_id, gathered)
    n_merged = sum(gathered.n_contexts > 1 for gathered in arms.values())
    if n_merged:
        yield Remark(
            file=reading.file,
            text=f"{n_merged:,} arms had beliefs in several contexts, which were added up: there is one "
            "posterior per arm here.",
        )
    if progress is not None:
        progress(reading.path.stat().st_size)


@dataclass
class _Gathered:
    """Sums of an arm over all contexts, in whole millionths, so that order does not matter."""

    n_contexts: int = 0
    success_micro: int = 0
    failure_micro: int = 0
    pulls: int = 0
    at_ms: int | None = None
    problem: str | None = None

    def add(self, alpha: object, beta: object, pulls: object, last_updated: object) -> None:
        self.n_contexts += 1
        try:
            # Each context began at 1; the arm as a whole did so once.
            self.success_micro += beyond("alpha", alpha)
            self.failure_micro += beyond("beta", beta)
            self.pulls += _count(pulls)
        except InvalidInput as problem:
            self.problem = problem.problem
        at_ms = _utc_ms_of(last_updated)
        if at_ms is not None:
            self.at_ms = max(at_ms, self.at_ms or 0)


def _arms(reading: Reading) -> dict[bytes, _Gathered]:
    arms: dict[bytes, _Gathered] = {}
    opened, n_bytes = _opened(reading)
    with closing(opened) as database:
        _restrict(database, n_bytes)
        for arm_id, *state in _rows(database, reading):
            name = arm_id[:_MAX_ID_BYTES] if isinstance(arm_id, bytes) else b""
            arms.setdefault(name, _Gathered()).add(*state)
    return arms


def _entries_of(reading: Reading, arm_id: bytes, gathered: _Gathered) -> Iterator[Entry]:
    """The belief in an arm, or why there is none: a sum of some of its contexts would be no belief."""
    try:
        if gathered.problem is not None:
            raise Flaw(gathered.problem)
        belief = Belief(
            arm=arm_id.decode(),
            success_micro=gathered.success_micro,
            failure_micro=gathered.failure_micro,
            pulls=gathered.pulls,
            at_ms=gathered.at_ms,
        )
        yield from carried(belief, "a qortex database")
    except UNDECODABLE as problem:
        name = repr(arm_id[:60].decode(errors="replace"))
        yield Rejected(file=reading.file, line=None, reason=f"Arm {name}: {reason(problem, arm_id)}")


def _utc_ms_of(value: object) -> int | None:
    """A number could be seconds or milliseconds, so only texts are times."""
    return utc_ms_of(value.decode(errors="replace"))[0] if isinstance(value, bytes) else None


def _count(value: object) -> int:
    if isinstance(value, int) and 0 <= value <= _MAX_PULLS:
        return value
    raise InvalidInput("pulls must be a whole number from 0.", next_step="Correct it in the database.")


# --- safely -----------------------------------------------------------------------------------------------


def _opened(reading: Reading) -> tuple[sqlite3.Connection, int]:
    """The database, and how large it is."""
    path = reading.path.resolve()
    with path.open("rb") as file:
        is_plain = file.read(len(_MAGIC)) == _MAGIC
    if not is_plain:
        return _in_memory(reading)
    beside = sum(_size(path.with_name(path.name + end)) for end in ("-wal", "-journal"))
    mode = "mode=ro" if beside else "mode=ro&immutable=1"
    database = sqlite3.connect(f"{path.as_uri()}?{mode}", uri=True, isolation_level=None)
    return database, path.stat().st_size + beside


def _in_memory(reading: Reading) -> tuple[sqlite3.Connection, int]:
    """A compressed file, unpacked."""
    with Bytes(reading.path, reading.file, reading.limits) as content:
        image = bytearray(content.document())
    image[18:20] = b"\1\1"  # a database with a write-ahead log can't be opened without a place for it
    database = sqlite3.connect(":memory:", isolation_level=None)
    database.deserialize(bytes(image))
    return database, len(image)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _restrict(database: sqlite3.Connection, n_bytes: int) -> None:
    """Allow nothing from here on but reading the one table, of bounded cells, for a bounded time."""
    database.text_factory = bytes
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "query_only = ON"):
        database.execute(f"PRAGMA {pragma}")
    if any(column[6] for column in database.execute(f"PRAGMA table_xinfo({_TABLE})")):
        raise sqlite3.DatabaseError("columns that are computed")
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_CELL_BYTES)
    database.set_authorizer(_authorise)
    looks = iter(range((_FEWEST_STEPS + _STEPS_PER_BYTE * n_bytes) // _STEPS_PER_LOOK))
    database.set_progress_handler(lambda: next(looks, -1) < 0, _STEPS_PER_LOOK)


def _authorise(
    action: int, table: str | None, _column: str | None, _database: str | None, _within: str | None
) -> int:
    if action == sqlite3.SQLITE_SELECT:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_READ and table in {_TABLE, "sqlite_master"}:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _rows(database: sqlite3.Connection, reading: Reading) -> Iterator[_Row]:
    if database.execute(_IS_TABLE).fetchone() is None:
        raise UnreadableSource(
            f"A qortex database must have a table {_TABLE}, and this one has none ({reading.file}).",
            next_step="Check that it is the right file.",
        )
    yield from database.execute(_STATES)


def _unreadable(file: str, problem: Exception) -> UnreadableSource:
    shown = str(problem).partition("(")[0].strip()[:80]
    return UnreadableSource(
        f"A qortex database must be whole and readable, got {shown!r} ({file}).",
        next_step="Close what has it open, copy it again, and import the copy.",
    )


FORMAT: Final = Format(name=NAME, units=(), claims=_claims, read=_read, takes_tools=False)
