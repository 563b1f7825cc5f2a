"""Run story: the parts of a run's page beside its table of arms."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import partial
from typing import Final

import streamlit as st

from core import explained
from core.errors import UnknownRun
from core.flows.queries import RunStory
from core.records.batch import RUN_REWARD_RULES, RunRewardRule
from core.records.evaluation_page import EvaluationFilter
from core.records.observation import OUTCOME_REWARDS
from dashboard import actions, pages, queries, sentences, wording
from dashboard.reading import reading
from dashboard.widgets import address
from dashboard.widgets.empty import not_named, quoted
from dashboard.widgets.evaluation_table import listed
from dashboard.widgets.navigation import link
from dashboard.widgets.paging import neighbour
from dashboard.widgets.results import result
from dashboard.widgets.tables import arm_name
from dashboard.widgets.words import as_table, both_ends, chipped, gray, section, sentence
from dashboard.wording import Markdown

_EPISODES_LINKED: Final = 1
"""A run is made in one; a file may say otherwise, and the page of the episode leads on."""
_RULES: Final[Mapping[RunRewardRule, str]] = {
    "referenced": "Referenced arms",
    "step": "Called tools",
    "equal": "Every arm in the prompt",
}
_LISTED: Final = 12
"""Excerpts shown one below the other; more become a table."""


def requested() -> RunStory | None:
    """Return the run that the address names; None after a message that names the next step."""
    name = st.query_params.get(address.RUN, "")
    why: Markdown = f"No run has the uid or number {quoted(name)}."
    try:
        if name:
            return queries.run(name)
    except UnknownRun as problem:
        if (one := queries.session(name)) is not None:
            sentence(sentences.session(one.row), reading().tokens)
            link(pages.SESSION, "Open the session", **{address.SESSION: one.row.session})
            return None
        if reading().frame.compacted is not None:  # then it says whether and when the run was deleted
            why = wording.literal(problem.problem)
    not_named(
        "run",
        name,
        unnamed="This page explains one run: why each arm was in or left out.",
        unknown=why,
        needed="the uid or number of a run",
        to_do="**Choose a run** on the page of runs, or list them.",
        listed_by="runs",
    )
    link(pages.RUNS, "All runs")
    return None


def links(story: RunStory) -> None:
    """Draw links to the runs before and after, to all runs, and to the form for a reward of this run."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        neighbour("Previous run", ":material/chevron_left:", {address.RUN: story.older})
        neighbour("Next run", ":material/chevron_right:", {address.RUN: story.newer})
        link(pages.RUNS, "All runs")
        if story.older is not None:
            sides = {address.COMPARE_RUN_A: story.older, address.COMPARE_RUN_B: story.facts.uid}
            link(
                pages.COMPARE,
                "Compare with the previous run",
                **{address.COMPARE_BY: address.TWO_RUNS, **sides},
            )
        if story.facts.session:
            link(pages.SESSION, "Its session", **{address.SESSION: story.facts.session})
        for uid in story.episodes[:_EPISODES_LINKED]:
            link(pages.EPISODE, "Its episode", **{address.EPISODE: uid})
        st.space("stretch")
        if may_reward(story):
            link(pages.REWARDS, "Give a reward about this run", **{address.REWARDS_RUN: story.facts.uid})


def figures(story: RunStory) -> None:
    """Draw tokens, duration, calls and arms, then the id to copy."""
    facts = story.facts
    seconds = wording.MISSING if facts.duration_ms is None else f"{facts.duration_ms / 1000:,.1f} s"
    with st.container(horizontal=True, gap="medium"):
        tokens = wording.MISSING if facts.tokens is None else wording.count(facts.tokens)
        st.metric("Tokens", tokens, help=wording.capital(sentences.run_tokens(story)))
        st.metric("Duration", seconds)
        st.metric("Tool calls", wording.count(facts.n_calls), help=f"{facts.n_real_calls} count as real")
        st.metric("Arms in", wording.count(story.n_in))
        st.metric("Referenced", wording.count(story.n_referenced))
        if facts.reward is not None:
            st.metric("Reward of its source", f"{facts.reward:g}")
    billed = explained.bill(story)
    with both_ends():
        if billed is None:
            st.markdown(gray(f"Tokens: {sentences.run_tokens(story)}."), width="content")
        st.code(facts.uid, language=None, width="content", wrap_lines=True)
    if billed is not None:
        st.markdown(gray(wording.literal(billed)))


