"""Bare: driver, prepared tuples and one transaction put on disk what armscope wrote; `differing` compares them."""

from __future__ import annotations

import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from core.columns import log_micro
from core.store.rollup import USAGE_SUMS

Row = tuple[Any, ...]

_HOUR_MS: Final = 3_600_000
_CACHES: Final = ("outcome", "observation", "arm_hour", "arm_day", "usage_hour", "usage_day", "audit")

_ADD: Final = (
    " DO UPDATE SET inclusions = inclusions + excluded.inclusions, pulls = pulls + excluded.pulls,"
    " success_micro = success_micro + excluded.success_micro,"
    " failure_micro = failure_micro + excluded.failure_micro"
)
_PUT: Final = "INSERT INTO {} VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0) ON CONFLICT"
_ADD_HOUR: Final = f"{_PUT.format('arm_hour')} (learner_id, hour, arm_no, epoch){_ADD}"
_ADD_DAY: Final = f"{_PUT.format('arm_day')} (learner_id, arm_no, epoch, day){_ADD}"
_KEY: Final = "learner_id, {0}, class, model, channel, status, outcome, prob_micro, bucket"
_USAGE: Final = (
    f"INSERT INTO usage_{{0}} ({_KEY}, {', '.join(USAGE_SUMS)})"
    f" VALUES ({', '.join('?' * (9 + len(USAGE_SUMS)))}) ON CONFLICT ({_KEY}) DO UPDATE SET "
    + ", ".join(f"{name} = {name} + excluded.{name}" for name in USAGE_SUMS)
)


class Act(NamedTuple):
    """One write: rows of facts, and what they add to the caches."""

    learner: Row
    runs: list[Row]
    outcomes: list[Row]
    observations: list[Row]
    audit: list[Row]
    arm_hours: list[Row]
    arm_days: list[Row]
    posteriors: list[Row]
    usage: list[Row]
    usage_days: list[Row]


def connect(path: Path) -> sqlite3.Connection:
    """A connection as durable as ours."""
    driver = sqlite3.connect(path, isolation_level=None)
    driver.execute("PRAGMA journal_mode=WAL")
    driver.execute("PRAGMA synchronous=FULL")
    driver.execute("PRAGMA cache_size=-65536")
    return driver


def copied(source: Path, target: Path) -> Path:
    """A copy of a database at rest."""
    with sqlite3.connect(source) as driver:
        driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    driver.close()
    shutil.copyfile(source, target)
    return target


def differing(one: Path, other: Path) -> list[str]:
    """Tables that differ: facts (all but who came when) and caches."""
    found = []
    with sqlite3.connect(one) as left, sqlite3.connect(other) as right:
        for table in (*_CACHES, "posterior", "run"):
            sql = f"SELECT * FROM {table} ORDER BY 1, 2, 3"
            if set(left.execute(sql).fetchall()) != set(right.execute(sql).fetchall()):
                found.append(table)
    left.close()
    right.close()
    return found


def acts_of_runs(path: Path, after: int) -> list[Act]:
    """One act for each run of a database beyond a number."""
    with sqlite3.connect(path) as driver:
        at = _places(driver, "run")
        runs = driver.execute("SELECT * FROM run WHERE run_no > ? ORDER BY run_no", [after]).fetchall()
        outcomes = defaultdict(list)
        for row in driver.execute("SELECT * FROM outcome WHERE run_no > ?", [after]):
            outcomes[row[1]].append(row)
    driver.close()
    return [_act_of_run(run, at, outcomes[run[1]]) for run in runs]


def acts_of_rewards(path: Path) -> list[Act]:
    """One act for each ledger row of a database."""
    with sqlite3.connect(path) as driver:
        at = _places(driver, "observation")
        ledger = driver.execute("SELECT * FROM observation ORDER BY observation_no").fetchall()
        audit = driver.execute("SELECT * FROM audit ORDER BY audit_no").fetchall()
    driver.close()
    acts = []
    for row, entry in zip(ledger, audit, strict=True):
        amounts = (row[at["pulls"]], row[at["success_micro"]], row[at["failure_micro"]])
        hour, arm_no = row[at["at_ms"]] // _HOUR_MS, row[at["arm_no"]]
        acts.append(
            Act(
                learner=(row[at["revision"]], row[1] + 1, entry[1] + 1),
                runs=[],
                outcomes=[],
                observations=[row],
                audit=[entry],
                arm_hours=[(row[0], hour, arm_no, 0, 0, *amounts)],
                arm_days=[(row[0], arm_no, 0, hour // 24, 0, *amounts)],
                posteriors=[(0, *amounts, amounts[0], row[at["at_ms"]], row[at["revision"]], row[0], arm_no)],
                usage=[],
                usage_days=[],
            )
        )
    return acts


def joined(acts: Sequence[Act]) -> Act:
    """Acts as one, caches added up."""
    arms: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0, -1])
    for act in acts:
        for row in act.posteriors:
            sums = arms[row[-1]]
            arms[row[-1]] = [
                *(one + other for one, other in zip(sums, row[:5], strict=False)),
                max(sums[5], row[5]),
            ]
    return Act(
        learner=acts[-1].learner,
        runs=_together(act.runs for act in acts),
        outcomes=_together(act.outcomes for act in acts),
        observations=_together(act.observations for act in acts),
        audit=_together(act.audit for act in acts),
        arm_hours=_added(act.arm_hours for act in acts),
        arm_days=_added(act.arm_days for act in acts),
        posteriors=[(*sums, acts[-1].learner[0], 1, arm_no) for arm_no, sums in sorted(arms.items())],
        usage=_together(act.usage for act in acts),
        usage_days=_together(act.usage_days for act in acts),
    )


