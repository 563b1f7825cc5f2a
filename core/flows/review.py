"""Review: one item after the other: given, held, judged or passed over, so that nothing is judged twice or lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec
import numpy as np
from msgspec import Meta

from core.errors import Conflict, InvalidEvaluation, NotFound
from core.flows.context import Context
from core.flows.evaluate import evaluated
from core.flows.queues import progress_of
from core.flows.rubrics import levels_of
from core.flows.undo import undo_in
from core.permissions import may
from core.records.arm import MICRO
from core.records.evaluation import EvaluationOutcome
from core.records.judging import EvaluationOrder
from core.records.limits import shown, whole
from core.records.queue_lines import AsideLine
from core.records.review import (
    MAX_ITEMS,
    Draft,
    Given,
    ItemAnswer,
    ItemState,
    Meanwhile,
    MyJudgement,
    ReviewItem,
    SubmitAnswer,
    check_aside,
)
from core.records.times import iso
from core.store.queues import Item, Queue, add_aside, find_queue
from core.store.reads.reviewable import named_item, texts_of
from core.store.reads.reviewed import judged_last, suggestion_of
from core.store.replies import reply_of
from core.store.review import (
    Board,
    Hold,
    board_of,
    draft_of,
    hold_item,
    let_go,
    let_go_of_others,
    note_repeat,
    repeats_of,
    skip_item,
    skips_of,
    unskip_items,
    write_draft,
)
from core.store.rubrics import rubric_of
from core.store.transaction import Facts, Transaction

REPEATED_AFTER: Final = 5
"""How many items somebody must have judged since they judged one that they are given again."""
_NOBODY: Final = "none"
_LOOK: Final = "Look at it again, and send yours once more if it is to count all the same."


def next_item(context: Context, queue: Annotated[str, Meta(description="The queue's id or name.")]) -> Given:
    """Take the next item of a queue and hold it for ten minutes.

    An item that the reviewer holds already comes first, then assigned items, then the rest in the queue's order,
    then postponed items. Left out are items that others hold or have judged as often as needed, and items that the
    reviewer has judged, skipped or passed over. Raises `NotFound`.
    """
    seed = context.entropy()
    return context.write("judge", lambda txn: _give(txn, find_queue(txn, queue), seed))


def look_at(context: Context, queue: str, item: int, *, seen: str | None = None) -> ReviewItem:
    """One item as it is at this moment, without holding it; ``seen``: what it said when it was opened, so that it
    says who has judged it since. Raises `NotFound`.
    """
    now_ms, me = context.clock(), context.actor.name
    with context.reading("judge") as snapshot:
        board = board_of(snapshot, find_queue(snapshot, queue), now_ms)
        one = _item(board, item)
        fresh = _shown(snapshot, board, one, me)
        if seen is None:
            return fresh
        since = () if one.control else tuple(said.rater for said in _since(board, item, me, seen))
        return msgspec.structs.replace(fresh, seen=seen, meanwhile=since)


def hold(context: Context, queue: str, item: int) -> int:
    """Hold an item, or hold it longer; until when, in UTC milliseconds.

    Raises `NotFound`, and `Conflict` where others have its place or it is done with.
    """

    def work(txn: Transaction) -> int:
        board = board_of(txn, find_queue(txn, queue), txn.now_ms)
        one, me = _item(board, item), txn.actor.name
        kept = board.held_by(me).get(item)
        if not _may_keep(board, one, me, kept):
            raise Conflict(
                f"Item {item} of {board.queue.id} is {_whose(board, item, me)}.",
                next_step="Take the next one; what was typed is kept.",
            )
        return hold_item(txn, board.queue.queue_no, item, 0 if kept is None else kept.repeats)

    return context.write("judge", work)


def release(context: Context, queue: str, item: int) -> None:
    """Let an item go, as whoever leaves the page does; what was typed stays. Raises `NotFound` for the queue."""
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
    """Judge an item and be given the next: evaluation, hold, draft and next hold in one transaction.

    Parameters
    ----------
    queue, item
        As `next_item` gave them.
    level
        A level of the queue's rubric, from 1 on; or ``outcome`` with ``score`` (0 to 1).
    feedback
        A remark of 1 to 5,000 characters.
    seen
        What the item said: where others have judged it since, that is told; and nothing is recorded if it needs no
        more than theirs.
    anyway
        Record it although others have the place, or have judged it since.
    key
        Idempotency key: the same request under it answers as the first time.

    Raises
    ------
    NotFound
        The queue or item isn't there.
    InvalidEvaluation
        Neither a level nor an outcome with a score, or both.
    Conflict
        Others judged it since, or took its place when the hold ran out; what was typed is kept as the draft. Or the
        key was used for something else.
    """
    seed = context.entropy()
    typed = Draft(level=level, outcome=outcome, score=score, feedback=feedback)

    def work(txn: Transaction) -> SubmitAnswer:
        board = board_of(txn, find_queue(txn, queue), txn.now_ms)
        one = _item(board, item)
        held = board.held_by(txn.actor.name).get(item)
        is_repeat = key is not None and reply_of(txn, key) is not None
        if not (is_repeat or anyway):
            _admit(board, one, txn.actor.name, held, seen)
        order = _order(txn, board.queue, one, typed, key)
        since = [] if seen is None or is_repeat else _since(board, item, txn.actor.name, seen)
        return msgspec.structs.replace(_submitted(txn, board, one, order, seed), meanwhile=tuple(since))

    try:
        return context.write("judge", work)
    except Conflict:
        keep_draft(context, queue, item, typed)
        raise


def skip(context: Context, queue: str, item: int, *, later: bool = False) -> Given:
    """Pass an item over, for oneself only, and be given the next; ``later``: it comes again after all others, else
    when `requeue` asks for it. Raises `NotFound`.
    """
    seed = context.entropy()

    def work(txn: Transaction) -> Given:
        found = find_queue(txn, queue)
        _item(board_of(txn, found, txn.now_ms), item)
        let_go(txn, found.queue_no, item)
        skip_item(txn, found.queue_no, item, later=later)
        return _give(txn, found, seed)

    return context.write("judge", work)


def requeue(context: Context, queue: str, item: int | None = None) -> int:
    """Be given again what one passed over (None: all of it); how many items. Raises `NotFound` for the queue."""
    return context.write("judge", lambda txn: unskip_items(txn, find_queue(txn, queue).queue_no, item))


def set_aside(context: Context, queue: str, item: int, reason: str) -> ItemAnswer:
    """Say why an item can't be judged, and be given the next; `undo` takes it back.

    It is done with once two people say so, or an operator. Raises `NotFound`, `InvalidInput` for a reason that hasn't
    1 to 500 characters, and `Conflict` where it is done with, or one has said so already.
    """
    seed, said = context.entropy(), check_aside(reason.strip())

    def work(txn: Transaction) -> ItemAnswer:
        board = board_of(txn, find_queue(txn, queue), txn.now_ms)
        _check_aside(board, _item(board, item).item_no, txn.actor.name)
        line = AsideLine(
            id="new", queue=board.queue.uid, item=item, reason=said, final=may(txn.actor, "queue", txn.name)
        )
        act = f"aside-{add_aside(txn, line)}"
        txn.audit("aside", act, {"queue": board.queue.id, "item": item, "reason": said})
        _put_away(txn, board.queue, item)
        state = board_of(txn, board.queue, txn.now_ms).state(item)
        return ItemAnswer(
            id=act, queue=board.queue.id, item=item, state=state, next=_give(txn, board.queue, seed)
        )

    return context.write("judge", work)


def keep_draft(context: Context, queue: str, item: int, draft: Draft | None) -> None:
    """Keep for seven days what one has typed and not sent; None throws it away. Raises `NotFound` for the queue."""
    context.write(
        "judge", lambda txn: write_draft(txn, find_queue(txn, queue).queue_no, _number(item), draft)
    )


def draft(context: Context, queue: str, item: int) -> Draft | None:
    """What one has typed and not sent. Raises `NotFound` for the queue."""
    now_ms = context.clock()
    with context.reading("judge") as snapshot:
        found = find_queue(snapshot, queue)
        return draft_of(snapshot, found.queue_no, item, context.actor.name, now_ms)


def my_last(context: Context, limit: int = 20) -> tuple[MyJudgement, ...]:
    """One's own latest evaluations, newest first, each with the id that undo takes."""
    with context.reading("judge") as snapshot:
        return judged_last(snapshot, context.actor.name, limit=whole("limit", limit, MAX_ITEMS, lowest=1))


