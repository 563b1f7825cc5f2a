"""Review of the items of a queue: take, hold, judge or skip them, so that none is judged twice or lost.

A batch gives all its items the same outcome in one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from core.errors import Conflict, InvalidEvaluation, NotFound
from core.flows.context import Context
from core.flows.corrections import undo_in
from core.flows.evaluate import evaluated, replaced_browsers
from core.flows.previewed_items import check_token, frozen, proposed
from core.flows.queues import levels_of, progress_of
from core.records.actor import may
from core.records.answers import UndoAnswer
from core.records.counts import number_in
from core.records.evaluation import EvaluationOrder, EvaluationOutcome
from core.records.limits import shown, whole
from core.records.queue_lines import SkippedLine
from core.records.review import (
    MAX_ITEMS,
    BatchAnswer,
    Draft,
    ItemAnswer,
    Meanwhile,
    MyJudgement,
    NextItem,
    QueueAsks,
    QueueProposal,
    ReviewItem,
    SubmitAnswer,
    check_skip_reason,
)
from core.records.times import iso
from core.store.notes import rubric_of
from core.store.queues import Item, Placed, Queue, add_skip, find_queue
from core.store.reads.reviewable import judged_last, named_item, suggestion_of, texts_of
from core.store.replies import reply_of
from core.store.review import (
    Board,
    board_of,
    bring_back_items,
    draft_of,
    hold_item,
    let_go,
    let_go_of_others,
    put_off_by,
    put_off_item,
    write_draft,
)
from core.store.transaction import Facts, Transaction

_SEND_AGAIN: Final = "Look at the item again, and send yours again if it still counts."


def next_item(
    context: Context, queue: Annotated[str, Meta(description="The queue's id or name.")]
) -> NextItem:
    """Take the next item of a queue and hold it as long as the queue says.

    An item that the reviewer holds already comes first, then assigned items, then the rest in the queue's order,
    then items for later. Left out are items that others hold or have judged as often as needed, and items that the
    reviewer has judged, skipped or put off until they ask for them. Raises `NotFound`.
    """
    return context.write("judge", lambda txn: _next(txn, find_queue(txn, queue)))


def view_item(context: Context, queue: str, item: int, *, seen: str | None = None) -> ReviewItem:
    """Return the present state of one item, without a hold; raise `NotFound`.

    ``seen`` is the item's value from when it was opened; the answer lists who has judged it since.
    """
    now_ms, me = context.clock(), context.actor.name
    with context.reading("judge") as snapshot:
        board = board_of(snapshot, find_queue(snapshot, queue), now_ms, context.actor)
        one = _item(board, item)
        fresh = _shown(snapshot, board, one, me)
        if seen is None:
            return fresh
        since = tuple(judgement.rater for judgement in _since(board, item, me, seen))
        return msgspec.structs.replace(fresh, seen=seen, meanwhile=since)


def hold(context: Context, queue: str, item: int) -> int:
    """Hold an item or extend the hold, and return its end in UTC milliseconds.

    Raises `NotFound`. Raises `Conflict` if others have it or it is done.
    """

    def work(txn: Transaction) -> int:
        board = board_of(txn, find_queue(txn, queue), txn.now_ms, txn.actor)
        one, me = _item(board, item), txn.actor.name
        if not board.is_for(one, me):
            raise Conflict(
                f"Item {item} of {board.queue.id} is {_reason_taken(board, item, me)}.",
                next_step="Take the next one; the input is stored as a draft.",
            )
        return hold_item(txn, board.queue, item)

    return context.write("judge", work)


def release(context: Context, queue: str, item: int) -> None:
    """Release an item when the reviewer leaves the page; the draft stays. Raises `NotFound` for the queue."""
    context.write("judge", lambda txn: let_go(txn, find_queue(txn, queue).queue_no, item))


def submit(
    context: Context,
    queue: str,
    item: int,
    *,
    level: int | None = None,
    outcome: EvaluationOutcome | None = None,
    score: float | None = None,
    feedback: str | None = None,
    seen: str | None = None,
    anyway: bool = False,
    key: str | None = None,
) -> SubmitAnswer:
    """Judge an item and take the next: evaluation, hold, draft and next hold in one transaction.

    ``queue`` and ``item`` are as `next_item` returned them. A judgement is a ``level`` of the queue's rubric, from 1
    on, or an ``outcome`` with a ``score`` (0 to 1). ``feedback`` has 1 to 5,000 characters. ``seen`` is the item's
    value: later judgements by others are reported, and nothing is recorded if they suffice. ``anyway`` records it
    although others have the item, or have judged it since. The same request under ``key`` returns the first answer.

    Raises `NotFound` for an unknown queue or item, and `InvalidEvaluation` for neither or both kinds of judgement.
    Raises `Conflict` where others judged it since, or took it after the hold ended; the input is stored as the draft.
    The same for a key with other content.
    """
    typed = Draft(level=level, outcome=outcome, score=score, feedback=feedback)

    def work(txn: Transaction) -> SubmitAnswer:
        board = board_of(txn, find_queue(txn, queue), txn.now_ms, txn.actor)
        one = _item(board, item)
        is_repeat = key is not None and reply_of(txn, key) is not None
        if not (is_repeat or anyway):
            _admit(board, item, txn.actor.name, seen)
        words = typed.feedback or None, board.queue.rubric or None
        order = _order_of(txn, one.about, _judgement(txn, board.queue, typed), words, key)
        since = [] if seen is None or is_repeat else _since(board, item, txn.actor.name, seen)
        return msgspec.structs.replace(_submitted(txn, board, one, order), meanwhile=tuple(since))

    try:
        return context.write("judge", work)
    except Conflict:
        keep_draft(context, queue, item, typed)
        raise


def put_off(context: Context, queue: str, item: int, *, returns: bool = False) -> NextItem:
    """Leave an item for later, for this reviewer only, and take the next; raise `NotFound`.

    If it ``returns``, it comes after all others, else only after `requeue`.
    """

    def work(txn: Transaction) -> NextItem:
        row = find_queue(txn, queue)
        _item(board_of(txn, row, txn.now_ms, txn.actor), item)
        let_go(txn, row.queue_no, item)
        put_off_item(txn, row.queue_no, item, returns=returns)
        return _next(txn, row)

    return context.write("judge", work)


def requeue(context: Context, queue: str, item: int | None = None) -> int:
    """Bring items that this reviewer put off (None: all) back, and return how many; raise `NotFound`."""
    return context.write("judge", lambda txn: bring_back_items(txn, find_queue(txn, queue).queue_no, item))


def skip_item(context: Context, queue: str, item: int, reason: str) -> ItemAnswer:
    """Skip an item that can't be judged, with the reason, and take the next; `undo` reverts it.

    The item is done once two people, or one operator, skip it. Raises `NotFound`, `InvalidInput` for a reason
    without 1 to 500 characters, and `Conflict` if it is done or was skipped by this reviewer.
    """
    reason_text = check_skip_reason(reason.strip())

    def work(txn: Transaction) -> ItemAnswer:
        board = board_of(txn, find_queue(txn, queue), txn.now_ms, txn.actor)
        _check_skippable(board, _item(board, item).item_no, txn.actor.name)
        line = SkippedLine(
            id="new",
            queue=board.queue.uid,
            item=item,
            reason=reason_text,
            final=may(txn.actor, "queue", txn.name),
        )
        act = f"aside-{add_skip(txn, line, txn.own)}"
        txn.audit("aside", act, {"queue": board.queue.id, "item": item, "reason": reason_text})
        _clear(txn, board.queue, item)
        state = board_of(txn, board.queue, txn.now_ms, txn.actor).state(item)
        return ItemAnswer(id=act, queue=board.queue.id, item=item, state=state, next=_next(txn, board.queue))

    return context.write("judge", work)


def keep_draft(context: Context, queue: str, item: int, draft: Draft | None) -> None:
    """Store an unsent draft for seven days; None deletes it. Raises `NotFound` for the queue."""
    number = whole("item", item, 10 * MAX_ITEMS, lowest=1)
    context.write("judge", lambda txn: write_draft(txn, find_queue(txn, queue).queue_no, number, draft))


def draft(context: Context, queue: str, item: int) -> Draft | None:
    """Return the reviewer's unsent draft. Raises `NotFound` for the queue."""
    now_ms = context.clock()
    with context.reading("judge") as snapshot:
        row = find_queue(snapshot, queue)
        return draft_of(snapshot, row.queue_no, item, context.actor.name, now_ms)


