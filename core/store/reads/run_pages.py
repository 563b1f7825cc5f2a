"""Run pages: filtered runs, newest first. Every page costs about the same at any depth.

Runs are ordered by time, those without one last, ties by number. A page starts at a cursor, which is a run's position
in that order, never at a count of rows. The rollups of usage know class, model, channel, status and verdict of active
runs. So they show which days and hours hold matches, and a rare filter reads only those. Two questions need a lookup
run by run: one arm's part in a run, and which runs of an hour match. At most `LOOKED_AT_MOST` runs are looked up;
then the page reports how far it searched.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from decimal import Decimal
from functools import partial
from itertools import chain, islice
from typing import Any, Final, Literal, NamedTuple, TypeVar

from core.columns import ASSIGNED, UNKNOWN
from core.records.achieved import solved_word
from core.records.evidence import INCLUDED, NAMED
from core.records.limits import LAST_MS
from core.records.run_page import Cursor, Direction, RowState, RunPage, RunRow, SessionCursor, SessionRow
from core.records.run_query import RunFilter, View
from core.records.times import DAY_HOURS, HOUR_MS
from core.store.engine import Row
from core.store.engine.dialect import ACTIVE, BY_NAME, OF_TRIAL, PRESENT
from core.store.reads.achieved import achieved_of
from core.store.reads.arms import arm_number
from core.store.reads.log import Position
from core.store.reads.runs import rows_of
from core.store.rollup import hour_of
from core.store.tables import leaving_out
from core.store.transaction import Snapshot

LOOKED_AT_MOST: Final = 5_000
"""Runs looked at for one page."""

_SOME: Final = 50
_MORE: Final = 4
"""Number of runs to start segments for where the caller names none, and the factor for each further round."""

_TOGETHER: Final = 500
"""Runs whose outcomes are read at a time."""

_EVER: Final = 1 << 40
"""An hour that never comes."""

T = TypeVar("T")
TimeUnit = Literal["day", "hour"]
Kinds = tuple[str, list[Any]]
"""SQL conditions that exclude kinds of runs, with their values."""

_SHOWN_CLASS: Final = f"CASE WHEN {OF_TRIAL} THEN 'trial' ELSE class END"
_ASSIGNED_KIND: Final = f" AND prob_micro <> {ASSIGNED}"
_ASSIGNED_RUN: Final = f" AND coalesce(session_key, {UNKNOWN}) <> {ASSIGNED}"
_LATEST: Final = f"coalesce(max(at_ms), {UNKNOWN})"


def run_page(
    snapshot: Snapshot,
    run_filter: RunFilter,
    view: View,
    *,
    cursor: Cursor | None = None,
    direction: Direction = "older",
    limit: int = 50,
    session: str | None = None,
) -> RunPage:
    """Return active runs that match, beyond ``cursor`` in a direction; without one the newest (or oldest)."""
    result = looked_up(
        snapshot, run_filter, view, cursor=cursor, direction=direction, limit=limit, session=session
    )
    return page_of(snapshot, result, direction)


class LookedUp(NamedTuple):
    """The runs of a page in order of search, and how far the search went."""

    matches: tuple[Cursor, ...]
    onward: Cursor | None
    n_looked_at: int
    cut_short: bool


def looked_up(
    snapshot: Snapshot,
    run_filter: RunFilter,
    view: View,
    *,
    cursor: Cursor | None = None,
    direction: Direction = "older",
    limit: int = 50,
    session: str | None = None,
) -> LookedUp:
    """The runs of a page."""
    matches: list[Cursor] = []
    last: Cursor | None = None
    n_looked_at = 0
    if session is None:
        candidates = _candidates(snapshot, run_filter, view, cursor, direction, n_needed=limit)
    else:
        source: Kinds = (f"{BY_NAME} WHERE learner_id = ?1 AND session = ?", [session])
        candidates = _one_by_one(snapshot, run_filter, view, source, cursor=cursor, direction=direction)
    for at_ms, run_no, fits in _achieving(snapshot, run_filter, candidates):
        if fits and len(matches) == limit:
            last = matches[-1]
            break
        n_looked_at += 1
        last = Cursor(at_ms, run_no)
        if fits:
            matches.append(last)
        if n_looked_at == LOOKED_AT_MOST:
            break
    else:
        last = None
    return LookedUp(tuple(matches), last, n_looked_at, last is not None and len(matches) < limit)


def page_of(snapshot: Snapshot, result: LookedUp, direction: Direction) -> RunPage:
    """The page of runs that were looked up, the newest first."""
    by_number = {row.run_no: row for row in rows_of(snapshot, [cursor.run_no for cursor in result.matches])}
    rows = [by_number[cursor.run_no] for cursor in result.matches]
    return RunPage(
        rows=tuple(rows if direction == "older" else reversed(rows)),
        onward=result.onward,
        n_looked_at=result.n_looked_at,
        cut_short=result.cut_short,
    )


def newest_unassigned(snapshot: Snapshot, run_filter: RunFilter, *, limit: int) -> tuple[int, ...]:
    """Return numbers of the newest matching runs, newest first, among the first `LOOKED_AT_MOST`.

    Runs of sessions that an experiment assigned are left out.
    """
    rows = _candidates(snapshot, run_filter, View(), None, "older", unless=(_ASSIGNED_KIND, _ASSIGNED_RUN))
    candidates = islice(rows, LOOKED_AT_MOST)
    looked_at = _achieving(snapshot, run_filter, candidates)
    return tuple(islice((run_no for _, run_no, fits in looked_at if fits), limit))


def newest_without_tokens(
    snapshot: Snapshot, run_filter: RunFilter, view: View, *, limit: int
) -> tuple[RunRow, ...]:
    """Return the newest matching runs that do not say their tokens, newest first."""
    unless = (f" AND bucket = {UNKNOWN}", " AND tokens IS NULL")
    rows = _candidates(snapshot, run_filter, view, None, "older", unless=unless)
    return rows_of(snapshot, list(islice((run_no for _, run_no, fits in rows if fits), limit)))


def run_numbers(
    snapshot: Snapshot, run_filter: RunFilter, view: View, direction: Direction, *, at_most: int
) -> Iterator[tuple[int, int | None]]:
    """Return number and time of active matching runs, ``at_most`` many, newest first (``older``) or oldest."""
    candidates = islice(_candidates(snapshot, run_filter, view, None, direction), at_most)
    looked_at = _achieving(snapshot, run_filter, candidates)
    return ((run_no, at_ms) for at_ms, run_no, fits in looked_at if fits)


def runs_counted(snapshot: Snapshot, run_filter: RunFilter, view: View) -> int | None:
    """Return how many runs match, from rollups of full days and of the hours around them.

    None where the filter names one arm's part, an outcome or trials, which rollups do not know.
    """
    if run_filter.arm is not None or run_filter.achieved or "trial" in run_filter.classes:
        return None
    since, until = _span(view)
    first = UNKNOWN if since == UNKNOWN else -(-since // DAY_HOURS)
    last = max(until // DAY_HOURS, first)
    kinds = _kinds(run_filter, view)
    days = _counted(snapshot, kinds, "day", (first, last))
    if since == UNKNOWN and until == _EVER:
        return days
    before = _counted(snapshot, kinds, "hour", (since, min(first * DAY_HOURS, until))) if first > 0 else 0
    return before + days + _counted(snapshot, kinds, "hour", (max(last * DAY_HOURS, since), until))


def _counted(snapshot: Snapshot, kinds: Kinds, unit: TimeUnit, within: tuple[int, int]) -> int:
    return snapshot.count_of(
        f"SELECT sum(n) FROM usage_{unit} WHERE learner_id = ? AND outcome <> 'empty'{kinds[0]}"
        f" AND {unit} >= ? AND {unit} < ?",
        [*kinds[1], *within],
    )


def _candidates(
    snapshot: Snapshot,
    run_filter: RunFilter,
    view: View,
    cursor: Cursor | None,
    direction: Direction,
    *,
    n_needed: int = _SOME,
    unless: tuple[str, str] = ("", ""),
) -> Iterator[Row]:
    """Yield (time, number, whether it matches) of runs in hours with matches; few beyond ``n_needed`` are read.

    ``unless`` are further conditions on kinds of runs and on runs.
    """
    if "trial" in run_filter.classes:  # no rollup knows these runs
        alone = f" AND {OF_TRIAL}" if {*run_filter.classes} == {"trial"} else ""
        source: Kinds = (f"WHERE learner_id = ?1{alone}", [])
        yield from _one_by_one(snapshot, run_filter, view, source, cursor=cursor, direction=direction)
        return
    arm_no = None if run_filter.arm is None else arm_number(snapshot, run_filter.arm)
    if run_filter.arm is not None and arm_no is None:
        return
    in_prompt = arm_no if run_filter.part == "in" else None
    fits, chosen = _fits(run_filter, view, arm_no, snapshot.blind)
    fits += unless[1]

    def runs_of(hour: int, _: int) -> Iterator[Row]:
        was_in = "SELECT 1 FROM arm_hour WHERE learner_id = ? AND hour = ? AND arm_no = ? AND inclusions > 0 LIMIT 1"
        if in_prompt is not None and not snapshot.has_row(was_in, [hour, in_prompt]):
            return iter(())
        sql, values = _runs_of_hour(hour, cursor, direction)
        return snapshot.each(sql.replace("{fits}", fits), [*chosen, snapshot.revision, *values])

    since, until = _span(view)
    if cursor is not None and direction == "older":
        until = min(until, hour_of(cursor.at_ms) + 1)
    elif cursor is not None:
        since = max(since, hour_of(cursor.at_ms))
    where, named = _kinds(run_filter, view)
    kinds = where + unless[0], named

    def hours_of(day: int, n: int) -> Iterator[tuple[int, int]]:
        if day == UNKNOWN:
            return iter(((UNKNOWN, n),))
        within = max(since, day * DAY_HOURS), min(until, (day + 1) * DAY_HOURS)
        return _places(snapshot, kinds, direction, "hour", within)

    days = _places(snapshot, kinds, direction, "day", (_day_of(since), _day_of(until - 1) + 1))
    if in_prompt is not None:  # days on which that arm was in no prompt are left out
        its_days = {
            *snapshot.column(
                "SELECT day FROM arm_day WHERE learner_id = ? AND arm_no = ? AND inclusions > 0", [in_prompt]
            )
        }
        days = (one for one in days if one[0] in its_days)
    hours = _one_after_the_other(snapshot, hours_of, days, n_needed)
    yield from _one_after_the_other(snapshot, runs_of, hours, n_needed)


def _achieving(snapshot: Snapshot, run_filter: RunFilter, candidates: Iterator[Row]) -> Iterator[Row]:
    """Yield the same, where only runs with one of the wanted outcomes match; read for some of them at a time."""
    if not run_filter.achieved:
        yield from candidates
        return
    while some := list(islice(candidates, _TOGETHER)):
        known = achieved_of(snapshot, [run_no for _, run_no, fits in some if fits])
        for at_ms, run_no, fits in some:
            yield at_ms, run_no, bool(fits) and solved_word(known.get(run_no)) in run_filter.achieved


def _one_by_one(
    snapshot: Snapshot,
    run_filter: RunFilter,
    view: View,
    source: Kinds,
    *,
    cursor: Cursor | None,
    direction: Direction,
) -> Iterator[Row]:
    """Yield (time, number, whether it matches) of the runs of a source, in order, by an index with their times."""
    is_older = direction == "older"
    arm_no = None if run_filter.arm is None else arm_number(snapshot, run_filter.arm)
    if run_filter.arm is not None and arm_no is None:
        return
    fits, chosen = _fits(run_filter, view, arm_no, snapshot.blind)
    since, until = _span(view)
    way, further = ("DESC", "<") if is_older else ("ASC", ">")
    sql = (
        f"SELECT at_ms, run_no, learner_id = ?1 AND {fits} FROM run {source[0]}"
        f" AND revision <= ? AND {{when}} ORDER BY at_ms {way}, run_no {way}"
    )
    dated, values = "at_ms >= ? AND at_ms < ?", [max(since, 0) * HOUR_MS, min(until * HOUR_MS, LAST_MS + 1)]
    undated, numbers = "at_ms IS NULL", list[int]()
    if cursor is not None and cursor.at_ms is not None:
        dated, values = (
            f"{dated} AND (at_ms, run_no) {further} (?, ?)",
            [*values, cursor.at_ms, cursor.run_no],
        )
    elif cursor is not None:
        undated, numbers = f"{undated} AND run_no {further} ?", [cursor.run_no]
    parts = [(dated, values), (undated, numbers)][:: 1 if is_older else -1]
    if cursor is not None and (cursor.at_ms is None) == is_older:  # the first of them lies behind
        parts = parts[1:]
    for when, bounds in parts:
        if when is not undated or view.since_ms is None:
            head = [snapshot.learner_id, *chosen, *source[1], snapshot.revision]
            yield from snapshot.connection.each(sql.replace("{when}", when), [*head, *bounds])


def changed_runs(
    snapshot: Snapshot,
    run_filter: RunFilter,
    view: View,
    after: Position,
    *,
    limit: int,
    session: str | None = None,
) -> tuple[RunRow, ...]:
    """Return the runs that changed after a position, in the order of their changes.

    Of the runs that were listed once, undone ones and those that no longer pass the filters are returned, too.
    """
    arm_no = None if run_filter.arm is None else arm_number(snapshot, run_filter.arm)
    if run_filter.arm is not None and arm_no is None:
        return ()
    fits, values = _fits(run_filter, view, arm_no)
    since, until = (hour * HOUR_MS for hour in _span(view))
    for sql, value in (
        (" AND coalesce(at_ms, -1) >= ?", None if view.since_ms is None else since),
        (" AND coalesce(at_ms, -1) < ?", None if view.until_ms is None else until),
        (" AND coalesce(session, '') = ?", session),
    ):
        if value is not None:
            fits, values = fits + sql, [*values, value]
    rows = snapshot.rows(
        f"SELECT run_no, standing, CASE WHEN learner_id = ?1 AND {fits} THEN 1 ELSE 0 END FROM run"
        f" WHERE learner_id = ?1 AND (changed, run_no) > (?, ?) AND changed <= ? AND revision <= ?"
        f" AND (({fits}) OR changed <> revision OR EXISTS (SELECT 1 FROM provenance p"
        " WHERE p.learner_id = ?1 AND p.kind = 'run' AND p.no = run.run_no)) ORDER BY changed, run_no LIMIT ?",
        [*values, *after, snapshot.revision, snapshot.revision, *values, limit],
    )
    by_number = {row.run_no: row for row in rows_of(snapshot, [run_no for run_no, *_ in rows])}
    words = run_filter.achieved
    left = {
        run_no for run_no, row in by_number.items() if words and solved_word(row.outcome_shown) not in words
    }
    states: dict[int, RowState] = {
        run_no: "active" if is_listed and run_no not in left else "gone" if is_active else "undone"
        for run_no, is_active, is_listed in rows
    }
    return tuple(by_number[run_no]._replace(state=state) for run_no, state in states.items())


def _one_after_the_other(
    snapshot: Snapshot,
    begin: Callable[[int, int], Iterator[T]],
    places: Iterator[tuple[int, int]],
    n_needed: int,
) -> Iterator[T]:
    """Yield the rows of each segment in turn; the number of runs in each is known.

    As many segments as hold the required rows are started together, and more each time. So few of them are waited
    for, however few runs each holds.
    """
    n_needed = max(n_needed, _SOME)
    while True:
        together, n = [], 0
        for start, n_runs in places:
            together.append(partial(begin, start, n_runs))
            n += n_runs
            if n > n_needed:
                break
        if not together:
            return
        yield from chain.from_iterable(snapshot.together(*together))
        n_needed *= _MORE


def _places(
    snapshot: Snapshot, kinds: Kinds, direction: Direction, unit: TimeUnit, within: tuple[int, int]
) -> Iterator[tuple[int, int]]:
    """Yield days or hours with runs of these kinds, and their numbers; days first, as rare kinds need no hours."""
    return snapshot.each(
        f"SELECT {unit}, sum(n) FROM usage_{unit} WHERE learner_id = ? AND outcome <> 'empty'{kinds[0]}"
        f" AND {unit} >= ? AND {unit} < ? GROUP BY {unit} HAVING sum(n) > 0"
        f" ORDER BY {unit} {'DESC' if direction == 'older' else 'ASC'}",
        [*kinds[1], *within],
    )


def session_rows(
    snapshot: Snapshot,
    view: View,
    *,
    limit: int,
    session: str | None = None,
    after: SessionCursor | None = None,
) -> tuple[SessionRow, ...]:
    """Return the sessions with runs in a view, the latest first; those after a cursor, or the one of a name."""
    fits, values = matching(RunFilter(), view, session)
    beyond = ""
    if after is not None:
        last_ms = UNKNOWN if after.last_ms is None else after.last_ms
        beyond = f" HAVING {_LATEST} < ? OR ({_LATEST} = ? AND session > ?)"
        values = [*values, last_ms, last_ms, after.session]
    rows = snapshot.rows(
        "SELECT session, count(*), min(at_ms), max(at_ms), sum(CASE WHEN outcome = 'observed' THEN 1 ELSE 0 END),"
        " sum(CASE WHEN status <> 'completed' THEN 1 ELSE 0 END), coalesce(sum(tokens), 0), count(tokens),"
        " coalesce(sum(bill_pico), 0), count(bill_pico), max(channel), count(DISTINCT channel), max(model),"
        " count(DISTINCT model) FROM run WHERE learner_id = ? AND session IS NOT NULL AND session <> ''"
        f" AND revision <= ? AND {fits} GROUP BY session{beyond} ORDER BY {_LATEST} DESC, session LIMIT ?",
        [snapshot.revision, *values, limit],
    )
    currency = snapshot.settings.currency
    return tuple(
        SessionRow._make([*(int(one) if isinstance(one, Decimal) else one for one in row), currency])
        for row in rows
    )


def matching(
    run_filter: RunFilter, view: View, session: str | None = None, blind: Collection[int] = ()
) -> Kinds:
    """Return the SQL condition for a run that passes filters without an arm; with a start it has a time."""
    fits, values = _fits(run_filter, view, None, blind)
    for sql, value in (
        (" AND at_ms >= ?", view.since_ms),
        (" AND coalesce(at_ms, -1) < ?", view.until_ms),
        (" AND session = ?", session),
    ):
        if value is not None:
            fits, values = fits + sql, [*values, value]
    return fits, values


def _span(view: View) -> tuple[int, int]:
    """The hours of a view; with a start, runs of unknown time are left out."""
    since = UNKNOWN if view.since_ms is None else view.since_ms // HOUR_MS
    return since, _EVER if view.until_ms is None else view.until_ms // HOUR_MS


def _day_of(hour: int) -> int:
    return UNKNOWN if hour == UNKNOWN else hour // DAY_HOURS


def _kinds(run_filter: RunFilter, view: View) -> Kinds:
    """Return the filters on kinds of runs, which the rollups know."""
    where = ""
    values: list[Any] = []
    for column, chosen in _chosen(run_filter, view):
        where += f" AND {column} IN ({','.join('?' * len(chosen))})"
        values += chosen
    return where, values


def _chosen(run_filter: RunFilter, view: View) -> list[tuple[str, tuple[str, ...]]]:
    every: list[tuple[str, tuple[str, ...]]] = [
        ("class", run_filter.classes),
        ("status", run_filter.statuses),
        ("outcome", run_filter.outcomes),
        ("model", view.models),
        ("channel", view.channels),
    ]
    return [(column, chosen) for column, chosen in every if chosen]


def _runs_of_hour(hour: int, cursor: Cursor | None, direction: Direction) -> tuple[str, list[Any]]:
    """The runs of one hour beyond the cursor, in order; by the index on time alone, and lazily."""
    way, beyond = ("DESC", "<") if direction == "older" else ("ASC", ">")
    sql = "SELECT at_ms, run_no, learner_id = ?1 AND {fits} FROM run WHERE learner_id = ?1 AND revision <= ?"
    if hour == UNKNOWN:
        # A cursor with a time lies before all of these on the way to older runs, behind them to newer ones.
        within = cursor is not None and cursor.at_ms is None
        past = f" AND run_no {beyond} ?" if within else ""
        values: list[Any] = [cursor.run_no] if cursor is not None and within else []
        return f"{sql} AND at_ms IS NULL{past} ORDER BY run_no {way}", values
    values = [hour * HOUR_MS, (hour + 1) * HOUR_MS]
    past = ""
    if cursor is not None and cursor.at_ms is not None and hour_of(cursor.at_ms) == hour:
        past, values = f" AND (at_ms, run_no) {beyond} (?, ?)", [*values, *cursor]
    return f"{sql} AND at_ms >= ? AND at_ms < ?{past} ORDER BY at_ms {way}, run_no {way}", values


def _fits(
    run_filter: RunFilter, view: View, arm_no: int | None, blind: Collection[int] = ()
) -> tuple[str, list[Any]]:
    """Return the SQL condition for a matching run; none of the ``blind`` ones matches."""
    unless, out = leaving_out("run_no", blind)
    sql = f"{PRESENT if 'trial' in run_filter.classes else ACTIVE} AND outcome <> 'empty'{unless}"
    values: list[Any] = [*out]
    for column, chosen in _chosen(run_filter, view):
        stored = _SHOWN_CLASS if column == "class" else f"coalesce({column}, '')"
        sql += f" AND {stored} IN ({','.join('?' * len(chosen))})"
        values += chosen
    if arm_no is not None:
        part = {
            "in": f" AND o.flags & {INCLUDED | NAMED} = {INCLUDED}",
            "named": f" AND o.flags & {NAMED} <> 0",
            "out": f" AND o.flags & {INCLUDED | NAMED} = 0",
        }
        sql += (
            " AND EXISTS (SELECT 1 FROM outcome o WHERE o.learner_id = ?1"
            f" AND o.run_no = run.run_no AND o.arm_no = ?{part.get(run_filter.part or '', '')})"
        )
        values.append(arm_no)
    return sql, values