def take_back(context: Context, acts: Sequence[str]) -> int:
    """Undo several acts of one's own as one: all of them or none; how many. Raises what `undo` does."""

    def work(txn: Transaction) -> int:
        return len([undo_in(txn, txn.actor, act) for act in dict.fromkeys(acts)])

    return context.write("undo_own", work)


# Giving


def _give(txn: Transaction, queue: Queue, seed: int) -> Given:
    """The next item, held; every other item of the queue is let go."""
    board, me = board_of(txn, queue, txn.now_ms), txn.actor.name
    skipped = skips_of(txn, queue.queue_no, me)
    chosen = _kept(board, me) or _drawn(txn, board, me, skipped, seed) or _following(board, me, skipped)
    let_go_of_others(txn, queue.queue_no, 0 if chosen is None else chosen[0].item_no)
    progress = progress_of(txn, board, me)
    if chosen is None:
        return Given(item=None, progress=progress)
    one, repeats = chosen
    until_ms = hold_item(txn, queue.queue_no, one.item_no, repeats)
    return Given(item=_shown(txn, board, one, me, Hold(until_ms, repeats)), progress=progress)


Chosen = tuple[Item, int]
"""An item, and the judgement that is to be given again (0: none)."""


def _kept(board: Board, me: str) -> Chosen | None:
    for number, held in sorted(board.held_by(me).items()):
        one = board.items.get(number)
        if one is not None and _may_keep(board, one, me, held):
            return one, held.repeats
    return None


