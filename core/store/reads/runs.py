"""Runs by name and by number, and counts of runs over all learners of a database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from core.errors import NotApplicable, UnknownRun
from core.records.actor import IN_BROWSER
from core.records.evidence import INCLUDED, REFERENCED
from core.records.run_page import RunRow
from core.records.times import iso
from core.store.compacted import compacted_runs
from core.store.engine import Connection, Row
from core.store.engine.dialect import ACTIVE, OF_TRIAL, RUNS_BY_UID
from core.store.reads.achieved import achieved_of
from core.store.tables import beyond
from core.store.transaction import Facts, Snapshot

_MATCH_COLUMNS: Final = "run_no, uid, revision, standing, at_ms"
_ANSWERED: Final = "outcome <> 'empty'"

_ROWS: Final = (
    f"SELECT r.run_no, r.uid, r.at_ms, r.model, r.channel, CASE WHEN r.{OF_TRIAL} THEN 'trial' ELSE r.class END,"
    " r.status, r.outcome, r.tokens,"
    " (SELECT count(*) FROM outcome o WHERE o.learner_id = ?1 AND o.run_no = r.run_no"
    f" AND o.flags & {INCLUDED} <> 0), (SELECT count(*) FROM outcome o WHERE o.learner_id = ?1"
    f" AND o.run_no = r.run_no AND o.flags & {INCLUDED} <> 0 AND o.flags & {REFERENCED} <> 0),"
    " r.duration_ms, r.n_calls, r.session, r.changed FROM ({runs}) r ORDER BY r.run_no DESC"
)
"""A few runs, each with how many arms were in its prompt and how many of those were referenced."""

_RUNS: Final = (
    "SELECT l.name, r.uid FROM run r JOIN learner l ON l.learner_id = r.learner_id"
    f" WHERE r.{ACTIVE} AND r.revision <= l.revision ORDER BY l.name, r.uid"
)
_ACTS: Final = (
    "SELECT l.name, a.at_ms, a.revision, a.action, a.actor FROM audit a JOIN learner l ON l.learner_id = a.learner_id"
    " ORDER BY l.name, a.at_ms, a.revision, a.action, a.actor"
)
OPEN_ITEMS: Final = (
    " FROM review_hold h JOIN review_queue q ON q.learner_id = h.learner_id"
    f" AND q.review_queue_no = h.review_queue_no AND q.{ACTIVE} AND q.undone = 0"
    " JOIN review_item i ON i.learner_id = h.learner_id AND i.review_queue_no = h.review_queue_no"
    " AND i.item_no = h.item_no"
)
"""Items that reviewers hold, ``i``, with their holds ``h`` and queues ``q``."""
BY_PERSON: Final = "(h.actor = ? OR substr(h.actor, 1, length(?)) = ?)"
"""Condition of the holds of an actor, by any browser."""
_OF_EXPERIMENT: Final = '%"source":"experiment"%'
"""Pattern of the stored queries of queues that sample an experiment."""


class RunMatch(NamedTuple):
    """The columns of a run that a reward needs."""

    run_no: int
    uid: str
    revision: int
    is_active: bool
    at_ms: int | None
    is_of_trial: bool = False


def find_run(facts: Facts, name: str) -> RunMatch | None:
    """A run by its uid, or by its number where no uid says so."""
    return find_runs(facts, [name]).get(name)


def find_runs(facts: Facts, names: Collection[str]) -> dict[str, RunMatch]:
    """Return the existing runs of these names, in one request."""
    by_uid = {run.uid: run for run in _matches_by(facts, f"{RUNS_BY_UID} WHERE uid", names)}
    numbers = {name: number for name in names if name not in by_uid and (number := _number(name)) is not None}
    if not numbers:
        return by_uid
    numbered = {run.run_no: run for run in _matches_by(facts, "WHERE run_no", set(numbers.values()))}
    return by_uid | {name: numbered[number] for name, number in numbers.items() if number in numbered}


def _matches_by(facts: Facts, where: str, values: Collection[str | int]) -> Iterator[RunMatch]:
    rows = facts.connection.rows_in(
        f"SELECT {_MATCH_COLUMNS} FROM run {where} IN ({{}}) AND learner_id = ? AND revision <= ? AND {_ANSWERED}",
        [],
        sorted(values),
        [facts.learner_id, facts.revision],
    )
    return map(_match, rows)


def run_of_uid(facts: Facts, uid: str) -> RunMatch | None:
    """A run by nothing but its uid: what a program names, or a file of another learner, whose numbers differ."""
    row = facts.row(
        f"SELECT {_MATCH_COLUMNS} FROM run WHERE learner_id = ? AND revision <= ? AND uid = ? AND {_ANSWERED}",
        [facts.revision, uid],
    )
    return None if row is None else _match(row)


def _match(row: Row) -> RunMatch:
    return RunMatch(row[0], row[1], row[2], row[3] == 1, row[4], row[3] == 2)


def named_run(facts: Facts, name: str, columns: str, condition: str = "1 = 1") -> Row | None:
    """Return columns of the run with this uid or number (``#1,234``) that meets the condition."""
    sql = f"SELECT {columns} FROM run WHERE learner_id = ? AND revision <= ? AND {{}} = ? AND {condition}"
    key = [facts.learner_id, facts.revision]
    number = _number(name)
    by_uid, by_number = facts.together(
        lambda: facts.connection.row(sql.replace("{}", "uid"), [*key, name]),
        lambda: None if number is None else facts.connection.row(sql.replace("{}", "run_no"), [*key, number]),
    )
    return by_number if by_uid is None else by_uid


def missing_run(
    facts: Facts, name: str, next_step: str = "Use a uid or number that armscope runs lists."
) -> UnknownRun:
    """Return the error for a run that is not there; it says when the run was compacted."""
    run = compacted_runs(facts, [name]).get(name)
    if run is None:
        return UnknownRun(f"There is no run {name[:80]!r} in learner {facts.name!r}.", next_step=next_step)
    row = facts.row(
        "SELECT at_ms FROM compaction WHERE learner_id = ? AND compaction_no = ?", [run.compaction_no]
    )
    return UnknownRun(
        f"Run {name[:80]!r} was deleted by compact on {iso(row[0] if row else None)}; its sums count, and nothing"
        " else is left of it.",
        next_step=next_step,
    )


def _number(name: str) -> int | None:
    """Return the number that a name spells, None for another name."""
    digits = name.removeprefix("#").replace(",", "")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 18 else None


def outcome_of(facts: Facts, run_no: int, arm_no: int) -> int | None:
    """Return the flags of an arm in a run, None without an outcome."""
    return flags_of(facts, [(run_no, arm_no)]).get((run_no, arm_no))


def flags_of(facts: Facts, places: Iterable[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """Return the flags of each (run, arm) with an outcome. One statement per arm; all are sent together."""
    runs_of: dict[int, set[int]] = defaultdict(set)
    for run_no, arm_no in places:
        runs_of[arm_no].add(run_no)
    if not runs_of:
        return {}
    queries = [partial(_flags_of, facts, arm_no, runs_of[arm_no]) for arm_no in sorted(runs_of)]
    return dict(chain.from_iterable(facts.together(*queries)))


def _flags_of(facts: Facts, arm_no: int, run_nos: Collection[int]) -> list[tuple[tuple[int, int], int]]:
    rows = facts.connection.rows_in(
        "SELECT run_no, flags FROM outcome WHERE learner_id = ? AND arm_no = ? AND run_no IN ({})",
        [facts.learner_id, arm_no],
        sorted(run_nos),
    )
    return [((run_no, arm_no), flags) for run_no, flags in rows]


def included_arms(facts: Facts, run_no: int) -> dict[str, int]:
    """Return the flags of the arms in the prompt of a run by id, in the order of their numbers."""
    rows = facts.rows(
        "SELECT a.key, o.flags FROM outcome o JOIN arm a ON a.learner_id = o.learner_id AND a.arm_no = o.arm_no"
        f" WHERE o.learner_id = ? AND o.run_no = ? AND o.flags & {INCLUDED} <> 0 ORDER BY o.arm_no",
        [run_no],
    )
    return dict(rows)


def rows_of(snapshot: Snapshot, run_nos: Sequence[int]) -> tuple[RunRow, ...]:
    """These runs, by number, the highest first."""
    named = "SELECT * FROM run WHERE learner_id = ?1 AND run_no IN ({})"
    rows, achieved = snapshot.together(
        lambda: snapshot.rows_in(_ROWS.replace("{runs}", named), run_nos),
        lambda: achieved_of(snapshot, run_nos),
    )
    both = ((RunRow(*row), achieved.get(row[0])) for row in rows)
    return tuple(
        row if one is None else row._replace(achieved=one.value, achieved_by=one.source) for row, one in both
    )


def numbered_runs(snapshot: Snapshot, chunk: int) -> Iterator[list[int]]:
    """Numbers of all runs, in chunks."""
    last = 0
    while True:
        rows = snapshot.rows(
            "SELECT run_no FROM run WHERE learner_id = ? AND run_no > ? AND revision <= ? ORDER BY run_no LIMIT ?",
            [last, snapshot.revision, chunk],
        )
        if not rows:
            return
        last = beyond(last, rows[-1][0])
        yield [run_no for (run_no,) in rows]


# All learners of a database


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


def blind_runs(facts: Facts, actor: str) -> frozenset[int]:
    """Return the runs, by number, whose arms and side a reviewer may not see now.

    These are the runs of the sessions that the reviewer has open in queues of experiments.
    """
    if not facts.has_experiments:
        return frozenset()
    opened = facts.connection.rows(
        f"SELECT i.run_no, coalesce(r.session, ''){OPEN_ITEMS} JOIN run r ON r.learner_id = h.learner_id"
        f" AND r.run_no = i.run_no WHERE h.learner_id = ? AND {BY_PERSON} AND q.asks LIKE ?",
        [facts.learner_id, actor, in_browser := f"{actor}{IN_BROWSER}", in_browser, _OF_EXPERIMENT],
    )
    if not opened:
        return frozenset()
    sessions = sorted({session for _, session in opened if session})
    others = facts.distinct_in("SELECT run_no FROM run WHERE learner_id = ? AND session IN ({})", sessions)
    return frozenset({run_no for run_no, _ in opened}.union(others))


def refuse_blind(facts: Facts, run_nos: Iterable[int]) -> None:
    """Raise `NotApplicable` for an act about an arm in a run to whose arms the actor is blind."""
    blind = facts.blind if isinstance(facts, Snapshot) else blind_runs(facts, facts.actor.name)
    if not blind.isdisjoint(run_nos):
        raise NotApplicable(
            "An act about an arm in a run must wait while an item of an experiment with it is open to you.",
            next_step="Judge or skip the item first.",
        )
