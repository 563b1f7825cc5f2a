"""Widgets of the page of trials and experiments, and of the page of an arm: the table, one verdict, and the ways."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import streamlit as st

from core.errors import ArmscopeError, NotFound
from core.explained import experiments as explained_experiments
from core.explained import of_hundred
from core.explained import trials as explained
from core.records.experiment import ExperimentRow
from core.records.trial import TrialRow, TrialStory, TrialVerdict
from dashboard import actions, pages, queries, wording
from dashboard.figures.trial import by_task
from dashboard.figures.worth import Worth, worths
from dashboard.reading import pictured_once, reading
from dashboard.sentences import trials as sentences
from dashboard.sentences.trials import Test, Used
from dashboard.widgets import address, experiments
from dashboard.widgets.charts import chart
from dashboard.widgets.evidence import exclusion
from dashboard.widgets.fields import choice
from dashboard.widgets.opening import open_one, opening_records
from dashboard.widgets.parts import (
    both_ends,
    command,
    empty,
    link,
    muted,
    not_named,
    quoted,
    section,
    sign,
    small,
)
from dashboard.widgets.results import NamedAct, offered_undo, result, way_back
from dashboard.wording import Words

_PHONE: Final = {"at": 104, "arms": 130, "verdict": 110}
_WAYS: Final = {"trial": Words("Plan a trial"), "experiment": Words("Plan an experiment")}
_WHEN: Final = {
    "trial": Words("A trial runs the same tasks with and without the arm. It needs tasks, and takes hours."),
    "experiment": Words(
        "An experiment puts the arm in or out of whole sessions by a coin. It needs many sessions a day."
    ),
}


def requested(name: str) -> TrialStory | None:
    """Return a trial by its name; None after a message with the next step."""
    with suppress(NotFound):
        return queries.trial(name)
    not_named(
        "trial",
        name,
        unnamed="This page shows one trial.",
        unknown=f"No record names {quoted(name)}.",
        needed="the id of a trial",
        to_do="**Choose a trial** in the list.",
        listed_by="trial list",
    )
    link(pages.TRIALS, "All trials and experiments")
    return None


def tests() -> list[Test]:
    """Return the trials and experiments, newest first."""
    return sorted([*queries.trials(), *queries.experiments()], key=sentences.at_ms, reverse=True)


def nothing_yet() -> None:
    """Draw the page before the first trial and experiment."""
    missing = ":yellow[:material/warning:] missing"
    empty(
        ("No arm was tried yet.",),
        "A posterior shows how often an arm is used. A trial or an experiment shows whether it helps.",
        rows={"needed": ["results with and without an arm"], "now": ["none"], "which is": [missing]},
        to_do="**Plan a trial**: the same tasks with and without an arm. A harness of yours runs it.\n\n"
        "**Many sessions a day?** Plan an experiment on the page of the arm.",
        shell=command("trial plan ARM --tasks FOLDER"),
        elsewhere=(pages.POSTERIORS, Words("Choose an arm")),
    )
    reading_form()


def table(rows: Sequence[Test], name: str = "trials") -> None:
    """Draw a row for each trial and experiment, newest first; a click opens it."""
    one = opening_records(
        sentences.TESTS,
        rows,
        _PHONE,
        name=name,
        rest="at",
        alt=f"Table of {wording.things(len(rows), 'trial or experiment', 'trials and experiments')}, newest first",
        cache_key=tuple(sentences.TESTS.cells(rows)),
    )
    if one is not None:
        open_one(pages.TRIALS, sentences.id_of(one))


def how_to_plan(arm: str = "ARM") -> None:
    """Draw the command that plans a trial."""
    section("Plan a trial", "in the harness that you use")
    st.code(command(f"trial plan {shlex.quote(arm)} --tasks FOLDER"), language=None, wrap_lines=True)


def of_arm(arm: str) -> None:
    """Draw the verdicts on an arm, its trials and experiments, and the ways to another one."""
    rows = [row for row in tests() if arm in sentences.arms_of(row)]
    tried = [one for row in rows if isinstance(row, TrialRow) for one in row.verdicts if one.arm == arm]
    section("Does it help?", "by trials and experiments: with and without it")
    for row in _shown_experiments(rows):
        experiments.brief(row)
    if tried or not rows:
        verdict(tried)
    if any(one.figures.word == "harms" for one in explained.in_force(queries.trials()) if one.arm == arm):
        exclusion((arm,), until=Words(""))
    if rows:
        table(rows, name="trials of arm")
    _ways(arm)
    link(pages.TRIALS, "All trials and experiments")


def _shown_experiments(rows: Sequence[Test]) -> list[ExperimentRow]:
    """Return the newest experiment; and where that has no verdict yet, the one whose verdict is in force."""
    known = [row for row in rows if isinstance(row, ExperimentRow) and row.state != "undone"]
    in_force = [row for row in explained_experiments.in_force(known) if row.figures.word != "open"]
    return [*known[:1], *(row for row in in_force if row is not known[0])]


def _ways(arm: str) -> None:
    """Draw how to find out, by a trial or by an experiment."""
    way = choice("How to find out", _WAYS, "trial", key="find_out")
    muted(_WHEN[way])
    if way == "experiment":
        experiments.form(arm)
    else:
        how_to_plan(arm)
        reading_form(arm=arm)


def in_force() -> list[sentences.VerdictInForce]:
    """Return the verdicts in force of trials and experiments."""
    return sentences.verdicts(queries.trials(), queries.experiments())


def used() -> list[Used]:
    """Return the verdicts in force of arms with a belief, as `sentences.used` orders them."""
    shown = in_force()
    return sentences.used(shown, queries.judgements()) if shown else []


def worth_rows() -> tuple[Worth, ...]:
    """Return the arms of the picture of tokens and use, with the words of trials and experiments."""
    tested = {one.arm: one.word for one in reversed(in_force()) if one.word in {"helps", "harms"}}
    excluded = reading().frame.settings.excluded_arms
    return worths(queries.belief().columns, queries.judgements(), excluded, tested)


def used_and_harming(*, experiments_too: bool = True) -> None:
    """Draw a row for each arm that is used often and harms; nothing without one.

    Without ``experiments_too`` only by trials, as claims: the overview names an experiment that stopped by itself.
    """
    for one, judged in used():
        if sentences.harms_often(one, judged) and (experiments_too or one.by == "trial"):
            by = Words("a trial" if one.by == "trial" else "an experiment")
            claim = f"{sentences.name_of(one.arm)} is used often and harms, by {by}"
            evidence = small(f"used in {of_hundred(judged.mean)} of 100 runs; {one.line}")
            with both_ends(wrap=False):
                line = f"  \n{evidence}" if experiments_too else ""
                st.markdown(f"{sign('critical')}&nbsp; **{claim}**{line}")
                link(pages.ARM, "Open arm", **{address.ARM: one.arm})


# One trial


def links(story: TrialStory) -> None:
    """Draw links to all trials and to the arm."""
    known = queries.everything().columns.places
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        link(pages.TRIALS, "All trials and experiments", **{address.TRIAL: ""})
        for arm in story.row.arms[:1]:
            if arm in known:
                link(pages.ARM, sentences.name_of(arm), **{address.ARM: arm})


def verdict(listed: Sequence[TrialVerdict]) -> None:
    """Draw one verdict with its picture, success and cost, and what it rests on; of several, the chosen one."""
    if not listed:
        muted(
            "No results yet. A belief shows how often it is used. A trial or an experiment shows whether it helps."
        )
        return
    one = listed[0]
    if len(listed) > 1:
        one = st.selectbox("Verdict", listed, format_func=_label, key="verdict of")
    st.markdown(sentences.verdict_line(one))
    if one.figures.tasks:
        here = reading()
        figure = pictured_once(
            ("trial", one), lambda: by_task(one.figures, here.tokens, compact=here.compact)
        )
        note = f"{100 * one.figures.like_these.prob:.3g}% interval of the mean, for tasks like these"
        section("Difference by task", wording.literal(note), table=figure.table, key="trial")
        chart(figure, key="trial by task")
    with st.container(horizontal=True, gap="medium"):
        for head, value in explained.measures(one).items():
            st.metric(wording.literal(head), sentences.signed(explained.change(*value)))
        st.metric("Runs that used it", wording.count(one.figures.n_used))
    muted(wording.literal(" ".join(explained.limits(one))))


def _label(one: TrialVerdict) -> str:
    shrunk = one.figures.shrunk
    effect = "" if shrunk is None else f", {wording.change(shrunk)} points, drawn towards the others"
    named = f"{one.trial} {wording.full_name(one.arm)} {one.figures.model}"
    return wording.plain(f"{named}: {explained.words(one)}{effect}")


def readings(story: TrialStory) -> None:
    """Draw what the trial was read from, each reading with its undo, and the way to read more."""
    for act in story.readings:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(f"Results {wording.literal(act)}", width="content")
            way_back(offered_undo(NamedAct(act, "")), act, at=actions.READ)
    reading_form(plan=story.row.trial if story.row.planned else None)


def reading_form(plan: str | None = None, arm: str = "") -> None:
    """Draw a field for results, of ``arm`` if they name none: what they would show, and the button to read them."""
    section("Read results", "a file of your harness with both sides")
    result(actions.READ)
    of_plan = "" if plan is None else f" --plan {plan}"
    of_arm = f" --arm {shlex.quote(arm)}" if arm else ""
    st.code(command(f"trial read RESULTS{of_plan}{of_arm}"), language=None, wrap_lines=True)
    if not reading().may("ingest"):
        return
    dropped = st.file_uploader("File of results", key="results of trial", label_visibility="collapsed")
    if dropped is None:
        return
    try:
        results, shown = queries.results_of(dropped.name, dropped.getvalue(), plan=plan, arm=arm)
    except ArmscopeError as problem:
        muted(wording.literal(str(problem)))
        return
    for one in shown.row.verdicts:
        st.markdown(f"{sentences.name_of(one.arm)}: {sentences.verdict_line(one)}")
    st.markdown(small(f"{wording.things(shown.n_new, 'new run')}; no arm learns from them. You can undo it."))
    st.button(
        "Read it",
        type="primary",
        icon=":material/upload:",
        key="do read trial",
        disabled=not (shown.n_new or shown.n_regraded),
        on_click=actions.read_results,
        args=(results, plan),
    )