def my_last(context: Context, limit: int = 20) -> tuple[MyJudgement, ...]:
    """List the reviewer's latest evaluations, newest first, each with the id for `undo`."""
    with context.reading("judge") as snapshot:
        return judged_last(snapshot, context.actor.name, limit=whole("limit", limit, MAX_ITEMS, lowest=1))


def take_back(context: Context, acts: Sequence[str]) -> UndoAnswer:
    """Undo several own acts as one, all or none; to undo the answer does them again. Raises the errors of `undo`."""

    def work(txn: Transaction) -> UndoAnswer:
        done = [undo_in(txn, txn.actor, act) for act in dict.fromkeys(acts)]
        newest = max(done, key=lambda one: number_in(one.id))
        return msgspec.structs.replace(newest, id=newest.id.replace("undo-", "undos-"), count=len(done))

    return context.write("undo_own", work)


# Choosing the next item


def _next(txn: Transaction, queue: Queue) -> NextItem:
    """Return the next item with a hold; all other holds of the reviewer in the queue end."""
    board, me = board_of(txn, queue, txn.now_ms, txn.actor), txn.actor.name
    off = put_off_by(txn, queue.queue_no, me)
    one = _held_item(board, me) or _next_in_order(board, me, off)
    let_go_of_others(txn, queue.queue_no, 0 if one is None else one.item_no)
    progress = progress_of(txn, board, me)
    if one is None:
        return NextItem(item=None, progress=progress)
    until_ms = hold_item(txn, queue, one.item_no)
    return NextItem(item=_shown(txn, board, one, me, until_ms), progress=progress)


