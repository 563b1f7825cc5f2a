"""Caches: posterior and rollups of the facts, and the effect of a change on them.

They must equal the fold of the facts, exactly. A new fact is added. Every rarer act (a run that grew, a correction,
an undo, a redo) happens inside `shifting`. It subtracts the concerned facts as they were, and adds them as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple, TypeVar

import msgspec

from core.columns import ASSIGNED, DECLARED_COIN, HELD_COIN, UNKNOWN
from core.records.arm import MICRO
from core.records.evidence import INCLUDED, NAMED, OBSERVED, REFERENCED, RETRACTED
from core.records.times import DAY_HOURS, HOUR_MS
from core.store.compacted import compacted_rollups, newest_compacted
from core.store.engine import Row
from core.store.engine.dialect import ACTIVE, BY_ARM, BY_RUN
from core.store.rollup import (
    ARM_SUMS,
    NO_SUMS,
    SUM_OF_ARM,
    Rollup,
    RunFacts,
    apply,
    hour_of,
    merged,
    prob_micro,
)
from core.store.transaction import Facts, Transaction, rebase
from core.store.version import Choice, named_key

CHUNK: Final = 2_000
"""Runs handled at a time, so that memory stays flat."""

_Item = TypeVar("_Item")

_RUN_SQL: Final = (
    "SELECT run_no, revision, at_ms, class, model, channel, status, outcome, tokens, duration_ms, choice, import_no,"
    f" session_key FROM run WHERE learner_id = ? AND revision <= ? AND {ACTIVE} AND run_no IN ({{}})"
)
_OUTCOME_SQL: Final = "SELECT run_no, arm_no, flags FROM outcome WHERE learner_id = ? AND run_no IN ({})"
_LEDGER: Final = (
    "SELECT run_no, arm_no, kind, success_micro, failure_micro, pulls, at_ms, revision FROM observation"
)
_ACTIVE_ROWS: Final = f"WHERE learner_id = ? AND undone = 0 AND {ACTIVE}"
_LEDGER_RUN_SQL: Final = (
    f"{_LEDGER} {BY_RUN} {_ACTIVE_ROWS} AND run_no <> 0 AND run_no IN ({{}}) ORDER BY observation_no"
)
_LEDGER_LOOSE_SQL: Final = (
    f"{_LEDGER} {_ACTIVE_ROWS} AND run_no = 0 AND observation_no IN ({{}}) ORDER BY observation_no"
)
_HOURS_OF_DAY: Final = ",".join("?" * DAY_HOURS)
_CHOICE: Final = msgspec.json.Decoder(Choice)


def chunks(items: Sequence[_Item], size: int = CHUNK) -> Iterator[Sequence[_Item]]:
    """Yield parts of a sequence that fit into memory."""
    return (items[start : start + size] for start in range(0, len(items), size))


def rollup_facts(facts: Facts, run_nos: Sequence[int] = (), loose: Sequence[int] = ()) -> Rollup:
    """Return the sums of active runs with all their observations, and of ledger rows about no run."""
    rollup = Rollup()

    def add_runs() -> None:
        for part in chunks(run_nos):
            _rollup_runs(rollup, facts, part)

    rows, _ = facts.together(lambda: facts.rows_in(_LEDGER_LOOSE_SQL, loose), add_runs)
    facts.epochs.load(row[1] for row in rows)
    for row in rows:
        _add_observation(rollup, row, facts.epochs.of(row[1], row[7]))
    return rollup


def run_facts(row: Row, key: int | None = None) -> RunFacts:
    """Return the facts of a row: time, class, model, channel, status, outcome, tokens, duration, choice, import.

    ``key`` is the number of its session.
    """
    *plain, stored, import_no = row
    choice = None if stored is None else _CHOICE.decode(stored)
    coin = UNKNOWN if choice is None else _coin(choice, import_no)
    return RunFacts._make(
        (*plain, ASSIGNED if key == ASSIGNED else coin, choice is not None and choice.truncated)
    )


def _coin(choice: Choice, import_no: int) -> int:
    """Return the baseline probability in millionths; imported it has `DECLARED_COIN` more, of a hold `HELD_COIN`."""
    if choice.experiment is not msgspec.UNSET:
        return ASSIGNED
    kind = (DECLARED_COIN if import_no else 0) + (HELD_COIN if choice.is_held else 0)
    return prob_micro(choice.baseline_prob) + kind


class CoinDraw(NamedTuple):
    """The draw of a run: its number and coin, and revision, limits and settings of the selection; -1 = unknown."""

    draw: int
    prob: int
    revision: int = UNKNOWN
    budget_tokens: int = UNKNOWN
    k: int = UNKNOWN
    settings_hash: str = ""


def coin_draw_of(stored: str | None, import_no: int, run_no: int) -> CoinDraw:
    """Return the draw behind a run; without a choice it is the run's own, without a coin."""
    if stored is None:
        return CoinDraw(run_no, UNKNOWN)
    choice = _CHOICE.decode(stored)
    return CoinDraw(
        named_key(choice.seed),
        _coin(choice, import_no),
        choice.revision,
        choice.budget_tokens,
        UNKNOWN if choice.k is msgspec.UNSET else choice.k,
        choice.settings_hash,
    )


