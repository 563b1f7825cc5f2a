"""Evidence of some arms: what runs observed of them by day, before and after a time, and examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from core.records.judged import INCLUDED, OBSERVATION, REFERENCED, RETRACTED
from core.records.times import DAY_MS
from core.store.engine.words import ACTIVE
from core.store.transaction import Snapshot

_OF_ARMS: Final = (  # runs first, then the arms in each: the order of the tables says so
    " FROM run r CROSS JOIN outcome o JOIN posterior p ON p.learner_id = o.learner_id AND p.arm_no = o.arm_no"
    " WHERE r.learner_id = ? AND r.at_ms >= 0 AND r.revision <= ? AND r.revision > p.epoch"
    f" AND r.{ACTIVE} AND o.learner_id = r.learner_id AND o.run_no = r.run_no AND o.arm_no IN ({{}})"
)
_OBSERVED: Final = f"o.flags & {OBSERVATION} <> 0"
_USED: Final = f"{_OBSERVED} AND o.flags & {REFERENCED} <> 0"
_CHOSEN: Final = "o.class = 'selected'"
_KEY: Final = "o.arm_no, o.day, o.is_after, o.model, o.channel, o.format, o.import_no"
_GROUPS: Final = (
    f"SELECT {_KEY}, count(*) FILTER (WHERE {_OBSERVED}), count(*) FILTER (WHERE {_USED}),"
    f" count(*) FILTER (WHERE o.flags & {RETRACTED} <> 0), count(*) FILTER (WHERE {_CHOSEN}),"
    f" count(*) FILTER (WHERE {_CHOSEN} AND o.flags & {INCLUDED} <> 0)"
    f" FROM (SELECT o.arm_no, o.flags, r.class, r.format, r.import_no, r.at_ms / {DAY_MS} AS day,"
    " CASE WHEN r.at_ms >= ? THEN 1 ELSE 0 END AS is_after, coalesce(r.model, '') AS model,"
    f" coalesce(r.channel, '') AS channel{_OF_ARMS}) o GROUP BY {_KEY}"
)
_EXAMPLE: Final = f"SELECT r.run_no, r.at_ms, r.model, r.channel, r.session, o.arm_no, o.flags{_OF_ARMS}"
_AFTER: Final = f"{_EXAMPLE} AND r.at_ms >= ? AND {_OBSERVED} ORDER BY r.at_ms, r.run_no, o.arm_no LIMIT ?"
_BEFORE: Final = (
    f"{_EXAMPLE} AND r.at_ms < ? AND {_USED} ORDER BY r.at_ms DESC, r.run_no DESC, o.arm_no LIMIT ?"
)


class Group(NamedTuple):
    """Runs of one arm, day, side of the time, model, channel, format and import.

    ``n_observed``, ``n_used`` and ``n_retracted`` count observations, whether repairs took them back or not.
    ``n_chosen`` counts runs that armscope chose for, ``n_in`` those of them with the arm in the prompt.
    """

    arm_no: int
    day: int
    is_after: int
    model: str
    channel: str
    format: str
    import_no: int
    n_observed: int
    n_used: int
    n_retracted: int
    n_chosen: int
    n_in: int


class ExampleRun(NamedTuple):
    """A run that observed one of the arms."""

    run_no: int
    at_ms: int
    model: str | None
    channel: str | None
    session: str | None
    arm_no: int
    flags: int

    @property
    def is_used(self) -> bool:
        return self.flags & REFERENCED != 0


def groups_of(snapshot: Snapshot, arm_nos: Sequence[int], since_ms: int) -> list[Group]:
    """Return the runs of arms in their present epochs, in groups."""
    head = [since_ms, snapshot.learner_id, snapshot.revision]
    rows = snapshot.connection.rows_in(_GROUPS, head, sorted(arm_nos))
    return [Group._make(row) for row in sorted(rows)]


def example_runs(snapshot: Snapshot, arm_nos: Sequence[int], since_ms: int, limit: int) -> list[ExampleRun]:
    """Return the last runs before a time that used an arm, and the first ones from then on, in order of time."""
    head, tail = [snapshot.learner_id, snapshot.revision], [since_ms, limit]
    rows = [
        *snapshot.connection.rows_in(_BEFORE, head, sorted(arm_nos), tail),
        *snapshot.connection.rows_in(_AFTER, head, sorted(arm_nos), tail),
    ]
    return sorted(map(ExampleRun._make, rows), key=lambda one: (one.at_ms, one.run_no, one.arm_no))
