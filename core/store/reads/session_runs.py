"""Sessions: runs whose class a coin decided, with their sessions; all of them, or sessions drawn at random."""

from __future__ import annotations

from typing import Final

from core.columns import UNKNOWN, SessionRuns
from core.records.times import HOUR_MS
from core.store.caches import run_facts
from core.store.engine import Row
from core.store.engine.words import BY_SESSION, BY_TIME
from core.store.reads.arrays import ints
from core.store.rollup import hour_of
from core.store.transaction import Snapshot

DRAWN: Final = 10_000
"""So many runs tell how much alike the runs of one session are; of more, whole sessions are drawn."""

_ALL_KEYS: Final = 1 << 63
_EVER: Final = 1 << 60
"""A time that never comes."""
_SEEKS: Final = 10 * DRAWN
"""A span with at most so many runs is read by time; in a longer one fewer rows are met by session."""

_RUNS: Final = (
    "SELECT session_key, at_ms, class, model, channel, status, outcome, tokens, duration_ms, choice FROM run {}"
    " WHERE learner_id = ? AND revision <= ? AND session_key >= 0 AND session_key <= ? AND standing = 1"
    " AND outcome <> 'empty' {}"
)


def session_runs(
    snapshot: Snapshot, n_runs: int, *, since_ms: int | None = None, until_ms: int | None = None
) -> SessionRuns:
    """Standing baseline and selected runs of a span, which has ``n_runs`` of them; above `DRAWN` a part of them.

    The span is heeded as `usage_columns` heeds it. Session keys lie anywhere, so those below a limit are sessions
    drawn at random.
    """
    limit = _ALL_KEYS if n_runs <= DRAWN else _ALL_KEYS * DRAWN // n_runs
    rows = _rows(snapshot, n_runs, limit, since_ms, until_ms)
    facts = [run_facts(row[1:]) for row in rows]
    return SessionRuns(
        session=ints([row[0] for row in rows]),
        hour=ints([hour_of(one.at_ms) for one in facts]),
        run_class=tuple(one.run_class for one in facts),
        model=tuple(one.model or "" for one in facts),
        channel=tuple(one.channel or "" for one in facts),
        status=tuple(one.status for one in facts),
        prob_micro=ints([one.prob_micro for one in facts]),
        tokens=ints([_known(one.tokens) for one in facts]),
        duration_ms=ints([_known(one.duration_ms) for one in facts]),
        is_all=limit == _ALL_KEYS,
    )


def _rows(
    snapshot: Snapshot, n_runs: int, below: int, since_ms: int | None, until_ms: int | None
) -> list[Row]:
    """Runs of the span whose session key is below a limit; those of unknown time where the span has no start."""
    wanted = [snapshot.learner_id, snapshot.revision, min(below, _ALL_KEYS - 1)]
    if since_ms is None and until_ms is None:
        return snapshot.connection.rows(_RUNS.format(BY_SESSION, ""), wanted)
    way = BY_TIME if n_runs <= _SEEKS else BY_SESSION
    bounds = [0 if since_ms is None else _hour(since_ms), _EVER if until_ms is None else _hour(until_ms)]
    rows = snapshot.connection.rows(_RUNS.format(way, "AND at_ms >= ? AND at_ms < ?"), [*wanted, *bounds])
    if since_ms is None:
        rows += snapshot.connection.rows(_RUNS.format(BY_TIME, "AND at_ms IS NULL"), wanted)
    return rows


def _hour(at_ms: int) -> int:
    return at_ms // HOUR_MS * HOUR_MS


def _known(amount: int | None) -> int:
    return UNKNOWN if amount is None else amount