def _rollup_runs(rollup: Rollup, facts: Facts, run_nos: Sequence[int]) -> None:
    runs: dict[int, Row] = {}

    def know() -> None:
        known = facts.connection.rows_in(_RUN_SQL, [facts.learner_id, facts.revision], run_nos)
        runs.update((run_no, tuple(rest)) for run_no, *rest in known)

    def beside() -> tuple[list[Row], list[Row]]:
        named = run_nos if is_one else list(runs)
        return facts.together(
            lambda: facts.rows_in(_OUTCOME_SQL, named),
            lambda: facts.rows_in(_LEDGER_RUN_SQL, named),
        )

    is_one = len(run_nos) == 1  # a single run is nearly always active; among many an inactive one is likely
    if is_one:
        _, (outcomes, ledger) = facts.together(know, beside)
        outcomes, ledger = (rows if runs else [] for rows in (outcomes, ledger))
    else:
        know()
        outcomes, ledger = beside()
    facts.epochs.load({arm_no for _, arm_no, _ in outcomes})
    for row in runs.values():
        rollup.add_run(run_facts(row[1:-1], row[-1]))
    flags_of: dict[tuple[int, int], int] = {}
    for run_no, arm_no, flags in outcomes:
        flags_of[run_no, arm_no] = flags
        revision, at_ms = runs[run_no][:2]
        _add_outcome(rollup, arm_no, facts.epochs.of(arm_no, revision), at_ms, flags)
    _rollup_ledger(rollup, facts, ledger, flags_of, {run_no: row[0] for run_no, row in runs.items()})


def _add_outcome(rollup: Rollup, arm_no: int, epoch: int, at_ms: int | None, flags: int) -> None:
    if not flags & (INCLUDED | NAMED):
        return
    key = (hour_of(at_ms), arm_no, epoch)
    if flags & OBSERVED:
        rollup.add(key, 1, 1, 0, *automatic(flags), 0, 0)
        rollup.saw(arm_no, epoch, at_ms)
    else:
        named = flags & NAMED != 0
        rollup.add(key, flags & INCLUDED, 0, 0, 0, 0, int(named), int(named and flags & REFERENCED != 0))


def _rollup_ledger(
    rollup: Rollup,
    facts: Facts,
    ledger: Iterable[Row],
    flags_of: dict[tuple[int, int], int],
    revisions: dict[int, int],
) -> None:
    """Return the sums of observations about active runs, in the runs' epochs.

    Of several corrections the latest counts, as its difference from the observation, in the hour of its submission.
    Where a repair took the observation back, the correction counts as a whole.
    """
    corrections: dict[tuple[int, int], Row] = {}
    for row in ledger:
        run_no, arm_no, kind = row[:3]
        flags = flags_of.get((run_no, arm_no), 0)
        if not flags & INCLUDED:
            continue
        if kind == "correction":
            corrections[run_no, arm_no] = row
        else:
            _add_observation(rollup, row, facts.epochs.of(arm_no, revisions[run_no]))
    for (run_no, arm_no), row in corrections.items():
        flags = flags_of[run_no, arm_no]
        if flags & OBSERVED:
            key = (hour_of(row[6]), arm_no, facts.epochs.of(arm_no, revisions[run_no]))
            rollup.correct(key, (row[3], row[4]), automatic(flags))
        elif flags & RETRACTED:
            _add_observation(rollup, row, facts.epochs.of(arm_no, revisions[run_no]))