def verdict(story: RunStory) -> None:
    """Show the guard's verdict, and the exceptions of this run."""
    st.markdown(f"**Verdict.** {wording.literal(explained.verdict(story))}")
    for line in (explained.standing(story), explained.not_decided(story)):
        if line is not None:
            st.markdown(wording.literal(line))
    differs = sentences.run_differs(story)
    if differs is not None:
        st.markdown(differs)
    missing = explained.not_offered(story)
    if missing is not None:
        st.text(wording.plain(missing))


def may_reward(story: RunStory) -> bool:
    """Return whether the signed-in person can reward this run."""
    return (
        reading().may("reward") and story.facts.standing and story.facts.outcome != "empty" and story.n_in > 0
    )


def reward_form(story: RunStory) -> None:
    """Draw the reward of the full run: which arms get it, and one button for each outcome."""
    section("Reward this run", "one act with one undo")
    rule: RunRewardRule = st.segmented_control(
        "Which arms get it",
        RUN_REWARD_RULES,
        default=RUN_REWARD_RULES[0],
        required=True,
        format_func=_RULES.__getitem__,
        key=f"rule {story.facts.run_no}",
    )
    correct = st.toggle(
        "Replace the automatic rewards",
        disabled=story.facts.outcome != "observed",
        help="Off: one more observation for each arm. On: it counts instead of the automatic one.",
        key=f"correct {story.facts.run_no}",
    )
    key_name = f"reward key {story.facts.run_no}"
    key = str(st.session_state.setdefault(key_name, uuid.uuid4().hex))
    with st.container(horizontal=True, gap="small"):
        for outcome, value in OUTCOME_REWARDS.items():
            st.button(
                f"{outcome.capitalize()}: {value:g}",
                key=f"{outcome} {key}",
                on_click=actions.send_run_reward,
                args=(story.facts.uid, value, rule),
                kwargs={
                    "correct": correct,
                    "key": key,
                    "after": partial(st.session_state.pop, key_name, None),
                },
            )
    result("run reward")


def by_hand(story: RunStory) -> None:
    """Draw the ledger rows of this run, each with a link to the ledger of its arm."""
    rewards = story.by_hand
    if not rewards:
        return
    section("By hand", wording.things(len(rewards), "ledger row"))
    for arm, row in rewards:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(chipped(arm), width="content")
            st.text(wording.plain(explained.ledger_row(row)), width="content")
            link(pages.ARM, "Its ledger", **{address.ARM: arm})


def evaluations(story: RunStory) -> None:
    """Show the evaluations of this run, in full and arm by arm."""
    of_this_run = EvaluationFilter(run=story.facts.uid, counting=False)
    if queries.evaluations(of_this_run).rows:
        listed(of_this_run, name="run_evaluations", nothing="")


def excerpts(story: RunStory) -> None:
    """Show where skills, files and memories were recognised, with a few words around each."""
    quoted = story.quoted
    if not quoted:
        return
    section("Where they were recognised", "at most 160 characters are kept around each place")
    if len(quoted) <= _LISTED:
        for arm in quoted:
            st.markdown(f"{chipped(arm.arm)} :gray[{wording.literal(explained.evidence(arm, story))}]")
            st.text(wording.plain(arm.excerpt or "").strip())
        return
    table: dict[str, list[str]] = {
        "type": [wording.type_of(arm.arm) for arm in quoted],
        "arm": [arm_name(arm.arm) for arm in quoted],
        "where": [explained.evidence(arm, story) for arm in quoted],
        "excerpt": [wording.plain(arm.excerpt or "") for arm in quoted],
    }
    as_table(table, alt="Where skills, files and memories were recognised in this run")


def guidance(story: RunStory) -> None:
    """Draw the text that named the excluded tools, made again from the record."""
    if story.guidance is None:
        return
    section("Prompt text on tools left out", "made again from the record; the text itself is not stored")
    st.code(story.guidance, language=None, wrap_lines=True)
