"""Asking for the items of a queue or batch: source, kind, order, size; counted before confirmation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.errors import ArmscopeError
from core.records.review import ABOUTS, MAX_ITEMS, ORDERS, SOURCES, About, Order, QueueAsks, QueueProposal
from core.records.view import RunFilter
from dashboard import reviews, wording
from dashboard.reading import reading
from dashboard.sentences import review as sentences
from dashboard.widgets import address
from dashboard.widgets.words import gray, muted

_ABOUT_WORDS: Final[Mapping[About, str]] = {
    "run": "runs",
    "arm": "arms in runs",
    "execution": "executions",
    "layer": "layers in executions",
}
_FIRST: Final = 5


@dataclass(frozen=True, kw_only=True)
class Counted:
    """The request and its result."""

    asks: QueueAsks
    proposal: QueueProposal


def asks_fields(name: str, *, folded: DeltaGenerator | None) -> QueueAsks | None:
    """Show the fields and return the request; None with a message for invalid content.

    ``folded`` is where the order is asked for; without it there is none.
    """
    run_filter = _requested_runs(name)
    left, right = st.columns(2)
    with left:
        source = st.selectbox(
            "Which", SOURCES, key=f"{name} source", format_func=sentences.SOURCE_WORDS.__getitem__
        )
    with right:
        about = st.selectbox(
            "What an item is", ABOUTS, key=f"{name} about", format_func=_ABOUT_WORDS.__getitem__
        )
    order: Order = "oldest"
    if folded is not None:
        with folded:
            order = st.selectbox(
                "Order", ORDERS, key=f"{name} order", format_func=sentences.ORDER_WORDS.__getitem__
            )
    with left:
        st.session_state.setdefault(f"{name} limit", 100 if folded is None else 30)
        limit = st.number_input("At most", 1, MAX_ITEMS, key=f"{name} limit")
    below, picked = 0.5, ""
    if source == "low":
        below = st.number_input("Score at most", 0.0, 1.0, 0.5, 0.05, key=f"{name} below")
    if source == "runs":
        picked = st.text_area("Runs, by number or id, one a line", key=f"{name} runs", height=100)
    else:
        _say_filters(run_filter)
    runs = tuple(line.strip() for line in picked.splitlines() if line.strip())
    try:
        return QueueAsks(
            source=source,
            about=about,
            order=order,
            wanted=run_filter or RunFilter(),
            limit=limit,
            below=below,
            runs=runs,
            view=reading().view,
        )
    except ArmscopeError as problem:
        st.markdown(f":red[:material/error: {wording.literal(str(problem))}]")
        return None


def _requested_runs(name: str) -> RunFilter | None:
    """Return the runs of the link to this page; each arrival fills the fields once."""
    run_filter, arrival_key = address.queued_runs(), f"{name} sent"
    now = None if run_filter is None else (run_filter, address.arrival())
    if st.session_state.get(arrival_key) != now:
        st.session_state[arrival_key] = now
        if run_filter is not None:
            st.session_state[f"{name} source"] = "filter"
            st.session_state[f"{name} limit"] = MAX_ITEMS
    return run_filter


def _say_filters(run_filter: RunFilter | None) -> None:
    """Show the filters beside the fields, and a way to remove them."""
    muted("The filters above (span, models, channels, types) hold for it.")
    if run_filter is None:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"From the page Runs: **{sentences.filtered_runs(run_filter)}**", width="content")
        st.button(
            "All runs",
            type="tertiary",
            icon=":material/close:",
            key="queue all runs",
            on_click=address.say,
            args=({address.REVIEW_RUNS: None},),
        )


def counted(name: str, asks: QueueAsks | None, *, batch: bool) -> Counted | None:
    """Return the button that counts, and what it found; None until it was pressed for what the fields say now."""
    key = f"{name} counted"
    if st.button("Count them", key=f"{name} count", disabled=asks is None) and asks is not None:
        st.session_state.pop(key, None)
        try:
            st.session_state[key] = Counted(asks=asks, proposal=reviews.propose(asks, batch=batch))
        except ArmscopeError as problem:
            st.markdown(f":red[:material/error: {wording.literal(str(problem))}]")
    known: Counted | None = st.session_state.get(key)
    if known is None or known.asks != asks:
        muted("Count first. Counting writes nothing.")
        return None
    n = known.proposal.n
    names = [wording.literal(sentences.about(one.uri)) for one in known.proposal.first[:_FIRST]]
    more = f" and {wording.count(n - len(names))} more" if n > len(names) else ""
    st.markdown(f"**{wording.things(n, 'item')}** {gray(f'{wording.listed(names)}{more}' if n else 'pass.')}")
    return known if n else None


def forget(name: str) -> None:
    """Forget the form after it was confirmed."""
    st.session_state.pop(f"{name} counted", None)
