"""Making queues: active queues, a new one counted before it is made, and assignments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import streamlit as st

from core.explained.table import Table, text
from core.records.review import (
    HOLD_MINUTES,
    MAX_HOLD_MINUTES,
    MAX_NAME_CHARS,
    MAX_REVIEWERS,
    QueueRow,
)
from dashboard import actions, queries, reviews, wording
from dashboard.actions import Flash
from dashboard.sentences import review as sentences
from dashboard.widgets.parts import muted, section
from dashboard.widgets.results import result
from dashboard.widgets.review.asking import Counted, asks_fields, counted, forget
from dashboard.widgets.tables import ACT_PX, record_table

_NAME: Final = "new queue"
_QUEUES: Final = "queues"
_PHONE: Final = {"act": ACT_PX, "queue": 130, "done": 70}
_MOST_DAYS: Final = 365
_ACTIVE: Final[Table[QueueRow]] = Table(
    queue=text("queue", lambda row: row.progress.name, width=250),
    done=text(
        "done", lambda row: f"{row.progress.done + row.progress.set_aside} of {row.progress.total}", width=90
    ),
    held=text("held", lambda row: str(row.progress.held_by_others), width=60),
    order=text("order", lambda row: sentences.ORDER_WORDS[row.asks.order], width=200),
    rubric=text("rubric", lambda row: row.rubric, width=110),
    by=text("by", lambda row: row.by, width=90),
    due_at=text("due, UTC", sentences.due, width=150),
)


def queues_by_state(rows: Sequence[QueueRow]) -> None:
    """Draw every active queue, with its undo."""
    section("Active queues", "undoing one keeps its judgements")
    if not rows:
        muted("None yet.")
        result(_QUEUES)
        return
    record_table(
        _ACTIVE,
        rows,
        key=f"queues {rows[0].progress.queue} {len(rows)}",
        alt="Queues",
        phone=_PHONE,
        labels=["Undo"] * len(rows),
        on_click=lambda row: (
            actions.take_back(rows[row].progress.queue, at=_QUEUES) if row < len(rows) else None
        ),
    )
    result(_QUEUES)


def new_queue() -> None:
    """Draw a form, counted first."""
    section("A new queue", "frozen as it is counted")
    with st.container(border=True):
        name = st.text_input("Name", key=f"{_NAME} name", max_chars=MAX_NAME_CHARS)
        fields = st.container()
        folded = st.expander("Order, rubric and reviewers", icon=":material/tune:", key=f"{_NAME} more")
        with fields:
            asks = asks_fields(_NAME, folded=folded)
        with folded:
            options = _options()
        asks = None if asks is None else msgspec.structs.replace(asks, hold_minutes=options.hold_minutes)
        known = counted(_NAME, asks, batch=False)
        st.button(
            f"Make the queue of {known.proposal.n}" if known else "Make the queue",
            type="primary",
            key=f"{_NAME} make",
            disabled=known is None or not name.strip(),
            on_click=_make,
            args=(name, known, options),
        )
        if known is not None and not name.strip():
            muted("It needs a name.")
        result("queue")


@dataclass(frozen=True, kw_only=True)
class _FoldedFields:
    """Fields of a new queue that have a default."""

    rubric: str
    n_reviewers: int
    hold_minutes: int
    due_days: int
    blind: bool


def _options() -> _FoldedFields:
    versions = [row.rubric.version for row in queries.rubrics()]
    left, right = st.columns(2)
    with left:
        rubric = st.selectbox(
            "Rubric",
            ["", *versions],
            key=f"{_NAME} rubric",
            format_func=lambda version: wording.plain(version) or "none",
        )
        n_reviewers = st.number_input("Reviewers an item", 1, MAX_REVIEWERS, 1, key=f"{_NAME} reviewers")
        hold_minutes = st.number_input(
            "Minutes an item is held",
            1,
            MAX_HOLD_MINUTES,
            HOLD_MINUTES,
            key=f"{_NAME} hold",
            help="How long it is reserved for the reviewer who opened it",
        )
    with right:
        due_days = st.number_input("Due in days", 0, _MOST_DAYS, 7, key=f"{_NAME} due")
    blind = st.toggle("Blind: hide others’ judgements until one’s own is sent", key=f"{_NAME} blind")
    return _FoldedFields(
        rubric=rubric,
        n_reviewers=n_reviewers,
        hold_minutes=hold_minutes,
        due_days=due_days,
        blind=blind,
    )


def _make(name: str, known: Counted | None, options: _FoldedFields) -> None:
    if known is None:
        return

    def act() -> Flash:
        queue = reviews.make_queue(
            name,
            known.asks,
            token=known.proposal.token,
            n_reviewers=options.n_reviewers,
            blind=options.blind,
            rubric=options.rubric,
            due_days=options.due_days,
        )
        forget(_NAME)
        return Flash(
            text=f"{wording.things(queue.n_items, 'item')} wait in {wording.literal(queue.id)}.", act=queue.id
        )

    actions.tried("No queue was made.", act, at="queue")


def people(rows: Sequence[QueueRow]) -> None:
    """Draw the form that assigns a queue's items to a reviewer."""
    if not rows:
        return
    names = {row.progress.queue: wording.plain(row.progress.name) for row in rows}
    section("Who judges", "assigned items come first")
    with st.container(border=True):
        queue = st.selectbox("Of", list(names), key="people of", format_func=lambda one: names.get(one, one))
        left, right = st.columns(2)
        items = left.text_input("Items, for example 1-10, 14", key="assign items")
        to = right.text_input("To, empty: any reviewer", key="assign to")
        st.button(
            "Assign", key="assign", disabled=not items.strip(), on_click=_assign, args=(queue, items, to)
        )
        result("assign")


def numbers(text: str) -> list[int]:
    """Return typed numbers of items; raises `ValueError` for other text.

    >>> numbers("1-3, 7")
    [1, 2, 3, 7]
    """
    parsed: list[int] = []
    for part in text.replace(";", ",").split(","):
        first, dash, last = part.strip().partition("-")
        parsed += range(int(first), min(int(last), int(first) + 10_000) + 1) if dash else [int(first)]
    return parsed


def _assign(queue: str, items: str, to: str) -> None:
    try:
        item_numbers = numbers(items)
    except ValueError:
        shown = wording.literal(wording.plain(items)[:60])
        actions.say(Flash(text=f"Items must be numbers like 1-10, 14, got {shown}.", failed=True))
        return

    def act() -> Flash:
        n = reviews.assign(queue, item_numbers, to.strip() or None)
        return Flash(text=f"{wording.things(n, 'item')} assigned.")

    actions.tried("Nothing was assigned.", act, at="assign")
