"""Queue of the review: its mode and progress, the reviewer's last judgements, and the names of browsers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import streamlit as st

from core.records.browser import BrowserRow
from core.records.review import MyJudgement, Progress, QueueRow
from dashboard import actions, queries, reviews, wording
from dashboard.actions import Flash
from dashboard.reading import reading
from dashboard.sentences import judging
from dashboard.sentences import review as sentences
from dashboard.who import MAX_NAME, own_name
from dashboard.widgets import address
from dashboard.widgets.address import QUEUES, held
from dashboard.widgets.address import REVIEW_HOW as HOW
from dashboard.widgets.fields import choice, lazy_popover
from dashboard.widgets.parts import both_ends, command, empty, muted, section, small
from dashboard.widgets.results import result
from dashboard.widgets.review import open_item
from dashboard.widgets.tables import ACT_PX, record_table
from dashboard.wording import Markdown, Words

_FIELD: Final = "review queue"
REQUEUE: Final = "Bring back what I put off"

How = Literal["one", "pairs", "many", "queues"]
_HOWS: Final[Mapping[How, str]] = {
    "one": "One by one",
    "pairs": "Pairs",
    "many": "Many at once",
    "queues": QUEUES,
}

NAME_HERE: Final = "browser-name"
"""Key of the field and the button; ``browser.js`` stores the name and reads the page again."""

_RENAMED: Final = "review renamed"

# Last judgements
SHOWN: Final = 20
_HERE: Final = "review last"
_PHONE: Final = {"act": ACT_PX, "judgement": 90, "about": 150}

_BROWSERS: Final = 12
_HOW: Final = (
    "People do not sign in here, so a browser gives itself a name. Its judgements count as those of the machine’s "
    "user until an operator confirms the name. Confirm a name only if you know who uses that browser."
)


def mine(rows: Sequence[QueueRow]) -> list[QueueRow]:
    """Return queues by urgency for the reviewer: with work for them, overdue, assigned, the oldest first."""
    return sorted(
        rows,
        key=lambda row: (
            row.progress.left_for_me == 0,
            not row.overdue,
            not row.progress.assigned_to_me,
            row.at_ms,
        ),
    )


def chosen(rows: Sequence[QueueRow]) -> QueueRow | None:
    """Return the queue of the address, else the one worked on, else the most urgent; None without a queue."""
    ordered = mine(rows)
    named = {row.progress.queue: row for row in ordered}
    for candidate in (st.session_state.get(_FIELD), open_item.requested()[0], open_item.last_queue()):
        if candidate in named:
            return named[candidate]
    return ordered[0] if ordered else None


def picker(rows: Sequence[QueueRow], now: QueueRow) -> None:
    """One's queues, each with what is left, the overdue ones marked."""
    words = {row.progress.queue: _words(row, is_shown=row is now) for row in mine(rows)}
    # The browser knows the choice by its words alone, which change with every item: so it is sent again.
    st.session_state[_FIELD] = now.progress.queue
    st.selectbox(
        "Queue",
        list(words),
        key=_FIELD,
        format_func=words.__getitem__,
        label_visibility="collapsed",
        on_change=open_item.let_go,
        width=420,
    )


def _words(row: QueueRow, *, is_shown: bool) -> str:
    """Return a queue's name, and what is left in it for the person; the title has that of the shown one."""
    known = row.progress
    left = f" · {wording.count(known.left_for_me)} for you" if known.left_for_me else " · nothing for you"
    late = ", overdue" if row.overdue else ""
    return f"{wording.cut_middle(wording.plain(known.name), 40)}{'' if is_shown else left}{late}"


def none() -> None:
    """Show the page without an active queue."""
    may = reading().may("queue")
    empty(
        ("No queue is active.",),
        "Here runs, arms in them or answers of layers are judged one after the other, with the rubric beside them.",
        rows={
            "needed": ["a queue"],
            "now": ["none"],
            "which is": [":yellow[:material/warning:] missing"],
        },
        to_do="**Make one** under Queues, above, or in a terminal."
        if may
        else "**Ask an operator** for one, or judge pairs or many at once, above.",
        shell=command("queue add NAME") if may else None,
    )


def nothing_left(known: Progress) -> None:
    """Show that all is done, or that the rest is not for this person."""
    if not known.total:
        muted("It holds no item.")
    elif known.skipped_by_me:
        muted("What you put off waits for you until you ask for it.")
        st.button(
            f"{REQUEUE} ({wording.count(known.skipped_by_me)})",
            key="requeue",
            shortcut="B",
            type="primary",
            icon=":material/replay:",
            on_click=open_item.requeue,
            args=(known.queue,),
        )
    elif known.open:
        muted(sentences.left_over(known, reading().context.actor))
    else:
        muted(f"{wording.count(known.done)} judged, {wording.count(known.set_aside)} skipped. Thank you.")
    for line in open_item.messages():
        st.markdown(f":gray[:material/info:] {line}")
    result(open_item.HERE)


def say_where(known: open_item.Open) -> None:
    """Have the address say queue and item."""
    item = None if known.item is None else str(known.item.item)
    address.say({address.REVIEW_QUEUE: known.queue, address.REVIEW_ITEM: item})


