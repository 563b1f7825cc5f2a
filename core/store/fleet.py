"""Fleet: summaries of many learners from their rollups, by statements about all of them at once.

An unreadable learner (a damaged page of the file, an absent server) is separated from the others: if all can't be
read together, each half is read by itself, down to one learner. Every statement groups by ``learner_id`` alone, so
the servers of a cluster need not combine sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from core.columns import ASSIGNED
from core.errors import ArmscopeError, StoreAway, StoreError
from core.records.learner import LearnerSettings
from core.records.run import Phase
from core.records.times import DAY_HOURS, HOUR_MS
from core.store.damage import UNREADABLE
from core.store.engine import Connection
from core.store.engine.dialect import ACTIVE, BY_TIME
from core.store.engine.file_faults import damaged
from core.store.reads.log import LearnerStateKey, names_of, numbered
from core.store.store import Store
from core.store.tables import LISTED

_T = TypeVar("_T")
_HEADS: Final = (
    "SELECT learner_id, origin, settings, revision FROM learner WHERE learner_id IN ({}) AND revision > 0"
)
_DAYS: Final = (
    "SELECT learner_id, sum(n), max(CASE WHEN earlier >= 0 THEN day - earlier ELSE 0 END) FROM"
    " (SELECT learner_id, day, sum(n) AS n, lag(day) OVER (PARTITION BY learner_id ORDER BY day) AS earlier"
    " FROM usage_day WHERE learner_id IN ({}) AND outcome <> 'empty' GROUP BY learner_id, day) AS days"
    " GROUP BY learner_id"
)
"""Runs, and the longest pause between two days with runs."""
_LAST: Final = (
    "SELECT learner_id, max(last_ms) FROM (SELECT r.learner_id, max(r.at_ms) AS last_ms FROM"
    " (SELECT h.learner_id, max(h.hour) AS hour FROM"
    " (SELECT learner_id, max(day) AS day FROM usage_day WHERE learner_id IN ({}) AND outcome <> 'empty'"
    " GROUP BY learner_id) AS d JOIN usage_hour h ON h.learner_id = d.learner_id"
    f" AND h.learner_id IN ({{}}) AND h.hour >= d.day * {DAY_HOURS} AND h.outcome <> 'empty' AND h.n > 0"
    " GROUP BY h.learner_id) AS x"
    f" JOIN run r {BY_TIME} ON r.learner_id = x.learner_id AND r.at_ms >= x.hour * {HOUR_MS}"
    f" AND r.at_ms < (x.hour + 1) * {HOUR_MS} JOIN learner l ON l.learner_id = r.learner_id"
    f" WHERE r.learner_id IN ({{}}) AND l.learner_id IN ({{}}) AND r.revision <= l.revision AND r.{ACTIVE}"
    " AND r.outcome <> 'empty' GROUP BY r.learner_id UNION ALL"
    " SELECT learner_id, last_ms FROM compaction WHERE learner_id IN ({})) AS ends GROUP BY learner_id"
)
"""Query for the end of the last run, kept or compacted: days lead to the hour, and the hour to the run.

