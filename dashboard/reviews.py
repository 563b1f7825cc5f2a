"""Queries and actions of reviews: queues, items, judgements and browsers, for the pages that use them.

Queues, items and progress are never cached: holds and drafts end without a new revision of the learner. Rubrics and
previewed effects are cached by revision. Errors are raised; the widget shows them at the item.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import count
from typing import Literal

from core.errors import ArmscopeError
from core.flows import browsers as flow_browsers
from core.flows import choose, queries, queues, review, rubrics
from core.flows.context import Context
from core.records.browser import BrowserAnswer, BrowserRow
from core.records.evaluation import EvaluationOutcome
from core.records.review import (
    BatchAnswer,
    ChoiceAnswer,
    Draft,
    ItemAnswer,
    MyJudgement,
    NextItem,
    Pair,
    Progress,
    QueueAnswer,
    QueueAsks,
    QueueProposal,
    QueueRow,
    ReviewItem,
    RubricRow,
    SubmitAnswer,
)
from dashboard.reading import acting, cached, reading

log = logging.getLogger(__name__)

Preferred = Literal["first", "second", "equal"]


# Queues


def all_queues() -> tuple[QueueRow, ...]:
    """Return every active queue, newest first."""
    return queues.queues(reading().context)


def unused_name(name: str) -> str:
    """Return a name that no active queue has: the given one, or with the next free number behind it."""
    used = {queue.progress.name for queue in all_queues()}
    return next(
        one for number in count(1) if (one := f"{name} ({number})" if number > 1 else name) not in used
    )


def progress(queue: str) -> Progress:
    """Return the progress of a queue, for all and for the reviewer."""
    return queues.progress(reading().context, queue)


def propose(asks: QueueAsks, *, batch: bool = False) -> QueueProposal:
    """Return the items that a queue or batch would hold now."""
    context = reading().context
    return review.propose_batch(context, asks) if batch else queues.propose_queue(context, asks)


def make_queue(
    name: str,
    proposal: QueueProposal,
    asks: QueueAsks,
    *,
    n_reviewers: int,
    blind: bool,
    rubric: str,
    due_days: int | None,
) -> QueueAnswer:
    """Make the queue that was counted."""
    return queues.add_queue(
        acting(),
        name,
        asks,
        n_reviewers=n_reviewers,
        blind=blind,
        rubric=rubric,
        due_days=due_days,
        token=proposal.token,
    )


def assign(queue: str, items: Sequence[int], to: str | None) -> int:
    """Assign items to a reviewer (None = anyone)."""
    return queues.assign(acting(), queue, items, to)


def browsers() -> tuple[BrowserRow, ...]:
    """Return the browsers that judge under a name of their own; holds change by themselves."""
    return flow_browsers.browsers(reading().context)


def confirm_browser(browser: str) -> BrowserAnswer:
    """Confirm the name of a browser."""
    return flow_browsers.confirm_browser(acting(), browser)


def known_rubrics() -> tuple[RubricRow, ...]:
    """Return the active rubrics, newest first."""
    here = reading()
    return cached("rubrics", None, lambda: rubrics.rubrics(here.context))


# Items


def next_item(queue: str) -> NextItem:
    """Return the next one for oneself, held."""
    return review.next_item(acting(), queue)


def this_item(queue: str, item: int) -> NextItem:
    """Return a certain item, held; raise `Conflict` if another reviewer holds it."""
    context = acting()
    review.hold(context, queue, item)
    return NextItem(item=review.view_item(context, queue, item), progress=queues.progress(context, queue))


def look_at(queue: str, item: int, *, known: str | None = None) -> ReviewItem:
    """Return one item as it is now.

    ``known`` is the last judgement that the reviewer saw. Later ones are listed.
    """
    return review.view_item(reading().context, queue, item, seen=known)


def hold(queue: str, item: int) -> int:
    """Hold an item, or extend its hold, and return its end."""
    return review.hold(acting(), queue, item)


def let_go(context: Context, queue: str, item: int) -> None:
    """Let an item go, when its page is left; a hold that can't be given back ends by itself."""
    try:
        review.release(context, queue, item)
    except ArmscopeError as problem:
        log.warning("an item could not be let go: %s", problem)


def submit(
    item: ReviewItem,
    typed: Draft,
    *,
    seen: str,
    anyway: bool,
    key: str,
) -> SubmitAnswer:
    """Judge an item as typed; the next one comes with the answer."""
    return review.submit(
        acting(),
        item.queue,
        item.item,
        level=typed.level,
        outcome=typed.outcome if typed.level is None else None,
        score=typed.score if typed.level is None else None,
        feedback=typed.feedback,
        seen=seen or None,
        anyway=anyway,
        key=key,
    )


def put_off(item: ReviewItem, *, returns: bool) -> NextItem:
    """Put the item off for this reviewer; whether it ``returns`` by itself."""
    return review.put_off(acting(), item.queue, item.item, returns=returns)


def requeue(queue: str) -> int:
    """Return items that the caller put off to their queue."""
    return review.requeue(acting(), queue)


def skip_item(item: ReviewItem, reason: str) -> ItemAnswer:
    """Skip the item for everyone, with the reason."""
    return review.skip_item(acting(), item.queue, item.item, reason)


def keep_draft(item: ReviewItem, draft: Draft | None) -> None:
    """Keep what is typed, on the server."""
    review.keep_draft(acting(), item.queue, item.item, draft)


def my_last(limit: int) -> tuple[MyJudgement, ...]:
    """One's own latest judgements."""
    return review.my_last(reading().context, limit)


def take_back(acts: Sequence[str]) -> int:
    """Undo several as one act."""
    return review.take_back(acting(), acts)


def effect_of(item: ReviewItem, outcome: EvaluationOutcome, score: float) -> queries.EvaluationPreview | None:
    """Return the effect of this judgement on arms; None without any."""
    here = reading()
    subject = item.subject
    if not subject.arm and (here.frame.settings.evaluation_credit == "none" or not subject.run):
        return None

    def ask() -> queries.EvaluationPreview:
        return queries.preview_evaluation(
            here.context,
            subject.run if subject.arm or not subject.layer else subject.uri,
            outcome,
            score=score,
            rater=here.context.actor.name,
            rubric=item.rubric_version or None,
            arm=subject.arm or None,
        )

    return cached(("effect of judging", here.context.actor, item.uri, outcome, score), None, ask)


# Many at once, and two beside each other


def judge_batch(
    asks: QueueAsks,
    token: str,
    *,
    outcome: EvaluationOutcome,
    score: float,
    feedback: str | None,
    rubric: str | None,
) -> BatchAnswer:
    """Judge alike all that was counted."""
    return review.judge_batch(
        acting(), asks, token, outcome=outcome, score=score, feedback=feedback, rubric=rubric
    )


def next_pair() -> Pair | None:
    """Return two answers to one instruction."""
    return choose.next_pair(reading().context)


def prefer(pair: Pair, chosen: Preferred, *, rubric: str | None, feedback: str | None) -> ChoiceAnswer:
    """Record which of two answers is better."""
    return choose.choose(
        acting(), pair.layer, pair.first, pair.second, chosen, rubric=rubric, feedback=feedback
    )
