"""Names: what there is to name, for whoever types it; read without anything a statistic needs."""

from __future__ import annotations

from collections.abc import Iterable

from core.flows.context import Context
from core.permissions import authorise, may
from core.records.actor import Actor
from core.store import fleet, reads


def arm_ids(context: Context) -> tuple[str, ...]:
    """Ids of every arm that is listed, sorted."""
    with context.reading() as snapshot:
        return reads.arm_columns(snapshot).keys


def learner_names(context: Context) -> tuple[str, ...]:
    """Names of every learner of the database that the actor may read, sorted.

    Raises `Denied` for whoever may read none, whatever learners there are.
    """
    actor = context.actor
    if not actor.grants:
        authorise(actor, "read", None)
    return readable(actor, fleet.names(context.store))


def readable(actor: Actor, names: Iterable[str]) -> tuple[str, ...]:
    """Those of some learners that the actor may read, in their order."""
    return tuple(name for name in names if may(actor, "read", name))