def way() -> How:
    """Return the mode before its field is drawn."""
    named = st.query_params.get(HOW)
    if named == _HOWS["queues"] and not reading().may("queue"):
        return "one"
    known: How | None = held(HOW)
    if known is not None:
        return known
    for how, word in _HOWS.items():
        if word == named:
            return how
    return "one"


def modes() -> How:
    """Return the field; making queues is for those who may."""
    return choice(
        "How to judge",
        {how: _HOWS[how] for how in _HOWS if how != "queues" or reading().may("queue")},
        "one",
        key=HOW,
    )


def is_renamed() -> bool:
    """Return whether the browser reads the page again under another name; until then it takes no item."""
    return bool(st.session_state.get(_RENAMED))


def _let_go() -> None:
    open_item.let_go()
    st.session_state[_RENAMED] = True


def browser_name() -> None:
    """Let a browser name itself. The name holds items, and is the rater's once an operator has confirmed it."""
    actor = reading().context.actor
    if not actor.browser:
        return
    known = own_name()
    shown = wording.literal(known) if actor.person else f"{wording.literal(known)}, not signed in"
    label = shown if known else "Who are you?"
    behind = lazy_popover(label, key="review name", icon=":material/person:")
    if behind is None:
        return
    with behind, st.container(key=NAME_HERE):
        st.text_input("Your name in this browser", known, max_chars=MAX_NAME, key="browser name")
        st.button("Use this name", key="use browser name", on_click=_let_go)
        muted("People do not sign in here. Two browsers never get the same item.")
        if actor.person:
            muted("An operator confirmed this name: your judgements count as its own.")


def last() -> None:
    """Show the reviewer's last judgements behind a button, each with its undo."""
    behind = lazy_popover(f"My last {SHOWN}", key="review last", icon=":material/history:")
    if behind is None:
        return
    with behind:
        rows = [one for one in reviews.my_last(SHOWN) if not one.undone]
        if not rows:
            muted("You have no active judgement yet.")
            result(_HERE)
            return
        record_table(
            sentences.last_table(judging.layer_names(queries.layers())),
            rows,
            key=f"my last {rows[0].id} {len(rows)}",
            alt="My last judgements",
            phone=_PHONE,
            year_of_ms=reading().frame.last_at_ms,
            labels=["Undo"] * len(rows),
            on_click=lambda row: actions.take_back(rows[row].id, at=_HERE) if row < len(rows) else None,
        )
        _several(rows)


def _several(rows: Sequence[MyJudgement]) -> None:
    """Draw the latest few, as one act."""
    many = st.number_input("The latest", 1, len(rows), 1, key="review take back")
    st.button(
        "Take all of these back",
        key="review take back all",
        on_click=actions.take_back_all,
        args=([one.id for one in rows[:many]],),
        kwargs={"at": _HERE},
    )
    result(_HERE)


def browsers() -> None:
    """Draw every named browser with its confirmation, or its undo; nothing where there is none."""
    rows = reviews.browsers()
    if not rows:
        return
    section("Browsers without sign-in", _waiting(rows))
    with st.container(border=True, gap="xsmall"):
        for one in rows[:_BROWSERS]:
            _browser(one)
        if len(rows) > _BROWSERS:
            muted(
                f"{wording.things(len(rows) - _BROWSERS, 'more browser', 'more browsers')}: `armscope browser list`."
            )
    result("browser")
    muted(_HOW)


def _browser(one: BrowserRow) -> None:
    name, person = (wording.literal(wording.plain(text)) for text in (one.name, one.person))
    counts = f"**{name}** is confirmed" if one.id else f"**{name}** is not signed in, and counts as {person}"
    with both_ends(wrap=False):
        st.markdown(f"{counts}  \n{small(_details(one))}", width="stretch")
        st.button(
            "Confirm" if one.id is None else "Undo",
            key=f"browser {one.browser}",
            type="tertiary",
            icon=":material/how_to_reg:" if one.id is None else ":material/undo:",
            help=f"browser {wording.literal(wording.plain(one.browser))}",
            on_click=_act,
            args=(one,),
        )


def _details(one: BrowserRow) -> Markdown:
    year = reading().context.clock()
    parts = [wording.literal(one.browser.rpartition(" ")[2]), wording.things(one.n_judged, "judgement")]
    if one.last_ms is not None:
        parts.append(f"latest {wording.minute(one.last_ms, year_of_ms=year)}")
    if one.by is not None:
        parts.append(f"by {wording.literal(wording.plain(one.by))}")
    return " · ".join(parts)


def _waiting(rows: Sequence[BrowserRow]) -> Words:
    n = sum(one.id is None for one in rows)
    if not n:
        return Words("every name is confirmed")
    return f"{wording.things(n, 'name')} {'waits' if n == 1 else 'wait'} for an operator"


def _act(one: BrowserRow) -> None:
    if one.id is not None:
        actions.take_back(one.id, at="browser")
        return

    def act() -> Flash:
        answer = reviews.confirm_browser(one.browser)
        judged = wording.things(answer.n_judged, "judgement")
        return Flash(
            text=f"{wording.literal(answer.name)} counts as a rater, with {judged}.",
            act=answer.id,
        )

    actions.tried("The name was not confirmed.", act, at="browser")
