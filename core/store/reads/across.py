"""Across learners: the content of all of a database, in an order for comparing two databases."""

from __future__ import annotations

from collections.abc import Iterator

from core.store.engine import Connection, Row
from core.store.engine.words import ACTIVE

_RUNS = (
    "SELECT l.name, r.uid FROM run r JOIN learner l ON l.learner_id = r.learner_id"
    f" WHERE r.{ACTIVE} AND r.revision <= l.revision ORDER BY l.name, r.uid"
)
_ACTS = (
    "SELECT l.name, a.at_ms, a.revision, a.action, a.actor FROM audit a JOIN learner l ON l.learner_id = a.learner_id"
    " ORDER BY l.name, a.at_ms, a.revision, a.action, a.actor"
)


def n_runs_beyond(ours: Connection, theirs: Connection) -> int:
    """Return how many active runs one database has and the other lacks."""
    return _n_beyond(ours.each(_RUNS), theirs.each(_RUNS))


def n_acts_beyond(ours: Connection, theirs: Connection) -> int:
    """Return how many audit entries one database has and the other lacks."""
    return _n_beyond(ours.each(_ACTS), theirs.each(_ACTS))


def _n_beyond(ours: Iterator[Row], theirs: Iterator[Row]) -> int:
    """Return how many of the first sorted rows are not among the second."""
    n_beyond, other = 0, next(theirs, None)
    for row in ours:
        while other is not None and _rank(other) < _rank(row):
            other = next(theirs, None)
        if other == row:
            other = next(theirs, None)
        else:
            n_beyond += 1
    return n_beyond


def _rank(row: Row) -> list[tuple[int, object]]:
    """Return a row's position in the order, also for a damaged database, whose columns may hold anything."""
    kinds = ((type(None), 0), ((int, float), 1), (str, 2))
    ranks = [next((rank for kind, rank in kinds if isinstance(value, kind)), 3) for value in row]
    return [(rank, value if rank else 0) for rank, value in zip(ranks, row, strict=True)]


def n_compacted(connection: Connection) -> int:
    """Return the number of compacted runs of all learners."""
    return int(
        connection.rows(
            "SELECT coalesce(sum(c.n_runs), 0) FROM compaction c JOIN learner l ON l.learner_id = c.learner_id"
            " WHERE c.revision <= l.revision"
        )[0][0]
    )


def n_runs(connection: Connection) -> int:
    """Return the number of active runs of all learners."""
    return int(
        connection.rows(
            "SELECT count(*) FROM run r JOIN learner l ON l.learner_id = r.learner_id"
            f" WHERE r.{ACTIVE} AND r.revision <= l.revision"
        )[0][0]
    )
