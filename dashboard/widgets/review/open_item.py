"""The open item: the session's queue and item, its draft, and its submission.

The server holds the item and stores the draft, so that both outlive the session. The session knows which form is on
the page. Each form has its own key, under which it is sent once. A click on an old form does nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import msgspec
import streamlit as st

from core.errors import ArmscopeError, Conflict, NotFound
from core.records.evaluation import EvaluationOutcome
from core.records.review import Draft, NextItem, Progress, ReviewItem
from dashboard import actions, reviews, wording
from dashboard.actions import Flash
from dashboard.reading import reading
from dashboard.sentences import review as sentences
from dashboard.widgets import address
from dashboard.wording import Markdown

_OPEN: Final = "review open"
_ARRIVAL: Final = "review arrival"
_QUEUE: Final = "review last queue"
_MESSAGES: Final = "review messages"
_SUBMITTED: Final = "review submitted"
_RENEW_MS: Final = 5 * 60_000
_CHOOSE: Final = "Choose a level first, or an outcome with its score."
HERE: Final = "review"
"""Control at which the result of the last judgement is shown."""


@dataclass(frozen=True, kw_only=True)
class Open:
    """The form on the page. ``problem`` is the reason of a failed submission; ``anyway``: sending again records it.

    ``ran_out``: the hold ended while the reviewer typed, and began again.
    """

    queue: str
    item: ReviewItem | None
    progress: Progress
    key: str
    problem: str = ""
    anyway: bool = False
    ran_out: bool = False


def now() -> Open | None:
    """Return the one of this session."""
    known: Open | None = st.session_state.get(_OPEN)
    return known


def _set(known: Open | None) -> None:
    st.session_state[_OPEN] = known
    here = reading()
    if known is None or known.item is None:
        address.on_leaving(None)
        return
    address.on_leaving(partial(_left, partial(reviews.let_go, here.context, known.queue, known.item.item)))


def _left(let_go: Callable[[], None]) -> None:
    """Free the item for others when the person goes to another page; the typed text waits as a draft."""
    let_go()
    st.session_state.pop(_OPEN, None)


def last_queue() -> str | None:
    """Return the queue that was worked on last in this session."""
    known: str | None = st.session_state.get(_QUEUE)
    return known


def requested() -> tuple[str | None, int | None]:
    """Return queue and item that the address names."""
    return st.query_params.get(address.REVIEW_QUEUE), address.number(address.REVIEW_ITEM, digits=5)


def arrived() -> bool:
    """Return whether the person has just opened the page."""
    is_new = st.session_state.get(_ARRIVAL) != address.arrival()
    st.session_state[_ARRIVAL] = address.arrival()
    return is_new


def opened(progress: Progress) -> Open | None:
    """Return the open item of a queue with this progress: the present one, else the address's, else the next.

    None without such a queue.
    """
    queue = progress.queue
    st.session_state[_QUEUE] = queue
    known = now()
    try:
        if (again := _undone()) is not None and (reopened := _reopened(*again)) is not None:
            return reopened
        if known is None or known.queue != queue or arrived():
            st.session_state[_ARRIVAL] = address.arrival()
            return _begin(queue)
        if known.item is None:
            if progress.left_for_me:
                return _fill(queue, reviews.next_item(queue))
            known = replace(known, progress=progress)
        else:
            known = replace(known, progress=progress, item=_as_it_is(known.item))
    except NotFound:
        _set(None)
        return None
    _set(known)
    return known


def _undone() -> tuple[str, int, Draft] | None:
    """Return queue, item and draft of a judgement that this session sent, and whose undo it has just asked for."""
    submitted: dict[str, tuple[str, int, Draft]] = st.session_state.get(_SUBMITTED, {})
    return submitted.pop(actions.last_undone(), None)


def _reopened(queue: str, number: int, draft: Draft) -> Open | None:
    """Return the form of an item whose judgement was undone, as it was sent; None if another reviewer took it."""
    let_go()
    st.session_state[_QUEUE] = queue
    try:
        next_item = reviews.this_item(queue, number)
    except ArmscopeError as problem:
        tell([f"Undone. {wording.literal(str(problem))}"])
        return None
    actions.flashes()
    tell([])
    again = _fill(queue, next_item, draft)
    actions.done(Flash(text=f"**Item {number}** is open again, as you had judged it."), at=HERE)
    keep(again.key)
    return again


def _as_it_is(known: ReviewItem) -> ReviewItem:
    """Return the item as it is now, with the reviewer's view of other reviews as it was at the opening."""
    fresh = reviews.look_at(known.queue, known.item, seen=known.seen)
    return msgspec.structs.replace(fresh, draft=known.draft)


def _begin(queue: str) -> Open:
    let_go()
    requested_queue, number = requested()
    if requested_queue != queue or number is None:
        return _fill(queue, reviews.next_item(queue))
    try:
        return _fill(queue, reviews.this_item(queue, number))
    except NotFound:
        return _fill(queue, reviews.next_item(queue))
    except Conflict as problem:
        item = reviews.look_at(queue, number)
        if item.draft is None:
            tell([f"{wording.literal(problem.problem)} Here is the next one."])
            return _fill(queue, reviews.next_item(queue))
        # What is typed waits, and the person says what is to become of it.
        next_item = NextItem(item=item, progress=reviews.progress(queue))
        filled = replace(_fill(queue, next_item), problem=f"{problem.problem} What you typed is kept.")
        _set(filled)
        return filled


