"""Maintenance of the database: backup while it is in use, and upgrade of older versions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from core.errors import InvalidInput, StoreFull
from core.flows.context import Context
from core.flows.steps import ProgressCallback
from core.permissions import authorise
from core.records.answers import BackupAnswer
from core.settings import Located
from core.store import reads
from core.store.engine.opening import open_database
from core.store.files import appearing
from core.store.schema import HEAD
from core.store.schema import upgrade as upgrade_schema
from core.upkeep import note_upkeep


class UpgradeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an upgrade; ``before`` None = the database was empty.

    ``servers`` holds the tables of a distributed database; this upgrade moved ``tables_distributed`` of them.
    """

    database: str
    before: str | None
    after: str
    tables_distributed: int = 0
    servers: tuple[str, ...] = ()


class DatabaseFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Location, size and schema of the database. ``size_bytes`` includes the write-ahead log."""

    file: str
    size_bytes: int
    schema: str


def database_facts(context: Context) -> DatabaseFacts:
    """Return location, size and schema of the database."""
    context.permit("read")
    return DatabaseFacts(file=str(context.store.location), size_bytes=context.store.size(), schema=HEAD)


def backup(
    context: Context,
    target: Annotated[Path, Meta(description="A new file.")],
    *,
    progress: ProgressCallback | None = None,
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
        revision, heads = snapshot.revision, reads.heads(snapshot)
    try:
        with appearing(target) as partial:
            context.store.copy_into(partial, progress)
    except (OSError, StoreFull) as problem:
        reason = "there is no room for it" if isinstance(problem, StoreFull) else problem.strerror or problem
        raise InvalidInput(
            f"The backup can't be written to {target}: {reason}.",
            next_step="Choose a folder you can write to, with room for the whole database.",
        ) from problem
    note_upkeep(context.store.location, "backup", context.clock())
    return BackupAnswer(file=str(target), size_bytes=target.stat().st_size, revision=revision, heads=heads)


def upgrade(location: Located, *, distribute: bool = False) -> UpgradeAnswer:
    """Upgrade a database of an older armscope. A current one is left alone, and an empty one gets its tables.

    ``distribute`` then spreads its tables by learner over the workers of a Citus cluster, in one transaction. A
    repeat changes nothing. Raises `NoDatabase` for a path without a file, and `InvalidInput` if the database has no
    Citus or no worker.
    """
    database = open_database(location)
    try:
        done = upgrade_schema(database, distribute=distribute)
    finally:
        database.close()
    spread = done.distribution
    return UpgradeAnswer(
        database=str(location),
        before=done.before,
        after=done.after,
        tables_distributed=0 if spread is None else spread.n_moved,
        servers=() if spread is None else spread.servers,
    )
