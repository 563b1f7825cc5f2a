"""Run story: the parts of a run's page, and the table of its arms. Cells are text cells, shown as they are."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
import streamlit as st

from core import explained
from core.errors import UnknownRun
from core.flows.queries import RunArm, RunStory
from core.records.batch import RUN_REWARD_RULES, RunRewardRule
from core.records.evaluation_page import EvaluationFilter
from core.records.observation import OUTCOME_REWARDS
from dashboard import actions, pages, queries, wording
from dashboard.reading import cached_figure, reading
from dashboard.sentences import runs as sentences
from dashboard.widgets import address
from dashboard.widgets.evaluation_table import listed
from dashboard.widgets.fields import choice
from dashboard.widgets.opening import clicked_row, fresh, open_one
from dashboard.widgets.paging import neighbour
from dashboard.widgets.parts import (
    as_table,
    both_ends,
    chipped,
    gray,
    link,
    not_named,
    quoted,
    section,
    sentence,
)
from dashboard.widgets.results import result
from dashboard.widgets.tables import ALL_AT_ONCE, arm_name, shown_table, type_cells, type_column
from dashboard.wording import Markdown

_EPISODES_LINKED: Final = 1
"""A run is made in one; a file may say otherwise, and the page of the episode leads on."""
_RULES: Final[Mapping[RunRewardRule, str]] = {
    "referenced": "Referenced arms",
    "equal": "Every arm in the prompt",
    "step": "Called tools",
}
WHY_FOLD: Final = "why in, why out"
EXCERPTS: Final = "where recognised"
_LISTED: Final = 12
"""Excerpts shown one below the other; more become a table."""

# Every arm
_TALL_PX: Final = 640
_PHONE: Final = {"type": 48, "arm": 152, "prompt": 58, "observed": 70}


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
    """Draw links to the runs before and after, to all runs, and to what this run belongs to."""
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
        if story.experiment:
            link(pages.TRIALS, "Its experiment", **{address.TRIAL: story.experiment})
        for uid in story.episodes[:_EPISODES_LINKED]:
            link(pages.EPISODE, "Its episode", **{address.EPISODE: uid})


def figures(story: RunStory) -> None:
    """Draw tokens, duration and calls, then the id to copy."""
    facts = story.facts
    seconds = wording.MISSING if facts.duration_ms is None else f"{facts.duration_ms / 1000:,.1f} s"
    with st.container(horizontal=True, gap="medium"):
        tokens = wording.count(facts.tokens)
        st.metric("Tokens", tokens, help=wording.capital(sentences.run_tokens(story)))
        st.metric("Duration", seconds)
        st.metric("Tool calls", wording.count(facts.n_calls), help=f"{facts.n_real_calls} count as real")
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
    st.markdown(f"**Outcome.** {wording.literal(explained.achieved(story))}")
    for line in (explained.side(story), explained.sources(story), explained.not_decided(story)):
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
    rule: RunRewardRule = choice(
        "Which arms get it",
        _RULES,
        RUN_REWARD_RULES[0],
        key=f"rule {story.facts.run_no}",
        bound=False,
        labelled=True,
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
    fold = st.expander(
        f"Where {wording.things(len(quoted), 'arm')} were recognised", key=EXCERPTS, on_change="rerun"
    )
    if fold.open:
        with fold:
            _excerpts(story, quoted)


def _excerpts(story: RunStory, quoted: Sequence[RunArm]) -> None:
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
    with st.expander("Prompt text on tools left out, made again from the record"):
        st.code(story.guidance, language=None, wrap_lines=True)


def decisions(story: RunStory, *, folded: bool) -> None:
    """Draw every arm of a run, those first that stayed out, ``folded`` under those that are judged."""
    if not folded:
        _decided(story)
        return
    fold = st.expander("Why in, why out, and what would have flipped it", key=WHY_FOLD, on_change="rerun")
    if fold.open:
        with fold:
            _decided(story)


def _decided(story: RunStory) -> None:
    arms = sorted(story.arms, key=lambda arm: arm.state != "out")
    n_arms = len(arms)
    frame = cached_figure(("decisions", story.facts.run_no), lambda: _decisions(story, arms))
    is_long = n_arms > ALL_AT_ONCE  # then rows are sent as one scrolls, which can't be combined with clicks
    more: dict[str, Any] = (
        {"lazy": True} if is_long else {"on_select": "rerun", "selection_mode": "single-cell"}
    )
    clicked = shown_table(
        frame,
        _config(story),
        _PHONE,
        key=fresh("decisions"),
        alt=f"Every arm of run {story.facts.run_no}: {story.n_in} in, {n_arms - story.n_in} out, and why",
        at_most_px=_TALL_PX,
        **more,
    )
    index = None if is_long else clicked_row(clicked, rest="type", key=fresh("decisions"))
    if index is not None and index < n_arms:
        open_one(pages.ARM, arms[index].arm)


def _config(story: RunStory) -> dict[str, Any]:
    text, is_long = st.column_config.TextColumn, story.by_hand or story.repairs
    return {
        "type": type_column(),
        "arm": text("arm", width=200 if is_long else 226),
        "prompt": text("prompt", width=58),
        "why": text("why", width=230),
        "evidence": text("evidence", width=122),
        "observed": text("observed", width=210 if is_long else 66),
        "what would have flipped it": text("what would have flipped it", width=250 if is_long else 356),
    }


def _decisions(story: RunStory, arms: Sequence[RunArm]) -> pa.Table:
    kinds = pa.array(type_cells([arm.arm for arm in arms]), type=pa.list_(pa.string()))
    cells: dict[str, object] = {
        "type": kinds,
        "arm": [wording.short_name(arm.arm) for arm in arms],
        "prompt": [wording.state(arm.state) for arm in arms],
    }
    if story.selection is not None:
        cells["why"] = [sentences.decided(arm) for arm in arms]
    cells |= {
        "evidence": [explained.evidence(arm, story) for arm in arms],
        "observed": [explained.observed(arm) for arm in arms],
    }
    if story.selection is not None:
        cells["what would have flipped it"] = [explained.flip(arm, story) for arm in arms]
    return pa.table(cells)
