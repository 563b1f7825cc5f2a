"""Sessions: sums of arms by session, and new arms beside them, read from the runs.

No rollup has sessions, so the newest runs are read: at most `RUNS_READ`.

Runs by session whose class a coin decided: all of them, or randomly sampled sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np

from core.columns import (
    IN_SAMPLE,
    UNKNOWN,
    ArmColumns,
    ArmSessions,
    Ints,
    JoinedArms,
    SessionRuns,
    ints,
    is_recorded_coin,
)
from core.maths.achieved import stated
from core.records.arm import MICRO
from core.records.bill import as_read, bill_of
from core.records.evidence import INCLUDED, NAMED, OBSERVED, REFERENCED
from core.records.times import DAY_MS, HOUR_MS
from core.store.caches import CoinDraw, coin_draw_of
from core.store.compacted import decided_runs
from core.store.engine import Row
from core.store.engine.dialect import ACTIVE, BY_ARM, BY_SESSION, BY_TIME
from core.store.reads.achieved import compared_outcomes, outcomes_there_are, sampled_runs
from core.store.reads.arms import places_by_number
from core.store.reads.session_moments import RUNS_READ
from core.store.settings import SettingsInForce, settings_in_force, spent_by_run
from core.store.transaction import Snapshot
from core.store.version import TOKEN_COLUMNS, usage_rows

_CACHE_MS: Final = 300_000
"""Time that a cache lives after its last use, where no write of an hour says otherwise."""
_EVER: Final = 1 << 60
"""A time that never comes."""

_WALK: Final = (  # runs first, then the arm in each: the order of the tables says so
    f" FROM run r CROSS JOIN outcome o WHERE r.learner_id = ? AND r.at_ms >= ? AND r.at_ms < ? AND r.{ACTIVE}"
    " AND r.outcome = 'observed' AND o.learner_id = r.learner_id AND o.run_no = r.run_no"
    f" AND (o.flags & {OBSERVED}) <> 0"
)
_OF_EPOCH: Final = " AND r.revision > ? AND r.revision <= ?"
_USED: Final = f"(o.flags & {REFERENCED}) <> 0"
_SESSIONS: Final = (
    f"SELECT o.arm_no, min(r.at_ms), count(*), count(*) FILTER (WHERE {_USED}), 0, 0, coalesce(r.model, ''),"
    f" coalesce(r.channel, ''){_WALK}{_OF_EPOCH} AND o.arm_no IN ({{}}) GROUP BY o.arm_no, r.session,"
    " CASE WHEN r.session IS NULL THEN r.run_no ELSE 0 END, coalesce(r.model, ''), coalesce(r.channel, '')"
)
_REPORTED: Final = (
    "SELECT arm_no, min(at_ms), 0, 0, sum(success_micro), sum(failure_micro), '', ''"
    f" FROM observation {BY_ARM}"
    " WHERE learner_id = ? AND at_ms >= ? AND at_ms < ? AND revision > ? AND arm_no IN ({})"
    f" AND kind = 'reported' AND undone = 0 AND {ACTIVE} GROUP BY arm_no, actor, at_ms / ?"
)

_FIRST_DAYS: Final = (
    "SELECT arm_no, min(day) FROM arm_day WHERE learner_id = ? AND day >= 0 AND inclusions > 0"
    " GROUP BY arm_no"
)
_IN: Final = f"(j.flags & {INCLUDED}) <> 0"
_OUT: Final = f"r.choice IS NOT NULL AND (j.flags & {INCLUDED | NAMED}) = 0"
_BESIDE: Final = (
    f"SELECT j.arm_no, count(*) FILTER (WHERE {_IN}), count(*) FILTER (WHERE {_IN} AND {_USED}),"
    f" count(*) FILTER (WHERE {_IN} AND (j.flags & {REFERENCED}) <> 0),"
    f" count(*) FILTER (WHERE {_OUT}), count(*) FILTER (WHERE {_OUT} AND {_USED})"
    f"{_WALK.replace(' WHERE', ' CROSS JOIN outcome j WHERE', 1)}{_OF_EPOCH} AND o.arm_no = ?"
    " AND j.learner_id = r.learner_id AND j.run_no = r.run_no AND j.arm_no IN ({}) GROUP BY j.arm_no"
)

_WORDS: Final = ("run_class", "model", "channel", "status")
_OF_RUNS: Final = (
    *("session", "hour", "draw", *_WORDS, "prob_micro", "tokens", "duration_ms", "bill_pico", "bill_marks"),
    *("stated", "run_no", "revision", "budget_tokens", "k", "settings"),
)
"""Columns of `SessionRuns`, and what its outcomes are read by."""

SAMPLED: Final = 10_000
"""Number of runs that suffices for the correlation within sessions; above it whole sessions are sampled."""

_ALL_KEYS: Final = 1 << 63
_SEEKS: Final = 10 * SAMPLED
"""A span with at most so many runs is read by time; in a longer one fewer rows are met by session."""

_RUNS: Final = (
    f"SELECT session_key, coalesce(at_ms / {HOUR_MS}, {UNKNOWN}), class, coalesce(model, ''), coalesce(channel, ''),"
    f" status, coalesce(tokens, {UNKNOWN}), coalesce(duration_ms, {UNKNOWN}), choice, import_no, run_no,"
    f" coalesce(bill_pico, {UNKNOWN}), bill_marks, reward FROM run {{}}"
    f" WHERE learner_id = ? AND revision <= ? AND session_key >= 0 AND session_key <= ? AND {ACTIVE}"
    " AND outcome <> 'empty' {}"
)

_BEGUN: Final = (  # a run of n calls makes n later requests, each of which reads at most what the run itself sent
    "SELECT run_no, session_key, coalesce(model, ''), at_ms - coalesce(duration_ms, 0), CASE WHEN"
    " coalesce(cache_read_tokens, 0) > n_calls * (coalesce(input_tokens, 0) + coalesce(cache_write_tokens, 0) +"
    " coalesce(output_tokens, 0)) THEN 1 ELSE 0 END, CASE class WHEN 'baseline' THEN 1 ELSE 0 END"
    f" FROM run {BY_SESSION} WHERE learner_id = ? AND revision <= ?"
    f" AND session_key >= 0 AND session_key <= ? AND at_ms IS NOT NULL AND {ACTIVE} AND outcome <> 'empty'"
)
_TO_BOUND: Final = (
    f"SELECT run_no, bill_pico, model, at_ms, {', '.join(TOKEN_COLUMNS)} FROM run WHERE learner_id = ?"
    " AND run_no IN ({}) AND bill_pico IS NOT NULL"
)
_DEFINITIONS: Final = (
    "SELECT run_no, sum(token_cost) FROM outcome WHERE learner_id = ? AND run_no IN ({}) AND token_cost > 0"
    f" AND (flags & {INCLUDED}) <> 0 GROUP BY run_no"
)

_LATEST: Final = (
    f"SELECT session_key, at_ms, n_calls FROM run {BY_TIME} WHERE learner_id = ? AND revision <= ? AND at_ms >= 0"
    f" AND session_key >= 0 AND session <> '' AND {ACTIVE} AND outcome <> 'empty'"
    " ORDER BY at_ms DESC LIMIT ?"
)


class Walk(NamedTuple):
    """The runs to read, by their ends, and the column of each arm number."""

    since_ms: int
    until_ms: int
    at: Ints


def walk(snapshot: Snapshot, columns: ArmColumns, *, until_ms: int | None = None) -> Walk:
    """The newest runs up to a time, without it."""
    until = _EVER if until_ms is None else until_ms
    since, at = snapshot.together(
        lambda: snapshot.count_of(
            "SELECT at_ms FROM run WHERE learner_id = ? AND at_ms < ? AND revision <= ? ORDER BY at_ms DESC"
            " LIMIT 1 OFFSET ?",
            [until, snapshot.revision, RUNS_READ],
        ),
        lambda: places_by_number(snapshot, columns),
    )
    return Walk(since, until, at)


def arm_sessions(snapshot: Snapshot, columns: ArmColumns, places: Ints, walk: Walk) -> ArmSessions:
    """Return sums of these arms by session, in the epochs of the columns.

    Corrections are ignored: the run counts as it was first judged.
    """
    since, until, at = walk
    numbers = np.flatnonzero(np.isin(at, places)) if len(places) else np.empty(0, dtype=np.int64)
    queries: list[Callable[[], list[Row]]] = []
    for epoch in sorted(set(columns.epoch[at[numbers]].tolist())):
        named = [number for number in numbers.tolist() if columns.epoch[at[number]] == epoch]
        head = [snapshot.learner_id, since, until, epoch]
        queries += [
            partial(snapshot.connection.rows_in, _SESSIONS, [*head, snapshot.revision], named),
            partial(snapshot.connection.rows_in, _REPORTED, head, named, [DAY_MS]),
        ]
    rows = list(chain.from_iterable(snapshot.together(*queries)))
    *amounts, model, channel = zip(*rows, strict=True) if rows else [()] * 8
    arm_no, at_ms, n, used, success, failure = map(ints, amounts)
    strata: dict[tuple[str, str], int] = {}
    stratum = [strata.setdefault(one, len(strata)) for one in zip(model, channel, strict=True)]
    return ArmSessions(
        arm=at[arm_no] if len(arm_no) else arm_no,
        day=at_ms // DAY_MS,
        stratum=ints(stratum),
        success_micro=used * MICRO + success,
        failure_micro=(n - used) * MICRO + failure,
        since_day=None if since == 0 else since // DAY_MS,
    )


def first_days(snapshot: Snapshot) -> dict[int, int]:
    """On which day each arm, by number, was first in a prompt."""
    return dict(snapshot.rows(_FIRST_DAYS))


def joined_arms(
    snapshot: Snapshot,
    columns: ArmColumns,
    arm: str,
    *,
    days: tuple[int, int],
    since_ms: int,
    walk: Walk,
    first: Mapping[int, int],
) -> JoinedArms:
    """Return the arms that first entered a prompt between these days, later than one arm and beside it.

    ``first`` has each arm's first day. Runs from the day after a newcomer's on are compared.
    """
    at, index = walk.at, columns.places[arm]
    (number,) = np.flatnonzero(at == index).tolist()
    from_day = max(days[0], first.get(number, UNKNOWN) + 1)
    newcomers = [one for one, day in first.items() if from_day <= day <= days[1] and at[one] != UNKNOWN]
    later = {one: max(since_ms, walk.since_ms, (first[one] + 1) * DAY_MS) for one in newcomers}
    tail = [walk.until_ms, int(columns.epoch[index]), snapshot.revision, number]
    heads = {since: [snapshot.learner_id, since, *tail] for since in sorted(set(later.values()))}
    parts = snapshot.together(
        *(
            partial(
                snapshot.connection.rows_in, _BESIDE, head, [one for one in newcomers if later[one] == since]
            )
            for since, head in heads.items()
        )
    )
    rows = list(chain.from_iterable(parts))
    arm_no, *counts = map(ints, zip(*rows, strict=True) if rows else [()] * 6)
    n_with, used_with, joined_used, n_out, out_used = counts
    return JoinedArms(
        keys=tuple(columns.keys[at[one]] for one in arm_no.tolist()),
        n_with=n_with,
        n_used=used_with,
        n_joined_used=joined_used,
        n_out=n_out,
        n_out_used=out_used,
        first_day=ints([first[one] for one in arm_no.tolist()]),
    )


def session_runs(
    snapshot: Snapshot, n_runs: int, *, since_ms: int | None = None, until_ms: int | None = None
) -> SessionRuns:
    """Return active baseline and selected runs of a span with ``n_runs`` of them; above `SAMPLED` a sample.

    The span is applied as in `usage_columns`. Session keys are random, so those below a limit are a random sample of
    sessions. Compacted runs are among them. Of more than `RUNS_READ` the newest are, and then all are a sample.
    """
    limit = _ALL_KEYS - 1 if n_runs <= SAMPLED else _ALL_KEYS * SAMPLED // n_runs
    columns, in_force, (filled, samples) = snapshot.together(
        lambda: _columns(snapshot, n_runs, limit, since_ms, until_ms),
        lambda: settings_in_force(snapshot),
        lambda: outcomes_there_are(snapshot),
    )
    session, hour, run_class, model, channel, status, tokens, duration_ms, choice, *rest = columns
    import_nos, run_nos, *bills, rewards = rest
    draws = [coin_draw_of(*one) for one in zip(choice, import_nos, run_nos, strict=True)]
    draw, prob, revision, budget, k, _ = zip(*draws, strict=True) if draws else [()] * 6
    settings_nos = _settings_numbers(in_force, draws, import_nos)
    columns = [
        *(session, hour, list(draw), run_class, model, channel, status, list(prob), tokens, duration_ms),
        *(*bills, list(map(stated, rewards)), run_nos, list(revision), list(budget), list(k), settings_nos),
    ]
    if snapshot.is_compacted:
        columns = _with_compacted(snapshot, columns, limit, since_ms, until_ms)
    of: dict[str, Any] = {
        name: tuple(column) if name in _WORDS else ints(column)
        for name, column in zip(_OF_RUNS, columns, strict=True)
    }
    is_by_coin, is_baseline = (
        is_recorded_coin(of["prob_micro"]),
        np.array(of["run_class"], dtype=np.str_) == "baseline",
    )
    run_nos, paid_once = of.pop("run_no").tolist(), of.pop("stated")
    sampled = sampled_runs(snapshot, samples, np.array(run_nos, dtype=np.int64), is_baseline)
    achieved, source = compared_outcomes(
        snapshot, run_nos, paid_once, is_baseline, is_by_coin, in_sample=sampled == IN_SAMPLE, filled=filled
    )
    bounds = _bounds(snapshot, limit)
    return SessionRuns(
        **of,
        bound_pico=ints([bounds.get(number, UNKNOWN) for number in run_nos]),
        achieved=achieved,
        achieved_source=source or "",
        sampled=sampled,
        n_samples=len(samples),
        is_all=limit == _ALL_KEYS - 1 and (not snapshot.is_compacted or len(run_nos) >= n_runs),
    )


def _bounds(snapshot: Snapshot, limit: int) -> dict[int, int]:
    """Return the bills of baseline runs with their definitions read from a cache that another run left, by run.

    Empty where no session begins with such a read. A sample lacks the runs in between, so they are assumed.
    """
    if not snapshot.settings.prices:
        return {}
    columns = snapshot.connection.columns(_BEGUN, [snapshot.learner_id, snapshot.revision, limit])
    run_no, session, begun_ms, reads, is_baseline = map(ints, (*columns[:2], *columns[3:]))
    order = np.lexsort((begun_ms, session))
    if not reads[order][np.diff(session[order], prepend=UNKNOWN) != 0].any():
        return {}
    model = np.unique(np.array(columns[2], dtype=np.str_), return_inverse=True)[1]
    order = np.lexsort((begun_ms, model))
    gap = np.where(np.diff(model[order], prepend=UNKNOWN) == 0, np.diff(begun_ms[order], prepend=0), _EVER)
    gap = np.where(limit < _ALL_KEYS - 1, 0, gap)
    is_near = (gap <= HOUR_MS) & (is_baseline[order] > 0)
    gaps = dict(zip(run_no[order][is_near].tolist(), gap[is_near].tolist(), strict=True))
    near = [*gaps]
    rows, defined, spent = snapshot.together(
        lambda: snapshot.rows_in(_TO_BOUND, near),
        lambda: snapshot.rows_in(_DEFINITIONS, near),
        lambda: spent_by_run(lambda sql: snapshot.rows_in(f"{sql} AND run_no IN ({{}})", near)),
    )
    costs, bounds = dict[int, int](defined), dict[int, int]()
    for number, pico, run_model, at_ms, *tokens in rows:
        bill = spent.get(number, ()) or usage_rows(*tokens)
        lasts_ms = HOUR_MS if any(row.cache_write_1h for row in bill) else _CACHE_MS
        if gaps[number] <= lasts_ms:
            bound = bill_of(as_read(bill, costs.get(number, 0)), run_model, at_ms, snapshot.settings.prices)
            bounds[number] = min(pico, bound.pico if bound.pico is not None else pico)
    return bounds


def _settings_numbers(
    in_force: SettingsInForce, draws: Sequence[CoinDraw], import_nos: Sequence[int]
) -> list[int]:
    """Return the number of the settings that selected each run; -1 = unknown.

    Revisions of an imported run are those of its learner. So its settings are known by their hash alone.
    """
    revisions = ints([one.revision for one in draws])
    numbers = ints(in_force.number)[np.searchsorted(in_force.revision, revisions, side="right") - 1]
    numbers = np.where(revisions == UNKNOWN, UNKNOWN, numbers)
    if not any(import_nos):
        return list(numbers.tolist())
    rows = list(zip(numbers.tolist(), draws, import_nos, strict=True))
    known = {one.settings_hash: number for number, one, import_no in rows if not import_no}
    for number, one, import_no in rows:
        if import_no and number != UNKNOWN:
            known.setdefault(one.settings_hash, len(in_force.number) + len(known))
    return [
        known[one.settings_hash] if import_no and number != UNKNOWN else number
        for number, one, import_no in rows
    ]


def _with_compacted(
    snapshot: Snapshot, columns: list[list[Any]], limit: int, since_ms: int | None, until_ms: int | None
) -> list[list[Any]]:
    """Return columns of `session_runs` with the compacted runs among them, in the order of the index."""
    first = 0 if since_ms is None else since_ms // HOUR_MS
    hours = range(first, (_EVER if until_ms is None else until_ms) // HOUR_MS)
    compacted = decided_runs(snapshot, RUNS_READ - len(columns[0]), limit, hours)
    unknown = (UNKNOWN,) * 4  # revision, limits and settings of the selection
    rows = [*zip(*columns, strict=True), *((*run.columns, *unknown) for run in compacted)]
    rows.sort(key=itemgetter(0))
    return [list(column) for column in zip(*rows, strict=True)] if rows else columns


def latest_in_sessions(snapshot: Snapshot, limit: int) -> tuple[Ints, Ints, Ints]:
    """Return session, end and tool calls of the latest decided runs with a session and a time, newest first."""
    session, at_ms, n_calls = map(
        ints, snapshot.connection.columns(_LATEST, [snapshot.learner_id, snapshot.revision, limit])
    )
    return session, at_ms, n_calls


def _columns(
    snapshot: Snapshot, n_runs: int, limit: int, since_ms: int | None, until_ms: int | None
) -> list[list[Any]]:
    """Return runs of the span with session keys up to a limit; those of unknown time where the span has no start."""
    values = [snapshot.learner_id, snapshot.revision, limit]
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
