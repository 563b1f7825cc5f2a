"""Page of episodes: rewards and successes per environment over time, and every episode, filtered."""

from __future__ import annotations

import streamlit as st

from core.records.episode_page import EpisodeFilter
from dashboard import pages, queries, sentences
from dashboard.reading import reading
from dashboard.widgets import address, progress
from dashboard.widgets.episodes import filters, none, tables
from dashboard.widgets.navigation import link
from dashboard.widgets.panel import panel
from dashboard.widgets.words import muted, section, sentence


def page() -> None:
    here = reading()
    known = queries.environments(EpisodeFilter())
    if not known:
        none.no_episodes()
        return
    title = st.container(gap="small")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        wanted = filters.episode_filter(known)
        planted = filters.truth()
        seen = queries.environments(wanted)
        if len(seen) == 1:
            st.space("stretch")
            link(pages.ENVIRONMENT, "Its environment", **{address.ENVIRONMENT: seen[0].environment})
    with title:
        sentence(sentences.episodes(seen, filtered=wanted != EpisodeFilter()), here.tokens)
        one = seen[0] if len(seen) == 1 else None
        muted(sentences.averages_line(one) if one else "Each environment pays on a scale of its own.")
    with panel("Runs without an episode"):
        none.untold_runs()
    if seen:
        with panel("Environments", still="the episodes below still work"):
            section("Environments", "those with a warning first; a click opens one")
            tables.environments(seen, planted)
    if one is not None:
        with panel("How it goes on"):
            progress.going_on(queries.environment(one.environment, wanted))
    cursor, direction = filters.place()
    with panel("The episodes", still="the figures above still hold"):
        found = queries.episode_list(wanted, cursor, direction)
        section("The episodes", "newest first; a click opens one")
        filters.paging(found, cursor, direction)
        if found.rows:
            tables.episodes(found.rows)
        else:
            muted("None passes the filters." if cursor is None else "No more.")


page()