def _add_observation(rollup: Rollup, row: Row, epoch: int) -> None:
    _, arm_no, kind, success, failure, pulls, at_ms, _ = row
    rollup.add_observation((hour_of(at_ms), arm_no, epoch), kind, pulls, (success, failure), at_ms)


def automatic(flags: int) -> tuple[int, int]:
    """Success and failure of what a run observed of an arm."""
    return (MICRO, 0) if flags & REFERENCED else (0, MICRO)


# Writing


@contextmanager
def shifting_compacted(txn: Transaction, since: int) -> Iterator[None]:
    """Update the caches with the change that the block makes to the epochs of runs compacted after a revision."""
    before = merged(compacted_rollups(txn, since))
    yield
    apply(txn, merged(compacted_rollups(txn, since)).minus(before))


@contextmanager
def shifting(txn: Transaction, run_nos: Sequence[int] = (), loose: Sequence[int] = ()) -> Iterator[None]:
    """Update the caches with any change that the block makes to these facts."""
    if not run_nos and not loose:
        yield
        return
    before = rollup_facts(txn, run_nos, loose)
    yield
    mark_runs(txn, run_nos)
    mark_observations(txn, run_nos, loose)
    after = rollup_facts(txn, run_nos, loose)
    change = after.minus(before)
    apply(txn, change)
    touched = {arm_no for _, arm_no, _ in change.arms} | {
        arm_no for arm_no, _ in before.last.keys() | after.last.keys()
    }
    refresh_last(txn, touched)


def mark_runs(txn: Transaction, run_nos: Collection[int]) -> None:
    """Mark runs as changed by this write."""
    if txn.segment is None:
        txn.connection.run_in(
            "UPDATE run SET changed = ? WHERE learner_id = ? AND run_no IN ({})",
            [txn.revision, txn.learner_id],
            sorted(run_nos),
        )


def mark_runs_of(txn: Transaction, sql: str, numbers: Iterable[int]) -> None:
    """Mark the runs that a query finds by the numbers of facts about them: their outcome may be another one."""
    if txn.segment is None:
        mark_runs(txn, txn.distinct_in(sql, sorted({*numbers})))


def mark_observations(txn: Transaction, run_nos: Collection[int], loose: Collection[int] = ()) -> None:
    """Mark the observations about runs, and others, as changed by this write."""
    if txn.segment is not None:
        return
    for column, numbers in (("run_no <> 0 AND run_no", run_nos), ("observation_no", loose)):
        txn.connection.run_in(
            f"UPDATE observation SET changed = ? WHERE learner_id = ? AND {column} IN ({{}})",
            [txn.revision, txn.learner_id],
            sorted(numbers),
        )


def restate(txn: Transaction, arm_nos: Sequence[int]) -> None:
    """After boundaries moved: give arms their present epoch, its base, and the sums that the days hold of it."""
    txn.forget()
    txn.epochs.load(arm_nos)
    epochs = {arm_no: txn.epochs.current(arm_no) for arm_no in arm_nos}
    sums: dict[tuple[int, int], Row] = {
        (arm_no, epoch): tuple(amounts)
        for arm_no, epoch, *amounts in txn.rows_in(
            f"SELECT arm_no, epoch, {SUM_OF_ARM} FROM arm_day WHERE learner_id = ? AND arm_no IN ({{}})"
            " GROUP BY arm_no, epoch",
            sorted(arm_nos),
        )
    }
    rows = [
        (epoch, *sums.get((arm_no, epoch), NO_SUMS), txn.learner_id, arm_no)
        for arm_no, epoch in epochs.items()
    ]
    txn.connection.many(
        f"UPDATE posterior SET epoch = ?, {', '.join(f'{name} = ?' for name in ARM_SUMS)}"
        " WHERE learner_id = ? AND arm_no = ?",
        rows,
    )
    rebase(txn, list(arm_nos))
    refresh_last(txn, arm_nos)