def _held_item(board: Board, me: str) -> Item | None:
    held = (board.items.get(number) for number in sorted(board.held_by(me)))
    return next((one for one in held if one is not None and board.is_for(one, me)), None)


def _next_in_order(board: Board, me: str, off: Mapping[int, int]) -> Item | None:
    """Return the next item in order: assigned ones first, those for later last."""
    open_to = [one for one in board.items.values() if board.is_for(one, me)]
    fresh = [one for one in open_to if one.item_no not in off]
    if fresh:
        return min(fresh, key=lambda one: (one.assigned_to != me, one.item_no))
    by_number = {one.item_no: one for one in open_to}
    later = [by_number[number] for number, returns in off.items() if returns and number in by_number]
    return later[0] if later else None


def _shown(facts: Facts, board: Board, one: Item, me: str, until_ms: int | None = None) -> ReviewItem:
    """Return an item as the reviewer sees it. ``until_ms`` is the end of a hold that the board does not have yet."""
    queue, number = board.queue, one.item_no
    until_ms = board.held_by(me).get(number, 0) if until_ms is None else until_ms
    judged = board.judged.get(number, {})
    mine = judged.get(me)
    named = named_item(facts, one.about)
    rubric = rubric_of(facts, queue.rubric) if queue.rubric else None
    return ReviewItem(
        queue=queue.id,
        item=number,
        subject=named.subject,
        uri=named.subject.uri,
        run_no=one.about.run_no or None,
        at_ms=named.at_ms,
        why=one.why,
        state=board.state(number),
        n_reviewers=queue.n_reviewers,
        blind=queue.blind,
        n_judged=None if queue.blind and mine is None else len(judged),
        assigned_to=one.assigned_to or None,
        hold_until_ms=until_ms if until_ms > board.now_ms else 0,
        seen="" if queue.blind else _newest(board, number, me),
        rubric=None if rubric is None else rubric[1],
        rubric_version=queue.rubric,
        levels=levels_of(facts, queue.rubric),
        draft=draft_of(facts, queue.queue_no, number, me, board.now_ms),
        texts=texts_of(facts, one.about),
        mine=None if mine is None else f"evaluation-{mine.number}",
    )


def _newest(board: Board, item: int, me: str) -> str:
    """Return the id of the latest judgement by another reviewer, for `submit`."""
    numbers = [judgement.number for name, judgement in board.judged.get(item, {}).items() if name != me]
    return f"evaluation-{max(numbers)}" if numbers else "none"


# Judging


def _item(board: Board, item: int) -> Item:
    row = board.items.get(item)
    if row is None:
        raise NotFound(
            f"There is no item {shown(item)} in {board.queue.id}, or its run no longer exists.",
            next_step="Take the next one.",
        )
    return row


def _admit(board: Board, number: int, me: str, known_state: str | None) -> None:
    """Raise `Conflict` if others acted on the item in a way that the sender has not seen."""
    since = [] if known_state is None else _since(board, number, me, known_state)
    if since and len(board.judged.get(number, {}).keys() - {me}) >= board.queue.n_reviewers:
        latest = since[-1]
        score = "" if latest.score is None else f" ({latest.score:g})"
        raise Conflict(
            f"Item {number} of {board.queue.id} was judged {latest.outcome}{score} by {latest.rater} meanwhile.",
            next_step=_SEND_AGAIN,
        )
    until_ms = board.held_by(me).get(number)
    if me in board.judged.get(number, {}) or (until_ms is not None and until_ms > board.now_ms):
        return
    if not board.is_open(number) or not board.has_room(number, me):
        ended = "" if until_ms is None else f"Your hold ended at {iso(until_ms)}, and it"
        raise Conflict(
            f"{ended or f'Item {number} of {board.queue.id}'} is {_reason_taken(board, number, me)}. "
            "Nothing was sent.",
            next_step=f"The input is stored as a draft. {_SEND_AGAIN}",
        )


