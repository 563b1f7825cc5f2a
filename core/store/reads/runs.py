"""Runs: found by name, listed by number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from core.records.judged import INCLUDED, REFERENCED
from core.records.run_page import RunRow
from core.store.engine import Row
from core.store.transaction import Facts, Snapshot

_FOUND: Final = "run_no, uid, revision, standing, at_ms"
_ANSWERED: Final = "outcome <> 'empty'"


class FoundRun(NamedTuple):
    """What a reward that names a run needs of it."""

    run_no: int
    uid: str
    revision: int
    standing: bool
    at_ms: int | None


def find_run(facts: Facts, name: str) -> FoundRun | None:
    """A run by its uid, or by its number where no uid says so."""
    row = named_run(facts, name, _FOUND, _ANSWERED)
    return None if row is None else _found(row)


def run_of_uid(facts: Facts, uid: str) -> FoundRun | None:
    """A run by nothing but its uid: what a program names, or a file of another learner, whose numbers differ."""
    row = facts.connection.row(
        f"SELECT {_FOUND} FROM run WHERE learner_id = ? AND revision <= ? AND uid = ? AND {_ANSWERED}",
        [facts.learner_id, facts.revision, uid],
    )
    return None if row is None else _found(row)


def _found(row: Row) -> FoundRun:
    return FoundRun(row[0], row[1], row[2], bool(row[3]), row[4])


def named_run(facts: Facts, name: str, columns: str, wanted: str = "1 = 1") -> Row | None:
    """Columns of the run that has a uid, or the number it reads like (``#1,234``), among those wanted."""
    sql = f"SELECT {columns} FROM run WHERE learner_id = ? AND revision <= ? AND {{}} = ? AND {wanted}"
    place = [facts.learner_id, facts.revision]
    row = facts.connection.row(sql.replace("{}", "uid"), [*place, name])
    digits = name.removeprefix("#").replace(",", "")
    if row is None and digits.isascii() and digits.isdigit() and len(digits) < 18:
        row = facts.connection.row(sql.replace("{}", "run_no"), [*place, int(digits)])
    return row


def outcome_of(facts: Facts, run_no: int, arm_no: int) -> int | None:
    """Flags of an arm in a run, None where it had no part in it."""
    row = facts.connection.row(
        "SELECT flags FROM outcome WHERE learner_id = ? AND run_no = ? AND arm_no = ?",
        [facts.learner_id, run_no, arm_no],
    )
    return None if row is None else int(row[0])


def included_arms(facts: Facts, run_no: int) -> tuple[str, ...]:
    """Ids of the arms that were in the prompt of a run, by number."""
    rows = facts.connection.rows(
        "SELECT a.key FROM outcome o JOIN arm a ON a.learner_id = o.learner_id AND a.arm_no = o.arm_no"
        f" WHERE o.learner_id = ? AND o.run_no = ? AND o.flags & {INCLUDED} <> 0 ORDER BY o.arm_no",
        [facts.learner_id, run_no],
    )
    return tuple(key for (key,) in rows)


_ROWS: Final = (
    "SELECT r.run_no, r.uid, r.at_ms, r.model, r.channel, r.class, r.status, r.outcome, r.tokens,"
    " (SELECT count(*) FROM outcome o WHERE o.learner_id = r.learner_id AND o.run_no = r.run_no"
    f" AND o.flags & {INCLUDED} <> 0), (SELECT count(*) FROM outcome o WHERE o.learner_id = r.learner_id"
    f" AND o.run_no = r.run_no AND o.flags & {INCLUDED} <> 0 AND o.flags & {REFERENCED} <> 0),"
    " r.duration_ms, r.n_calls FROM ({runs}) r ORDER BY r.run_no DESC"
)
"""A few runs, each with how many arms were in its prompt and how many of those were referenced."""


def run_rows(snapshot: Snapshot, *, limit: int = 50, before: int | None = None) -> tuple[RunRow, ...]:
    """The latest standing runs by number, newest first; ``before`` pages on."""
    latest = (
        "SELECT * FROM run WHERE learner_id = ? AND revision <= ? AND standing = 1 AND outcome <> 'empty'"
        " AND run_no < ? ORDER BY run_no DESC LIMIT ?"
    )
    rows = snapshot.connection.rows(
        _ROWS.replace("{runs}", latest),
        [snapshot.learner_id, snapshot.revision, before or 1 << 62, limit],
    )
    return tuple(RunRow._make(row) for row in rows)


def rows_of(snapshot: Snapshot, run_nos: Sequence[int]) -> tuple[RunRow, ...]:
    """These runs, by number, the highest first."""
    named = "SELECT * FROM run WHERE learner_id = ? AND run_no IN ({})"
    rows = snapshot.connection.rows_in(_ROWS.replace("{runs}", named), [snapshot.learner_id], run_nos)
    return tuple(RunRow._make(row) for row in rows)


def run_count(snapshot: Snapshot) -> int:
    """How many runs were ever numbered: what a check goes through."""
    row = snapshot.connection.row("SELECT max(run_no) FROM run WHERE learner_id = ?", [snapshot.learner_id])
    return 0 if row is None or row[0] is None else int(row[0])


def numbered_runs(snapshot: Snapshot, chunk: int) -> Iterator[list[int]]:
    """Numbers of all runs, in chunks."""
    last = 0
    while True:
        rows = snapshot.connection.rows(
            "SELECT run_no FROM run WHERE learner_id = ? AND run_no > ? AND revision <= ? ORDER BY run_no LIMIT ?",
            [snapshot.learner_id, last, snapshot.revision, chunk],
        )
        if not rows:
            return
        last = rows[-1][0]
        yield [run_no for (run_no,) in rows]