def refresh_last(txn: Transaction, arm_nos: Iterable[int]) -> None:
    """Find again when the newest counted observation of each arm's present epoch was made."""
    if txn.segment is not None:
        txn.is_last_due = True
        return
    numbers = sorted(set(arm_nos))
    txn.epochs.load(numbers)
    newest = newest_observations(txn, numbers)
    txn.connection.many(
        "UPDATE posterior SET last_at_ms = ?, changed = ? WHERE learner_id = ? AND arm_no = ? AND last_at_ms <> ?",
        [
            (last, txn.revision, txn.learner_id, arm_no, last)
            for arm_no in numbers
            for last in (newest.get(arm_no, UNKNOWN),)
        ],
    )


def newest_observations(facts: Facts, arm_nos: Sequence[int]) -> dict[int, int]:
    """Time of the newest pull of each arm's present epoch; by the rollups only its newest hours are read."""
    newest: dict[int, int] = {}
    hours: dict[int, list[int]] = defaultdict(list)
    for arm_no, hour in _newest_hours(facts, arm_nos):
        hours[hour].append(arm_no)
    queries = [partial(_rollup_of_hour, facts, hour, hours[hour]) for hour in sorted(hours)]
    for hour, rollup in zip(sorted(hours), facts.together(*queries), strict=True):
        for arm_no in hours[hour]:
            at_ms = rollup.last.get((arm_no, facts.epochs.current(arm_no)))
            if at_ms is not None:
                newest[arm_no] = at_ms
    for arm_no, at_ms in newest_compacted(facts, {*arm_nos}, hours).items():
        newest[arm_no] = max(at_ms, newest.get(arm_no, at_ms))
    return newest


def _rollup_of_hour(facts: Facts, hour: int, arm_nos: Sequence[int]) -> Rollup:
    return rollup_facts(facts, *_facts_of_hour(facts, hour, arm_nos))


def _newest_hours(facts: Facts, arm_nos: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(arm, newest hour with a pull, or part of one, in its present epoch); the days lead to the hours."""
    days = facts.rows_in(
        "SELECT arm_no, epoch, max(day) FROM arm_day WHERE learner_id = ? AND arm_no IN ({})"
        " AND pulls + part_micro > 0 AND day >= 0 GROUP BY arm_no, epoch",
        arm_nos,
    )

    def hour(arm_no: int, epoch: int, day: int) -> tuple[int, int | None]:
        ((latest,),) = facts.rows(
            f"SELECT max(+hour) FROM arm_hour WHERE learner_id = ? AND hour IN ({_HOURS_OF_DAY})"
            " AND arm_no = ? AND epoch = ? AND pulls + part_micro > 0",
            [*range(day * DAY_HOURS, (day + 1) * DAY_HOURS), arm_no, epoch],
        )
        return arm_no, latest

    queries = [partial(hour, *row) for row in days if row[1] == facts.epochs.current(row[0])]
    for arm_no, latest_hour in facts.together(*queries):
        if latest_hour is not None:
            yield arm_no, latest_hour


def _facts_of_hour(facts: Facts, hour: int, arm_nos: Sequence[int]) -> tuple[list[int], list[int]]:
    """Runs that ended in an hour, and ledger rows of it about these arms: the runs they are about, and the rest."""
    begin, end = hour * HOUR_MS, (hour + 1) * HOUR_MS
    runs, ledger = facts.together(
        lambda: facts.column(
            "SELECT run_no FROM run WHERE learner_id = ? AND revision <= ? AND at_ms >= ? AND at_ms < ?",
            [facts.revision, begin, end],
        ),
        lambda: facts.rows_in(
            f"SELECT run_no, observation_no FROM observation {BY_ARM} WHERE learner_id = ? AND arm_no IN ({{}})"
            " AND at_ms >= ? AND at_ms < ?",
            arm_nos,
            [begin, end],
        ),
    )
    about = {*runs} | {run_no for run_no, _ in ledger if run_no}
    return sorted(about), [number for run_no, number in ledger if not run_no]
