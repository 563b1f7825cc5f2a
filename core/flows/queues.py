"""Queues of items to review: add, list and assign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from core.errors import InvalidInput
from core.flows.context import Context
from core.flows.previewed_items import FrozenItem, check_token, frozen, proposed
from core.records.actor import Actor
from core.records.alike import alike
from core.records.limits import MAX_LABEL_CHARS, text, whole
from core.records.queue_lines import QueueLine
from core.records.review import (
    MAX_NAME_CHARS,
    MAX_REVIEWERS,
    Progress,
    QueueAnswer,
    QueueAsks,
    QueueProposal,
    QueueRow,
)
from core.store.queues import Item, Queue, active_queues, assign_items, find_queue
from core.store.queues import add_queue as store_queue
from core.store.review import Board, board_of, put_off_by
from core.store.transaction import Facts, Transaction

_DAY_MS: Final = 86_400_000
_MOST_DAYS: Final = 3_650
_NEW: Final = "new"


def propose_queue(context: Context, asks: QueueAsks | None = None) -> QueueProposal:
    """Count the items that a queue would hold now. `add_queue` with its token adds exactly these."""
    with context.reading("queue") as snapshot:
        return proposed(snapshot, asks or QueueAsks())


def add_queue(
    context: Context,
    name: Annotated[str, Meta(description="Name of the queue.")],
    asks: Annotated[QueueAsks | None, Meta(description="Source of its items.")] = None,
    *,
    n_reviewers: Annotated[int, Meta(description="Number of people who judge each item.")] = 1,
    blind: Annotated[
        bool, Meta(description="Hide the evaluations of others while an item is open to a reviewer.")
    ] = False,
    rubric: Annotated[str, Meta(description="The version of the rubric to judge by.")] = "",
    due_days: Annotated[int | None, Meta(description="Days after which it is overdue.")] = 7,
    token: Annotated[str | None, Meta(description="Token that the preview answered.")] = None,
) -> QueueAnswer:
    """Add a review queue.

    The queue is on disk when this returns, and `undo` reverts it.

    Parameters
    ----------
    name, asks
        1 to 120 characters, and the source of its items (None: the oldest runs without a person's evaluation).
    n_reviewers
        Number of people who judge each item, 1 to 20.
    blind
        Hide the evaluations of others while an item is open to a reviewer.
    rubric
        The version to judge by; '' = none.
    due_days
        Days until it is overdue, 0 to 3,650; None = never.
    token
        The token in the answer of `propose_queue`.

    Raises
    ------
    InvalidInput
        No item passes, or a number or text is outside its limits.
    Conflict
        The counted items have changed.
    UnknownRun
        A named run does not exist.
    """
    query = asks or QueueAsks()
    if due_days is not None:
        whole("due_days", due_days, _MOST_DAYS)
    with context.reading("queue") as snapshot:
        items = frozen(snapshot, query, blind=blind)
    check_token(query, items, token)
    draft = QueueLine(  # checked before anything is written
        id=_NEW,
        name=text("A queue's name", name.strip(), MAX_NAME_CHARS, lowest=1),
        asks=query,
        n_reviewers=whole("n_reviewers", n_reviewers, MAX_REVIEWERS, lowest=1),
        blind=bool(blind),
        rubric=rubric.strip(),
        due_ms=None if due_days is None else due_days * _DAY_MS,  # from when it is made
    )

    return context.write("queue", lambda txn: _add(txn, draft, items))


def _add(txn: Transaction, line: QueueLine, chosen: Sequence[FrozenItem]) -> QueueAnswer:
    items = [Item(number, one.about, one.why) for number, one in enumerate(chosen, 1)]
    due_ms = None if line.due_ms is None else txn.now_ms + line.due_ms
    queue_no = store_queue(txn, msgspec.structs.replace(line, due_ms=due_ms), items, txn.own)
    answer = QueueAnswer(id=f"queue-{queue_no}", name=line.name, n_items=len(items))
    txn.audit("queue", answer.id, {"name": line.name, "items": len(items), "source": line.asks.source})
    return answer


def queues(
    context: Context, *, undone: Annotated[bool, Meta(description="Include undone queues.")] = False
) -> tuple[QueueRow, ...]:
    """List review queues with their progress, newest first."""
    now_ms = context.clock()
    with context.reading() as snapshot:
        rows = active_queues(snapshot, undone=undone)
        return tuple(_row(snapshot, one, context.actor, now_ms) for one in reversed(rows))


def _row(facts: Facts, queue: Queue, actor: Actor, now_ms: int) -> QueueRow:
    known = progress_of(facts, board_of(facts, queue, now_ms, actor), actor.name)
    return alike(
        QueueRow,
        queue,
        progress=known,
        by=queue.actor,
        overdue=bool(known.open) and queue.due_ms is not None and queue.due_ms < now_ms,
    )


def progress(context: Context, queue: str) -> Progress:
    """Return the progress of a queue; raise `NotFound`."""
    now_ms = context.clock()
    with context.reading() as snapshot:
        board = board_of(snapshot, find_queue(snapshot, queue), now_ms, context.actor)
        return progress_of(snapshot, board, context.actor.name)


def progress_of(facts: Facts, board: Board, actor: str) -> Progress:
    """Return the progress of a board for one reviewer."""
    return board.progress(actor, put_off_by(facts, board.queue.queue_no, actor))


def assign(context: Context, queue: str, items: Sequence[int], to: str | None) -> int:
    """Assign items to a reviewer (None = anyone), and return how many changed.

    Raises `NotFound` for an unknown queue, `InvalidInput` for an item outside it.
    """
    whose = "" if to is None else text("The name of a reviewer", to.strip(), MAX_LABEL_CHARS, lowest=1)

    def work(txn: Transaction) -> int:
        row = find_queue(txn, queue)
        known = board_of(txn, row, txn.now_ms).items
        unknown = [one for one in items if one not in known]
        if unknown:
            raise InvalidInput(
                f"Items must be in {row.id}, got {unknown[0]}.",
                next_step="Number them as the queue does, from 1 on.",
            )
        changed = assign_items(txn, row.queue_no, sorted(set(items)), whose)
        if changed:
            txn.audit("assign", None, {"queue": row.id, "items": changed, "to": to})
        return changed

    return context.write("queue", work)
