"""Crediting: counted evaluations → observations of arms, in the same transaction.

Such an observation follows from its evaluation and is no fact of its own. Its state and weight are the shares that
`core.maths.credit` computes from the evaluations of one run for one arm. It
keeps its row and number while it is inactive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Final

import msgspec

from core.maths.achieved import judged
from core.maths.credit import CreditClaim, shares
from core.maths.evaluate import grader_kind
from core.records.arm import MICRO
from core.records.evaluation import EvaluationOutcome
from core.records.evidence import INCLUDED
from core.records.observation import Amount
from core.records.verification import Difference
from core.store.caches import chunks, shifting
from core.store.engine import Row
from core.store.engine.dialect import ACTIVE, BY_RUN, EVALUATIONS_BY_RUN
from core.store.rollup import Rollup, apply, hour_of
from core.store.tables import OBSERVATION_COLUMNS
from core.store.transaction import Facts, Transaction

_COLUMNS: Final = (*OBSERVATION_COLUMNS[:-2], "evaluation_no", *OBSERVATION_COLUMNS[-2:])
CreditKey = tuple[int, int]
"""Evaluation and arm, by number."""


class Due(msgspec.Struct, frozen=True, gc=False):
    """An evaluation's present share for an arm."""

    run_no: int
    success_micro: int
    failure_micro: int
    actor: str
    at_ms: int

    @property
    def pulls(self) -> int:
        """One observation; of one that weighs less its weight is counted by itself."""
        return int(self.success_micro + self.failure_micro == MICRO)


def credit_again(txn: Transaction, run_nos: Sequence[int]) -> dict[int, list[int]]:
    """Compute shares of arms from counted evaluations again; return the active observations of each by number."""
    return _by_evaluation(credited for part in chunks(run_nos) for credited in _credit_chunk(txn, part))


def credit_first(txn: Transaction, claimed: Sequence[Row]) -> dict[int, list[int]]:
    """Do the same for runs without earlier evaluations: these are all claims, in the order of `_claimed`."""
    return _by_evaluation(_add(txn, dict(_dealt(claimed)), claimed))


def _by_evaluation(credited: Iterable[tuple[CreditKey, int]]) -> dict[int, list[int]]:
    active: dict[int, list[int]] = {}
    for (evaluation_no, _), number in credited:
        active.setdefault(evaluation_no, []).append(number)
    return active


def _add(
    txn: Transaction, new: Mapping[CreditKey, Due], claimed: Sequence[Row]
) -> list[tuple[CreditKey, int]]:
    """Write observations that are new, which only add; each with its number."""
    if not new:
        return []
    added = sorted(new.items(), key=itemgetter(0))
    numbered = _append(txn, added)
    apply(txn, _added(txn, added, {(row[2], row[3]): row[12] for row in claimed if row[12] is not None}))
    return numbered


def _credit_chunk(txn: Transaction, run_nos: Sequence[int]) -> list[tuple[CreditKey, int]]:
    """Do the same for a few runs; return the active observations with their numbers."""
    claimed = _claimed(txn, run_nos)
    shares = dict(_dealt(claimed))
    stored = credited_observations(txn, run_nos)
    active = {key: stored_share for key, (_, stored_share) in stored.items() if stored_share is not None}
    changed = {key for key, _ in shares.items() ^ active.items()}
    changed_rows = [(key, stored[key][0]) for key in shares.keys() & stored.keys()]
    if not changed:
        return changed_rows
    if not changed & stored.keys():  # what is new only adds
        return changed_rows + _add(txn, {key: shares[key] for key in changed}, claimed)
    with shifting(txn, sorted(_runs(changed, shares, run_nos))):
        known, fresh = changed & shares.keys() & stored.keys(), changed & shares.keys() - stored.keys()
        txn.connection.many(
            "UPDATE observation SET standing = 0 WHERE learner_id = ? AND observation_no = ?",
            [(txn.learner_id, stored[key][0]) for key in sorted(changed) if key not in shares],
        )
        _restate(txn, [(stored[key][0], shares[key]) for key in sorted(known)])
        return changed_rows + _append(txn, [(key, shares[key]) for key in sorted(fresh)])


def _added(
    txn: Transaction, new: Sequence[tuple[CreditKey, Due]], revisions: Mapping[CreditKey, int]
) -> Rollup:
    """Return the sums of new observations; ``revisions`` are those of the active runs that included the arm."""
    epochs = txn.epochs_of([(arm_no, revision) for (_, arm_no), revision in revisions.items()])
    epoch_of = dict(zip(revisions, epochs, strict=True))
    rollup = Rollup()
    for key, one in new:
        if key in epoch_of:
            where = (hour_of(one.at_ms), key[1], epoch_of[key])
            amounts = (one.success_micro, one.failure_micro)
            rollup.add_observation(where, "evaluation", one.pulls, amounts, one.at_ms)
    return rollup


def _runs(changed: set[CreditKey], shares: dict[CreditKey, Due], run_nos: Sequence[int]) -> set[int]:
    """The runs that are concerned; all of them where some don't say."""
    run_set = {shares[key].run_no for key in changed if key in shares}
    return run_set if changed <= shares.keys() else set(run_nos)


def due(facts: Facts, run_nos: Sequence[int]) -> dict[CreditKey, Due]:
    """Return the shares of arms from the counted evaluations of some runs."""
    return dict(_dealt(_claimed(facts, run_nos)))


