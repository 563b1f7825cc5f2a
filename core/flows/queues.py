"""Queues of items to review, the rubrics that people judge by, and browsers that judge where people do not sign in.

Until an operator confirms the name of a browser, its judgements count as those of the machine's user.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from statistics import mean
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from core.errors import InvalidInput, NotFound
from core.flows.context import Context, listed
from core.flows.previewed_items import FrozenItem, check_token, frozen, proposed, seeded
from core.maths.statistics.savings.shares import exact_limits
from core.records.actor import Actor
from core.records.alike import alike
from core.records.browser import BrowserAnswer, BrowserRow, check_browser_name, named_browser
from core.records.estimate import Estimate
from core.records.limits import MAX_LABEL_CHARS, text, whole
from core.records.queue_lines import QueueLine
from core.records.review import (
    LEVELS,
    MAX_NAME_CHARS,
    MAX_REVIEWERS,
    NEEDED,
    Level,
    MissedUse,
    Progress,
    QueueAnswer,
    QueueAsks,
    QueueProposal,
    QueueRow,
    Rubric,
    RubricAnswer,
    RubricRow,
)
from core.store.browsers import add_browser, browser_rows, confirmation_of
from core.store.notes import add_rubric as store_rubric
from core.store.notes import rubric_of
from core.store.queues import Item, Queue, active_queues, assign_items, find_queue
from core.store.queues import add_queue as store_queue
from core.store.reads.reviewable import named_item, rubric_rows
from core.store.review import Board, board_of, put_off_by
from core.store.transaction import Facts, Transaction

_DAY_MS: Final = 86_400_000
_MOST_DAYS: Final = 3_650
_NEW: Final = "new"


def propose_queue(context: Context, asks: QueueAsks | None = None) -> QueueProposal:
    """Count the items that a queue would hold now. `add_queue` with its token adds exactly these."""
    query = seeded(asks or QueueAsks(), context.entropy)
    with context.reading("queue") as snapshot:
        return proposed(snapshot, query, context.clock)


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

    The queue is on disk when this returns, and `undo` reverts it. ``name`` has 1 to 120 characters. ``asks`` None
    takes the oldest runs without a person's evaluation. 1 to 20 people judge each item. ``rubric`` '' = none;
    the source ``unused`` has its own, which is defined with its first queue. ``due_days`` is 0 to 3,650; None = never
    overdue. ``token`` is that of `propose_queue`.

    Raises `InvalidInput` where no item passes, or a number or text is outside its limits. Raises `Conflict` where the
    counted items have changed, and `UnknownRun` for a named run that does not exist.
    """
    query = seeded(asks or QueueAsks(), context.entropy, token)
    if query.source == "unused":
        if rubric not in {"", NEEDED.version}:
            raise InvalidInput(
                f"rubric must be left out of the source unused, got {rubric[:60]!r}.",
                next_step=f"Its rubric is {NEEDED.version}, which asks whether the arm was needed.",
            )
        rubric = NEEDED.version
    if due_days is not None:
        whole("due_days", due_days, _MOST_DAYS)
    with context.reading("queue") as snapshot:
        chosen = frozen(snapshot, query, blind=blind, clock=context.clock)
    check_token(query, chosen.items, token)
    draft = QueueLine(  # checked before anything is written
        id=_NEW,
        name=text("A queue's name", name.strip(), MAX_NAME_CHARS, lowest=1),
        asks=chosen.asks,
        n_reviewers=whole("n_reviewers", n_reviewers, MAX_REVIEWERS, lowest=1),
        blind=bool(blind),
        rubric=rubric.strip(),
        due_ms=None if due_days is None else due_days * _DAY_MS,  # from when it is made
    )

    return context.write("queue", lambda txn: _add(txn, draft, chosen.items))


def _add(txn: Transaction, line: QueueLine, chosen: Sequence[FrozenItem]) -> QueueAnswer:
    items = [Item(number, one.about, one.why) for number, one in enumerate(chosen, 1)]
    due_ms = None if line.due_ms is None else txn.now_ms + line.due_ms
    if line.asks.source == "unused":
        _defined(txn, NEEDED)
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


def missed_use(context: Context) -> dict[str, MissedUse]:
    """Return the missed use of each arm that has a queue of the source unused: its newest one's, by arm."""
    now_ms = context.clock()
    with context.reading() as snapshot:
        queues = (one for one in active_queues(snapshot) if one.asks.source == "unused")
        return {
            named_item(snapshot, item.about).subject.arm: _missed(board)
            for board in (board_of(snapshot, one, now_ms) for one in queues)
            for item in islice(board.items.values(), 1)
        }


def missed_arms(context: Context) -> set[str]:
    """Return the arms that are missed often: nothing proposes to take them out."""
    return {arm for arm, one in missed_use(context).items() if one.is_frequent}


