"""Listed names of arms and learners; they need no statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from core.errors import StoreError
from core.flows.context import Context
from core.records.actor import Actor, authorise, may
from core.store import fleet, reads


def arm_ids(context: Context) -> tuple[str, ...]:
    """List the ids of all arms, sorted."""
    with context.reading() as snapshot:
        return reads.arm_columns(snapshot).keys


def learner_names(context: Context) -> tuple[str, ...]:
    """List the names of all learners that the actor may read, sorted.

    Raises `Denied` for an actor without any role.
    """
    actor = context.actor
    if not actor.grants:
        authorise(actor, "read", None)
    return readable(actor, fleet.names(context.store))


def settle_learners(context: Context, settle: Callable[[Context], object]) -> None:
    """Settle what was sent to each learner. One with a store error is settled next time."""
    authorise(context.actor, "ingest", None)
    with context.store.reading(context.learner) as snapshot:
        names = reads.learners(snapshot)
    for name in names:
        with suppress(StoreError):
            settle(context.of(name))


def readable(actor: Actor, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of learners that the actor may read, in their order."""
    return tuple(name for name in names if may(actor, "read", name))
