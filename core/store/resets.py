"""Resets: boundaries between the epochs of some arms; as rows, and as the lines of an export.

Nothing is deleted. An undo removes the boundary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from core.records.arm import Arm
from core.records.corrections import Target
from core.records.evidence import OBSERVED
from core.records.ledger_lines import PlacedLine, ResetLine
from core.store.caches import restate, shifting, shifting_compacted
from core.store.engine.dialect import ACTIVE
from core.store.transaction import Byline, Snapshot, Transaction, rebase


def add_reset(
    txn: Transaction,
    arm_nos: Sequence[int],
    byline: Byline,
    *,
    target: Target,
    scope: str,
    reason: str,
    n_arms: int,
) -> int:
    """Draw a boundary for these arms at this revision; the reset's number.

    Their facts so far stay in the epoch that ends; the posterior starts again from the target.
    """
    number = txn.append_fact("reset", byline, target=target, scope=scope, reason=reason, n_arms=n_arms)
    txn.connection.many(
        "INSERT INTO reset_arm (learner_id, reset_no, arm_no) VALUES (?, ?, ?)",
        [(txn.learner_id, number, arm_no) for arm_no in sorted(arm_nos)],
    )
    txn.connection.run(
        "UPDATE posterior SET epoch = ?, success_micro = 0, failure_micro = 0, pulls = 0, part_micro = 0,"
        " inclusions = 0, n_named = 0, n_loaded = 0, last_at_ms = -1 WHERE learner_id = ? AND arm_no IN"
        " (SELECT arm_no FROM reset_arm WHERE learner_id = ? AND reset_no = ?)",
        [txn.revision, txn.learner_id, txn.learner_id, number],
    )
    txn.forget()
    rebase(txn, arm_nos)
    return number


@contextmanager
def moving_boundary(txn: Transaction, number: int, since: int) -> Iterator[None]:
    """Update caches around a change of a boundary; ``since`` is the lower of its revisions before and after."""
    arm_nos = txn.column("SELECT arm_no FROM reset_arm WHERE learner_id = ? AND reset_no = ?", [number])
    with shifting(txn, *_facts_after(txn, since, arm_nos)), shifting_compacted(txn, since):
        yield
        txn.forget()
    restate(txn, arm_nos)


def runs_before_reset(txn: Transaction) -> int:
    """Return how many runs of this revision ended before a reset of an arm of theirs; they count after it."""
    latest_ms = txn.scalar(
        int,
        "SELECT MAX(s.at_ms) FROM posterior p JOIN reset s ON s.learner_id = p.learner_id AND s.revision = p.epoch"
        " WHERE p.learner_id = ?",
    )
    if latest_ms is None:
        return 0
    return txn.count_of(
        "SELECT COUNT(*) FROM run r WHERE r.learner_id = ?1 AND r.revision = ? AND r.at_ms < ?"
        f" AND r.{ACTIVE} AND r.outcome = 'observed' AND EXISTS (SELECT 1 FROM outcome o JOIN posterior p"
        " ON p.learner_id = o.learner_id AND p.arm_no = o.arm_no"
        " JOIN reset s ON s.learner_id = p.learner_id AND s.revision = p.epoch"
        f" WHERE o.learner_id = ?1 AND o.run_no = r.run_no AND o.flags & {OBSERVED} <> 0 AND r.at_ms < s.at_ms)",
        [txn.revision, latest_ms],
    )


def _facts_after(txn: Transaction, since: int, arm_nos: Sequence[int]) -> tuple[list[int], list[int]]:
    """Runs and loose observations recorded after a revision that concern some arms."""
    runs = txn.column(
        "SELECT run_no FROM run WHERE learner_id = ? AND revision > ? AND revision <= ?",
        [since, txn.revision],
    )
    concerned = set(arm_nos)
    loose = txn.rows(
        "SELECT observation_no, arm_no FROM observation WHERE learner_id = ? AND revision > ? AND run_no = 0",
        [since],
    )
    return runs, [no for no, arm_no in loose if arm_no in concerned]


def reset_lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Return active and undone resets as lines."""
    for number, one in snapshot.acts("reset", "target", "scope", reason="nullif(t.reason, '')"):
        arms = snapshot.column(
            "SELECT a.key FROM reset_arm x JOIN arm a ON a.learner_id = x.learner_id AND a.arm_no = x.arm_no"
            " WHERE x.learner_id = ? AND x.reset_no = ? ORDER BY a.key",
            [number],
        )
        yield one["revision"], ResetLine(arms=tuple(arms), **one)


def read_reset(txn: Transaction, line: ResetLine, import_no: int) -> int:
    """Add the boundary of an imported line; return its number."""
    numbers = txn.ensure_arms([Arm(key=key) for key in line.arms])
    return add_reset(
        txn,
        sorted(set(numbers.values())),
        txn.imported(line, import_no),
        target=line.target,
        scope=line.scope or f"{len(line.arms)} arms",
        reason=line.reason or "",
        n_arms=len(line.arms),
    )
