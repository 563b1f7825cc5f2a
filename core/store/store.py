"""The store with the promises that flows rely on, its standby, and copies of all rows.

* A ``write`` happens in full or not at all; when it returns, it is on disk.
* Writers of one database wait for each other; each sees the previous write.
* Inside ``reading`` everything belongs to one snapshot, and nothing can be changed.
* Reads return records and arrays, never rows.

A standby is another server with the same database, slightly behind, that pages are read from. A process never sees an
earlier state than it has written or shown. While the standby lacks it, or can't be reached, the primary is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from copy import copy
from importlib.util import find_spec
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Final, TypeVar

from core.errors import (
    ArmscopeError,
    Conflict,
    InvalidSetting,
    NoDatabase,
    NotInstalled,
    SchemaMismatch,
    StoreError,
    StoreUnusable,
)
from core.records.actor import Actor
from core.records.learner import Sticky
from core.records.status import ServerState
from core.settings import Located, Server
from core.store.check import differences, look_over
from core.store.damage import UNREADABLE, damage, words_of
from core.store.denials import Refusals
from core.store.engine import Connection, Database, port, sqlite
from core.store.engine.file_faults import damaged, missing
from core.store.engine.port import PATIENCE_S, WAITS
from core.store.engine.sqlite import LOCK_TIMEOUT_S
from core.store.files import files_of
from core.store.schema import HEAD, STAMP, mismatch, prepare
from core.store.staging import Part, Stage, sweep
from core.store.tables import metadata
from core.store.text_index import build_all
from core.store.transaction import Memory, Snapshot, Transaction

Progress = Callable[[int, int], None]
_T = TypeVar("_T")

_OURS: Final = frozenset({(HEAD,), None})
"""Stamps of a database that another version neither upgraded nor replaced while this process has it open."""
_MAX_MEMORIES: Final = 8
_BESIDE: Final = ("-shm", ".lock", ".lock.turn")

_PATIENCE_S: Final = 2.0
_REST_S: Final = 10.0
"""Time limit of a query, and then a pause: pages use the primary meanwhile."""


class Store:
    """One database, opened; with ``create`` it is made silently where there is none.

    Raises `NoDatabase` where there is none to be made, `SchemaMismatch` for an older schema and `StoreUnusable` for
    what is no database of ours.
    """

    def __init__(
        self,
        location: Located,
        *,
        create: bool = True,
        lock_timeout_s: float = LOCK_TIMEOUT_S,
        read_location: Located | None = None,
    ) -> None:
        """``read_location``: a standby that pages are read from."""
        self.standby: Standby | None = None
        self._is_for_pages = False
        self.database = open_database(location, lock_timeout_s=lock_timeout_s)
        self.refusals = Refusals()
        self._counts_days = True
        self._numbers: dict[str, int] = {}
        try:
            prepare(self.database, create=create)
            if read_location is not None:
                self.standby = Standby(read_location, self.database)
        except BaseException:
            self.database.close()  # not some time later: a reader that stays open keeps the log of the file
            raise

    @property
    def location(self) -> Located:
        """The location; as text a name that may be shown."""
        return self.database.location

    def write(
        self,
        learner: str,
        work: Callable[[Transaction], _T],
        *,
        actor: Actor,
        now_ms: int,
        origin: str | None = None,
        only: bool = False,
        sticky: Sticky = "run",
    ) -> _T:
        """Write to one learner and return the result of ``work``, once all of it is on disk.

        A missing learner is made with this origin and ``sticky``, or raises `UnknownLearner`. With ``only`` it is
        made only where there is no other.

        ``work`` may be called more than once, each time in a new transaction, after the previous call was rolled
        back: a connection can be lost, a commit refused. Its last call counts. So it must change nothing but its
        transaction, must not use up an iterator or open file, and must return its result. The arguments are common to
        all calls: actor, time, origin.

        SQLite calls it once and raises every failure. A server's reply to COMMIT can be lost. Then the learner's row
        shows whether the write succeeded, or, after later writes, a recorded fact does. So a request without a key is
        also executed once. Without such a fact `StoreUnsure` is raised.
        """
        memories: dict[str, Memory] = self.database.remembered

        def act(connection: Connection) -> tuple[_T, Transaction]:
            if self.database.is_due(now_ms if self._counts_days else None):
                self._look_over(connection, learner, now_ms)
            schema = connection.row_later(STAMP)
            # Removed, because the transaction changes it: another call must read it again.
            memory = memories.pop(learner, None)
            txn = Transaction(
                connection,
                learner,
                actor=actor,
                now_ms=now_ms,
                origin=origin,
                only=only,
                sticky=sticky,
                memory=memory,
            )
            if (other := schema()) not in _OURS:
                raise mismatch(self.location, other)
            answer = work(txn)
            txn.finish()
            return answer, txn

        with self._damage_reported(learner):
            answer, txn = self.database.write(act, lambda connection, done: done[1].has_landed(connection))
        # Only now it is on disk: a write that fails leaves nothing behind.
        if len(memories) >= _MAX_MEMORIES:
            memories.clear()
        memories[learner] = txn.memory
        if self.standby is not None:
            self.standby.has_shown(learner, txn.revision)
        return answer

    @contextmanager
    def importing(self, waiting: Callable[[], None] | None = None) -> Iterator[None]:
        """Be the one that imports in parts, with nothing left of an import that died."""
        with self.database.importing(waiting):
            WAITS.imports(1)
            try:
                self.sweep()
                yield
            finally:
                WAITS.imports(-1)

    def stage(
        self, learner: str, stage: Stage, work: Callable[[Part], _T], *, actor: Actor
    ) -> tuple[_T, Stage]:
        """Write one part of an import, invisible to others; return the result of ``work`` and the next stage.

        Only inside `importing`. A missing learner is made when the import settles. ``work`` may be called more than
        once, as in `write`, so the previous stage stays unchanged.
        """

        def act(connection: Connection) -> tuple[_T, Stage]:
            if self.database.is_due(None):
                self._look_over(connection, learner, None)
            schema = connection.row_later(STAMP)
            part = Part(connection, learner, stage, actor=actor)
            if (other := schema()) not in _OURS:
                raise mismatch(self.location, other)
            answer = work(part)
            part.finish()
            return answer, part.stage

        with self._damage_reported(learner):
            return self.database.write(act)

    def sweep(self) -> None:
        """Remove what is staged, and what is left of it; only inside `importing`."""
        sweep(self.database)

    @contextmanager
    def reading(self, learner: str) -> Iterator[Snapshot]:
        """One learner at one moment; it may not exist yet (`Snapshot.exists`)."""
        with self._damage_reported(learner), ExitStack() as block:
            snapshot = self._begun(block, learner)
            if snapshot.exists:
                self._numbers[learner] = snapshot.learner_id
            yield snapshot

    @contextmanager
    def reading_all(self) -> Iterator[Connection]:
        """All learners at one moment."""
        with ExitStack() as block:
            standby = self.standby if self._is_for_pages else None
            connection = None if standby is None else standby.begin_all(block)
            yield block.enter_context(self.database.reading()) if connection is None else connection

    def for_pages(self) -> Store:
        """Return the same store with stale reads from the standby, if any; shown revisions are not forgotten."""
        if self.standby is None:
            return self
        pages = copy(self)
        pages._is_for_pages = True
        return pages

    def _begun(self, block: ExitStack, learner: str) -> Snapshot:
        number, standby = self._numbers.get(learner), self.standby if self._is_for_pages else None
        if standby is not None and (stale := standby.begin(block, learner, number)) is not None:
            return stale
        connection = block.enter_context(self.database.reading())
        schema = connection.row_later(STAMP)
        snapshot = Snapshot(connection, learner, number)
        if (other := schema()) not in _OURS:
            raise mismatch(self.location, other)
        if standby is not None:
            standby.has_shown(learner, snapshot.revision)
        return snapshot

    def settle(self) -> None:
        """Update the server's statistics after very much was written; a failure changes nothing."""
        with suppress(StoreError):
            self.database.settle()

    def copy_to(self, other: Database, progress: Progress | None = None) -> None:
        """Copy a snapshot into a database with empty tables; ``progress`` gets tables."""
        with self.database.reading() as ours:
            other.write(lambda theirs: copy_rows(ours, theirs, progress))
        other.settle()

    def copy_into(self, target: Path, progress: Progress | None = None) -> None:
        """Copy a snapshot into an existing file; ``progress`` gets pages, or tables."""
        if isinstance(self.database, sqlite.Database):
            self.database.copy_into(target, progress)
            return
        with (
            TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as folder,
            closing(sqlite.Database(Path(folder) / "copied.db")) as copied,
        ):
            prepare(copied, create=True)
            self.copy_to(copied, progress)
            copied.copy_into(target)

    def size(self) -> int:
        """Return its size in bytes, with the log that is not folded in yet."""
        return sum(self.sizes().values())

    def sizes(self) -> dict[str, int]:
        """Return the bytes of a file and of its log, or of the database at a server."""
        if files := files_of(self.location):
            sizes = {one.name: one.stat().st_size for one in files if not one.name.endswith(_BESIDE)}
            return {"log" if name.endswith("-wal") else "file": size for name, size in sizes.items()}
        with self.database.reading() as connection:
            return {"server": connection.size()}

    def damage_behind(self, problem: Exception, learner: str) -> StoreError | None:
        """Return the damage, move or replacement of the database behind a failure; None for another cause."""
        if isinstance(problem, ArmscopeError) and type(problem) is not StoreUnusable:
            return None
        if not isinstance(problem, (*UNREADABLE, StoreUnusable)):
            return None
        try:
            prepare(self.database, create=False)
            with self.database.reading() as connection:
                difference = next(
                    chain(damage(snapshot := Snapshot(connection, learner)), differences(snapshot)), None
                )
        except NoDatabase:
            return missing(self.location)
        except (SchemaMismatch, StoreUnusable) as cause:
            return cause
        except StoreError:
            return None
        return None if difference is None else damaged(self.location, words_of(difference))

    @contextmanager
    def _damage_reported(self, learner: str) -> Iterator[None]:
        """Raise any failure of a damaged file as damage."""
        try:
            yield
        except Exception as problem:
            cause = self.damage_behind(problem, learner)
            if cause is None:
                raise
            raise cause from problem

    @contextmanager
    def hurrying(self) -> Iterator[None]:
        """While a world lives through weeks in seconds: that a day has gone by there says nothing of the file."""
        self._counts_days = False
        try:
            yield
        finally:
            self._counts_days = True

    def _look_over(self, connection: Connection, learner: str, now_ms: int | None) -> None:
        """Before the first write after the file was left otherwise than armscope leaves it, and once a day."""
        if (other := connection.row(STAMP)) not in _OURS:
            raise mismatch(self.location, other)
        difference = look_over(Snapshot(connection, learner))
        if difference is not None:
            raise damaged(self.location, words_of(difference))
        self.database.was_looked_over(now_ms)

    def close(self) -> None:
        with suppress(StoreError):
            self.refusals.flush(self)
        if self.standby is not None:
            self.standby.close()
        self.database.close()


