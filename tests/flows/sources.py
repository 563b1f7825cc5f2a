"""Parts of each arm's belief by source, once more: a fold over plain rows, held against the product's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from core.flows.context import Context
from core.flows.queries.belief import belief_in
from core.maths.statistics.sources import observed, sources
from core.records.evidence import INCLUDED, OBSERVATION, OBSERVED, REFERENCED
from core.records.run_query import View
from core.records.times import HOUR_MS
from core.store import reads
from core.store.engine import Row
from core.store.transaction import Snapshot

MICRO = 1_000_000
OF_KIND = {"feedback": "person", "correction": "person", "evaluation": "grader", "episode": "credit"} | {
    "reported": "detector",
    "carried": "carried",
}


class Parts(NamedTuple):
    """Observed and referencing runs of an arm, and (n, alpha, beta) of each source."""

    n_observed: int
    n_referenced: int
    sums: dict[str, tuple[int, int, int]]


def check_sources(context: Context, until_ms: int | None = None) -> None:
    """The parts are those of the rows, and add up to the belief to the millionth."""
    with context.reading() as snapshot:
        columns = belief_in(snapshot, View(until_ms=until_ms)).columns
        ledger = reads.ledger_sums(snapshot, columns, until_ms=until_ms)
        expected = recounted(snapshot, until_ms)
    runs, parts = observed(columns, ledger), sources(columns, ledger)
    for index, arm in enumerate(columns.keys):
        sums = {one.source: (one.n, one.alpha_micro, one.beta_micro) for one in parts[index]}
        base = (0, int(columns.base_alpha_micro[index]), int(columns.base_beta_micro[index]))
        plain = expected[arm]
        assert sums == {"prior": base} | plain.sums, arm
        assert (int(runs.n[index]), int(runs.n_referenced[index])) == plain[:2], arm
        alpha = columns.base_alpha_micro[index] + columns.success_micro[index]
        beta = columns.base_beta_micro[index] + columns.failure_micro[index]
        assert (sum(one[1] for one in sums.values()), sum(one[2] for one in sums.values())) == (alpha, beta)


def recounted(
    snapshot: Snapshot,
    until_ms: int | None = None,
    *,
    wanted: Callable[[int, int | None], bool] = lambda _run_no, _at_ms: True,
) -> dict[str, Parts]:
    """Fold every row one by one, by full hours; only rows about ``wanted`` runs, by number (0: none)."""

    def rows(sql: str) -> list[Row]:
        return snapshot.connection.rows(sql, [snapshot.learner_id])

    end_ms = None if until_ms is None else until_ms // HOUR_MS * HOUR_MS
    names: dict[int, str] = dict(rows("SELECT arm_no, key FROM arm WHERE learner_id = ?"))
    runs = {
        no: tuple(row)
        for no, *row in rows("SELECT run_no, revision, at_ms, standing FROM run WHERE learner_id = ?")
        if row[0] <= snapshot.revision
        and wanted(no, row[1])  # an import in parts has runs that do not count yet
    }
    flags = {
        (run, arm): flag
        for run, arm, flag in rows("SELECT run_no, arm_no, flags FROM outcome WHERE learner_id = ?")
        if run in runs and runs[run][2]
    }
    epoch = _epochs(rows, until_ms)
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    sums: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0, 0]))

    def add(arm: int, source: str, n: int, success: int, failure: int) -> None:
        part = sums[names[arm]][source]
        for index, amount in enumerate((n, success, failure)):
            part[index] += amount

    for (run, arm), flag in flags.items():
        revision, at_ms, _ = runs[run]
        is_in = end_ms is None or at_ms is None or at_ms < end_ms
        if is_in and flag & INCLUDED and flag & OBSERVED and epoch(arm, revision):
            found[names[arm]][0] += 1
            found[names[arm]][1] += bool(flag & REFERENCED)
            add(arm, "detector", 1, MICRO * bool(flag & REFERENCED), MICRO * (not flag & REFERENCED))
    corrections: dict[tuple[int, int], Row] = {}
    for row in rows(
        "SELECT arm_no, run_no, kind, success_micro, failure_micro, at_ms, revision FROM observation"
        " WHERE learner_id = ? AND undone = 0 AND standing = 1 ORDER BY observation_no"
    ):
        arm, run, kind, success, failure, at_ms, revision = row
        if not (flags.get((run, arm), 0) & INCLUDED if run else wanted(0, at_ms)):
            continue
        if kind == "correction":
            corrections[run, arm] = row
        elif epoch(arm, runs[run][0] if run else revision) and (end_ms is None or at_ms < end_ms):
            add(arm, OF_KIND[kind], 1, success, failure)
    for (run, arm), (_, _, _, success, failure, at_ms, _) in corrections.items():
        flag = flags[run, arm]
        if flag & OBSERVATION and epoch(arm, runs[run][0]) and (end_ms is None or at_ms < end_ms):
            add(arm, "person", 1, success, failure)
        if flag & OBSERVED and epoch(arm, runs[run][0]) and (end_ms is None or at_ms < end_ms):
            add(arm, "detector", -1, -MICRO * bool(flag & REFERENCED), -MICRO * (not flag & REFERENCED))
    return defaultdict(
        lambda: Parts(0, 0, {}),
        {
            arm: Parts(
                found[arm][0],
                found[arm][1],
                {source: (part[0], part[1], part[2]) for source, part in sums[arm].items() if any(part)},
            )
            for arm in sums
        },
    )


def _epochs(rows: Callable[[str], list[Row]], until_ms: int | None) -> Callable[[int, int], bool]:
    """Whether a fact of an arm, by its revision, belongs to the epoch of the time."""
    boundaries: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for arm, revision, at_ms in rows(
        "SELECT a.arm_no, r.revision, r.at_ms FROM reset r JOIN reset_arm a ON a.learner_id = r.learner_id"
        " AND a.reset_no = r.reset_no WHERE r.learner_id = ? AND r.undone = 0 AND r.standing = 1"
    ):
        boundaries[arm].append((revision, at_ms))

    def is_present(arm: int, revision: int) -> bool:
        of_fact = max((one for one, _ in boundaries[arm] if one < revision), default=0)
        now = max((one for one, at_ms in boundaries[arm] if until_ms is None or at_ms < until_ms), default=0)
        return of_fact == now

    return is_present
