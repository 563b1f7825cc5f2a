"""Runs by session whose class a coin decided: all of them, or randomly sampled sessions."""

from __future__ import annotations

from typing import Any, Final

from core.columns import UNKNOWN, Ints, SessionRuns, coded
from core.records.times import HOUR_MS
from core.store.caches import coin_of, seed_of
from core.store.engine.words import ACTIVE, BY_SESSION, BY_TIME
from core.store.reads.arrays import ints
from core.store.transaction import Snapshot

SAMPLED: Final = 10_000
"""Number of runs that suffices for the correlation within sessions; above it whole sessions are sampled."""

_ALL_KEYS: Final = 1 << 63
_EVER: Final = 1 << 60
"""A time that never comes."""
_SEEKS: Final = 10 * SAMPLED
"""A span with at most so many runs is read by time; in a longer one fewer rows are met by session."""

_RUNS: Final = (
    f"SELECT session_key, coalesce(at_ms / {HOUR_MS}, {UNKNOWN}), class, coalesce(model, ''), coalesce(channel, ''),"
    f" status, coalesce(tokens, {UNKNOWN}), coalesce(duration_ms, {UNKNOWN}), choice, import_no, run_no,"
    f" coalesce(bill_pico, {UNKNOWN}), bill_marks FROM run {{}}"
    f" WHERE learner_id = ? AND revision <= ? AND session_key >= 0 AND session_key <= ? AND {ACTIVE}"
    " AND outcome <> 'empty' {}"
)


def session_runs(
    snapshot: Snapshot, n_runs: int, *, since_ms: int | None = None, until_ms: int | None = None
) -> SessionRuns:
    """Return active baseline and selected runs of a span with ``n_runs`` of them; above `SAMPLED` a sample.

    The span is applied as in `usage_columns`. Session keys are random, so those below a limit are a random sample of
    sessions.
    """
    limit = _ALL_KEYS if n_runs <= SAMPLED else _ALL_KEYS * SAMPLED // n_runs
    columns = _columns(snapshot, n_runs, limit, since_ms, until_ms)
    session, hour, run_class, model, channel, status, tokens, duration_ms, choice, *rest = columns
    import_nos, run_nos, bill_pico, bill_marks = rest
    return SessionRuns(
        session=ints(session),
        draw=coded(map(seed_of, choice, run_nos))[0],
        hour=ints(hour),
        run_class=tuple(run_class),
        model=tuple(model),
        channel=tuple(channel),
        status=tuple(status),
        prob_micro=ints([coin_of(*one)[0] for one in zip(choice, import_nos, strict=True)]),
        tokens=ints(tokens),
        duration_ms=ints(duration_ms),
        bill_pico=ints(bill_pico),
        bill_marks=ints(bill_marks),
        is_all=limit == _ALL_KEYS,
    )


_LATEST: Final = (
    f"SELECT session_key, at_ms, n_calls FROM run {BY_TIME} WHERE learner_id = ? AND revision <= ? AND at_ms >= 0"
    f" AND session_key IS NOT NULL AND session <> '' AND {ACTIVE} AND outcome <> 'empty'"
    " ORDER BY at_ms DESC LIMIT ?"
)


def latest_in_sessions(snapshot: Snapshot, limit: int) -> tuple[Ints, Ints, Ints]:
    """Return session, end and tool calls of the latest decided runs with a session and a time, newest first."""
    session, at_ms, n_calls = map(
        ints, snapshot.connection.columns(_LATEST, [snapshot.learner_id, snapshot.revision, limit])
    )
    return session, at_ms, n_calls


def _columns(
    snapshot: Snapshot, n_runs: int, below: int, since_ms: int | None, until_ms: int | None
) -> list[list[Any]]:
    """Runs of the span whose session key is below a limit; those of unknown time where the span has no start."""
    values = [snapshot.learner_id, snapshot.revision, min(below, _ALL_KEYS - 1)]
    if since_ms is None and until_ms is None:
        return snapshot.connection.columns(_RUNS.format(BY_SESSION, ""), values)
    way = BY_TIME if n_runs <= _SEEKS else BY_SESSION
    bounds = [0 if since_ms is None else _hour(since_ms), _EVER if until_ms is None else _hour(until_ms)]
    columns = snapshot.connection.columns(
        _RUNS.format(way, "AND at_ms >= ? AND at_ms < ?"), [*values, *bounds]
    )
    if since_ms is None:
        timeless = snapshot.connection.columns(_RUNS.format(BY_TIME, "AND at_ms IS NULL"), values)
        columns = [[*known, *more] for known, more in zip(columns, timeless, strict=True)]
    return columns


def _hour(at_ms: int) -> int:
    return at_ms // HOUR_MS * HOUR_MS
