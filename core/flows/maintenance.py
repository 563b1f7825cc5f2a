"""Keep: look after the database: back it up while it is in use, bring an older one up to date."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from core.errors import InvalidInput, StoreFull
from core.flows.context import Context
from core.flows.steps import Progress
from core.permissions import authorise
from core.records.answers import BackupAnswer
from core.settings import Located
from core.store.engine.opening import open_database
from core.store.files import appearing
from core.store.schema import HEAD
from core.store.schema import upgrade as upgrade_schema


class UpgradeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an upgrade; ``before`` None = there was no database.

    ``servers`` holds the tables of a distributed database; this upgrade moved ``tables_distributed`` of them.
    """

    database: str
    before: str | None
    after: str
    tables_distributed: int = 0
    servers: tuple[str, ...] = ()


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where the data are, as it may be shown; ``size_bytes`` with what has not been folded into a file yet."""

    file: str
    size_bytes: int
    schema: str


def place(context: Context) -> Place:
    """Where the data are, how large, and in which schema."""
    context.permit("read")
    return Place(file=str(context.store.place), size_bytes=context.store.size(), schema=HEAD)


def backup(
    context: Context,
    target: Annotated[Path, Meta(description="A new file.")],
    *,
    progress: Progress | None = None,
) -> BackupAnswer:
    """Copy the database into a new file, while it is in use.

    The copy is one snapshot. It appears under its name only when it is complete and on disk. Raises `InvalidInput`
    for an existing file.
    """
    authorise(context.actor, "settings", None)
    if os.path.lexists(target):
        raise InvalidInput(
            f"The backup's file must not exist yet, got {target}.",
            next_step="Choose another name; nothing was overwritten.",
        )
    with context.reading() as snapshot:
        revision = snapshot.revision
    try:
        with appearing(target) as partial:
            context.store.copy_into(partial, progress)
    except (OSError, StoreFull) as problem:
        reason = "there is no room for it" if isinstance(problem, StoreFull) else problem.strerror or problem
        raise InvalidInput(
            f"The backup can't be written to {target}: {reason}.",
            next_step="Choose a folder you can write to, with room for the whole database.",
        ) from problem
    return BackupAnswer(file=str(target), size_bytes=target.stat().st_size, revision=revision)


def upgrade(place: Located, *, distribute: bool = False) -> UpgradeAnswer:
    """Bring a database of an older armscope up to date; one that is, is left alone.

    With ``distribute`` its tables are then spread by learner over the workers of a Citus cluster, in one transaction;
    again changes nothing. Raises `InvalidInput` where the database has no Citus, or no worker.
    """
    database = open_database(place)
    try:
        done = upgrade_schema(database, distribute=distribute)
    finally:
        database.close()
    spread = done.distribution
    return UpgradeAnswer(
        database=str(place),
        before=done.before,
        after=done.after,
        tables_distributed=0 if spread is None else spread.n_moved,
        servers=() if spread is None else spread.servers,
    )
