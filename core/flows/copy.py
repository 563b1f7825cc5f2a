"""Copy of a full database to another file or server, both verified."""

from __future__ import annotations

from contextlib import closing

import msgspec

from core.errors import InvalidInput
from core.flows.context import Context
from core.flows.queries.verify import problem_of, verify
from core.flows.steps import ProgressCallback
from core.permissions import authorise
from core.records.actor import Actor
from core.settings import Located, local_operator
from core.store.store import Store


class CopyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Source, target and learners of a copy. Both databases passed verification."""

    source: str
    target: str
    learners: tuple[str, ...]


def copy(
    source: Located, target: Located, *, actor: Actor | None = None, progress: ProgressCallback | None = None
) -> CopyAnswer:
    """Copy one snapshot of a database with its history into an empty one, and verify both.

    The source is only read and may be in use. ``progress`` counts tables.

    Raises
    ------
    InvalidInput
        Source and target are the same.
    NoDatabase
        There is no source.
    Conflict
        The target is not empty; nothing was copied.
    StoreDamaged
        The caches of one database do not match its facts.
    """
    operator = actor or local_operator()
    authorise(operator, "settings", None)
    if source == target:
        raise InvalidInput(
            f"Source and target must be different databases, got {source} twice; nothing was copied.",
            next_step="Name a new database.",
        )
    with closing(Store(source, create=False)) as ours, closing(Store(target)) as theirs:
        ours.copy_to(theirs.database, progress)
        for store in (ours, theirs):
            verification = verify(Context(store=store, actor=operator), limit=1)
            if not verification.clean:
                raise problem_of(verification, store.location)
    return CopyAnswer(source=str(source), target=str(target), learners=verification.learners)
