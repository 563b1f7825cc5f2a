"""Port: the interface between the store and every database engine, and the seconds that requests wait for it.

SQL is the same for all engines: one text, with a value for each ``?``, in which only the marks of
`core.store.engine.dialect` are filled in. Numbers are integers or floats, never booleans. Rows are tuples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_args, overload

from sqlalchemy import Connection as Transacted
from sqlalchemy.exc import DBAPIError

from core.records.status import ServerState
from core.settings import Located

PATIENCE_S: Final = 10.0
"""Time limit for retrying a rolled-back write, and for a connection."""
Row = tuple[Any, ...]
T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")
T5 = TypeVar("T5")

WaitFor = Literal["write_lock", "learner", "connection"]
"""The lock of a file's writers, the row of a learner at a server, or a connection to the server."""
LEAST_S: Final = 0.01
"""Shorter waits are not counted: a request over a network takes as long."""
BUCKETS_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Distribution(NamedTuple):
    """Over which servers of a cluster the tables of a database are spread, and how many were spread just now."""

    servers: tuple[str, ...]
    n_moved: int


class Connection(ABC):
    """Statements inside one transaction.

    **When.** A statement that only changes rows may wait until the next query or the end of the transaction, and be
    sent with it, because a server is remote. Its error is raised then, and aborts the transaction.

    **Thread safety.** It belongs to the block that got it, and to that block's thread. It is invalid afterwards.

    **Visibility.** It sees rows that were committed before the transaction's snapshot, and its own.

    **Values.** They replace the marks ``?``, in order. ``?1`` is always the first value and also the first mark of
    the text. A subquery names its learner by ``?1``, not by a column of the outer row: a cluster would ask all
    servers for it.

    **Rows.** A method returns all rows at once, except `each`: rows that it has not yielded yet must not be changed
    meanwhile, and end with the transaction. The text defines the order; without ORDER BY there is none.
    """

    file: tuple[int, ...]
    """Identity of the database, as far as it can be distinguished from a replacement."""
    looks_after_itself: bool
    """Whether the engine lets no value of another type in and no row without its parent, and says by itself what of
    its pages is broken; where it doesn't, we look."""

    @property
    def is_shared_out(self) -> bool:
        """True if many servers share the learners; after a change later connections show it."""
        return False

    @abstractmethod
    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """All rows."""

    @abstractmethod
    def row(self, sql: str, values: Sequence[Any] = ()) -> Row | None:
        """The first row; None where there is none."""

    @abstractmethod
    def row_later(self, sql: str) -> Callable[[], Row | None]:
        """Ask for a row that the next query brings along; what is returned then returns it, once."""

    @abstractmethod
    def each(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        """Rows one by one, for results larger than memory should hold."""

    @abstractmethod
    def columns(self, sql: str, values: Sequence[Any] = ()) -> list[list[Any]]:
        """All rows, turned: one list a column."""

    @abstractmethod
    def rows_in(
        self, sql: str, head: Sequence[Any], values: Sequence[Any], tail: Sequence[Any] = ()
    ) -> list[Row]:
        """Return the rows of a statement whose ``{}`` is a list of values of any length.

        A repeated ``{}``, without another mark in between, is the same list. ``head`` are the values before the list,
        ``tail`` those after it. A long list is sent in parts, so the statement must not sort or sum over all of it.
        """

    def servers(self) -> tuple[str, ...]:
        """Return the servers of a cluster that have parts of the tables; empty where one has them all."""
        return ()

    def server_state(self) -> ServerState | None:
        """Return the server's state among the servers of its database; None for a file."""
        return None

    def identity(self) -> str | None:
        """Return the unique identity of a server's database, which a standby shares; None if unknown."""
        return None

    @overload
    def together(self, a: Callable[[], T1], b: Callable[[], T2], /) -> tuple[T1, T2]: ...

    @overload
    def together(
        self, a: Callable[[], T1], b: Callable[[], T2], c: Callable[[], T3], /
    ) -> tuple[T1, T2, T3]: ...

    @overload
    def together(
        self, a: Callable[[], T1], b: Callable[[], T2], c: Callable[[], T3], d: Callable[[], T4], /
    ) -> tuple[T1, T2, T3, T4]: ...

    @overload
    def together(
        self,
        a: Callable[[], T1],
        b: Callable[[], T2],
        c: Callable[[], T3],
        d: Callable[[], T4],
        e: Callable[[], T5],
        /,
    ) -> tuple[T1, T2, T3, T4, T5]: ...

    @overload
    def together(self, *works: Callable[[], T]) -> tuple[T, ...]: ...

    @abstractmethod
    def together(self, *works: Callable[[], Any]) -> tuple[Any, ...]:
        """Return the results of several independent pieces of work.

        A remote server gets their queries together, in as many round trips as the longest of them needs. Elsewhere
        they run one after another. If one raises, the others may have run in full, in part or not at all.
        """

    @abstractmethod
    def run(self, sql: str, values: Sequence[Any] = ()) -> None:
        """Execute one statement."""

    @abstractmethod
    def run_in(self, sql: str, head: Sequence[Any], values: Sequence[Any]) -> None:
        """Execute a statement whose ``{}`` is a list of values of any length."""

    @abstractmethod
    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Execute a statement once a row; rows from an iterator are never all held."""

    @abstractmethod
    def n_changed(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        """The same, at once; number of rows it changed."""

    @abstractmethod
    def insert(
        self, table: str, columns: Sequence[str], learner_id: int, values: Iterable[Any], *, upsert: str = ""
    ) -> None:
        """Insert rows of one learner in batches of the engine's choice.

        ``values`` are those of all rows in sequence, in the order of the ``columns``, without ``learner_id``. No two
        rows may have the same key. ``upsert`` is the ON CONFLICT clause.
        """

    @abstractmethod
    def amend(
        self, table: str, changes: Mapping[str, str], key: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        """Change rows of one learner that are there, as many of them at a time as the engine likes best.

        ``changes`` says what becomes of each column, with one ``?`` for a value: ``{"pulls": "pulls + ?"}``. The
        ``rows`` hold these values, the learner's number, and those of the ``key``; no two have the same key.
        """

    @abstractmethod
    def go_on_numbering(self) -> None:
        """Set the next learner's number after all existing ones."""

    @abstractmethod
    def tables(self) -> frozenset[str]:
        """Return the names of all tables, ours or not."""

    @abstractmethod
    def size(self) -> int:
        """Return the size of the database in bytes."""


def unfinished(connection: Connection) -> None:
    """Do nothing at the end of a migration (default)."""


@contextmanager
def unwrapped(driver_error: type[Exception]) -> Iterator[None]:
    """Raise the driver's own error, so that it is translated like everywhere else."""
    try:
        yield
    except DBAPIError as problem:
        if isinstance(problem.orig, driver_error):
            raise problem.orig from problem
        raise


class Database(ABC):
    """One database, which many threads and processes have open at once.

    **Thread safety.** Every method may be called by any thread, at any time.

    **Durability.** When `write` has returned, all of it is on disk: a loss of power or of the process loses nothing.
    Work that raises has written nothing. An error of the commit itself leaves all or nothing, never a part.

    **Writers.** A writer waits for earlier ones, and sees all that they wrote; after a time `StoreBusy` is raised.

    **Readers.** Everything read in a block of `reading` belongs to one snapshot, taken after the block began. Readers
    and writers never wait for each other.

    **Another database in its location** (a restored backup, for example) is noticed before the next block. Caches of
    the earlier one are then dropped.
    """

    location: Located
    """The location; as text a name that may be shown."""
    remembered: dict[str, Any]
    """Cache from write to write, emptied once the database may be another."""
    has_written: bool
    """True if anything was written since it was opened, even if its result was lost."""

    @abstractmethod
    def write(
        self,
        work: Callable[[Connection], T],
        has_landed: Callable[[Connection, T], bool | None] | None = None,
    ) -> T:
        """Run one write transaction and return the result of ``work``, once all of it is on disk; if it raises, none
        is.

        ``work`` may be called again after a call that was rolled back: see `core.store.store.Store.write`.
        ``has_landed`` is called in a write transaction of its own after the reply to a commit was lost. It returns
        whether the work is there, None = unknown. Raises `StoreUnsure` if unknown.
        """

    @abstractmethod
    def reading(self) -> AbstractContextManager[Connection]:
        """One read transaction, in which nothing can be changed."""

    @abstractmethod
    def importing(self, waiting: Callable[[], None] | None) -> AbstractContextManager[None]:
        """Be the one that imports in parts; ``waiting`` is called once if another has to end first."""

    @abstractmethod
    def tables(self) -> frozenset[str]:
        """Return the names of all tables, ours or not; none for an empty location.

        Raises `StoreUnusable` for something that can't hold tables.
        """

    @abstractmethod
    def making(self) -> AbstractContextManager[None]:
        """Be the one that makes the tables, or brings them up to date, where they may be."""

    @abstractmethod
    def migrating(
        self, finish: Callable[[Connection], None] = unfinished
    ) -> AbstractContextManager[tuple[Transacted, Connection]]:
        """Yield the one transaction for it, which ends with ``finish``; the caller is inside `making`."""

    @abstractmethod
    def is_due(self, now_ms: int | None) -> bool:
        """Return whether the database needs a check before the next write; None = at any time."""

    @abstractmethod
    def was_looked_over(self, now_ms: int | None) -> None:
        """Note that it was, and found sound; only while writing."""

    @abstractmethod
    def scour(self) -> bool:
        """Overwrite erased bytes; return False if a reader has blocked it for too long."""

    @abstractmethod
    def settle(self) -> None:
        """Do the maintenance that pays only after very much was written."""

    @abstractmethod
    def distribute(self) -> Distribution:
        """Distribute the tables over the servers of a cluster; the caller is inside `making`. Distributed tables
        stay.

        Raises `InvalidInput` without a cluster.
        """

    def apart(self, learner_ids: Sequence[int]) -> Sequence[Sequence[int]]:
        """The same numbers, those apart that different servers keep."""
        return [learner_ids]

    @abstractmethod
    def close(self) -> None:
        """Close everything; a later block opens it again."""


class Waited(NamedTuple):
    """Waits by the upper bounds of `BUCKETS_S`, with one more entry for longer ones, and their sum in seconds."""

    n: tuple[int, ...] = (0,) * (len(BUCKETS_S) + 1)
    seconds: float = 0.0


class Waits:
    """Counted waits; imports in progress."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._by: dict[WaitFor, Waited] = dict.fromkeys(get_args(WaitFor), Waited())
        self.n_importing = 0

    def observe(self, waited_for: WaitFor, seconds: float) -> None:
        """Count a wait.

        >>> waits = Waits()
        >>> waits.observe("learner", 0.07)
        >>> waits.read()["learner"].n[:3]
        (0, 1, 0)
        """
        with self._lock:
            n, sum_s = self._by[waited_for]
            at = bisect_left(BUCKETS_S, seconds)
            self._by[waited_for] = Waited((*n[:at], n[at] + 1, *n[at + 1 :]), sum_s + seconds)

    def read(self) -> dict[WaitFor, Waited]:
        """Return the waits so far."""
        return dict(self._by)

    def imports(self, change: int) -> None:
        """Count an import that begins (1) or ends (-1)."""
        with self._lock:
            self.n_importing += change


WAITS: Final = Waits()
