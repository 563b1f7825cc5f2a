"""Schema of a database: create it, check it, upgrade it.

A new database gets the tables of ``tables.py`` at once. An existing one runs the migrations that it lacks. The first
migration is the baseline 0020 of version 0.2.0. Older databases are refused: commit `UPGRADES_OLDER` of this project
brings them to the baseline.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from sqlalchemy import create_mock_engine
from sqlalchemy.schema import ExecutableDDLElement

from core.errors import NoDatabase, SchemaMismatch, StoreUnusable
from core.records.learner import INSTALLATION
from core.settings import Located, Server
from core.store import text_index
from core.store.engine import Database, Distribution
from core.store.links import Covered, build
from core.store.tables import metadata
from core.store.views import create, drop

BASELINE: Final = "0020"
UPGRADES_OLDER: Final = "beef0f8edd47cad5e8bdbc265733b9d82a6c6775"
HEAD: Final = max(
    script.name.partition("_")[0]
    for script in (Path(__file__).parent / "migrations/versions").glob("[0-9]*_*.py")
)
"""Identifier of the newest migration."""
STAMP: Final = "SELECT version_num FROM alembic_version"

_FIRST_ROWS: Final = (
    # Alembic's own table: the newest migration of the database.
    "CREATE TABLE alembic_version"
    " (version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))",
    f"INSERT INTO alembic_version (version_num) VALUES ('{HEAD}')",
    # The hidden learner owns the facts about the installation.
    f"INSERT INTO learner_name (learner_id, name) VALUES (0, '{INSTALLATION}')",
    "INSERT INTO learner (learner_id, name, origin, created_at_ms, settings, revision)"
    f" VALUES (0, '{INSTALLATION}', '', 0, '{{}}', 1)",
)


def prepare(database: Database, *, create: bool) -> None:
    """Make sure that the database has our newest schema; ``create`` makes a missing database.

    Raises `NoDatabase` for a missing or empty database, `SchemaMismatch` for another schema, `StoreUnusable` for a
    database of another program.
    """
    version = _version(database)
    if version is None and not create:
        raise _empty(database.location) if _is_there(database.location) else _missing(database.location)
    if version is None:
        with database.making():
            if _version(database) is None:  # another process may have made it meanwhile
                make(database)
        return
    if version != HEAD:
        raise mismatch(database.location, (version,))


def upgrade(database: Database, *, distribute: bool = False) -> Upgraded:
    """Bring a database to the newest schema, and distribute its tables over a cluster if ``distribute``.

    A database that is up to date stays as it is, and an empty one gets its tables. Raises `NoDatabase` for a path
    without a file, `SchemaMismatch` for a schema before the baseline, or for one that this version does not know.
    """
    if not _is_there(database.location):
        raise _missing(database.location)
    with database.making():
        version = _version(database)
        if version is None:
            make(database)
        elif version < BASELINE or version > HEAD:
            raise mismatch(database.location, (version,))
        elif version != HEAD:
            migrate(database)
        distribution = database.distribute() if distribute else None
    covered = build(database)
    text_index.build_index(database)
    return Upgraded(version, HEAD, distribution, covered)


class Upgraded(NamedTuple):
    """The schema before (None = an empty database) and after, and the distribution; ``covered`` are grown chains."""

    before: str | None
    after: str
    distribution: Distribution | None = None
    covered: tuple[Covered, ...] = ()


def _is_there(location: Located) -> bool:
    """Return whether a database exists. A server without it has refused the connection before."""
    return isinstance(location, Server) or location.exists()


def _missing(location: Located) -> NoDatabase:
    return NoDatabase(
        f"There is no database at {location}.",
        next_step="Make it with: armscope import FILES (or name another with --database).",
    )


def _empty(location: Located) -> NoDatabase:
    return NoDatabase(
        f"The database at {location} is there and empty.",
        next_step="Make its tables with: armscope upgrade, or copy another into it with: armscope copy FROM TO",
    )


def mismatch(location: Located, stamp: Sequence[Any] | None) -> SchemaMismatch:
    """Return the error for the stamp of a schema that is not the newest; it names the newer side."""
    version = str(stamp[0]) if stamp else ""
    if version < BASELINE:
        return SchemaMismatch(
            f"The schema of {location} must be {BASELINE} or newer, got {version}.",
            next_step=f"In a clone of armscope, run: git checkout {UPGRADES_OLDER[:7]}, "
            f"then: armscope upgrade --database {location}. Return to this version afterwards.",
        )
    if version > HEAD:
        return SchemaMismatch(
            f"The schema of {location} must be {HEAD}, got {version} of a newer armscope; nothing was changed.",
            next_step="Install the newer armscope here, or restore a backup from before its upgrade.",
        )
    return SchemaMismatch(
        f"The schema of {location} must be {HEAD}, got {version} of an older armscope.",
        next_step="Run: armscope upgrade",
    )


def _version(database: Database) -> str | None:
    """Return the schema identifier of a database, or None for an empty one."""
    tables = database.tables()
    if not tables:
        return None
    with database.reading() as connection:
        row = connection.row(STAMP) if "alembic_version" in tables else None
    if row is None or "learner" not in tables:
        some = ", ".join(sorted(tables)[:3])
        raise StoreUnusable(
            f"{database.location} is a database of another program (tables {some}).",
            next_step="Name another file with --database; to read its data use: armscope import.",
        )
    return str(row[0])


def make(database: Database) -> None:
    """Create the newest tables in one transaction; the caller holds the lock of `Database.making`.

    The migrations lead to the same schema. They would take several times as long.
    """
    with database.migrating(create) as (transacted, connection):
        for definition in _definitions(transacted.dialect.name):
            transacted.exec_driver_sql(definition)
        for statement in _FIRST_ROWS:
            connection.run(statement)


@cache
def _definitions(dialect: str) -> tuple[str, ...]:
    """Return the statements that create all tables and indexes. To compile them takes longer than to run them."""
    definitions: list[str] = []

    def add(definition: ExecutableDDLElement, *_: object) -> None:
        definitions.append(str(definition.compile(dialect=engine.dialect)))

    engine = create_mock_engine(f"{dialect}://", add)
    metadata.create_all(engine, checkfirst=False)
    return (*definitions, *text_index.DEFINITIONS[dialect])


def migrate(database: Database) -> None:
    """Run the missing migrations in one transaction; the caller holds the lock of `Database.making`.

    The views are made again afterwards, because no table that a view reads can be changed.
    Alembic is imported here, because most databases never need it.
    """
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    with database.migrating(create) as (transacted, connection):
        drop(connection)
        config.attributes["connection"] = transacted
        try:
            command.upgrade(config, "head")
        except CommandError as problem:
            raise SchemaMismatch(
                f"{database.location} has a schema that this version of armscope does not know: {problem}.",
                next_step="Install the newer armscope that wrote it; nothing was changed.",
            ) from problem
