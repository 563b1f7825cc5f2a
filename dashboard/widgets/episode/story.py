"""Episode story: which episode is meant, where it leads on, what it came to, and the runs made in it."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import streamlit as st

from core.errors import NotFound, UnknownRun
from core.flows.queries import EpisodeView
from dashboard import pages, queries, sentences, wording
from dashboard.sentences import rewards
from dashboard.widgets import address, run_table
from dashboard.widgets.empty import not_named, quoted
from dashboard.widgets.navigation import link
from dashboard.widgets.paging import neighbour
from dashboard.widgets.transcript import conversation
from dashboard.widgets.words import both_ends, muted, section, small_table
from dashboard.wording import Words

_TRANSCRIPTS: Final = 3
"""Runs of an episode whose transcripts are drawn; the others are a click away."""


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