# Standby


class Standby:
    """Reads from a standby of a primary. Raises `InvalidSetting` where it is none of it."""

    def __init__(self, location: Located, primary: Database) -> None:
        if not (isinstance(location, Server) and isinstance(primary.location, Server)):
            raise InvalidSetting(
                f"Pages can be read from a standby of a PostgreSQL server, got {location} for {primary.location}.",
                next_step="Name no database to read pages from: readers of a file never wait.",
            )
        self.place = location
        self.problem: StoreError | None = None
        """Why it could not be asked the last time; None where it could."""
        self._primary = primary
        self._database: Database | None = None
        self._opening = Lock()
        self._retry_at_s = 0.0
        self._ids: dict[str, int] = {}
        """Revision of each learner that this process wrote or showed."""
        self._awaited: set[str] = set()
        """Learners of which it may not have that revision yet."""
        try:
            self._opened()
        except StoreError as problem:
            self._rest(None, problem, None)

    def has_shown(self, learner: str, revision: int) -> None:
        """Record the revision of a learner that this process read from the primary."""
        if revision > self._ids.get(learner, 0):
            self._ids[learner] = revision
            self._awaited.add(learner)

    def begin(self, block: ExitStack, learner: str, number: int | None) -> Snapshot | None:
        """A learner for the rest of a block; None where the primary has to be asked."""
        with suppress(StoreError), ExitStack() as here:
            connection = self._begun(here)
            snapshot = None if connection is None else Snapshot(connection, learner, number)
            if snapshot is not None and self._has_come_to(snapshot):
                block.push(here.pop_all())
                return snapshot
        return None

    def begin_all(self, block: ExitStack) -> Connection | None:
        """All learners for the rest of a block; None where the primary has to be asked."""
        with suppress(StoreError), ExitStack() as here:
            if not self._awaited and (connection := self._begun(here)) is not None:
                block.push(here.pop_all())
                return connection
        return None

    def _has_come_to(self, snapshot: Snapshot) -> bool:
        """Return whether it has every revision that this process has shown; record its own as shown."""
        if not snapshot.exists or snapshot.revision < self._ids.get(snapshot.name, 0):
            return False
        self._ids[snapshot.name] = snapshot.revision
        self._awaited.discard(snapshot.name)
        return True

    def server_state(self) -> ServerState | None:
        """Return its state and delay; None if it can't be reached, with the reason in ``problem``."""
        self._retry_at_s = 0.0
        with suppress(StoreError), ExitStack() as block:
            connection = self._begun(block)
            return None if connection is None else connection.server_state()
        return None

    def _begun(self, block: ExitStack) -> Connection | None:
        """A block of reading in it; None while it is left alone, because something failed in one before."""
        if time.monotonic() < self._retry_at_s:
            return None
        block.push(self._rest)
        connection = block.enter_context(self._opened().reading())
        self.problem = None
        return connection

    def _rest(self, kind: object, problem: BaseException | None, trace: object) -> None:  # noqa: ARG002
        """Leave it alone for a while where a block fails."""
        if isinstance(problem, StoreError):
            self.problem, self._retry_at_s = problem, time.monotonic() + _REST_S

    def _opened(self) -> Database:
        """Opened once; it may have no such schema yet, or not be there."""
        with self._opening:
            if self._database is None:
                database = open_database(self.place, patience_s=_PATIENCE_S)
                try:
                    prepare(database, create=False)
                    _check_same(self._primary, database)
                except BaseException:
                    database.close()
                    raise
                self._database = database
            return self._database

    def close(self) -> None:
        if self._database is not None:
            self._database.close()


