"""Widgets of the page of an environment: totals, groups, patterns, findings, models on the same tasks, and scale."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import streamlit as st

from core.errors import ArmscopeError, InvalidInput, NotFound
from core.flows.queries import Compared, EnvironmentStory, GroupKind, ModelComparison, UndoPreview
from core.records.episode import BASES, Finding, Scale
from core.records.estimate import Missing
from dashboard import actions, pages, queries, wording
from dashboard.figures.rewards import distribution, pairs, progress
from dashboard.reading import pictured_once, reading
from dashboard.sentences import rewards
from dashboard.sentences.data import MOVED
from dashboard.sentences.episode import step_name, step_request, threshold
from dashboard.widgets import address
from dashboard.widgets.charts import chart, pictured
from dashboard.widgets.fields import choice
from dashboard.widgets.parts import (
    as_table,
    link,
    muted,
    not_named,
    quoted,
    section,
    sign,
    small,
    small_table,
)
from dashboard.widgets.results import result
from dashboard.widgets.tables import frame_of
from dashboard.wording import Markdown, Words

TRUTH: Final = "planted_here"
_GROUPS: Final[dict[GroupKind, str]] = {"model": "By model", "split": "By split", "task": "By task"}

# Patterns and findings
_LINKED: Final = 2
_NUMBERS: Final = 3
"""Episodes that a finding leads to at first, and numbers of the steps of each that are written."""
_SHOWN: Final = 5
"""Steps of one of them that are drawn below a critical finding."""
_FEWEST: Final = 10

# Models on the same tasks
MODELS: Final = "compared"
BY: Final = "compared_by"
_MOST: Final = 6
_BY: Final[tuple[Compared, ...]] = ("reward", "success")

# Scale
_FIELDS: Final = ("lo", "hi", "threshold", "base", "step_lo", "step_hi")
_KEY: Final = "scale "
_LEAVE_OUT: Final = "leave out"

_FEWEST_SEGMENTS: Final = 2
_NO_TREND: Final[dict[Missing | None, str]] = {
    "few_for_interval": "too few for a trend",
    "no_variation": "no trend: all rewards are alike",
    "tasks_in_order": "no trend: time and task can't be separated",
}


def requested() -> EnvironmentStory | None:
    """Return the environment of the address; without one, or with an unknown one, draw what to do instead."""
    name = st.query_params.get(address.ENVIRONMENT, "")
    if name:
        with suppress(NotFound):
            return queries.environment(name)
    not_named(
        "environment",
        name,
        unnamed="This page shows how one environment pays.",
        unknown=f"No record names {quoted(name)}.",
        needed="the name of an environment",
        to_do="**Choose an environment** on the page of episodes, or list them.",
        listed_by="episodes",
    )
    link(pages.EPISODES, "All episodes")
    return None


def links(environment: EnvironmentStory) -> None:
    """Show links to its episodes and to all; in a demo also the planted truth on request."""
    planted = queries.planted_environments().get(environment.summary.environment)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        link(pages.EPISODES, "Its episodes", **{address.EPISODES_OF: environment.summary.environment})
        link(pages.EPISODES, "All episodes")
        if planted is not None and st.toggle("Show truth", key=TRUTH, bind="query-params"):
            muted(f"Planted: {rewards.planted_words(planted)}.")


def attempts(environment: EnvironmentStory) -> None:
    """Draw the success of several attempts at a task."""
    if environment.attempts and environment.summary.success is not None:
        facts = [
            f"of {attempt.k} attempts at a task any succeeds in {wording.percent(attempt.any_succeeds, 0)} of tasks "
            f"(pass@{attempt.k}), all in {wording.percent(attempt.all_succeed, 0)} (pass^{attempt.k})"
            for attempt in environment.attempts
            if attempt.k > 1
        ]
        if facts:
            muted(f"{wording.capital('; '.join(facts[:6]))}.")


def spread(environment: EnvironmentStory) -> None:
    """Show how often each total occurred, raw and on the scale."""
    if not environment.distribution:
        section("Totals of the episodes")
        muted("No episode was paid, so there are no totals to show.")
        return
    off = environment.left_out.off_scale
    note = f"scale {rewards.scale_words(environment.summary.scale, declared=environment.summary.declared)}"
    if off:
        note += f"; grey: {wording.things(off, 'episode')} outside it"
    one = environment.summary
    pictured(
        ("spread", one.environment, one.scale), "Totals of the episodes", note, distribution, environment
    )


def groups(environment: EnvironmentStory) -> None:
    """Draw the same by model, split and task; of many tasks those that are paid least."""
    kinds = [kind for kind in _GROUPS if environment.n_groups.get(kind, 0) > 1]
    if not kinds:
        return
    with st.expander(wording.capital(wording.listed([_GROUPS[kind].lower() for kind in kinds]))):
        _groups(environment, kinds)


def _groups(environment: EnvironmentStory, kinds: Sequence[GroupKind]) -> None:
    for kind in kinds:
        rows = [one for one in environment.groups if one.kind == kind]
        n = environment.n_groups[kind]
        note = wording.things(n, kind)
        if n > len(rows):
            note += f"; the {wording.count(len(rows))} that are paid least"
        section(_GROUPS[kind], note)
        as_table(
            {
                kind: [wording.MISSING if one.name is None else wording.plain(one.name) for one in rows],
                "episodes": [wording.count(one.n) for one in rows],
                "success": [
                    wording.percent(None if one.success is None else one.success.rate, 0) for one in rows
                ],
                "95% interval": [rewards.share_limits(one.success) or wording.MISSING for one in rows],
                "average": [rewards.average(one.average) for one in rows],
                "95% of average": [rewards.amount_limits(one.average) or wording.MISSING for one in rows],
                "none paid": [wording.count(one.without_reward) for one in rows],
            },
            alt=f"What {wording.short(environment.summary.environment)} paid {_GROUPS[kind].lower()}",
        )


def pattern(story: EnvironmentStory) -> None:
    """Show each pattern in words with its certainty; too few episodes show none."""
    patterns = story.design.patterns
    if patterns:
        named = wording.listed([rewards.PATTERN_WORDS[one.pattern] for one in patterns])
        with st.expander(f"Pattern: {named}"):
            _patterns(story)
        return
    section("Pattern", rewards.pattern_note(story))
    paid = story.summary.n - story.summary.without_reward - story.summary.broken
    muted(
        f"A pattern needs {_FEWEST} episodes with a reward on; there are {wording.count(paid)}."
        if paid < _FEWEST
        else "None of the six patterns fits."
    )


def _patterns(story: EnvironmentStory) -> None:
    patterns, note = story.design.patterns, rewards.pattern_note(story)
    if note:
        muted(note)
    small_table(
        {
            "the reward is": [f"**{rewards.PATTERN_WORDS[one.pattern]}**" for one in patterns],
            "which means": [rewards.PATTERN_MEANS[one.pattern] for one in patterns],
            "shown by": [f"{wording.count(one.n_showing)} of {wording.count(one.n)}" for one in patterns],
            "certainty": [rewards.certainty(one.certainty) for one in patterns],
        },
        alt="Patterns of the reward, and how many random samples of its episodes show each",
    )
    muted(rewards.PATTERN_CERTAINTY)


def findings(story: EnvironmentStory) -> None:
    """Show findings with certainty, remedy, and links to the steps; the gravest first."""
    listed = story.design.findings
    section("What may be wrong", wording.things(len(listed), "finding") if listed else "")
    if not listed:
        muted(
            "Nothing was found."
            if story.summary.n >= _FEWEST
            else f"Most patterns need {_FEWEST} episodes on; nothing was found in {wording.count(story.summary.n)}."
        )
        return
    order = rewards.by_gravity(one.kind for one in listed)
    for finding in sorted(listed, key=lambda one: order.index(one.kind)):
        _finding(finding)


def _finding(finding: Finding) -> None:
    severity = rewards.FINDING_SEVERITY[finding.kind]
    name = rewards.FINDING_WORDS[finding.kind]
    with st.container(border=True, gap="xsmall"):
        sure = small(rewards.certainty_words(finding))
        st.markdown(
            f"{sign(severity)}&nbsp; **{name}.** {wording.literal(finding.seen)} {sure}"
            f"  \n:gray[{wording.literal(finding.advice)}]"
        )
        steps = _by_episode(finding.steps)
        _links(steps[:_LINKED])
        if len(steps) > _LINKED:
            with st.expander(f"{wording.count(len(steps) - _LINKED)} more episodes"):
                _links(steps[_LINKED:])
        if severity == "critical" and steps:
            uid, numbers = steps[0]
            _example(uid, numbers[0])


def _example(uid: str, named: int) -> None:
    """Draw the steps of an episode from a named one on, or from the earlier one that it repeats."""
    steps = queries.episode(uid).steps
    repeated = next((one.same_as for one in steps if one.number == named), None)
    first = named if repeated is None else repeated
    shown = [one for one in steps if one.number >= first][:_SHOWN]
    muted(f"{wording.short(uid, 24)} from step {wording.count(first)} on:")
    small_table(
        {
            "step": [wording.count(one.number) for one in shown],
            "what": [wording.literal(step_name(one)) for one in shown],
            "asked": [wording.literal(step_request(one)) for one in shown],
            "reward": [Words("none") if one.reward is None else wording.paid(one.reward) for one in shown],
        },
        alt=f"{wording.things(len(shown), 'step')} of an episode with this finding",
    )


def _by_episode(steps: Sequence[tuple[str, int]]) -> list[tuple[str, list[int]]]:
    """Return the numbers of the steps of each episode.

    >>> _by_episode([("a", 1), ("b", 0), ("a", 3)])
    [('a', [1, 3]), ('b', [0])]
    """
    numbers: dict[str, list[int]] = {}
    for uid, number in steps:
        numbers.setdefault(uid, []).append(number)
    return [*numbers.items()]


def _links(episodes: Sequence[tuple[str, list[int]]]) -> None:
    with st.container(horizontal=True, gap="small"):
        for uid, numbers in episodes:
            named = ", ".join(wording.count(number) for number in numbers[:_NUMBERS])
            more = " …" if len(numbers) > _NUMBERS else ""
            parameters = {address.EPISODE: uid, address.STEP: str(numbers[0])}
            steps = "step" if len(numbers) == 1 else "steps"
            link(pages.EPISODE, f"{wording.short(uid, 24)}, {steps} {named}{more}", **parameters)


def contest(story: EnvironmentStory) -> None:
    """Draw the models to compare, and their differences on the tasks that both attempted."""
    models = story.summary.models
    if len(models) < 2:
        return
    head = st.container(gap="small")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        chosen = st.multiselect(
            "Models",
            models,
            default=list(models[:_MOST]),
            max_selections=_MOST,
            format_func=wording.plain,
            key=MODELS,
            bind="query-params",
        )
        by = choice("By", {one: one.capitalize() for one in _BY}, "reward", key=BY, labelled=True)
    why: Markdown = Words("Choose two models or more.")
    if len(chosen) > 1:
        try:
            comparison = queries.compared(story.summary.environment, models=tuple(chosen), compared=by)
        except InvalidInput as problem:
            why = wording.literal(str(problem))
        else:
            _shown(comparison, head)
            return
    with head:
        section("Models on the same tasks")
        muted(why)


def _shown(comparison: ModelComparison, head: st.delta_generator.DeltaGenerator) -> None:
    here = reading()
    names = tuple(one.model for one in comparison.models)
    figure = pictured_once(
        ("contest", comparison.environment, names, comparison.compared),
        lambda: pairs(comparison, here.tokens, compact=here.compact),
    )
    note = "95% interval; filled: apart (Holm, 5%)"
    with head:
        section("Models on the same tasks", note, table=figure.table, key="contest")
    for line in rewards.contest(comparison):
        st.markdown(line)
    chart(figure, key="contest")


def scale_form(story: EnvironmentStory) -> None:
    """Show the scale in force, and a form that previews how many episodes another scale makes a success."""
    one = story.summary
    in_force = rewards.scale_words(one.scale, declared=one.declared)
    words = f"Scale: {in_force}, success {threshold(one.scale)}"
    if not reading().may("settings"):
        muted(words)
        return
    with st.expander(words, expanded=one.guess is not None, icon=":material/straighten:"):
        _guess(story)
        scale = _fields(story)
        try:
            answer = queries.preview_declare(one.environment, **scale)
        except ArmscopeError as problem:
            st.markdown(f":red[:material/error:] {wording.literal(str(problem))}")
            answer = None
        if answer is not None:
            st.markdown(rewards.scale_effect(answer, is_known=one.success is not None))
            if rewards.keeps_threshold(answer):
                question = f"Success is still above {answer.scale.threshold:g}, as before. Is that meant?"
                st.markdown(f":orange[:material/warning:] {question}")
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button(
                "Declare this scale",
                type="primary",
                icon=":material/check:",
                key="declare scale",
                disabled=answer is None or answer.scale == answer.before,
                on_click=actions.declare_scale,
                args=(one.environment, scale),
            )
            st.markdown(
                small("Nothing is sent yet. Rewards stay as they were paid, and it can be undone."),
                width="content",
            )
        result("scale")


def leave_out(story: EnvironmentStory) -> None:
    """Draw the button that leaves its episodes out of averages, success and credit, with its effect."""
    name = story.summary.environment
    n = wording.things(story.summary.n, "episode")
    st.markdown(f"{n} would count in no average, success or credit.")
    moved(queries.preview_left_out(name))
    st.button(
        "Leave its episodes out",
        type="primary",
        key=_LEAVE_OUT,
        disabled=not reading().may("settings"),
        on_click=actions.declare_scale,
        args=(name, {"base": "none"}),
        kwargs={"at": _LEAVE_OUT},
    )
    result(_LEAVE_OUT)


def moved(shown: UndoPreview) -> None:
    """Draw the arms that an act would move most."""
    muted(f"{wording.things(shown.n_moved, 'arm')} would move. You can undo it.")
    if shown.moved:
        as_table(frame_of(MOVED, shown.moved), alt="Arms that would move most")


def _guess(story: EnvironmentStory) -> None:
    """Offer a scale that holds all totals, where some lie outside the one in force; with its evidence."""
    guess = story.summary.guess
    if guess is None:
        return
    reach = f"{wording.paid(guess.lowest)} to {wording.paid(guess.highest)}"
    ends = wording.signed_minus(f"{guess.lo:g} to {guess.hi:g}")
    muted(
        f"{wording.count(guess.n_outside)} of {wording.things(guess.n, 'episode')} with a reward lie outside: they "
        f"reach from {reach}. All would lie on {ends}."
    )
    st.button(
        f"Fill in {ends}",
        key="fill in the guess",
        type="tertiary",
        icon=":material/edit:",
        on_click=_fill_in,
        args=(
            story.summary.environment,
            {
                "lo": guess.lo,
                "hi": guess.hi,
                "threshold": _moved(story.summary.scale, guess.lo, guess.hi),
            },
        ),
    )


def _moved(scale: Scale, lo: float, hi: float) -> float:
    """Return the threshold of a scale at the same share of other ends.

    >>> _moved(Scale(lo=0, hi=1, threshold=0.9), 0, 100)
    90.0
    """
    share = (scale.threshold - scale.lo) / (scale.hi - scale.lo)
    return round(lo + share * (hi - lo), 6)


def _fill_in(environment: str, values: dict[str, Any]) -> None:
    for name, value in values.items():
        st.session_state[_key(environment, name)] = value


def _fields(story: EnvironmentStory) -> dict[str, Any]:
    """Draw the fields and return their values; each starts with the value in force."""
    environment, scale = story.summary.environment, story.summary.scale
    if (
        st.session_state.get(_key(environment, "seen")) != scale
        or _key(environment, "lo") not in st.session_state
    ):
        # The scale in force has changed, or the fields were not drawn meanwhile: fill them in again.
        _fill_in(environment, {name: getattr(scale, name) for name in _FIELDS})
        st.session_state[_key(environment, "seen")] = scale
    values: dict[str, Any] = {}
    first, second = st.container(horizontal=True), st.container(horizontal=True)
    with first:
        for name, words in (
            ("lo", "Lowest total or final reward"),
            ("hi", "Highest"),
            ("threshold", "Success is above"),
        ):
            values[name] = st.number_input(words, key=_key(environment, name), format="%.6g", step=0.1)
    with second:
        values["base"] = st.segmented_control(
            "Success goes by",
            BASES,
            required=True,
            format_func={"total": "The total", "final": "The final reward", "none": "Nothing"}.__getitem__,
            key=_key(environment, "base"),
        )
        for name, words in (("step_lo", "Lowest payment of a step"), ("step_hi", "Highest")):
            values[name] = st.number_input(words, key=_key(environment, name), format="%.6g", step=0.1)
    return values


def _key(environment: str, name: str) -> str:
    return f"{_KEY}{name} {environment}"


def success_over_time(story: EnvironmentStory) -> None:
    """Draw success over time, in segments of equal numbers of episodes; or a sentence where there are too few."""
    over_time = story.progress
    known = [one for one in over_time.stretches if one.success.value is not None]
    if len(known) < _FEWEST_SEGMENTS or story.summary.success is None:
        section("Success over time")
        timed = story.summary.n - over_time.untimed
        muted(
            "Success is shown once a scale is declared."
            if known and story.summary.success is None
            else f"A trend needs 20 episodes with a time; there are {wording.count(timed)}."
        )
        return
    pictured(
        ("going on", story.summary.environment, story.summary.n, hash(over_time.stretches)),
        "Success over time",
        _note(story),
        progress,
        story,
    )


def _note(story: EnvironmentStory) -> Markdown:
    progress = story.progress
    way = {"rises": "rewards rise within tasks", "falls": "rewards fall within tasks"}.get(progress.way)
    if way is None:
        way = _NO_TREND.get(progress.trend.missing, "no trend can be distinguished from chance")
    note = f"95% interval; {way}"
    return Markdown(
        f"{note}; {wording.count(progress.untimed)} of unknown time left out" if progress.untimed else note
    )
