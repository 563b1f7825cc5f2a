"""Desk: where every verb happens: an open store, the learner in question, who asks, and whose clock and dice."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from core.permissions import Action, authorise
from core.records.actor import Actor
from core.settings import DEFAULT_LEARNER, Settings
from core.store.store import Store
from core.store.transaction import Snapshot, Transaction, unknown_learner


def utc_now_ms() -> int:
    """The machine's clock, in milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000


def fresh_seed() -> int:
    """A seed nobody can foretell."""
    return secrets.randbits(64)


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What a flow needs. ``clock`` gives UTC milliseconds, ``entropy`` a seed for each selection."""

    store: Store
    learner: str = DEFAULT_LEARNER
    actor: Actor
    clock: Callable[[], int] = utc_now_ms
    entropy: Callable[[], int] = fresh_seed

    def of(self, learner: str) -> Desk:
        """The same desk for another learner."""
        return replace(self, learner=learner)

    @contextmanager
    def writing(self, action: Action, *, create: bool = False) -> Iterator[Transaction]:
        """Authorise, then one transaction. The default learner is made when first written to."""
        authorise(self.actor, action)
        make = create or self.learner == DEFAULT_LEARNER
        with self.store.writing(self.learner, actor=self.actor, now_ms=self.clock(), create=make) as txn:
            yield txn

    @contextmanager
    def reading(self) -> Iterator[Snapshot]:
        """Authorise, then one moment of the learner.

        Raises `UnknownLearner` for a name nothing was ever recorded under; the default learner may be empty.
        """
        authorise(self.actor, "read")
        with self.store.reading(self.learner) as snapshot:
            if not snapshot.exists and self.learner != DEFAULT_LEARNER:
                raise unknown_learner(snapshot.link, self.learner)
            yield snapshot


def open_desk(settings: Settings) -> Desk:
    """Open the database the settings name; an empty one is made where there is none."""
    return Desk(store=Store(settings.database), learner=settings.learner, actor=settings.actor)