def _check_same(primary: Database, standby: Database) -> None:
    """Refuse another database as the standby, as far as both identify themselves."""
    with primary.reading() as ours, standby.reading() as theirs:
        identities = ours.identity(), theirs.identity()
    if None not in identities and identities[0] != identities[1]:
        raise InvalidSetting(
            f"Pages can be read from a standby of {primary.location}, got {standby.location}, "
            "which keeps other data.",
            next_step="Name the primary's own standby to read pages from, or none.",
        )


# Copies


def copy_rows(source: Connection, target: Connection, progress: Progress | None = None) -> None:
    """Copy all rows into empty tables, else raise `Conflict`; ``progress`` gets the tables copied and all."""
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


def open_database(
    location: Located, *, lock_timeout_s: float = sqlite.LOCK_TIMEOUT_S, patience_s: float = PATIENCE_S
) -> port.Database:
    """Return the database at a location, by its engine; a file is created on the first write.

    ``patience_s`` is the longest wait for a server. Raises `NotInstalled` where the driver of PostgreSQL is missing.
    """
    if not isinstance(location, Server):
        return sqlite.Database(location, lock_timeout_s=lock_timeout_s)
    if find_spec("psycopg") is None:
        raise NotInstalled(
            f"{location} is a PostgreSQL database, whose driver is not installed here.",
            next_step="Install it: pip install 'armscope[postgres]'",
        )
    from core.store.engine import postgres  # noqa: PLC0415 - an extra, and nothing that a file needs

    return postgres.Database(location, lock_timeout_s=lock_timeout_s, patience_s=patience_s)
