"""Store: the promises that flows rely on.

* Inside ``writing`` everything happens or nothing does; after it, it is on disk.
* Writers of one database wait for each other; each sees what the one before wrote.
* Inside ``reading`` everything is of one moment, and nothing can be changed.
* What is read is records and arrays, never rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Final

from core.errors import ArmscopeError, StoreDamaged, StoreError, StoreUnusable
from core.records.actor import Actor
from core.records.times import HOUR_MS
from core.store.check import differences, look_over
from core.store.damage import UNREADABLE, damage, said
from core.store.engine import Connection
from core.store.engine.sqlite import LOCK_TIMEOUT_S, Database
from core.store.failures import damaged
from core.store.schema import prepare
from core.store.staging import Part, Stage, sweep
from core.store.transaction import Memory, Snapshot, Transaction

_MAX_MEMORIES: Final = 8
DAY_MS: Final = 24 * HOUR_MS


class Store:
    """One database, opened; with ``create`` it is made silently where there is none.

    Raises `NoDatabase` where there is none to be made, `SchemaMismatch` for an older schema and `StoreUnusable` for
    what is no database of ours.
    """

    def __init__(self, path: Path, *, create: bool = True, lock_timeout_s: float = LOCK_TIMEOUT_S) -> None:
        self.database = Database(path, lock_timeout_s=lock_timeout_s)
        try:
            prepare(self.database, create=create)
        except BaseException:
            self.database.close()  # not some time later: a reader that stays open keeps the log of the file
            raise

    @property
    def path(self) -> Path:
        return self.database.path

    @contextmanager
    def writing(
        self, learner: str, *, actor: Actor, now_ms: int, origin: str | None = None, only: bool = False
    ) -> Iterator[Transaction]:
        """One write to one learner; where there is none it is made with this origin, or `UnknownLearner` raised.

        With ``only`` it is made only where there is no other.
        """
        with self._told_apart(learner), self.database.writing() as connection:
            self._look_over(connection, learner, now_ms)
            memories: dict[str, Memory] = self.database.remembered
            memory = memories.pop(learner, None)
            txn = Transaction(
                connection, learner, actor=actor, now_ms=now_ms, origin=origin, only=only, memory=memory
            )
            yield txn
            txn.finish()
        # Only now it is on disk: a write that fails leaves nothing behind.
        if len(memories) >= _MAX_MEMORIES:
            memories.clear()
        memories[learner] = txn.memory

    @contextmanager
    def importing(self, waiting: Callable[[], None] | None = None) -> Iterator[None]:
        """Be the one that imports in parts, with nothing left of an import that died."""
        with self.database.importing(waiting):
            self.sweep()
            yield

    @contextmanager
    def staging(self, learner: str, stage: Stage, *, actor: Actor) -> Iterator[Part]:
        """One part of an import, written and yet not there for anybody; only inside `importing`.

        A learner that there is not will be made when the import is made to stand.
        """
        with self._told_apart(learner), self.database.writing() as connection:
            self._look_over(connection, learner, self.database.looked_over_ms)
            part = Part(connection, learner, stage, actor=actor)
            yield part
            part.finish()
        stage.parts += 1

    def sweep(self) -> None:
        """Remove what is staged, and what is left of it; only inside `importing`."""
        sweep(self.database)

    @contextmanager
    def reading(self, learner: str) -> Iterator[Snapshot]:
        """One learner at one moment; it may not exist yet (`Snapshot.exists`)."""
        with self._told_apart(learner), self.database.reading() as connection:
            yield Snapshot(connection, learner)

    def damage_behind(self, problem: Exception, learner: str) -> StoreDamaged | None:
        """What a failure comes from, if damage can lead to it and the file is damaged; None where it doesn't."""
        if isinstance(problem, ArmscopeError) and type(problem) is not StoreUnusable:
            return None
        if not isinstance(problem, (*UNREADABLE, StoreUnusable)):
            return None
        try:
            with self.database.reading() as connection:
                found = next(
                    chain(damage(snapshot := Snapshot(connection, learner)), differences(snapshot)), None
                )
        except StoreDamaged as damaged_too:
            return damaged_too
        except StoreError:
            return None
        return None if found is None else damaged(self.path, said(found))

    @contextmanager
    def _told_apart(self, learner: str) -> Iterator[None]:
        """Whatever damaged bytes make of a read or write, it is told as damage."""
        try:
            yield
        except Exception as problem:
            cause = self.damage_behind(problem, learner)
            if cause is None:
                raise
            raise cause from problem

    def _look_over(self, connection: Connection, learner: str, now_ms: int) -> None:
        """Before the first write after the file was left otherwise than armscope leaves it, and once a day."""
        if not self.database.is_unsure and 0 <= now_ms - self.database.looked_over_ms < DAY_MS:
            return
        found = look_over(Snapshot(connection, learner))
        if found is not None:
            raise damaged(self.path, said(found))
        self.database.was_looked_over(now_ms)

    def close(self) -> None:
        self.database.close()
