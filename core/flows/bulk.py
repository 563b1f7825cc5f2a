"""Bulk: one judgement of all that passes, frozen and counted before it is confirmed."""

from __future__ import annotations

from core.flows.context import Context
from core.flows.evaluate import evaluated
from core.flows.frozen import check_token, frozen, proposed
from core.records.evaluation import EvaluationOutcome
from core.records.judging import EvaluationOrder
from core.records.review import BatchAnswer, QueueAsks, QueueProposal
from core.store.reads.reviewable import named_item
from core.store.transaction import Transaction


def propose_batch(context: Context, asks: QueueAsks) -> QueueProposal:
    """What a batch would judge at this moment, counted; `judge_batch` with its token judges that and nothing else."""
    with context.reading("judge") as snapshot:
        return proposed(snapshot, asks)


def judge_batch(
    context: Context,
    asks: QueueAsks,
    token: str,
    *,
    outcome: EvaluationOutcome,
    score: float,
    feedback: str | None = None,
    rubric: str | None = None,
) -> BatchAnswer:
    """Judge all of a batch alike, in one transaction; `take_back` with its acts takes all of it back.

    ``token`` is what `propose_batch` answered. Raises `Conflict` where what was counted has changed, `InvalidInput`
    where nothing passes, and what `evaluate` does; then nothing was recorded.
    """
    with context.reading("judge") as snapshot:
        found = frozen(snapshot, asks)
    check_token(asks, found, token)

    def order(txn: Transaction, place: int) -> EvaluationOrder:
        subject = named_item(txn, found[place].about).subject
        return EvaluationOrder(
            outcome=outcome,
            score=score,
            layer=subject.layer or None,
            execution=subject.execution or None,
            run=None if subject.execution else subject.run,
            arm=subject.arm or None,
            feedback=feedback,
            rater=txn.actor.name,
            rubric=rubric,
        )

    def work(txn: Transaction) -> BatchAnswer:
        answers = evaluated(txn, [order(txn, place) for place in range(len(found))])
        return BatchAnswer(n=len(answers), acts=tuple(answer.id for answer in answers))

    return context.write("judge", work)
