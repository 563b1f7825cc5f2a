"""Widgets of the page of an episode: its figures, its steps as a picture and a table, its runs, and its credit.

The address holds the step that a click on the picture chose. Cells are text cells, which Streamlit shows as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import streamlit as st

from core.errors import NotApplicable, NotFound, UnknownRun
from core.explained.episodes import STEPS
from core.explained.table import Table
from core.flows.queries import CreditPreview, CreditView, EpisodeView, StepView
from core.records.arm import MICRO
from core.records.episode_credit import CreditRule, CreditShare
from core.records.transcript import Message
from dashboard import actions, pages, queries, wording
from dashboard.figures.episode import COMPACT_COLUMNS, MAX_COLUMNS, episode, per_column
from dashboard.reading import reading
from dashboard.sentences import episode as sentences
from dashboard.sentences import rewards
from dashboard.sentences.transcript import how_to_keep
from dashboard.widgets import address, run_table
from dashboard.widgets.charts import pictured
from dashboard.widgets.fields import choice
from dashboard.widgets.opening import opening_records
from dashboard.widgets.paging import neighbour
from dashboard.widgets.parts import (
    both_ends,
    chipped,
    link,
    muted,
    not_named,
    quoted,
    section,
    small,
    small_table,
)
from dashboard.widgets.results import NamedAct, offered_undo, result, way_back
from dashboard.widgets.transcript import conversation, steps_of
from dashboard.wording import Words

_TRANSCRIPTS: Final = 3
"""Runs of an episode whose transcripts are drawn; the others are a click away."""

# Steps
ON_A_PAGE: Final = 100
_SIDES: Final[Mapping[str, str]] = {"user": "Asked", "agent": "Answered"}
_PHONE: Final = {"number": 58, "name": 136, "reward": 78, "running": 78}

# Credit
_SHOWN: Final = 12
_RULE: Final = "credit rule"
_RULES: Final[dict[CreditRule, tuple[Words, Words]]] = {
    "off": (Words("No arm"), Words("no arm is credited")),
    "equal": (Words("All"), Words("all arms in the prompts of its runs share alike")),
    "step": (
        Words("By payment"),
        Words("the tools called in paid steps share, each by the size of its payments"),
    ),
    "referenced": (Words("Referenced"), Words("the arms that its runs referenced share alike")),
}
"""The label of a rule, and what it means."""


def requested() -> EpisodeView | None:
    """Return the episode that the address names; where it names none, or one that isn't there, what to do instead."""
    name = st.query_params.get(address.EPISODE, "")
    if name:
        with suppress(NotFound):
            return queries.episode(name)
    not_named(
        "episode",
        name,
        unnamed="This page shows one episode, step by step.",
        unknown=f"No episode is recorded as {quoted(name)}.",
        needed="the uid of an episode",
        to_do="**Choose an episode** on the page of episodes, or list environments.",
        listed_by="episodes",
    )
    link(pages.EPISODES, "All episodes")
    return None


def finding(episode: EpisodeView) -> None:
    """Show the critical finding of its environment that names it."""
    words = rewards.finding_of_episode(queries.environment(episode.environment), episode.uid)
    if words is not None:
        st.markdown(f":red[:material/error:] {words}")


def links(episode: EpisodeView) -> None:
    """Draw links to the episodes before and after in time, and to the run of the episode."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        for words, icon, uid in (
            ("Previous episode", ":material/chevron_left:", episode.older),
            ("Next episode", ":material/chevron_right:", episode.newer),
        ):
            neighbour(words, icon, {address.EPISODE: uid, address.STEP: None})
        link(pages.ENVIRONMENT, "Its environment", **{address.ENVIRONMENT: episode.environment})
        st.space("stretch")
        for uid in episode.runs if len(episode.runs) == 1 else ():
            with suppress(UnknownRun):
                if session := queries.run(uid).facts.session:
                    link(pages.SESSION, "Its session", **{address.SESSION: session})
            link(pages.RUN, "Its run", **{address.RUN: uid})


def figures(episode: EpisodeView) -> None:
    """Draw total, final reward, steps and where it lies on the scale; then the id to copy."""
    with st.container(horizontal=True, gap="medium"):
        st.metric("Total", _amount(episode.total))
        st.metric("Final reward", _amount(episode.final), help="What the last step that counts was paid.")
        if episode.scale.gamma < 1:
            discount = f"Each later step counts {episode.scale.gamma:g} times as much as the one before it."
            st.metric("Discounted return", _amount(episode.discounted), help=discount)
        st.metric(
            "On the scale",
            "outside"
            if episode.normalised is None and episode.total is not None
            else _amount(episode.normalised),
            help=f"Where its {episode.scale.base} lies, 0 the lowest and 1 the highest, on "
            f"{sentences.ends(episode.scale)}.",
        )
        st.metric("Steps", wording.count(episode.n_steps), help=sentences.steps_note(episode))
        st.metric("Success", {True: "yes", False: "no", None: "unknown"}[episode.success])
    with both_ends():
        st.markdown(f":gray[{sentences.episode_verdict(episode)}]", width="content")
        st.code(episode.uid, language=None, width="content", wrap_lines=True)


def _amount(value: float | None) -> Words:
    return Words("none" if value is None else wording.paid(value))


def parts(episode: EpisodeView) -> None:
    """Show the named parts of the episode's reward."""
    if not episode.parts:
        return
    section("Parts", "what the environment reports with the reward")
    small_table(
        {
            "part": [wording.literal(part.name) for part in episode.parts],
            "value": [wording.paid(part.value) for part in episode.parts],
            "what": ["part of the reward" if part.kind == "reward" else "measure" for part in episode.parts],
        },
        alt="Parts of the reward, and measures",
    )


