"""Store: the promises that flows rely on.

* Inside ``writing`` everything happens or nothing does; after it, it is on disk.
* Writers of one database wait for each other; each sees what the one before wrote.
* Inside ``reading`` everything is of one moment, and nothing can be changed.
* What is read is records and arrays, never rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from core.records.actor import Actor
from core.store.engine import LOCK_TIMEOUT_S, Database
from core.store.schema import prepare
from core.store.transaction import Memory, Snapshot, Transaction

_MAX_MEMORIES: Final = 8


class Store:
    """One database, opened; with ``create`` it is made silently where there is none.

    Raises `NoDatabase` where there is none to be made, `SchemaMismatch` for an older schema and `StoreUnusable` for
    what is no database of ours.
    """

    def __init__(self, path: Path, *, create: bool = True, lock_timeout_s: float = LOCK_TIMEOUT_S) -> None:
        self.database = Database(path, lock_timeout_s=lock_timeout_s)
        self._memories: dict[str, Memory] = {}
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
        with self.database.writing() as link:
            memory = self._memories.pop(learner, None)
            txn = Transaction(
                link, learner, actor=actor, now_ms=now_ms, origin=origin, only=only, memory=memory
            )
            yield txn
            txn.finish()
        # Only now it is on disk: a write that fails leaves nothing behind.
        if len(self._memories) >= _MAX_MEMORIES:
            self._memories.clear()
        self._memories[learner] = txn.memory

    @contextmanager
    def reading(self, learner: str) -> Iterator[Snapshot]:
        """One learner at one moment; it may not exist yet (`Snapshot.exists`)."""
        with self.database.reading() as link:
            yield Snapshot(link, learner)

    def close(self) -> None:
        self.database.close()