def _since(board: Board, item: int, me: str, known_state: str) -> list[Meanwhile]:
    """Return the judgements of others since the item was opened, the latest last; none for a blind queue."""
    if board.queue.blind:
        return []
    known = (
        number_in(known_state)
        if known_state.startswith("evaluation-") and known_state[11:].isdecimal()
        else 0
    )
    newer = [
        (judgement.number, name, judgement)
        for name, judgement in board.judged.get(item, {}).items()
        if name != me and judgement.number > known
    ]
    return [Meanwhile(rater=name, outcome=one.outcome, score=one.score) for _, name, one in sorted(newer)]


def _reason_taken(board: Board, item: int, me: str) -> str:
    """Return why an item is not available, without revealing the judgements of others."""
    state = board.state(item)
    if state in {"done", "set_aside"}:
        return "done with meanwhile" if state == "done" else "skipped meanwhile"
    if me in board.judged.get(item, {}):
        return "judged by you already"
    if board.items[item].assigned_to not in {"", me}:
        return "assigned to another reviewer"
    return "held by another reviewer now"


def _order_of(
    txn: Transaction,
    about: Placed,
    judgement: tuple[EvaluationOutcome, float],
    words: tuple[str | None, str | None],
    key: str | None = None,
) -> EvaluationOrder:
    """Return an order about a subject: ``judgement`` is outcome and score, ``words`` feedback and rubric."""
    subject = named_item(txn, about).subject
    return EvaluationOrder(
        outcome=judgement[0],
        score=judgement[1],
        layer=subject.layer or None,
        execution=subject.execution or None,
        run=None if subject.execution else subject.run,
        arm=subject.arm or None,
        feedback=words[0],
        rater=txn.actor.name,
        rubric=words[1],
        key=key,
    )


def _judgement(txn: Transaction, queue: Queue, typed: Draft) -> tuple[EvaluationOutcome, float]:
    if typed.level is not None and (typed.outcome, typed.score) == (None, None):
        levels = levels_of(txn, queue.rubric)
        if typed.level > len(levels):
            raise InvalidEvaluation(
                f"level must be 1 to {len(levels)}, got {typed.level}.", next_step="The rubric has no more."
            )
        level = levels[typed.level - 1]
        return level.outcome, level.score
    if typed.level is None and typed.outcome is not None and typed.score is not None:
        return typed.outcome, typed.score
    raise InvalidEvaluation(
        f"A judgement must be a level, or an outcome with a score, got level {typed.level}, outcome {typed.outcome}, "
        f"score {typed.score}.",
        next_step="Choose a level; on a failure the score says how sure you are.",
    )


def _submitted(
    txn: Transaction,
    board: Board,
    one: Item,
    order: EvaluationOrder,
) -> SubmitAnswer:
    queue, number = board.queue, one.item_no
    until_ms = board.held_by(txn.actor.name).get(number)
    answer = evaluated(txn, [order])[0]
    _clear(txn, queue, number)
    return SubmitAnswer(
        evaluation=answer,
        replaced=replaced_browsers(txn, [answer]),
        hold_ran_out=until_ms is not None and until_ms <= board.now_ms,
        meanwhile=(),
        suggestion=suggestion_of(txn, one.about, order.outcome, order.score),
        next=_next(txn, queue),
    )


def _clear(txn: Transaction, queue: Queue, item: int) -> None:
    """Delete hold and draft of an item for the actor, and that it was put off."""
    let_go(txn, queue.queue_no, item)
    write_draft(txn, queue.queue_no, item, None)
    bring_back_items(txn, queue.queue_no, item)


def _check_skippable(board: Board, item: int, me: str) -> None:
    if any(name == me for name, _, _ in board.skips.get(item, ())):
        raise Conflict(
            f"Item {item} of {board.queue.id} is skipped by you already.", next_step="Take the next one."
        )
    if not board.is_open(item) and item not in board.held_by(me):
        raise Conflict(
            f"Item {item} of {board.queue.id} is {_reason_taken(board, item, me)}.",
            next_step="Take the next one.",
        )


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
        items = frozen(snapshot, asks).items
    check_token(asks, items, token)

    def order(txn: Transaction, index: int) -> EvaluationOrder:
        return _order_of(txn, items[index].about, (outcome, score), (feedback, rubric))

    def work(txn: Transaction) -> BatchAnswer:
        answers = evaluated(txn, [order(txn, index) for index in range(len(items))])
        acts = tuple(answer.id for answer in answers)
        return BatchAnswer(n=len(answers), acts=acts, replaced=replaced_browsers(txn, answers))

    return context.write("judge", work)