Each table names the learners, or a cluster would ask all servers.
"""
_ARMS: Final = (
    "SELECT a.learner_id, count(*) FROM arm a JOIN posterior p ON p.learner_id = a.learner_id"
    f" AND p.arm_no = a.arm_no WHERE a.learner_id IN ({{}}) AND {LISTED} GROUP BY a.learner_id"
)
_COMPARED: Final = (
    "SELECT learner_id,"
    " sum(CASE WHEN class = 'baseline' THEN n ELSE 0 END), sum(CASE WHEN class = 'baseline' THEN tokens ELSE 0 END),"
    " sum(CASE WHEN class = 'selected' THEN n ELSE 0 END), sum(CASE WHEN class = 'selected' THEN tokens ELSE 0 END)"
    f" FROM usage_day WHERE learner_id IN ({{}}) AND class IN ('baseline', 'selected') AND prob_micro <> {ASSIGNED}"
    " AND bucket >= 0 AND outcome <> 'empty' GROUP BY learner_id, model, channel, prob_micro"
    " HAVING min(class) <> max(class)"
)
"""Runs with known tokens and these, of both classes in each stratum: what savings compare."""

Compared = tuple[int, int, int, int]
"""Baseline runs and their tokens in a stratum, and selected runs and theirs."""


class _Chosen(msgspec.Struct):
    """Settings of a learner that its summary needs."""

    phase: Phase = LearnerSettings().phase


class LearnerSummaryRow(NamedTuple):
    """Summary of a learner.

    ``pause_days`` is the longest time between two days with runs. ``last_at_ms`` is the end of the last run (None:
    none has a time). ``compared`` has the strata in which both groups have runs.
    """

    origin: str
    phase: Phase
    revision: int
    n_runs: int
    n_arms: int
    last_at_ms: int | None
    pause_days: int
    compared: Sequence[Compared]


def moments(store: Store) -> dict[str, LearnerStateKey | StoreError]:
    """Return the snapshot key of every learner, by name, sorted, or why it is unknown."""
    with store.reading_all() as connection:
        named = numbered(connection)
    keys = _each(store, [*named], _moments_of)
    return {name: keys[number] for number, name in named.items() if number in keys}


def names(store: Store) -> tuple[str, ...]:
    """Return the names of all learners, sorted, readable or not."""
    with store.reading_all() as connection:
        return names_of(connection)


def glances(store: Store, learner_ids: Sequence[int]) -> dict[int, LearnerSummaryRow | StoreError]:
    """Learners by number, each at a glance, or why it can't be read; one that is gone meanwhile is left out."""
    return _each(store, learner_ids, _glances_of)


def _each(
    store: Store,
    learner_ids: Sequence[int],
    read: Callable[[Connection, Sequence[int]], Mapping[int, _T]],
) -> dict[int, _T | StoreError]:
    """Read learners together; on a failure each server's by themselves, then each half."""
    if not learner_ids:
        return {}
    try:
        with store.reading_all() as connection:
            return {**read(connection, learner_ids)}
    except (ArmscopeError, *UNREADABLE) as problem:
        parts = store.database.apart(learner_ids)
        if len(parts) < 2 and (len(learner_ids) == 1 or isinstance(problem, StoreAway)):
            return dict.fromkeys(learner_ids, _report(store, problem))
    if len(parts) < 2:
        middle = len(learner_ids) // 2
        parts = [learner_ids[:middle], learner_ids[middle:]]
    return {number: one for part in parts for number, one in _each(store, part, read).items()}


def _report(store: Store, problem: Exception) -> StoreError:
    if isinstance(problem, StoreError):
        return problem
    return damaged(store.location, f"{type(problem).__name__}: {problem}")


def _moments_of(connection: Connection, learner_ids: Sequence[int]) -> dict[int, LearnerStateKey]:
    rows = connection.rows_in(
        "SELECT learner_id, revision, token FROM learner WHERE learner_id IN ({}) AND revision > 0",
        [],
        learner_ids,
    )
    return {row[0]: LearnerStateKey(*row) for row in rows}


def _glances_of(connection: Connection, learner_ids: Sequence[int]) -> dict[int, LearnerSummaryRow]:
    def by_learner(sql: str) -> Mapping[int, Sequence[Any]]:
        return {number: rest for number, *rest in connection.rows_in(sql, [], learner_ids)}

    days, last, arms = by_learner(_DAYS), by_learner(_LAST), by_learner(_ARMS)
    compared: dict[int, list[Compared]] = {}
    for number, n_baseline, baseline, n_selected, selected in connection.rows_in(_COMPARED, [], learner_ids):
        compared.setdefault(number, []).append((n_baseline, baseline, n_selected, selected))
    summaries: dict[int, LearnerSummaryRow] = {}
    for number, origin, settings, revision in connection.rows_in(_HEADS, [], learner_ids):
        n_runs, pause_days = days.get(number, (0, 0))
        summaries[number] = LearnerSummaryRow(
            origin=origin,
            phase=msgspec.json.decode(settings, type=_Chosen).phase,
            revision=revision,
            n_runs=int(n_runs),
            n_arms=arms.get(number, (0,))[0],
            last_at_ms=last.get(number, (None,))[0],
            pause_days=pause_days,
            compared=compared.get(number, ()),
        )
    return summaries