def _missed(board: Board) -> MissedUse:
    """Return the missed use that a queue of unused arms shows. An item whose people are divided is not needed."""
    done = [board.judged[number] for number, state in board.states.items() if state == "done"]
    votes = [mean(one.outcome == "success" for one in judged.values()) for judged in done]
    answers = [share > 1 / 2 for share in votes]
    return MissedUse(
        queue=board.queue.id,
        n_items=len(board.items),
        n_judged=len(answers),
        n_needed=sum(answers),
        rate=missed_use_of(board.queue.asks, answers, len(board.items)),
    )


def missed_use_of(asks: QueueAsks, answers: Sequence[bool], n_items: int) -> Estimate:
    """Return the rate of missed use, 0 to 1, with its exact interval, from the answers of the judged items.

    The design: of each session one run, drawn among those that had the arm. A session whose run used it needs no
    answer; of the others a random part is asked about. Both kinds count with one weight, the chance of a session to
    be asked about and judged. All used sessions are known. So their weighed number varies less than a sampled one
    would, and the interval of Clopper and Pearson holds at least as often as it says.
    """
    n_needed, weight = sum(answers), (asks.chance or 0) * len(answers) / max(n_items, 1)
    return exact_limits(n_needed, n_needed + weight * (asks.used or 0))


def _row(facts: Facts, queue: Queue, actor: Actor, now_ms: int) -> QueueRow:
    board = board_of(facts, queue, now_ms, actor)
    known = progress_of(facts, board, actor.name)
    return alike(
        QueueRow,
        queue,
        missed=_missed(board) if queue.asks.source == "unused" else None,
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


def add_rubric(
    context: Context, rubric: Annotated[Rubric, Meta(description="Its version, title, criteria and levels.")]
) -> RubricAnswer:
    """Define a version of the rubric; it never changes.

    The version is on disk when this returns, and `undo` reverts it. The same version with the same content returns
    the active one. Raises `Conflict` where it is active with other content.
    """
    return context.write("queue", lambda txn: _defined(txn, rubric))


def _defined(txn: Transaction, rubric: Rubric) -> RubricAnswer:
    known = rubric_of(txn, rubric.version)
    if known is not None and known[1] == rubric:
        return RubricAnswer(id=f"rubric-{known[0]}", version=rubric.version)
    number = store_rubric(txn, rubric, txn.own)
    answer = RubricAnswer(id=f"rubric-{number}", version=rubric.version)
    txn.audit("rubric", answer.id, {"version": rubric.version, "title": rubric.title})
    return answer


def rubrics(context: Context) -> tuple[RubricRow, ...]:
    """List active versions of the rubric, with their levels.

    The newest come first, each with the number of its evaluations.
    """
    with context.reading() as snapshot:
        return rubric_rows(snapshot)


def levels_of(facts: Facts, version: str) -> tuple[Level, ...]:
    """Return the levels of a version in an open snapshot."""
    known = rubric_of(facts, version) if version else None
    return LEVELS if known is None else known[1].levels


def browsers(context: Context) -> tuple[BrowserRow, ...]:
    """List the browsers that judge under a name of their own, without sign-in.

    Those come first whose name no operator has confirmed.
    """
    with context.reading() as snapshot:
        return browser_rows(snapshot)


def confirm_browser(
    context: Context, browser: Annotated[str, Meta(description="Its name and its id, as a list shows them.")]
) -> BrowserAnswer:
    """Confirm the name of a browser, so that it counts as a rater of its own.

    This holds for its earlier judgements too. The confirmation is on disk when this returns, and `undo` reverts it:
    the judgements then count as those of the machine's user again. A repeat returns the active one. Raises `NotFound`
    for a browser that neither judged nor holds an item under that name.
    """

    def work(txn: Transaction) -> BrowserAnswer:
        rows = {row.browser: row for row in browser_rows(txn)}
        row = rows.get(browser)
        if row is None:
            known = f"there are {listed(list(rows))}" if rows else "there is none"
            raise NotFound(
                f"A browser must have judged or hold an item under its own name, got {browser[:60]!r}; {known}.",
                next_step="Let it name itself on the page Review, or list those there are.",
            )
        named = check_browser_name(row.name)
        number = confirmation_of(txn, browser_id := browser.rpartition(" ")[2], named)
        if number is None:
            number = add_browser(txn, browser_id, named, txn.own)
            txn.audit("browser", f"browser-{number}", {"browser": browser, "person": row.person})
        return BrowserAnswer(id=f"browser-{number}", browser=browser, name=named, n_judged=row.n_judged)

    return context.write("queue", work)


def actor_of_browser(context: Context, actor: Actor) -> Actor:
    """Return the actor under the browser's name, if an operator confirmed it."""
    one = named_browser(actor)
    if one is None:
        return actor
    with context.reading() as snapshot:
        if confirmation_of(snapshot, one.browser, one.named) is None:
            return actor
    return msgspec.structs.replace(actor, name=one.named, person=one.person)