def _added(parts: Iterable[list[Row]]) -> list[Row]:
    places: dict[Row, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for row in _together(parts):
        places[row[:4]] = [one + other for one, other in zip(places[row[:4]], row[4:], strict=True)]
    return [(*place, *sums) for place, sums in sorted(places.items())]


def write(driver: sqlite3.Connection, act: Act) -> None:
    """Put an act on disk."""
    driver.execute("BEGIN IMMEDIATE")
    if act.runs:
        driver.execute(
            "UPDATE learner SET revision = revision + 1, next_run_no = ? WHERE learner_id = ?", act.learner
        )
        driver.executemany(f"INSERT INTO run VALUES ({_marks(act.runs)})", act.runs)
        driver.executemany("INSERT INTO outcome VALUES (?, ?, ?, ?, ?)", act.outcomes)
    if act.observations:
        driver.execute(
            "UPDATE learner SET revision = ?, next_observation_no = ?, next_audit_no = ?", act.learner
        )
        driver.executemany(f"INSERT INTO observation VALUES ({_marks(act.observations)})", act.observations)
        driver.executemany(f"INSERT INTO audit VALUES ({_marks(act.audit)})", act.audit)
    driver.executemany(_ADD_HOUR, act.arm_hours)
    driver.executemany(_ADD_DAY, act.arm_days)
    driver.executemany(
        "UPDATE posterior SET inclusions = inclusions + ?, pulls = pulls + ?, success_micro = success_micro + ?,"
        " failure_micro = failure_micro + ?, seen = seen + ?, last_at_ms = max(last_at_ms, ?), changed = ?"
        " WHERE learner_id = ? AND arm_no = ?",
        act.posteriors,
    )
    if act.usage:
        driver.executemany(_USAGE.format("hour"), act.usage)
        driver.executemany(_USAGE.format("day"), act.usage_days)
    driver.execute("COMMIT")


def _act_of_run(run: Row, at: dict[str, int], outcomes: list[Row]) -> Act:
    at_ms, tokens, duration = run[at["at_ms"]], run[at["tokens"]], run[at["duration_ms"]]
    hour = at_ms // _HOUR_MS
    log = log_micro(tokens)
    hours, days, arms = [], [], []
    for learner_id, _, arm_no, flags, _ in outcomes:
        if flags & 1:
            success = 1_000_000 if flags & 2 else 0
            amounts = (1, 1, success, 1_000_000 - success)
            hours.append((learner_id, hour, arm_no, 0, *amounts))
            days.append((learner_id, arm_no, 0, hour // 24, *amounts))
            arms.append((*amounts, 2, at_ms, run[at["revision"]], learner_id, arm_no))
    usage = (
        run[0], hour, *(run[at[name]] for name in ("class", "model", "channel", "status", "outcome")),
        -1, (tokens.bit_length() - 1) * 8 + ((tokens << 3 >> tokens.bit_length() - 1) & 7),
        1, 0, tokens, *divmod(tokens**2, 1 << 32), log, (log**2 + 500_000) // 1_000_000,
        1, duration, *divmod(duration**2, 1 << 32),
    )  # fmt: skip
    return Act(
        (run[1] + 1, run[0]),
        [run],
        outcomes,
        [],
        [],
        hours,
        days,
        arms,
        [usage],
        [(usage[0], hour // 24, *usage[2:])],
    )


def _places(driver: sqlite3.Connection, table: str) -> dict[str, int]:
    return {row[1]: row[0] for row in driver.execute(f"PRAGMA table_info({table})")}


def _marks(rows: Sequence[Row]) -> str:
    return ", ".join("?" * len(rows[0]))


def _together(parts: Iterable[list[Row]]) -> list[Row]:
    return [row for part in parts for row in part]
