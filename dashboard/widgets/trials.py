"""Widgets of the page of trials, and of the page of an arm: the table, one verdict, results to read, and commands."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import streamlit as st

from core.errors import ArmscopeError, NotFound
from core.records.trial import TrialRow, TrialStory
from dashboard import actions, pages, queries, wording
from dashboard.figures.trial import by_task
from dashboard.reading import pictured_once, reading
from dashboard.sentences import trials as sentences
from dashboard.sentences.trials import Verdict
from dashboard.widgets import address
from dashboard.widgets.charts import chart
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
    small_table,
)
from dashboard.widgets.results import NamedAct, offered_undo, result, way_back

READ: Final = "read a trial"
CHOSEN: Final = "verdict_of"
_ROUND: Final = "armscope results dropped"
_PHONE: Final = {"at": 104, "arm": 130, "verdict": 110}
_FEWEST: Final = 10
"""Tasks below which the picture is shown without a claim."""


def named() -> str:
    """Return the trial of the address, '' for all."""
    return st.query_params.get(address.TRIAL, "")


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
    link(pages.TRIALS, "All trials")
    return None


def nothing_yet() -> None:
    """Draw the page before the first trial."""
    empty(
        ("No arm was tried yet.",),
        "A posterior shows how often an arm is used. A trial shows whether it helps.",
        rows={
            "needed": ["a plan", "results with and without the arm"],
            "now": ["none", "none"],
            "which is": [":yellow[:material/warning:] missing", ":yellow[:material/warning:] missing"],
        },
        to_do="**Plan a trial**: the same tasks with and without an arm. A harness of yours runs it.",
        shell=command("trial plan ARM --tasks FOLDER"),
    )
    reading_form()


# All trials


def table(rows: Sequence[TrialRow], name: str = "trials") -> None:
    """Draw a row for each arm and model, newest first; a click opens the trial."""
    listed = sentences.verdicts(rows)
    one = opening_records(
        sentences.VERDICTS,
        listed,
        _PHONE,
        name=name,
        rest="at",
        alt=f"Table of {wording.things(len(listed), 'verdict')}, newest first",
        cache_key=tuple((row.trial, row.at_ms, row.n_cells) for row in rows),
    )
    if one is not None:
        open_one(pages.TRIALS, one.row.trial)


def how_to_plan(arm: str = "ARM") -> None:
    """Draw the commands that plan a trial and read its results."""
    section("Plan a trial", "the same tasks with and without the arm; a harness of yours runs them")
    st.code(command(f"trial plan {arm} --tasks FOLDER"), language=None, wrap_lines=True)


# One arm


def of_arm(arm: str) -> None:
    """Draw whether an arm helps: its newest verdict, the earlier ones, and the command for another trial."""
    listed = sentences.of_arm(queries.trials(), arm)
    section("Does it help?", "by trials: the same tasks with and without it")
    if not listed:
        muted("Not tried yet. Its belief shows how often it is used, and a trial shows whether it helps.")
    for one in sentences.in_force(listed):
        if one.verdict is not None:
            st.markdown(sentences.verdict_line(one))
            muted(sentences.limits_of(one.verdict))
    if sentences.with_word(sentences.in_force(listed), "harms"):
        _exclusion(arm)
    if listed:
        table([*{one.row.trial: one.row for one in listed}.values()], name="trials of arm")
    st.code(command(f"trial plan {shlex.quote(arm)} --tasks FOLDER"), language=None, wrap_lines=True)
    link(pages.TRIALS, "Trials and experiments")


def _exclusion(arm: str) -> None:
    """Draw the button that excludes an arm from prompts, or lets it back in."""
    settings = reading().frame.settings
    is_excluded = arm in settings.excluded_arms
    st.button(
        "Let it back in" if is_excluded else "Exclude it from prompts",
        icon=":material/login:" if is_excluded else ":material/block:",
        disabled=not reading().may("settings"),
        key="exclude by trial",
        on_click=actions.send_exclusion,
        args=((arm,),),
        kwargs={"excluded": not is_excluded, "before": settings},
    )
    result(actions.EXCLUSION)


def used_and_harming() -> None:
    """Draw a row for each arm that is used often and harms by a trial; nothing without one."""
    rows = queries.trials()
    harms = sentences.with_word(sentences.in_force(sentences.verdicts(rows)), "harms")
    if not harms:
        return
    for one, judged in sentences.used_and_harming(rows, queries.judgements()):
        claim, evidence = sentences.harm_claim(one, judged)
        with both_ends(wrap=False):
            st.markdown(f"{sign('critical')}&nbsp; **{claim}**  \n{small(evidence)}")
            link(pages.ARM, "Open arm", **{address.ARM: one.arm})


# One trial


def links(story: TrialStory) -> None:
    """Draw links to all trials and to the arm."""
    known = queries.everything().columns.places
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        link(pages.TRIALS, "All trials", **{address.TRIAL: ""})
        for arm in story.row.arms[:1]:
            if arm in known:
                link(pages.ARM, sentences.name_of(arm), **{address.ARM: arm})


def verdict(story: TrialStory) -> None:
    """Draw one verdict of a trial: picture, figures and counts; of several, the one that is chosen."""
    listed = sentences.verdicts([story.row])
    one = listed[0] if len(listed) == 1 else _chosen(listed)
    if one.verdict is None:
        muted("No results yet. Run the tasks, then read the results below.")
        return
    picture(one)
    figures(one)
    muted(sentences.limits_of(one.verdict))
    section("Runs that count in another way", "by side")
    small_table(sentences.counts(one.verdict.figures), alt="Runs that count in another way, by side")


def _chosen(listed: Sequence[Verdict]) -> Verdict:
    muted(sentences.largest_of(listed))
    place = st.selectbox(
        "Arm and model",
        range(len(listed)),
        format_func=lambda at: wording.plain(
            f"{wording.full_name(listed[at].arm)} {listed[at].model}: {sentences.verdict_words(listed[at])}"
        ),
        key=CHOSEN,
    )
    return listed[place]


def picture(one: Verdict) -> None:
    """Draw the difference of each task."""
    here, shown = reading(), one.verdict
    if shown is None or not shown.figures.tasks:
        muted("No task has results on both sides, so there is nothing to compare.")
        return
    n = len(shown.figures.tasks)
    figure = pictured_once(
        ("trial", one.row.trial, one.arm, one.model, one.row.at_ms, one.row.n_cells),
        lambda: by_task(shown.figures, here.tokens, compact=here.compact),
    )
    note = f"{100 * shown.figures.like_these.prob:.3g}% interval of the mean, for tasks like these"
    if n < _FEWEST:
        note = f"{wording.things(n, 'task')}: too few for a claim"
    section("Difference by task", wording.literal(note), table=figure.table, key="trial")
    chart(figure, key="trial by task")


def figures(one: Verdict) -> None:
    """Draw the effect, and the cost beside it."""
    if one.verdict is None:
        return
    shown = one.verdict.figures
    effect = shown.like_these
    interval = wording.MISSING if effect.limits is None else sentences.points_between(*effect.limits)
    with st.container(horizontal=True, gap="medium"):
        st.metric("Success, points", wording.change(effect.value))
        st.metric("Interval", interval)
        st.metric("Tokens of a task", sentences.cost_words(shown.tokens))
        if shown.money.value is not None:
            st.metric("Money of a task", sentences.cost_words(shown.money))
        st.metric("Runs that used it", wording.count(shown.n_used))
        st.metric("Could not differ", f"{wording.count(shown.n_could_not_tell)} of {len(shown.tasks):,}")


def readings(story: TrialStory) -> None:
    """Draw what the trial was read from, each reading with its undo, and the way to read more."""
    section("Its plan and results")
    plan = story.plan
    if plan is not None:
        known = [plan.model, plan.harness, plan.grader]
        facts = ", ".join(wording.literal(one) for one in known if one) or "model, harness and grader unnamed"
        muted(
            f"Planned: {wording.things(len(plan.tasks), 'task')}, smallest effect {plan.smallest:g} points; {facts}."
        )
    for act in story.readings:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(f"Results {wording.literal(act)}", width="content")
            way_back(offered_undo(NamedAct(act, "")), act, at=READ)
    reading_form(plan=story.row.trial if plan is not None else None)


# Reading results


def reading_form(plan: str | None = None) -> None:
    """Draw a field for a file of results: what it would show, and the button that reads it."""
    section("Read results", "a file of your harness with both sides")
    result(READ)
    st.code(
        command(f"trial read RESULTS{'' if plan is None else f' --plan {plan}'}"),
        language=None,
        wrap_lines=True,
    )
    if not reading().may("ingest"):
        return
    key = f"results {st.session_state.get(_ROUND, 0)}"
    dropped = st.file_uploader("File of results", key=key, label_visibility="collapsed")
    if dropped is None:
        return
    try:
        results = queries.results_of(dropped.name, dropped.getvalue())
        shown = queries.preview_trial(results, plan=plan)
    except ArmscopeError as problem:
        muted(wording.literal(str(problem)))
        return
    for one in sentences.verdicts([shown.row]):
        st.markdown(f"**{sentences.verdict_words(one)}**: {sentences.name_of(one.arm)}")
    st.markdown(small(f"{wording.things(shown.n_new, 'new run')}; no arm learns from them. You can undo it."))
    st.button(
        "Read it",
        type="primary",
        icon=":material/upload:",
        key="do read trial",
        disabled=not (shown.n_new or shown.n_regraded),
        on_click=actions.read_results,
        args=(results, plan, _emptied),
        kwargs={"at": READ},
    )


def _emptied() -> None:
    st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1
