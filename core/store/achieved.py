"""Outcomes of runs by their programs: facts, and the answers to their requests."""

from __future__ import annotations

from collections.abc import Sequence

from core.records.achieved import OutcomeAnswer, OutcomeLine, outcome_payload
from core.store.caches import mark_runs_of
from core.store.engine.dialect import OUTCOMES_BY_RUN
from core.store.reads.achieved import achieved_of
from core.store.reads.runs import run_of_uid
from core.store.replies import Reply, reply_to
from core.store.transaction import Byline, Transaction


def add_outcome(txn: Transaction, run: str, value: float, byline: Byline) -> int:
    """Append the outcome of a run, named by its uid, and return its number."""
    number = txn.append_fact("achieved", byline, run=run, value=value)
    settle_outcomes(txn, [number])
    return number


def stated_outcomes(txn: Transaction, run: str) -> set[float]:
    """Return the outcomes that were ever stated of a run, undone ones included."""
    rows = txn.column(
        f"SELECT DISTINCT value FROM achieved {OUTCOMES_BY_RUN} WHERE learner_id = ? AND run = ?", [run]
    )
    return set(rows)


def settle_outcomes(txn: Transaction, numbers: Sequence[int]) -> None:
    """Mark the runs of outcomes as changed, so that lists of changes have them."""
    mark_runs_of(
        txn,
        "SELECT r.run_no FROM achieved a JOIN run r ON r.learner_id = a.learner_id AND r.uid = a.run"
        " WHERE a.learner_id = ? AND a.achieved_no IN ({})",
        numbers,
    )


def outcome_reply(txn: Transaction, line: OutcomeLine, number: int) -> Reply:
    """Return the answer to the request that made an imported outcome."""
    answer = outcome_answer(txn, line.run, line.value, before=None, number=number)
    return reply_to("outcome", number, outcome_payload(line.run, line.value), answer)


def outcome_answer(
    txn: Transaction, run: str, value: float, *, before: float | None, number: int
) -> OutcomeAnswer:
    """Return what a run, named by its uid, shows now."""
    match = run_of_uid(txn, run)
    shown = None if match is None else achieved_of(txn, [match.run_no]).get(match.run_no)
    return OutcomeAnswer(
        id=f"outcome-{number}",
        run=run,
        value=value,
        achieved=None if shown is None else shown.value,
        achieved_by=None if shown is None else shown.source,
        before=before,
    )
