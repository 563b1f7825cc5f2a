"""Widgets of experiments: one experiment with picture, measures, sides and acts, and the form of a new one."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import streamlit as st

from core.errors import ArmscopeError, UnknownAct
from core.explained import experiments as explained
from core.records.achieved import OUTCOME_SOURCES
from core.records.experiment import (
    IN_POINTS,
    METRICS,
    MOST_DAYS,
    Decision,
    ExperimentOptions,
    ExperimentRow,
    MetricFigures,
)
from dashboard import actions, pages, queries, wording
from dashboard.figures.trial import by_session
from dashboard.reading import reading
from dashboard.sentences import changes
from dashboard.sentences import trials as sentences
from dashboard.widgets import address
from dashboard.widgets.charts import pictured
from dashboard.widgets.parts import (
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
from dashboard.wording import Markdown, Words

_ACTS: Final[dict[str, Words]] = {
    "share": Words("Change chance"),
    "end": Words("End"),
    "keep": Words("Keep"),
    "exclude": Words("Exclude"),
}
_MORE_RUNS: Final = 300
"""Runs that a click adds to a demo: three days."""
_SOURCES: Final = {
    "program": "a program",
    "environment": "an environment",
    "person": "people",
    "grader": "a model that grades",
    "thumb": "rewards of full runs",
}


def requested(name: str) -> ExperimentRow | None:
    """Return an experiment by its name; None after a message with the next step."""
    with suppress(UnknownAct):
        return queries.experiment(name)
    not_named(
        "experiment",
        name,
        unnamed="This page shows one experiment.",
        unknown=f"No record names {quoted(name)}.",
        needed="the id of an experiment",
        to_do="**Choose an experiment** in the list.",
        listed_by="experiment list",
    )
    link(pages.TRIALS, "All trials and experiments", **{address.TRIAL: ""})
    return None


# One experiment


def links(row: ExperimentRow) -> None:
    """Draw links to all trials and experiments, and to the arm."""
    arm = row.plan.arm
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        link(pages.TRIALS, "All trials and experiments", **{address.TRIAL: ""})
        if arm in queries.everything().columns.places:
            link(pages.ARM, sentences.name_of(arm), **{address.ARM: arm})


def picture(row: ExperimentRow) -> None:
    """Draw the effect as sessions came in, or how many are still needed."""
    head = explained.METRIC_WORDS[row.plan.metric]
    if row.figures.metric.effect.value is None:
        section("The effect so far", wording.literal(head))
        hours = wording.things(row.plan.hours, "hour")
        muted(
            "The sides differ in the sessions that they lack. So they can't be compared."
            if row.figures.why == "runs_differ"
            else f"The picture begins when sessions of both sides count. One counts {hours} after its assignment."
        )
        return
    prob = f"{100 * row.figures.metric.effect.prob:.3g}%"
    pictured(
        ("experiment", row.experiment, row.figures.word, row.figures.metric.n),
        Words("The effect so far"),
        wording.literal(f"{head}, {prob} interval that holds at every look; dotted: the smallest effect"),
        by_session,
        queries.experiment_path(row.experiment),
        row.plan,
        row.figures.word,
    )


def measures(row: ExperimentRow) -> None:
    """Draw every measure on both sides; the first one alone has a verdict."""
    shown = [row.figures.metric, *(one for one in row.figures.others if one.means != (None, None))]
    section("Every measure", "of a session; the first one alone has a verdict")
    small_table(
        {
            "measure": [explained.METRIC_WORDS[one.metric] for one in shown],
            "with": [_mean(one, one.means[0]) for one in shown],
            "without": [_mean(one, one.means[1]) for one in shown],
            "change": [_change(one) for one in shown],
            "reads": [explained.word(row) if one is row.figures.metric else one.word for one in shown],
        },
        alt="Every measure with and without the arm, its change, and the word for it",
    )


def _change(one: MetricFigures) -> str:
    return wording.MISSING if one.effect.value is None else sentences.signed(Words(explained.effect(one)))


def _mean(one: MetricFigures, mean: float | None) -> Markdown:
    if mean is None:
        return wording.MISSING
    if one.metric in IN_POINTS:
        return wording.percent(mean, 0)
    if one.metric == "money":
        return wording.literal(wording.money(mean, reading().frame.settings.currency))
    return f"{mean:,.1f} s" if one.metric == "duration" else wording.count(mean)


def sides(row: ExperimentRow) -> None:
    """Draw the number of sessions of each side, by their state."""
    counts = explained.sessions(row.figures)
    section("Its sessions", wording.literal(f"{wording.things(row.plan.n_planned, 'session')} are planned"))
    small_table(
        {
            "sessions": list(counts),
            "with": [one.with_arm for one in counts.values()],
            "without": [one.without for one in counts.values()],
        },
        alt="Sessions with and without the arm, by what became of them",
    )


def limits(row: ExperimentRow) -> None:
    """Draw what the verdict rests on."""
    muted(wording.literal(" ".join(explained.limits(row))))


def state(row: ExperimentRow) -> None:
    """Draw whether an experiment assigns sessions, what can be done with its effect."""
    section("What now", wording.literal(row.experiment))
    with st.container(border=True, gap="small"):
        st.markdown(_state(row))
        if row.state == "running":
            play_on()
        if row.state not in {"read_only", "undone"}:
            _act(row)
        result(actions.EXPERIMENT)


def play_on() -> None:
    """Draw the button that adds runs to a demo, so that its running experiments get sessions."""
    here = reading()
    if here.frame.is_demo and here.may("ingest"):
        st.button(
            f"Play on: {_MORE_RUNS} runs",
            icon=":material/fast_forward:",
            key="play on",
            help="Three more days of the demo. Its running experiments get sessions.",
            on_click=actions.play_on,
            args=(_MORE_RUNS,),
        )
        result(actions.PLAYED_ON)


def _state(row: ExperimentRow) -> Markdown:
    words = wording.literal(explained.state(row))
    if row.state == "running":
        n = row.figures.assigned.with_arm + row.figures.assigned.without
        planned = wording.things(row.plan.n_planned, "planned session")
        return f"**It runs.** {wording.count(n)} of {planned} have a side. {words}"
    return f"{sign('critical')}&nbsp; {words}" if row.harms is not None and row.decision != "keep" else words


def _act(row: ExperimentRow) -> None:
    """Draw the acts that would change something, and the effect and the button of the chosen one."""
    possible = ["share", "end"] if row.state == "running" else []
    possible += [] if row.decision == "keep" or row.is_excluded else ["keep"]
    possible += [] if row.is_excluded else ["exclude"]
    if not possible or not _may_act():
        return
    chosen = st.segmented_control(
        "What to do",
        possible,
        format_func=_ACTS.__getitem__,
        key=f"act on {row.experiment} {row.state} {row.is_excluded}",
        label_visibility="collapsed",
    )
    if chosen is None:
        muted("Choose an act to see its effect. Nothing is changed yet.")
        return
    share = row.share
    if chosen == "share":
        label = Words("Chance that a new session has the arm")
        share = st.number_input(label, 0.05, 0.95, row.share, 0.05, key=f"share of {row.experiment}")
    decision: Decision | None = None if chosen == "share" else chosen  # type: ignore[assignment]
    try:
        answer = queries.preview_act(row.experiment, decision, share)
    except ArmscopeError as problem:
        muted(wording.literal(str(problem)))
        return
    st.markdown(" ".join(sentences.decided(decision, answer, share)))
    st.button(
        _ACTS[chosen],
        type="primary",
        key=f"do {chosen} {row.experiment}",
        disabled=decision is None and share == row.share,
        on_click=actions.act_on_experiment,
        args=(row.experiment, decision, share),
    )


def _may_act() -> bool:
    """Return whether this person may start and change experiments; else the page says why not."""
    may = reading().may("settings")
    if not may:
        muted("You need the right “settings” to start or change an experiment. Ask an operator.")
    return may


def history(row: ExperimentRow) -> None:
    """Draw the start and the later acts, each with its undo."""
    here = reading()
    for one in queries.acts_on(row):
        if one.act is None:
            continue
        with st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False):
            at = wording.minute(one.at_ms, year_of_ms=here.frame.last_at_ms)
            words = changes.change(one, here.frame.settings.currency)
            st.markdown(small(f"{at} UTC · {wording.literal(one.actor)} {words}"))
            back = offered_undo(NamedAct(one.act, one.actor, one.undone))
            way_back(back, one.act, again=one.undone, at=actions.EXPERIMENT)


def brief(row: ExperimentRow) -> None:
    """Draw the verdict of an experiment on the page of its arm, its other measures, and the acts."""
    left, right = st.columns([7, 5], gap="large")
    with left:
        st.markdown(sentences.offering_line(row))
        basis = [explained.counts(row), *explained.limits(row)]
        muted(" ".join([*sentences.others(row), *map(wording.literal, basis)]))
        link(pages.TRIALS, "See the experiment", **{address.TRIAL: row.experiment})
        history(row)
    with right:
        state(row)


# A new experiment


def form(arm: str) -> None:
    """Draw the options of a new experiment next to its plan, and the button that starts it."""
    left, right = st.columns([5, 7], gap="large")
    with left:
        options = _options()
    with right:
        _plan(arm, options)


def _options() -> ExperimentOptions:
    metric = st.selectbox(
        "Measure", METRICS, format_func=explained.METRIC_WORDS.__getitem__, key="experiment measure"
    )
    options = ExperimentOptions(metric=metric)
    if metric == "success":
        options["source"] = st.selectbox(
            "Who says that a run succeeded",
            OUTCOME_SOURCES,
            index=None,
            format_func=_SOURCES.__getitem__,
            placeholder="the first source that is known",
            key="experiment source",
        )
    unit = "points" if metric in IN_POINTS else "per cent"
    left, right = st.columns(2)
    options["smallest"] = left.number_input(
        f"Smallest effect, {unit}", 1.0, 100.0, 10.0, 1.0, format="%g", key="experiment smallest"
    )
    options["share"] = right.number_input(
        "Chance of having it", 0.05, 0.95, 0.5, 0.05, key="experiment share"
    )
    left, right = st.columns(2)
    options["hours"] = left.number_input("Hours that count", 1, 336, 24, key="experiment hours")
    options["days"] = right.number_input("Days for outcomes", 0, 60, 7, key="experiment days")
    return options


def _plan(arm: str, options: ExperimentOptions) -> None:
    here = reading()
    planned = queries.planned_experiment(arm, **options)
    is_seed = arm in here.frame.settings.always_in
    lines = [f"- {wording.literal(one)}" for one in explained.planned(planned)]
    st.markdown("\n".join(lines))
    seed = is_seed and st.toggle("Sessions may lack this seed all the same", key="experiment seed")
    n_refused = len(planned.refused) - (1 if seed else 0)
    if _may_act():
        st.button(
            "Start the experiment",
            type="secondary" if planned.proposes_trial else "primary",
            icon=":material/play_arrow:",
            key="start experiment",
            disabled=n_refused > 0,
            on_click=actions.send_experiment,
            args=(arm, options),
            kwargs={"seed": seed},
        )
        st.markdown(
            small(f"It ends by itself after {MOST_DAYS} days at the latest. Undo ends it and keeps its rows.")
        )
    result(actions.NEW_EXPERIMENT)
