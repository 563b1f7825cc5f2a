"""Schema: creates an empty database, refuses an older or foreign one, upgrades on request."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from core.errors import NoDatabase, SchemaMismatch, StoreUnusable
from core.records.learner import INSTALLATION
from core.settings import Located
from core.store.engine import Connection, Database, Distribution
from core.store.refold import refold
from core.store.tables import metadata

HEAD: Final = max(
    script.name.partition("_")[0]
    for script in (Path(__file__).parent / "migrations/versions").glob("[0-9]*_*.py")
)
"""The newest migration."""


def prepare(database: Database, *, create: bool) -> None:
    """Make sure the file holds our newest schema; with ``create`` it is made where there is nothing yet.

    Raises `NoDatabase` where there is nothing, `SchemaMismatch` for another schema, `StoreUnusable` for a foreign
    file.
    """
    found = _version(database)
    if found is None and not create:
        raise NoDatabase(
            f"There is no database at {database.place}.",
            next_step="Make it with: armscope import FILES (or name another with --database).",
        )
    if found is None:
        with database.making():
            if _version(database) is None:  # nobody was quicker
                make(database)
        return
    if found != HEAD:
        raise SchemaMismatch(
            f"{database.place} has schema {found}, this version of armscope needs {HEAD}.",
            next_step="Run: armscope upgrade (an older database), or install the newer armscope that wrote it.",
        )


def upgrade(database: Database, *, distribute: bool = False) -> Upgraded:
    """Bring an older schema up to date, and spread its tables over the servers of a cluster if so told. Done already:
    nothing happens.
    """
    with database.making():
        found, n_mended = _version(database), 0
        if found is None:
            make(database)
        elif found != HEAD:
            n_mended = migrate(database)
        return Upgraded(found, HEAD, n_mended, database.distribute() if distribute else None)


class Upgraded(NamedTuple):
    """The schema before (None = there was nothing) and after, and how many texts had to be mended; where its tables
    are spread by now, if that was asked for.
    """

    before: str | None
    after: str
    n_mended: int
    distribution: Distribution | None = None


def _version(database: Database) -> str | None:
    """The schema a database holds; None where there is nothing yet."""
    tables = database.tables()
    if not tables:
        return None
    with database.reading() as connection:
        return _stamp(connection, tables, database.place)


def _stamp(connection: Connection, tables: frozenset[str], place: Located) -> str:
    row = connection.row("SELECT version_num FROM alembic_version") if "alembic_version" in tables else None
    if row is None or "learner" not in tables:
        some = ", ".join(sorted(tables)[:3])
        raise StoreUnusable(
            f"{place} is a database of another program (tables {some}).",
            next_step="Name another file with --database; to read its data use: armscope import.",
        )
    return str(row[0])


def make(database: Database) -> None:
    """Make the tables as they are by now, in one transaction. The migrations come to the same, but a new database has
    nothing that they could move, and would wait for them several times as long; for whoever is making it.
    """
    with database.migrating() as (transacted, connection):
        metadata.create_all(transacted, checkfirst=False)
        for statement in _BEGINNING:
            connection.run(statement)


_BEGINNING: Final = (
    # As Alembic keeps the newest migration that a database has seen.
    "CREATE TABLE alembic_version"
    " (version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))",
    f"INSERT INTO alembic_version (version_num) VALUES ('{HEAD}')",
    # The hidden learner, to whom belongs what is about the installation.
    f"INSERT INTO learner_name (learner_id, name) VALUES (0, '{INSTALLATION}')",
    "INSERT INTO learner (learner_id, name, origin, created_at_ms, settings, revision)"
    f" VALUES (0, '{INSTALLATION}', '', 0, '{{}}', 1)",
)


def migrate(database: Database) -> int:
    """Run the migrations, and fold what they leave to be folded, in one transaction; how many texts they mended; for
    whoever is making it.

    Alembic is imported here: most databases never need it.
    """
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    with database.migrating() as (transacted, connection):
        config.attributes["connection"] = transacted
        try:
            command.upgrade(config, "head")
        except CommandError as problem:
            raise SchemaMismatch(
                f"{database.place} has a schema that this version of armscope does not know: {problem}.",
                next_step="Install the newer armscope that wrote it; nothing was changed.",
            ) from problem
        refold(connection)
    return int(config.attributes.get("texts mended", 0))
