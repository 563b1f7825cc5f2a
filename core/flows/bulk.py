"""Bulk judgements: all items of a batch get the same outcome in one transaction."""

from __future__ import annotations

from core.flows.context import Context
from core.flows.evaluate import evaluated, replaced_browsers
from core.flows.frozen import check_token, frozen, proposed
from core.records.evaluation import EvaluationOutcome
from core.records.judging import EvaluationOrder
from core.records.review import BatchAnswer, QueueAsks, QueueProposal
from core.store.reads.reviewable import named_item
from core.store.transaction import Transaction


def propose_batch(context: Context, asks: QueueAsks) -> QueueProposal:
    """Count the items that a batch would judge now. `judge_batch` with its token judges exactly these."""
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
    """Judge all items of a batch alike in one transaction. `take_back` with its acts undoes them.

    ``token`` comes from `propose_batch`. Raises `Conflict` if the items have changed since, `InvalidInput` if there
    are none, and the errors of `evaluate`; then nothing is recorded.
    """
    with context.reading("judge") as snapshot:
        items = frozen(snapshot, asks)
    check_token(asks, items, token)

    def order(txn: Transaction, index: int) -> EvaluationOrder:
        subject = named_item(txn, items[index].about).subject
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
        answers = evaluated(txn, [order(txn, index) for index in range(len(items))])
        acts = tuple(answer.id for answer in answers)
        return BatchAnswer(n=len(answers), acts=acts, replaced=replaced_browsers(txn, answers))

    return context.write("judge", work)
