"""Queries and actions of reviews: queues, items, judgements and browsers, for the pages that use them.

Queues, items and progress are never cached: holds and drafts end without a new revision of the learner. Rubrics and
previewed effects are cached by revision. Errors are raised; the widget shows them at the item.
"""

from __future__ import annotations

import logging
from itertools import count
from typing import Final, Literal

from core.errors import ArmscopeError
from core.flows import choose, queries, queues, review
from core.flows.context import Context
from core.records.evaluation import EvaluationOutcome
from core.records.review import (
    Draft,
    NextItem,
    QueueAsks,
    QueueProposal,
    ReviewItem,
    SubmitAnswer,
)
from dashboard.reading import acted, acting, cached, reading, uncached

log = logging.getLogger(__name__)

Preferred = Literal["first", "second", "equal"]


# Queues


all_queues: Final = uncached(queues.queues)

progress: Final = uncached(queues.progress)

make_queue: Final = acted(queues.add_queue)
assign: Final = acted(queues.assign)
browsers: Final = uncached(queues.browsers)
confirm_browser: Final = acted(queues.confirm_browser)

next_item: Final = acted(review.next_item)

look_at: Final = uncached(review.view_item)
hold: Final = acted(review.hold)

put_off: Final = acted(review.put_off)
requeue: Final = acted(review.requeue)
skip_item: Final = acted(review.skip_item)
keep_draft: Final = acted(review.keep_draft)
my_last: Final = uncached(review.my_last)

judge_batch: Final = acted(review.judge_batch)
next_pair: Final = uncached(choose.next_pair)
prefer: Final = acted(choose.choose)


def unused_name(name: str) -> str:
    """Return a name that no active queue has: the given one, or with the next free number behind it."""
    used = {queue.progress.name for queue in all_queues()}
    return next(
        one for number in count(1) if (one := f"{name} ({number})" if number > 1 else name) not in used
    )


def propose(asks: QueueAsks, *, batch: bool = False) -> QueueProposal:
    """Return the items that a queue or batch would hold now."""
    context = reading().context
    return review.propose_batch(context, asks) if batch else queues.propose_queue(context, asks)


# Items


def this_item(queue: str, item: int) -> NextItem:
    """Return a certain item, held; raise `Conflict` if another reviewer holds it."""
    context = acting()
    review.hold(context, queue, item)
    return NextItem(item=review.view_item(context, queue, item), progress=queues.progress(context, queue))


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
        seen=item.seen or None,
        anyway=anyway,
        key=key,
    )


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