def conversations(episode: EpisodeView) -> None:
    """Draw the transcripts of its first runs."""
    for number, uid in enumerate(episode.runs[:_TRANSCRIPTS], start=1):
        with suppress(UnknownRun):
            conversation(
                queries.run(uid),
                title="Conversation" if len(episode.runs) == 1 else f"Run {number} of the episode",
            )


def runs(episode: EpisodeView) -> None:
    """Draw the runs made in it, and what their arms did; a click opens one."""
    episode_runs = queries.episode_runs(episode.uid)
    if not episode_runs.n:
        section("Runs made in it")
        muted("This episode has no active run, so it can credit no arm.")
        return
    note = wording.things(episode_runs.n, "run")
    if episode_runs.n > len(episode_runs.rows):
        note += f"; the latest {len(episode_runs.rows)} are shown"
    section("Runs made in it", f"{note}; a click opens one")
    run_table.table(episode_runs.rows)
    section(
        "Their arms",
        f"{wording.things(len(episode_runs.arms), 'arm')}, the most used first; a click opens one",
    )
    run_table.arms([(one.arm, one.n_in, one.n_used) for one in episode_runs.arms])


def pointed_at(episode: EpisodeView) -> int | None:
    """Return the number of the step that the address names, if there is one by it."""
    named = address.number(address.STEP, digits=9)
    return next((one.number for one in episode.steps if one.number == named), None)


def picture(view: EpisodeView) -> None:
    """Draw reward by step and running total; several steps to a column where there are more than fit."""
    at = pointed_at(view)
    if not view.steps:
        section("Reward by step")
        muted("No step was recorded.")
        return
    each = per_column(len(view.steps), COMPACT_COLUMNS if reading().compact else MAX_COLUMNS)
    note = sentences.picture_note(view, each=each)
    pictured(("episode", view.uid, at), "Reward by step", note, episode, view, at=at)


def step_table(episode: EpisodeView) -> None:
    """Draw the steps around the one that is pointed at, with the way to earlier and later ones."""
    if not episode.steps:
        return
    at = pointed_at(episode)
    index = 0 if at is None else next(n for n, one in enumerate(episode.steps) if one.number == at)
    first = index - index % ON_A_PAGE
    rows = episode.steps[first : first + ON_A_PAGE]
    has_texts = any(one.asked or one.answered for one in episode.steps)
    note = sentences.steps_note(episode)
    section("Its steps", f"{note}; click one for its request and answer" if has_texts else note)
    if not has_texts:
        keeps, may_read = reading().frame.settings.keep_texts, reading().context.may("read_texts")
        muted(how_to_keep(keeps=keeps, may_read=may_read, of=Words("episode")))
    if len(episode.steps) > ON_A_PAGE:
        _paging(episode, first)
    actor = reading().context.actor
    row = opening_records(
        _steps(at).filled(rows),
        rows,
        _PHONE,
        name=f"steps {episode.uid} {first}",
        rest="number",
        alt=f"Steps {rows[0].number} to {rows[-1].number} of this episode: what was called, and what it was paid",
        cache_key=(at, actor),
    )
    if row is not None and row.number != at:
        address.say({address.STEP: str(row.number)})
        st.rerun()


def _steps(at: int | None) -> Table[StepView]:
    year = reading().frame.last_at_ms
    return STEPS.but(
        number=lambda one: f"{'→ ' if one.number == at else ''}{one.number:,}",
        name=sentences.step_name,
        kind=lambda one: sentences.STEP_KINDS[one.kind],
        reward=lambda one: _amount(one.reward),
        running=lambda one: wording.MISSING if one.running is None else wording.paid(one.running),
        notes=sentences.step_state,
        at=lambda one: "" if one.at is None else wording.written_minute(one.at, year_of_ms=year),
    )


def step_texts(episode: EpisodeView) -> None:
    """Show the selected step's request and answer, where stored and permitted."""
    at = pointed_at(episode)
    step = next((one for one in episode.steps if one.number == at), None)
    if step is None or not (step.asked or step.answered):
        return
    section(f"Step {wording.count(step.number)}", "request and answer")
    messages = (Message(kind="user", text=step.asked or ""), Message(kind="agent", text=step.answered or ""))
    steps_of(*(one for one in messages if one.text), who=_SIDES)