def _may_keep(board: Board, one: Item, me: str, held: Hold | None) -> bool:
    """Whether an item may be, or stay, open to somebody."""
    if held is not None and held.repeats:
        mine = board.judged.get(one.item_no, {}).get(me)
        return mine is not None and mine.number == held.repeats
    if one.control:
        return held is not None and me not in board.judged.get(one.item_no, {})
    return board.is_for(one, me)


def _following(board: Board, me: str, skipped: Mapping[int, int]) -> Chosen | None:
    """The next in order: what is assigned comes first, what was put off last."""
    open_to = [one for one in board.items.values() if board.is_for(one, me)]
    fresh = [one for one in open_to if one.item_no not in skipped]
    if fresh:
        return min(fresh, key=lambda one: (one.assigned_to != me, one.item_no)), 0
    by_number = {one.item_no: one for one in open_to}
    later = [by_number[number] for number, later in skipped.items() if later and number in by_number]
    return (later[0], 0) if later else None


def _drawn(txn: Transaction, board: Board, me: str, skipped: Mapping[int, int], seed: int) -> Chosen | None:
    """Now and then something else instead of the next, if there is a next: a known answer, or one's own again."""
    rng = np.random.default_rng(seed)
    if rng.random() * MICRO >= board.queue.control_micro or _following(board, me, skipped) is None:
        return None
    again = {one.item_no for one in repeats_of(txn, board.queue.queue_no) if one.rater == me}
    past = board.of(me)[:-REPEATED_AFTER]
    choices = [
        (one, 0)
        for one in board.items.values()
        if one.control and me not in board.judged.get(one.item_no, {})
    ]
    choices += [(board.items[number], judged.number) for number, judged in past if number not in again]
    aside = {number for number, by in board.asides.items() if any(name == me for name, _, _ in by)}
    choices = [one for one in choices if one[0].item_no not in skipped and one[0].item_no not in aside]
    return choices[int(rng.integers(len(choices)))] if choices else None


def _shown(facts: Facts, board: Board, one: Item, me: str, held: Hold | None = None) -> ReviewItem:
    """An item as somebody is shown it; one that they judge again as if they never had."""
    queue, number = board.queue, one.item_no
    held = board.held_by(me).get(number) if held is None else held
    again = held is not None and held.repeats > 0
    others = {name: said for name, said in board.judged.get(number, {}).items() if name != me}
    mine = None if again else board.judged.get(number, {}).get(me)
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
        state=_state_shown(board, one, len(others), again=again),
        n_reviewers=queue.n_reviewers,
        blind=queue.blind,
        n_judged=None if queue.blind and mine is None else len(others) + (mine is not None),
        assigned_to=one.assigned_to or None,
        hold_until_ms=held.until_ms if held is not None and held.until_ms > board.now_ms else 0,
        seen="" if queue.blind else _newest(board, number, me),
        rubric=None if rubric is None else rubric[1],
        rubric_version=queue.rubric,
        levels=levels_of(facts, queue.rubric),
        draft=draft_of(facts, queue.queue_no, number, me, board.now_ms),
        texts=texts_of(facts, one.about),
        mine=None if mine is None else f"evaluation-{mine.number}",
    )


def _state_shown(board: Board, one: Item, n_others: int, *, again: bool) -> ItemState:
    if not (again or one.control):
        return board.state(one.item_no)
    return "needs_another" if 0 < n_others < board.queue.n_reviewers else "needs_review"


def _newest(board: Board, item: int, me: str) -> str:
    """The latest judgement of an item by somebody else, as `submit` is given it back."""
    numbers = [said.number for name, said in board.judged.get(item, {}).items() if name != me]
    return f"evaluation-{max(numbers)}" if numbers else _NOBODY


# Judging


