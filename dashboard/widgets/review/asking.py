"""Asking for the items of a queue or batch, counted as the fields are now; one judgement of all matches, frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, get_args

import streamlit as st
from msgspec.structs import replace
from streamlit.delta_generator import DeltaGenerator

from core.errors import ArmscopeError
from core.records.evaluation import MAX_FEEDBACK_CHARS, EvaluationOutcome, Subject
from core.records.review import ABOUTS, MAX_ITEMS, ORDERS, SOURCES, About, Order, QueueAsks, QueueProposal
from core.records.run_query import RunFilter
from dashboard import actions, queries, reviews, wording
from dashboard.actions import Flash
from dashboard.reading import reading
from dashboard.sentences import review as sentences
from dashboard.sentences.transcript import first_words
from dashboard.widgets import address
from dashboard.widgets.parts import gray, muted, section
from dashboard.widgets.results import result
from dashboard.wording import Markdown

_ABOUT_WORDS: Final[Mapping[About, str]] = {
    "run": "runs",
    "arm": "arms in runs",
    "execution": "executions",
    "layer": "layers in executions",
}
_FIRST: Final = 5
_TASK_CHARS: Final = 70
_NAME: Final = "batch"
_DONE: Final = "batch done"
_OUTCOMES: Final[tuple[EvaluationOutcome, ...]] = get_args(EvaluationOutcome)


@dataclass(frozen=True, kw_only=True)
class Counted:
    """The request and its result; its token is refused if other items match by then."""

    asks: QueueAsks
    proposal: QueueProposal


def asks_fields(name: str, *, folded: DeltaGenerator | None) -> QueueAsks | None:
    """Return the request of the fields, None for invalid content; ``folded`` is where the order is asked for."""
    run_filter = _requested_runs(name)
    left, right = st.columns(2)
    with left:
        source = st.selectbox(
            "Which",
            SOURCES if folded is not None else SOURCES[:-2],
            key=f"{name} source",
            format_func=sentences.SOURCE_WORDS.__getitem__,
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
    elif source != "experiment":
        _say_filters(run_filter)
    if source == "unused":
        run_filter = run_filter or RunFilter()
        arm = st.text_input("Arm, by its id", run_filter.arm or "", key=f"{name} arm")
        run_filter = replace(run_filter, arm=arm.strip() or None)
    experiment = ""
    if source == "experiment":
        experiment = st.text_input("Experiment, by its id or arm", key=f"{name} experiment").strip()
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
            experiment=experiment,
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
    muted("The filters above (span, models, channels, types) apply to these items.")
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
    """Count what the fields ask for now, draw the first items, and return the result; None without an item."""
    if asks is None:
        return None
    key, now = f"{name} counted", (asks, reading().frame.snapshot_key)
    before: tuple[tuple[QueueAsks, object], Counted] | None = st.session_state.get(key)
    try:
        if before is None or before[0] != now:
            before = now, Counted(asks=asks, proposal=reviews.propose(asks, batch=batch))
            st.session_state[key] = before
    except ArmscopeError as problem:
        st.markdown(f":red[:material/error: {wording.literal(str(problem))}]")
        return None
    n, first = before[1].proposal.n, before[1].proposal.first[:_FIRST]
    more = [gray(f"and {wording.count(n - len(first))} more")] if n > len(first) else []
    st.markdown("  \n".join([f"**{wording.things(n, 'item')}**", *map(_begins, first), *more]))
    return before[1] if n else None


def _begins(subject: Subject) -> Markdown:
    """Return the date of an item's run and the first words of its task, else what it is about."""
    about, when = wording.literal(sentences.about(subject.uri)), ""
    try:
        facts = queries.run(subject.run).facts if subject.run else None
        messages = queries.transcript(subject.run).messages if subject.run else None
    except ArmscopeError:
        facts = messages = None
    if facts is not None:
        when = f"{gray(wording.minute(facts.at_ms, year_of_ms=reading().frame.last_at_ms))} "
        about = f"Run {wording.count(facts.run_no)}" if not subject.arm else about
    task = "" if messages is None else first_words(messages, _TASK_CHARS)
    return f"{when}{wording.literal(task) if task else about}"


def forget(name: str) -> None:
    """Forget the form after it was confirmed."""
    st.session_state.pop(f"{name} counted", None)


def many() -> None:
    """Show the matches, the judgement, and the button with the number."""
    left, right = st.columns([7, 5], gap="large")
    with left:
        section("What to judge", "counted and frozen before it is sent")
        with st.container(border=True):
            known = counted(_NAME, asks_fields(_NAME, folded=None), batch=True)
    with right:
        section("Judgement", "the same of all")
        with st.container(border=True):
            _judgement(known)
    _done()


def _judgement(known: Counted | None) -> None:
    outcome = st.segmented_control("Outcome", _OUTCOMES, key=f"{_NAME} outcome", format_func=str.capitalize)
    score = st.number_input(
        "How sure, 0 to 1" if outcome == "failure" else "Score, 0 to 1",
        0.0,
        1.0,
        value=None,
        step=0.05,
        key=f"{_NAME} score",
        placeholder="none yet",
    )
    feedback = st.text_area(
        "Feedback, optional", key=f"{_NAME} feedback", height=80, max_chars=MAX_FEEDBACK_CHARS
    )
    versions = [row.rubric.version for row in queries.rubrics()]
    rubric = st.selectbox(
        "Rubric",
        ["", *versions],
        key=f"{_NAME} rubric",
        format_func=lambda version: wording.plain(version) or "none",
    )
    n = 0 if known is None else known.proposal.n
    st.button(
        f"Judge {wording.things(n, 'item')} {sentences.judged(outcome, score)}"
        if n and outcome
        else "Judge them",
        type="primary",
        key=f"{_NAME} send",
        disabled=known is None or outcome is None or score is None,
        on_click=_send,
        args=(known, outcome, score, feedback, rubric),
    )
    if not n or outcome is None or score is None:
        muted("Choose outcome and score.")
    result("many")


def _send(
    known: Counted | None, outcome: EvaluationOutcome, score: float, feedback: str, rubric: str
) -> None:
    if known is None:
        return

    def act() -> Flash:
        answer = reviews.judge_batch(
            known.asks,
            known.proposal.token,
            outcome=outcome,
            score=score,
            feedback=feedback.strip() or None,
            rubric=rubric or None,
        )
        forget(_NAME)
        st.session_state[_DONE] = answer.acts
        done: Markdown = f"{wording.things(answer.n, 'item')} judged {sentences.judged(outcome, score)}."
        return Flash(text=f"{done} {sentences.replaced(answer.replaced)}" if answer.replaced else done)

    actions.tried("Nothing was judged.", act, at="many")


def _done() -> None:
    acts: tuple[str, ...] = st.session_state.get(_DONE, ())
    if not acts:
        return
    st.button(
        f"Take {wording.things(len(acts), 'judgement')} back",
        icon=":material/undo:",
        key=f"{_NAME} undo {acts[0]}",
        on_click=actions.take_back_all,
        args=(acts,),
        kwargs={"at": "many", "forget": _DONE},
    )
