"""Port: what the store asks of a database, whichever engine keeps it.

SQL is the same for all engines: one text, with a value for each ``?`` and no more than the marks of
`core.store.engine.words` to be filled in. Numbers are integers or floats, never booleans; what comes back is tuples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple, TypeVar, overload

from sqlalchemy import Connection as Transacted

from core.records.standing import Standing
from core.settings import Located

PATIENCE_S: Final = 10.0
"""How long a write that a server took back is tried again, and a connection waited for."""
Row = tuple[Any, ...]
T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")
T5 = TypeVar("T5")


class Distribution(NamedTuple):
    """Over which servers of a cluster the tables of a database are spread, and how many were spread just now."""

    servers: tuple[str, ...]
    n_moved: int


class Connection(ABC):
    """Statements inside one transaction.

    **When.** What only changes rows may wait until something is asked or the transaction ends, and be sent along with
    that: a server is some way off. What it is refused for is raised then, and takes the whole transaction with it.

    **Thread safety.** It belongs to the block that was given it, and to that block's thread, and is good for nothing
    afterwards.

    **What it sees.** What was committed before the transaction began to look, and what it has written itself.

    **Values.** They stand for the marks ``?``, in order. ``?1`` is the first of them wherever it is said, and then
    the first mark of the text: a query inside another names its learner by it, and not as that of a row around it,
    which a server of many would ask all others for.

    **Rows.** They are all fetched when a method answers, but for `each`: what that has not handed out yet may not be
    changed meanwhile, and is let go with the transaction. Their order is what the text says; where it says none,
    nobody promises any.
    """

    file: tuple[int, ...]
    """Which database it reads or writes, as far as one can be told from another that took its place."""
    looks_after_itself: bool
    """Whether the engine lets no value of another type in and no row without its parent, and says by itself what of
    its pages is broken; where it doesn't, we look."""

    @property
    def is_shared_out(self) -> bool:
        """Whether many servers keep the learners; where that changes, later connections say so."""
        return False

    @abstractmethod
    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """All rows."""

    @abstractmethod
    def row(self, sql: str, values: Sequence[Any] = ()) -> Row | None:
        """The first row; None where there is none."""

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
        """The rows of a statement whose ``{}`` stands for a list of values, over as many as there are; said again,
        with no other mark in between, it is the same list.

        ``head`` are the values before the list, ``tail`` those after it. A long list is asked for in parts, so
        neither order nor sums of the whole may be left to the statement.
        """

    def servers(self) -> tuple[str, ...]:
        """Those of a cluster that the tables are spread over; none where one has them all."""
        return ()

    def standing(self) -> Standing | None:
        """What the server is to others that keep the same database; None where no server keeps it."""
        return None

    def identity(self) -> str | None:
        """What tells a database of a server from every other: a standby has that of its primary. None where it can't
        be told.
        """
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

    def together(self, *works: Callable[[], Any]) -> tuple[Any, ...]:
        """What each of several pieces of work answers, none of which needs what another does.

        What they ask is asked for at once where the server is some way off: as often as the longest of them asks,
        not as often as all of them. Elsewhere they are done one after the other. If one raises, the others may have
        been done, in part or not at all.
        """
        return tuple([work() for work in works])

    @abstractmethod
    def run(self, sql: str, values: Sequence[Any] = ()) -> None:
        """Execute one statement."""

    @abstractmethod
    def run_in(self, sql: str, head: Sequence[Any], values: Sequence[Any]) -> None:
        """Execute a statement whose ``{}`` stands for a list of values, over as many as there are."""

    @abstractmethod
    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Execute a statement once a row.

        The rows may come from an iterator and are never all held.
        """

    @abstractmethod
    def n_changed(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        """The same, at once; number of rows it changed."""

    @abstractmethod
    def insert(
        self, table: str, columns: Sequence[str], learner_id: int, values: Iterable[Any], *, upsert: str = ""
    ) -> None:
        """Insert rows of one learner, as many of them at a time as the engine likes best.

        ``values`` are those of all rows, one after the other, in the order of the ``columns``, which are told
        without ``learner_id``. No two rows may have the same key; ``upsert`` is what becomes of a row that is there.
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
        """Give the next learner a number after those that are there, whoever gave them theirs."""

    @abstractmethod
    def tables(self) -> frozenset[str]:
        """Names of the tables that are there, whoever made them."""

    @abstractmethod
    def size(self) -> int:
        """How many bytes the database takes."""


