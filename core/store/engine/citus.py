"""Citus: the tables of a PostgreSQL database, distributed by learner over the servers of a cluster.

The small table of learner names is on every server. Of all other tables each server has the rows of its learners. So
an act, a page and a check of one learner ask one server. Citus does the routing, moving and gathering.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Connection as Transacted
from sqlalchemy import ForeignKeyConstraint, Table, event
from sqlalchemy.schema import AddConstraint

from core.errors import InvalidInput
from core.settings import Server
from core.store.engine.port import Connection, Distribution
from core.store.tables import metadata

_HEAD: Final = "learner"
"""The table that all others lie beside."""
_EVERYWHERE: Final = "learner_name"

_REFERENCES: Final = (
    "SELECT conrelid::regclass::text, quote_ident(conname), pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE contype = 'f' AND connamespace = current_schema()::regnamespace ORDER BY 1, 2"
)
_NAMES_ARE_UNIQUE: Final = (
    "SELECT quote_ident(conname) FROM pg_constraint WHERE contype = 'u' AND conrelid = 'learner'::regclass"
)


def is_distributed(connection: Connection) -> bool:
    """Return whether the tables are distributed."""
    return _has_citus(connection) and _HEAD in _spread(connection)


def servers(connection: Connection) -> tuple[str, ...]:
    """Return the servers of a cluster that have parts of the tables; empty where one has them all."""
    return _workers(connection) if is_distributed(connection) else ()


def distribute(connection: Connection, location: Server) -> Distribution:
    """Spread what is not spread yet; raises `InvalidInput` where there is nothing to do it with."""
    if not _has_citus(connection):
        raise InvalidInput(
            f"The tables of {location} can't be distributed: the extension citus is not in this database.",
            next_step="Install Citus on each server, and in this database of each: CREATE EXTENSION citus; then name"
            " the workers to the coordinator: SELECT citus_add_node('HOST', PORT).",
        )
    if not (workers := _workers(connection)):
        raise InvalidInput(
            f"The tables of {location} can't be distributed: the coordinator knows no worker.",
            next_step="Name them to it: SELECT citus_add_node('HOST', PORT), once for each.",
        )
    there = _spread(connection)
    missing = [name for name in (*sorted(metadata.tables), "text_index") if name not in there]
    if missing:
        _distribute(connection, missing)
    return Distribution(servers=workers, n_moved=len(missing))


def _distribute(connection: Connection, missing: list[str]) -> None:
    """References between tables are put back at the end: meanwhile one of two would be spread, and the other not."""
    references = connection.rows(_REFERENCES)
    for table, name, _ in references:
        connection.run(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
    for (name,) in connection.rows(_NAMES_ARE_UNIQUE):  # as `learner_name` keeps them
        connection.run(f"ALTER TABLE learner DROP CONSTRAINT {name}")
    connection.run("SET LOCAL citus.multi_shard_modify_mode TO 'sequential'")
    if _EVERYWHERE in missing:
        connection.rows("SELECT create_reference_table(?::text::regclass)", [_EVERYWHERE])
    if _HEAD in missing:
        connection.rows("SELECT create_distributed_table(?::text::regclass, 'learner_id')", [_HEAD])
    for name in missing:
        if name not in {_EVERYWHERE, _HEAD}:
            _lay_beside(connection, name)
    for table, name, definition in references:
        connection.run(f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}")


def _lay_beside(connection: Connection, table: str) -> None:
    connection.rows(
        "SELECT create_distributed_table(quote_ident(?::text)::regclass, 'learner_id', colocate_with => 'learner')",
        [table],
    )


@contextmanager
def keeping_distributed(connection: Connection) -> Iterator[None]:
    """Distribute each table that a migration makes at once: only then can it refer to the others."""
    if not is_distributed(connection):
        yield
        return
    references: list[ForeignKeyConstraint] = []

    def without_references(table: Table, _: Transacted, **__: Any) -> None:  # noqa: ANN401 - SQLAlchemy's own
        references[:] = table.foreign_key_constraints
        table.constraints.difference_update(references)

    def spread(table: Table, transacted: Transacted, **_: Any) -> None:  # noqa: ANN401 - SQLAlchemy's own
        _lay_beside(connection, table.name)
        for reference in references:
            table.constraints.add(reference)
            transacted.execute(AddConstraint(reference))

    event.listen(Table, "before_create", without_references)
    event.listen(Table, "after_create", spread)
    try:
        yield
    finally:
        event.remove(Table, "before_create", without_references)
        event.remove(Table, "after_create", spread)


def apart(connection: Connection, learner_ids: Sequence[int]) -> Sequence[Sequence[int]]:
    """Learners by the server that has their rows, which is known without asking it."""
    if not is_distributed(connection):
        return [learner_ids]
    by_server: dict[tuple[str, int], list[int]] = {}
    for number, *server in connection.rows_in(
        "SELECT n.learner_id, p.nodename, p.nodeport FROM learner_name n JOIN pg_dist_shard_placement p"
        " ON p.shardid = get_shard_id_for_distribution_column('learner', n.learner_id)"
        " WHERE n.learner_id IN ({}) ORDER BY n.learner_id",
        [],
        learner_ids,
    ):
        by_server.setdefault((server[0], server[1]), []).append(number)
    return list(by_server.values())


def size(connection: Connection) -> int:
    """Return the size of all shards in bytes."""
    row = connection.row(
        "SELECT coalesce(sum(citus_total_relation_size(logicalrelid)), 0) FROM pg_dist_partition"
    )
    return 0 if row is None else int(row[0])


def _has_citus(connection: Connection) -> bool:
    return connection.row("SELECT 1 FROM pg_extension WHERE extname = 'citus'") is not None


def _spread(connection: Connection) -> frozenset[str]:
    rows = connection.rows(
        "SELECT c.relname FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid"
        " WHERE c.relnamespace = current_schema()::regnamespace"
    )
    return frozenset(name for (name,) in rows)


def _workers(connection: Connection) -> tuple[str, ...]:
    rows = connection.rows("SELECT node_name, node_port FROM citus_get_active_worker_nodes()")
    return tuple(sorted(f"{name}:{port}" for name, port in rows))
