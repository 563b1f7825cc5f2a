"""Standby: another server with the same database, slightly behind, that pages are read from.

A process never sees an earlier state than it has written or shown. While the standby lacks it, or can't be reached,
the primary is asked.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from threading import Lock
from typing import Final

from core.errors import InvalidSetting, StoreError
from core.records.standing import Standing
from core.settings import Located, Server
from core.store.engine import Connection, Database
from core.store.engine.opening import open_database
from core.store.schema import prepare
from core.store.transaction import Snapshot

_PATIENCE_S: Final = 2.0
_REST_S: Final = 10.0
"""Time limit of a query, and then a pause: pages use the primary meanwhile."""


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

    def standing(self) -> Standing | None:
        """Return its state and delay; None if it can't be reached, with the reason in ``problem``."""
        self._retry_at_s = 0.0
        with suppress(StoreError), ExitStack() as block:
            connection = self._begun(block)
            return None if connection is None else connection.standing()
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