class Database(ABC):
    """One database, which many threads and processes have open at once.

    **Thread safety.** Every method may be called by any thread, at any time.

    **What is on disk when.** When `write` has answered, all that was written in it is on disk: a loss of
    power or of the process takes none of it away. Work that raises has written nothing. An error that is raised by
    the commit itself leaves one of the two, never a part.

    **What writers see.** Whoever writes waits for those who write already, and sees all that they wrote; after a time
    `StoreBusy` is raised.

    **What a reader sees.** Everything read in a block of `reading` is of one moment, which is not before the block
    began; nobody waits for readers, and they wait for nobody.

    **Another database in its place** (a restored backup, say) is noticed before the next block: nobody goes on with
    what was remembered of the one before.
    """

    place: Located
    """Where it is; as a text a name that may be shown."""
    remembered: dict[str, Any]
    """What may be remembered from write to write; it is emptied as soon as the database may be another."""
    has_written: bool
    """Whether anything was written since it was opened, be it that nobody could be told any more."""

    @abstractmethod
    def write(
        self,
        work: Callable[[Connection], T],
        has_landed: Callable[[Connection, T], bool | None] | None = None,
    ) -> T:
        """One write transaction: what ``work`` returns, once all it did is on disk; if it raises, none of it is.

        ``work`` has to bear being called again after a call that came to nothing: see `core.store.store.Store.write`.
        ``has_landed`` is asked, in a write transaction of its own, where the answer of a commit was lost: whether
        what the work did, and returned, is there; None = nobody can tell. Raises `StoreUnsure` where nobody can.
        """

    @abstractmethod
    def reading(self) -> AbstractContextManager[Connection]:
        """One read transaction, in which nothing can be changed."""

    @abstractmethod
    def importing(self, waiting: Callable[[], None] | None) -> AbstractContextManager[None]:
        """Be the one that imports in parts; ``waiting`` is called once if another has to end first."""

    @abstractmethod
    def tables(self) -> frozenset[str]:
        """Names of the tables that are there, whoever made them; none where there is nothing yet.

        Raises `StoreUnusable` for what can hold none.
        """

    @abstractmethod
    def making(self) -> AbstractContextManager[None]:
        """Be the one that makes the tables, or brings them up to date, where they may be."""

    @abstractmethod
    def migrating(self) -> AbstractContextManager[tuple[Transacted, Connection]]:
        """The one transaction in which that is done, for whoever is `making`."""

    @abstractmethod
    def is_due(self, now_ms: int | None) -> bool:
        """Whether somebody should look the database over before anything is written; None = whatever the time is."""

    @abstractmethod
    def was_looked_over(self, now_ms: int | None) -> None:
        """Note that it was, and found sound; only while writing."""

    @abstractmethod
    def scour(self) -> bool:
        """Let nothing of what was erased lie where it lay; False where somebody has been reading for too long."""

    @abstractmethod
    def settle(self) -> None:
        """What is worth its time after very much was written, and not after less."""

    @abstractmethod
    def distribute(self) -> Distribution:
        """Spread the tables over the servers of a cluster, for whoever is `making`; what is spread already stays.

        Raises `InvalidInput` where there is no cluster.
        """

    def apart(self, learner_ids: Sequence[int]) -> Sequence[Sequence[int]]:
        """The same numbers, those apart that different servers keep."""
        return [learner_ids]

    @abstractmethod
    def close(self) -> None:
        """Let go of whatever is open; a block after it opens it again."""