def _claimed(facts: Facts, run_nos: Sequence[int]) -> list[Row]:
    """Return the claims of counted evaluations about arms, in the order of an export: later versions come last.

    The last column is the run's revision, where the run is active and included the arm.
    """
    return sorted(
        facts.connection.rows_in(
            "SELECT e.run_no, e.revision, e.evaluation_no, c.arm_no, c.weight_micro, e.rater, e.model, e.mover,"
            " e.outcome, e.score, e.actor, e.at_ms, CASE WHEN o.arm_no IS NULL THEN NULL ELSE r.revision END"
            f" FROM evaluation e {EVALUATIONS_BY_RUN}"
            " CROSS JOIN credit c"  # in this order: of one run SQLite would begin with all that was ever credited
            f" LEFT JOIN run r ON r.learner_id = e.learner_id AND r.run_no = e.run_no AND r.{ACTIVE}"
            " AND r.revision <= ?"
            " LEFT JOIN outcome o ON o.learner_id = r.learner_id AND o.run_no = r.run_no AND o.arm_no = c.arm_no"
            f" AND o.flags & {INCLUDED} <> 0"
            " WHERE e.learner_id = ? AND e.run_no <> 0 AND e.run_no IN ({}) AND e.counts = 1"
            " AND c.learner_id = e.learner_id AND c.evaluation_no = e.evaluation_no",
            [facts.revision, facts.learner_id],
            run_nos,
        ),
        key=itemgetter(0, 1, 2),
    )


def _dealt(claimed: Sequence[Row]) -> Iterator[tuple[CreditKey, Due]]:
    claims: dict[CreditKey, list[Row]] = {}
    for row in claimed:
        claims.setdefault((row[0], row[3]), []).append(row)
    for rows in claims.values():
        weights = _shares(rows) if len(rows) > 1 else None  # a single claim has no shares
        for run_no, _, number, arm_no, whole, _, _, _, outcome, score, actor, at_ms, _ in rows:
            if weight := whole if weights is None else weights.get(number):
                yield (number, arm_no), Due(run_no, *_amounts(outcome, score, weight), actor, at_ms)


def _shares(rows: Sequence[Row]) -> dict[int, int]:
    return shares([CreditClaim(row[2], grader_kind(row[5], row[6]), row[7], row[4]) for row in rows])


@lru_cache(maxsize=1_024)
def _amounts(outcome: EvaluationOutcome, score: float | None, weight: int) -> tuple[int, int]:
    """Success and failure in millionths; of ten thousand evaluations many say the same."""
    amount = Amount.of(judged(outcome, score), weight)
    return amount.success_micro, amount.failure_micro


def credited_observations(facts: Facts, run_nos: Sequence[int]) -> dict[CreditKey, tuple[int, Due | None]]:
    """Return the observations of some runs' evaluations: number and share; None = inactive."""
    rows = facts.rows_in(
        "SELECT observation_no, evaluation_no, arm_no, standing, run_no, success_micro, failure_micro, actor, at_ms"
        f" FROM observation {BY_RUN} WHERE learner_id = ? AND run_no <> 0 AND run_no IN ({{}})"
        " AND evaluation_no <> 0",
        run_nos,
    )
    return {
        (evaluation_no, arm_no): (number, Due(*share) if active else None)
        for number, evaluation_no, arm_no, active, *share in rows
    }


def unlike_evaluations(facts: Facts) -> Iterator[Difference]:
    """Check that observations of evaluations have their actor, time and reward, and weigh no more than their credit.

    That holds for inactive ones too. Their weights are those of the time when they were active.
    """
    for number, success, failure, actor, at_ms, outcome, score, by, judged_ms, most in facts.each(
        "SELECT b.observation_no, b.success_micro, b.failure_micro, b.actor, b.at_ms, e.outcome, e.score, e.actor,"
        " e.at_ms, c.weight_micro FROM observation b"
        " JOIN evaluation e ON e.learner_id = b.learner_id AND e.evaluation_no = b.evaluation_no"
        " LEFT JOIN credit c ON c.learner_id = b.learner_id AND c.evaluation_no = b.evaluation_no"
        " AND c.arm_no = b.arm_no WHERE b.learner_id = ? AND b.evaluation_no <> 0"
    ):
        weight = success + failure
        stored, expected = (
            (success, failure, actor, at_ms),
            (*_amounts(outcome, score, weight), by, judged_ms),
        )
        if stored != expected or most is None or weight > most:
            yield Difference("observation", str(number), str(stored), f"{expected} of {most} at most")


def _restate(txn: Transaction, changed: Sequence[tuple[int, Due]]) -> None:
    txn.connection.many(
        f"UPDATE observation SET success_micro = ?, failure_micro = ?, pulls = ?, actor = ?, at_ms = ?, {ACTIVE}"
        " WHERE learner_id = ? AND observation_no = ? AND evaluation_no <> 0",
        [
            (one.success_micro, one.failure_micro, one.pulls, one.actor, one.at_ms, txn.learner_id, number)
            for number, one in changed
        ],
    )


def _append(txn: Transaction, new: Sequence[tuple[CreditKey, Due]]) -> list[tuple[CreditKey, int]]:
    """Write new observations; the number of each."""
    first = txn.number("observation", len(new))
    rows = (
        (
            number,
            "",
            "evaluation",
            arm_no,
            one.run_no,
            one.success_micro,
            one.failure_micro,
            one.pulls,
            one.actor,
            "",
            one.at_ms,
            0,
            txn.revision,
            1,
            evaluation_no,
            0,
            txn.revision,
        )
        for number, ((evaluation_no, arm_no), one) in enumerate(new, first)
    )
    txn.connection.insert("observation", _COLUMNS, txn.learner_id, chain.from_iterable(rows))
    return [(key, number) for number, (key, _) in enumerate(new, first)]