def _paging(episode: EpisodeView, first: int) -> None:
    after = first + ON_A_PAGE
    earlier = str(episode.steps[first - ON_A_PAGE].number) if first else None
    later = str(episode.steps[after].number) if after < len(episode.steps) else None
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        neighbour("Earlier steps", ":material/chevron_left:", {address.STEP: earlier})
        neighbour("Later steps", ":material/chevron_right:", {address.STEP: later})
        last = min(after, len(episode.steps))
        muted(f"{wording.count(first + 1)} to {wording.count(last)} of {wording.count(len(episode.steps))}")


def credit(episode: EpisodeView) -> None:
    """Show the credit in force, and the preview of another; the button sends it."""
    if not episode.runs:
        return
    in_force = episode.credit
    section("Credit", "what this episode was worth, to arms of its runs; off by default")
    _in_force(in_force)
    if not reading().may("credit"):
        return
    left, right = st.columns([5, 7], gap="large")
    with left, st.container(border=True):
        rule = _chosen(in_force)
        try:
            preview = queries.preview_credit(episode.uid, rule)
        except NotApplicable as problem:
            preview = None
            st.markdown(f":yellow[:material/warning:] {wording.literal(str(problem))}")
        if preview is not None and preview.answer.why:
            st.markdown(f":yellow[:material/warning:] {wording.literal(preview.answer.why)}")
        _send(episode, rule, preview)
    with right:
        if preview is not None:
            _effect(preview)


def _in_force(in_force: CreditView | None) -> None:
    if in_force is None or in_force.rule == "off":
        muted("No arm is credited.")
        return
    by, at = wording.literal(in_force.by), wording.written_minute(in_force.at)
    worth = "" if in_force.reward is None else f", worth {in_force.reward:.3f} of 1"
    words = f"In force: {wording.literal(in_force.id)}, {_RULES[in_force.rule][1]}{worth}; by {by}, {at} UTC."
    if not in_force.fits:
        words += (
            " **The same rule would give another credit now**: the episode, its runs or its scale changed."
        )
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(words, width="stretch")
        way_back(offered_undo(NamedAct(in_force.id, in_force.by)), in_force.id, at="credit", has_icon=True)


def _chosen(in_force: CreditView | None) -> CreditRule:
    begin: CreditRule = "referenced" if in_force is None else in_force.rule
    words = {name: label for name, (label, _) in _RULES.items()}
    rule = choice("Who shares", words, begin, key=_RULE, bound=False, labelled=True)
    muted(wording.capital(_RULES[rule][1]) + ".")
    return rule


def _send(episode: EpisodeView, rule: CreditRule, preview: CreditPreview | None) -> None:
    would = preview is not None and preview.answer.id is not None and not preview.answer.repeated
    st.button(
        "Credit it" if rule != "off" else "Credit no arm",
        type="primary",
        icon=":material/check:",
        key="credit episode",
        disabled=not would,
        on_click=actions.credit,
        args=(episode.uid, rule),
    )
    st.markdown(small("Nothing is sent yet. It counts as one lagged observation in all. It can be undone."))
    result("credit")


def _effect(preview: CreditPreview) -> None:
    answer = preview.answer
    if not answer.shares and not preview.effects:
        muted("It would move no arm.")
        return
    worth = "" if answer.reward is None else f"; the episode is worth {answer.reward:.3f} of 1"
    moved = f"{wording.count(preview.n_moved)} of {wording.things(preview.n_arms, 'arm')} would move"
    st.markdown(f"**What it would change.** {moved}{worth}.")
    shares = _shares(answer.shares)
    effects = {one.arm: one for one in preview.effects}
    names = list(dict.fromkeys([*effects, *sorted(shares, key=lambda arm: -shares[arm])]))
    small_table(
        {
            "arm": [chipped(arm) for arm in names[:_SHOWN]],
            "share": [f"{shares.get(arm, 0) / MICRO:.3f}" for arm in names[:_SHOWN]],
            "mean now": [
                wording.mean(effects[arm].before.mean, 3) if arm in effects else wording.MISSING
                for arm in names[:_SHOWN]
            ],
            "after": [
                f"**{wording.mean(effects[arm].after.mean, 3)}**" if arm in effects else wording.MISSING
                for arm in names[:_SHOWN]
            ],
        },
        alt="Arms that would be credited, with their means now and after",
    )
    if len(names) > _SHOWN:
        muted(f"and {wording.things(len(names) - _SHOWN, 'other arm')}.")


def _shares(shares: tuple[CreditShare, ...]) -> dict[str, int]:
    """Return each arm's share over all runs, in millionths."""
    totals: dict[str, int] = {}
    for share in shares:
        totals[share.arm] = totals.get(share.arm, 0) + share.weight_micro
    return totals