def _fill(queue: str, next_item: NextItem, draft: Draft | None = None) -> Open:
    """Return a form of its own for an item that was given, filled with a draft or the stored one."""
    opened = Open(queue=queue, item=next_item.item, progress=next_item.progress, key=uuid.uuid4().hex)
    _set(opened)
    if next_item.item is not None:
        _type(opened, draft or next_item.item.draft or Draft())
    return opened


def let_go() -> None:
    """Hand the item back."""
    known = now()
    if known is not None and known.item is not None:
        reviews.let_go(reading().context, known.queue, known.item.item)
    _set(None)


# What is typed


def outcome_key(known: Open) -> str:
    return f"review outcome {known.key}"


def score_key(known: Open) -> str:
    return f"review score {known.key}"


def feedback_key(known: Open) -> str:
    return f"review feedback {known.key}"


def level_key(known: Open) -> str:
    return f"review level {known.key}"


def _type(known: Open, draft: Draft) -> None:
    levels = () if known.item is None else known.item.levels
    is_level = draft.level is not None and draft.level <= len(levels)
    st.session_state[level_key(known)] = draft.level if is_level else None
    st.session_state[outcome_key(known)] = None if is_level else draft.outcome
    st.session_state[score_key(known)] = None if is_level else draft.score
    st.session_state[feedback_key(known)] = draft.feedback or ""


def typed(known: Open) -> Draft:
    """Return the form's content: a level with its outcome and score, else those by hand."""
    index: int | None = st.session_state.get(level_key(known))
    outcome: EvaluationOutcome | None = st.session_state.get(outcome_key(known))
    score: float | None = st.session_state.get(score_key(known))
    feedback = (st.session_state.get(feedback_key(known)) or "").strip() or None
    if index is not None and known.item is not None:
        level = known.item.levels[index - 1]
        return Draft(level=index, outcome=level.outcome, score=level.score, feedback=feedback)
    return Draft(outcome=outcome, score=score, feedback=feedback)


def by_hand(key: str) -> None:
    """Take outcome and score by hand; a level that was chosen before counts no more."""
    known = now()
    if known is not None and known.key == key:
        st.session_state[level_key(known)] = None
        keep(key)


def keep(key: str) -> None:
    """Store the draft on the server, and extend the hold while the reviewer types."""
    known = now()
    if known is None or known.key != key or known.item is None:
        return
    draft, here = typed(known), reading()
    problem, item = known.problem if known.anyway else "", known.item
    try:
        reviews.keep_draft(known.queue, item.item, None if draft == Draft() else draft)
        left_ms = item.hold_until_ms - here.context.clock()
        if left_ms < _RENEW_MS and not known.anyway:
            reviews.hold(known.queue, item.item)
            if left_ms <= 0:
                known = replace(known, ran_out=True)
                tell(["Your hold ran out; the item was still free, and it is yours again."])
    except Conflict as refusal:
        problem = f"Your hold ran out. {refusal.problem} What you typed is kept."
    except ArmscopeError as refusal:
        problem = str(refusal)
    _set(replace(known, problem=problem, item=_as_it_is(item)))


# What becomes of it


def send(key: str) -> None:
    """Judge the item as typed and go on; a judgement by another reviewer is shown first."""
    known = now()
    if known is None or known.key != key or known.item is None:
        return
    draft, item = typed(known), known.item
    if draft.outcome is None or draft.score is None:
        _set(replace(known, problem=_CHOOSE))
        return
    try:
        answer = reviews.submit(item, draft, anyway=known.anyway, key=known.key)
    except Conflict as refusal:
        again = "Send it again to make yours count, or skip it."
        _set(replace(known, problem=f"Not sent: {refusal.problem} {again}", anyway=True))
        return
    except ArmscopeError as refusal:
        _set(replace(known, problem=f"Not sent: {refusal}"))
        return
    lines = sentences.result_lines(item, answer, ran_out=known.ran_out or answer.hold_ran_out)
    tell([])
    st.session_state.setdefault(_SUBMITTED, {})[answer.evaluation.id] = (known.queue, item.item, draft)
    actions.done(Flash(text="  \n".join(lines), act=answer.evaluation.id), at=HERE)
    _fill(known.queue, answer.next)


def put_off(key: str, returns: bool) -> None:
    """Put the item off, for this person alone."""
    _with(key, lambda item: reviews.put_off(item.queue, item.item, returns=returns))


def skip(key: str, reason: str) -> None:
    """Skip the item for everyone, with the reason that it can't be judged."""

    def act(item: ReviewItem) -> NextItem:
        answer = reviews.skip_item(item.queue, item.item, reason)
        state = "done with" if answer.state == "set_aside" else "it takes a second person"
        actions.done(Flash(text=f"**Item {item.item}** skipped, {state}.", act=answer.id), at=HERE)
        return answer.next

    _with(key, act)


def _with(key: str, act: Callable[[ReviewItem], NextItem]) -> None:
    known = now()
    if known is None or known.key != key or known.item is None:
        return
    try:
        next_item = act(known.item)
    except ArmscopeError as refusal:
        _set(replace(known, problem=str(refusal)))
        return
    tell([])
    _fill(known.queue, next_item)


def requeue(queue: str) -> None:
    """Return the items that the person put off to their queue."""
    try:
        reviews.requeue(queue)
        _fill(queue, reviews.next_item(queue))
    except ArmscopeError as refusal:
        actions.say(actions.failure("Nothing was brought back.", refusal))


def tell(lines: list[Markdown]) -> None:
    """Set the message above the form until the next submission; Markdown."""
    st.session_state[_MESSAGES] = lines


def messages() -> list[Markdown]:
    """Return the same."""
    known: list[Markdown] = st.session_state.get(_MESSAGES, [])
    return known
