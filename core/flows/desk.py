"""Desk: where every verb happens: an open store, the learner in question, who asks, and whose clock and dice."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from core.permissions import Action, authorise
from core.records.actor import Actor
from core.settings import DEFAULT_LEARNER, Settings, check_learner
from core.store.store import Store
from core.store.transaction import Snapshot, Transaction, unknown_learner


def utc_now_ms() -> int:
    """The machine's clock, in milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000


def fresh_seed() -> int:
    """A seed nobody can foretell."""
    return secrets.randbits(64)


def fresh_identity() -> str:
    """A name no other learner anywhere has."""
    return str(uuid.uuid4())


class _Rehearsed(Exception):
    """The rehearsal is over."""


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What a flow needs. ``clock`` gives UTC milliseconds, ``entropy`` a seed for each selection, ``identity``
    the lasting name of a learner that is made.
    """

    store: Store
    learner: str = DEFAULT_LEARNER
    actor: Actor
    clock: Callable[[], int] = utc_now_ms
    entropy: Callable[[], int] = fresh_seed
    identity: Callable[[], str] = fresh_identity

    def of(self, learner: str) -> Desk:
        """The same desk for another learner."""
        return replace(self, learner=learner)

    @contextmanager
    def writing(self, action: Action, *, create: bool = False) -> Iterator[Transaction]:
        """Authorise, then one transaction. The default learner is made when first written to."""
        authorise(self.actor, action)
        origin = self.identity() if create or self.learner == DEFAULT_LEARNER else None
        with self.store.writing(self.learner, actor=self.actor, now_ms=self.clock(), origin=origin) as txn:
            yield txn

    @contextmanager
    def rehearsing(self, action: Action) -> Iterator[Transaction]:
        """A write of which nothing stays: an act is done by the code that does it, looked at, and taken back.

        Other writers wait meanwhile, as for any write.
        """
        with suppress(_Rehearsed), self.writing(action) as txn:
            yield txn
            raise _Rehearsed

    @contextmanager
    def reading(self, action: Action = "read") -> Iterator[Snapshot]:
        """Authorise, then one moment of the learner.

        Raises `UnknownLearner` for a name nothing was ever recorded under; the default learner may be empty.
        """
        authorise(self.actor, action)
        with self.store.reading(self.learner) as snapshot:
            if not snapshot.exists and self.learner != DEFAULT_LEARNER:
                raise unknown_learner(snapshot)
            yield snapshot


def open_desk(settings: Settings, *, learner: str | None = None) -> Desk:
    """Open the database the settings name; an empty one is made where there is none."""
    name = settings.learner if learner is None else check_learner(learner)
    return Desk(store=Store(settings.database), learner=name, actor=settings.actor)
