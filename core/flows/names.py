"""Names: what there is to name, for whoever types it; read without anything a statistic needs."""

from __future__ import annotations

from core.flows.desk import Desk
from core.permissions import authorise
from core.store import reads


def arm_ids(desk: Desk) -> tuple[str, ...]:
    """Ids of every arm that is listed, sorted."""
    with desk.reading() as snapshot:
        return reads.arm_columns(snapshot).keys


def learner_names(desk: Desk) -> tuple[str, ...]:
    """Names of every learner of the database, sorted."""
    authorise(desk.actor, "read")
    with desk.store.reading(desk.learner) as snapshot:
        return reads.learners(snapshot)
