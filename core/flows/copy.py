"""Copy: a whole database → another, a file or a server's, and both checked."""

from __future__ import annotations

from contextlib import closing

import msgspec

from core.errors import InvalidInput
from core.flows.context import Context
from core.flows.queries.verify import problem_of, verify

from core.flows.steps import Progress
from core.permissions import authorise
from core.records.actor import Actor
from core.settings import Located, local_operator
from core.store.store import Store


class CopyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """From where to where, and whose data; both were found to be as their facts say."""

    source: str
    target: str
    learners: tuple[str, ...]


def copy(
    source: Located, target: Located, *, actor: Actor | None = None, progress: Progress | None = None
) -> CopyAnswer:
    """Copy a database as it is at one moment, with its history, into an empty one, and check both.

    The source is only read, and may be in use. ``progress`` is told of tables.

    Raises
    ------
    InvalidInput
        Both are the same.
    NoDatabase
        There is no source.
    Conflict
        The target holds something; nothing was copied.
    StoreDamaged
        One of them is not as its facts say.
    """
    asks = actor or local_operator()
    authorise(asks, "settings", None)
    if source == target:
        raise InvalidInput(
            f"A database is copied into another, got {source} twice; nothing was copied.",
            next_step="Name a database that is new.",
        )
    with closing(Store(source, create=False)) as ours, closing(Store(target)) as theirs:
        ours.copy_to(theirs.database, progress)
        for store in (ours, theirs):
            found = verify(Context(store=store, actor=asks), limit=1)
            if not found.clean:
                raise problem_of(found, store.place)
    return CopyAnswer(source=str(source), target=str(target), learners=found.learners)
