"""Moments of arms over their sessions, from the newest runs: kept ones, and the compacted ones among them.

A compaction stores the observations of each session by arm. A session may have kept and compacted runs. Their
observations are added before squares are taken, so a compaction changes no moments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from core.columns import UNKNOWN, ArmColumns, Bools, Floats, Ints, SessionSums, ints
from core.records.arm import MICRO
from core.records.evidence import OBSERVED, REFERENCED
from core.records.judgement import ENOUGH_SESSIONS
from core.records.times import DAY_MS, HOUR_MS
from core.store.compacted import observed_rows
from core.store.engine import Row
from core.store.engine.dialect import ACTIVE
from core.store.reads.arms import places_by_number
from core.store.transaction import Snapshot
from core.store.version import named_key

RUNS_READ: Final = 30_000

_EVER: Final = 1 << 60
"""A time that never comes."""

_USED: Final = f"(o.flags & {REFERENCED}) <> 0"
_KNOWN: Final = "r.inventory <> 'inferred'"
_LEDGER_PARTS: Final = (
    "SELECT b.arm_no AS arm_no, CASE WHEN r.run_no IS NULL THEN b.actor ELSE r.session END AS session,"
    f" CASE WHEN r.run_no IS NULL THEN -1 - b.at_ms / {DAY_MS} WHEN r.session IS NULL THEN r.run_no ELSE 0 END"
    " AS part, b.success_micro + b.failure_micro AS n, b.success_micro AS good, 0 AS known, 0 AS inferred"
    " FROM observation b{posterior} LEFT JOIN run r"
    " ON r.learner_id = b.learner_id AND r.run_no = b.run_no AND b.run_no > 0"
    f" WHERE b.learner_id = ? AND b.revision <= ? AND b.at_ms < ? AND b.undone = 0 AND b.{ACTIVE}"
    f" AND b.kind <> 'correction' AND (r.run_no IS NULL OR r.{ACTIVE})"
    " AND coalesce(r.revision, b.revision) > {epoch}"
)
_RUN_PARTS: Final = (  # the sums hinder bounds and lists that SQLite would else search by, one seek each
    "SELECT o.arm_no, r.session, CASE WHEN r.session IS NULL THEN r.run_no ELSE 0 END,"
    f" CASE WHEN {_KNOWN} THEN {MICRO} ELSE 0 END, CASE WHEN {_KNOWN} AND {_USED} THEN {MICRO} ELSE 0 END,"
    f" CASE WHEN {_KNOWN} THEN 1 ELSE 0 END, CASE WHEN {_KNOWN} THEN 0 ELSE 1 END"
    " FROM run r CROSS JOIN outcome o{posterior} WHERE r.learner_id = ? AND r.run_no > ? AND r.run_no <= ?"
    f" AND r.revision <= ? AND coalesce(r.at_ms, 0) < ? AND r.{ACTIVE} AND r.outcome = 'observed'"
    f" AND o.learner_id = r.learner_id AND o.run_no = r.run_no + 0 AND (o.flags & {OBSERVED}) <> 0"
    " AND r.revision > {epoch}"
)
_OF_SESSIONS: Final = (
    f"SELECT arm_no, session, CAST(sum(n) AS double precision) / {MICRO},"
    f" CAST(sum(good) AS double precision) / {MICRO}, sum(known) FROM ({_LEDGER_PARTS} UNION ALL {_RUN_PARTS}) AS u"
    " WHERE part = 0 AND session IN ({}) GROUP BY arm_no, session"
)
_NAMES: Final = (
    "SELECT DISTINCT session FROM run WHERE learner_id = ? AND run_no > ? AND run_no <= ? AND revision <= ?"
    f" AND session IS NOT NULL AND {ACTIVE}"
)
_N_LEFT: Final = (
    "SELECT count(*) FROM run WHERE learner_id = ? AND run_no > ? AND run_no <= ? AND revision <= ?"
)
_MOMENTS: Final = (
    "SELECT arm_no, count(*) FILTER (WHERE n > 0), sum(n), sum(good), sum(n * n), sum(n * good), sum(good * good),"
    " sum(known), sum(inferred), count(*) FILTER (WHERE known > 0), sum(known * known) FROM (SELECT arm_no,"
    f" CAST(sum(n) AS double precision) / {MICRO} AS n, CAST(sum(good) AS double precision) / {MICRO} AS good,"
    f" sum(known) AS known, sum(inferred) AS inferred FROM ({_LEDGER_PARTS} UNION ALL {_RUN_PARTS}{{arms}}) AS u"
    " GROUP BY arm_no, session, part) AS s GROUP BY arm_no"
)
_POSTERIOR: Final = " JOIN posterior p ON p.learner_id = {0}.learner_id AND p.arm_no = {0}.arm_no"
MOST_NAMED = 500
"""Arms that a query names; of more it reads all."""


def session_sums(
    snapshot: Snapshot, columns: ArmColumns, mask: Bools, *, until_ms: int | None = None
) -> SessionSums:
    """Return the moments of the arms in ``mask`` over their sessions, as of a time by full hours.

    A run without a session is one of its own, and so is what one person gave on one day about no run. What was given
    about a run belongs to the run's session. Corrections are ignored: the run counts as it was first judged. Arms
    that the newest runs hardly have are read from their own newest runs.
    """
    places = np.flatnonzero(mask)
    newest, at = snapshot.together(
        lambda: _newest_run(snapshot) if len(places) else 0, lambda: places_by_number(snapshot, columns)
    )
    if not len(places) or (not newest and not snapshot.is_compacted):
        return SessionSums.of(len(columns), places[:0], np.empty(0))
    until = _EVER if until_ms is None else until_ms // HOUR_MS * HOUR_MS
    reader = _Moments(snapshot, columns, at, until, is_present=until_ms is None)
    sums = reader.of(places, newest, until)
    old = (sums[:, 0] < ENOUGH_SESSIONS) & (columns.pulls[places] > sums[:, 1])
    last_ms = int(columns.last_at_ms[places[old]].max(initial=UNKNOWN))
    if newest > RUNS_READ and last_ms != UNKNOWN:
        earlier = _newest_run(snapshot, last_ms + 1)
        sums[old] = reader.of(places[old], earlier, min(until, last_ms + 1))
    return SessionSums.of(len(columns), places, sums)


@dataclass(frozen=True)
class _Moments:
    """Reads moments over runs that ended before a time; ``at`` has the column of each arm number."""

    snapshot: Snapshot
    columns: ArmColumns
    at: Ints
    until_ms: int
    is_present: bool

    def of(self, places: Ints, newest: int, compacted_ms: int) -> Floats:
        """Return the moments of the arms at these columns, a row each: of runs up to ``newest``, and compactions."""
        runs = [self.snapshot.learner_id, newest - RUNS_READ, newest]
        compacted = self._compacted(places, runs, compacted_ms)
        split = _split_sessions(self.snapshot, compacted, runs)
        sums = compacted.moments(len(places))
        compacted = compacted.where(np.isin(compacted.session, list(split.values())))
        epochs = [None] if self.is_present else sorted(set(self.columns.epoch[places].tolist()))
        for epoch in epochs:
            mine = _all_rows(places) if epoch is None else np.flatnonzero(self.columns.epoch[places] == epoch)
            row_of = dict(zip(places[mine].tolist(), mine.tolist(), strict=True))
            numbers = np.flatnonzero(np.isin(self.at, places[mine])).tolist()
            end = [self.snapshot.revision, self.until_ms, *([] if epoch is None else [epoch])]
            head = [self.snapshot.learner_id, *end, *runs, *end]
            for arm_no, *amounts in self._rows_left(head, numbers):
                row = row_of.get(int(self.at[arm_no]))
                if row is not None:
                    sums[row] += amounts
            if split:
                sums += _joined(compacted, self._parts_left(head, row_of, split), len(places))
        return sums

    def _rows_left(self, head: list[int], numbers: list[int]) -> list[Row]:
        """Return arm number and moments of kept runs; of many arms those of all."""
        if len(numbers) > MOST_NAMED:
            return self.snapshot.connection.rows(self._of_epoch(_MOMENTS.replace("{arms}", "")), head)
        return self.snapshot.connection.rows_in(
            self._of_epoch(_MOMENTS.replace("{arms}", " AND o.arm_no + 0 IN ({})")), head, numbers
        )

    def _of_epoch(self, sql: str) -> str:
        """Return the query of present epochs, or of one epoch."""
        sql = sql.replace("{epoch}", "p.epoch" if self.is_present else "?")
        for table in ("b", "o"):
            sql = sql.replace("{posterior}", _POSTERIOR.format(table) if self.is_present else "", 1)
        return sql

    def _compacted(self, places: Ints, runs: list[int], before_ms: int) -> _SessionParts:
        """Return observations by compacted runs; with the kept runs they are at most `RUNS_READ`."""
        left = [*runs[1:], self.snapshot.revision]
        room = RUNS_READ - self.snapshot.count_of(_N_LEFT, left) if self.snapshot.is_compacted else 0
        rows = observed_rows(self.snapshot, room, before_ms)
        session, hour, segment, arm_no, known, used, inferred = rows
        row_of = np.full(len(self.columns) + 1, UNKNOWN)  # the last is of arms without a column
        row_of[places] = _all_rows(places)
        column = self.at[arm_no]
        in_epoch: Bools = segment >= self.columns.epoch[column]
        mask = (row_of[column] != UNKNOWN) & in_epoch & (hour * HOUR_MS < self.until_ms)
        return _SessionParts(
            row_of[column], session, np.array([known, used, known, inferred], np.float64)
        ).where(mask)

    def _parts_left(
        self, head: list[int], row_of: Mapping[int, int], split: Mapping[str, int]
    ) -> _SessionParts:
        """Return observations of split sessions by kept runs."""
        rows = self.snapshot.connection.rows_in(self._of_epoch(_OF_SESSIONS), head, list(split))
        parts = [
            (row_of[column], split[session], n, good, known, 0)
            for arm_no, session, n, good, known in rows
            if (column := int(self.at[arm_no])) in row_of
        ]
        row, session, *amounts = zip(*parts, strict=True) if parts else [()] * 6
        return _SessionParts(ints(row), ints(session), np.array(amounts, dtype=np.float64))


def _all_rows(places: Ints) -> Ints:
    return np.arange(len(places))


class _SessionParts(NamedTuple):
    """Observations of sessions, one part each, by row of the result; a session is 0 where each run is its own.

    The rows of ``amounts`` are observations, their sum of rewards, and observations of runs by their inventory: of a
    known one, and of an inferred one.
    """

    row: Ints
    session: Ints
    amounts: Floats

    def where(self, mask: Bools | Ints) -> _SessionParts:
        return _SessionParts(self.row[mask], self.session[mask], self.amounts[:, mask])

    def moments(self, n_rows: int) -> Floats:
        """Return the fields of `SessionSums`, one row per row of the result."""
        alone, named = self.where(self.session == 0), self.where(self.session != 0)
        k, g, _, i = (np.bincount(alone.row, one, n_rows) for one in alone.amounts)
        sums = np.stack([k, k, g, k, g, g, k, i, k, k]).astype(np.float64)
        if len(named.row):
            named = named.where(np.lexsort((named.session, named.row)))
            is_first = (np.diff(named.row) != 0) | (np.diff(named.session) != 0)
            starts = np.flatnonzero(np.append(True, is_first))
            n, good, known, inferred = np.add.reduceat(named.amounts, starts, axis=1)
            fields = [n > 0, n, good, n * n, n * good, good * good, known, inferred, known > 0, known * known]
            sums += np.stack([np.bincount(named.row[starts], one, n_rows) for one in fields])
        return np.asarray(sums.T)


def _split_sessions(snapshot: Snapshot, compacted: _SessionParts, runs: list[int]) -> dict[str, int]:
    """Return names and keys of the sessions of which some runs are compacted and others are kept."""
    keys = frozenset(compacted.session.tolist()) - {0}
    if not keys:
        return {}
    names = snapshot.connection.rows(_NAMES, [*runs, snapshot.revision])
    return {name: key for (name,) in names if (key := named_key(name)) in keys}


def _joined(compacted: _SessionParts, other: _SessionParts, n_rows: int) -> Floats:
    """Return what is missing from the sum of both moments, because their sessions are the same."""
    both = _SessionParts(
        np.append(compacted.row, other.row),
        np.append(compacted.session, other.session),
        np.append(compacted.amounts, other.amounts, axis=1),
    )
    return both.moments(n_rows) - compacted.moments(n_rows) - other.moments(n_rows)


def _newest_run(snapshot: Snapshot, until_ms: int | None = None) -> int:
    """Return the number of the latest recorded run, or of the latest one before a time; 0 = none."""
    order = "run_no" if until_ms is None else "at_ms"
    return snapshot.count_of(
        "SELECT run_no FROM run WHERE learner_id = ? AND coalesce(at_ms, 0) < ? AND revision <= ?"
        f" ORDER BY {order} DESC LIMIT 1",
        [_EVER if until_ms is None else until_ms, snapshot.revision],
    )


def has_inferred(snapshot: Snapshot) -> bool:
    """Return whether any of the newest runs has an inventory that was inferred from its calls."""
    newest = _newest_run(snapshot)
    if observed_rows(snapshot, RUNS_READ, _EVER)[-1].any():
        return True
    return snapshot.has_row(
        f"SELECT 1 FROM run WHERE learner_id = ? AND run_no > ? AND {ACTIVE} AND inventory = 'inferred' LIMIT 1",
        [newest - RUNS_READ],
    )