def _item(board: Board, item: int) -> Item:
    found = board.items.get(item)
    if found is None:
        raise NotFound(
            f"There is no item {shown(item)} in {board.queue.id}, or its run is there no more.",
            next_step="Take the next one.",
        )
    return found


def _number(item: int) -> int:
    return whole("item", item, 10 * MAX_ITEMS, lowest=1)


def _admit(board: Board, one: Item, me: str, held: Hold | None, seen: str | None) -> None:
    """Raise `Conflict` where others did something that whoever sends this doesn't know of."""
    number = one.item_no
    since = [] if seen is None else _since(board, number, me, seen)
    if since and not _needs(board, number, me):
        latest = since[-1]
        score = "" if latest.score is None else f" ({latest.score:g})"
        raise Conflict(
            f"Item {number} of {board.queue.id} was judged {latest.outcome}{score} by {latest.rater} meanwhile.",
            next_step=_LOOK,
        )
    is_mine = me in board.judged.get(number, {}) or one.control != ""
    if is_mine or (held is not None and held.until_ms > board.now_ms):
        return
    if not board.is_open(number) or not board.has_place(number, me):
        ended = "" if held is None else f"Your hold ended at {iso(held.until_ms)}, and it"
        raise Conflict(
            f"{ended or f'Item {number} of {board.queue.id}'} is {_whose(board, number, me)}; nothing was sent.",
            next_step=f"What was typed is kept. {_LOOK}",
        )


def _since(board: Board, item: int, me: str, seen: str) -> list[Meanwhile]:
    """What others judged since an item was looked at, the latest last; of a blind queue nothing."""
    if board.queue.blind:
        return []
    known = int(seen.rpartition("-")[2]) if seen.startswith("evaluation-") and seen[11:].isdecimal() else 0
    newer = [
        (said.number, name, said)
        for name, said in board.judged.get(item, {}).items()
        if name != me and said.number > known
    ]
    return [Meanwhile(rater=name, outcome=said.outcome, score=said.score) for _, name, said in sorted(newer)]


def _needs(board: Board, item: int, me: str) -> bool:
    """Whether an item needs one judgement more than those of others."""
    return len(board.judged.get(item, {}).keys() - {me}) < board.queue.n_reviewers


def _whose(board: Board, item: int, me: str) -> str:
    """Why an item is not to be had, in words that tell nothing of what others made of it."""
    state = board.state(item)
    if state in {"done", "set_aside"}:
        return "done with meanwhile" if state == "done" else "set aside meanwhile"
    if me in board.judged.get(item, {}):
        return "judged by you already"
    if board.items[item].assigned_to not in {"", me}:
        return "assigned to somebody else"
    return "somebody else's now"


def _order(txn: Transaction, queue: Queue, one: Item, typed: Draft, key: str | None) -> EvaluationOrder:
    """What was typed, as the evaluation that it is."""
    outcome, score = _judgement(txn, queue, typed)
    subject = named_item(txn, one.about).subject
    return EvaluationOrder(
        outcome=outcome,
        score=score,
        layer=subject.layer or None,
        execution=subject.execution or None,
        run=None if subject.execution else subject.run,
        arm=subject.arm or None,
        feedback=typed.feedback or None,
        rater=txn.actor.name,
        rubric=queue.rubric or None,
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
    seed: int,
) -> SubmitAnswer:
    queue, number = board.queue, one.item_no
    held = board.held_by(txn.actor.name).get(number)
    answer = evaluated(txn, [order])[0]
    if held is not None and held.repeats:
        note_repeat(txn, queue.queue_no, number, held.repeats, int(answer.id.rpartition("-")[2]))
    _put_away(txn, queue, number)
    return SubmitAnswer(
        evaluation=answer,
        hold_ran_out=held is not None and held.until_ms <= board.now_ms,
        meanwhile=(),
        suggestion=suggestion_of(txn, one.about, order.outcome, order.score),
        next=_give(txn, queue, seed),
    )


def _put_away(txn: Transaction, queue: Queue, item: int) -> None:
    """Whoever acts is done with an item."""
    let_go(txn, queue.queue_no, item)
    write_draft(txn, queue.queue_no, item, None)
    unskip_items(txn, queue.queue_no, item)


def _check_aside(board: Board, item: int, me: str) -> None:
    if any(name == me for name, _, _ in board.asides.get(item, ())):
        raise Conflict(
            f"Item {item} of {board.queue.id} is set aside by you already.", next_step="Take the next one."
        )
    if not board.is_open(item) and not board.items[item].control and item not in board.held_by(me):
        raise Conflict(
            f"Item {item} of {board.queue.id} is {_whose(board, item, me)}.", next_step="Take the next one."
        )
