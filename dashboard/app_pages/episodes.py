"""Page of episodes: rewards and successes per environment over time, and every episode, filtered."""

from __future__ import annotations

import streamlit as st

from core.records.episode_page import EpisodeFilter
from dashboard import pages, queries
from dashboard.reading import reading
from dashboard.sentences import rewards as sentences
from dashboard.widgets import address, environment
from dashboard.widgets import episodes as widgets
from dashboard.widgets.parts import link, muted, panel, section, sentence


def page() -> None:
    here = reading()
    known = queries.environments(EpisodeFilter())
    if not known:
        widgets.no_episodes()
        return
    title = st.container(gap="small")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        chosen = widgets.episode_filter(known)
        planted = widgets.truth()
        environments = queries.environments(chosen)
        if len(environments) == 1:
            st.space("stretch")
            link(pages.ENVIRONMENT, "Its environment", **{address.ENVIRONMENT: environments[0].environment})
    with title:
        sentence(sentences.episodes(environments, filtered=chosen != EpisodeFilter()), here.tokens)
        one = environments[0] if len(environments) == 1 else None
        muted(sentences.averages_line(one) if one else sentences.came_to(environments))
    with panel("Runs without an episode"):
        widgets.runs_without_episode()
    if environments:
        with panel("Environments", still="the episodes below still work"):
            section("Environments", "those with a warning first; a click opens one")
            widgets.environments(environments, planted)
    if one is not None:
        with panel("How it goes on"):
            environment.success_over_time(queries.environment(one.environment, chosen))
    cursor, direction = widgets.page_start()
    with panel("The episodes", still="the figures above still hold"):
        listed = queries.episode_list(chosen, cursor=cursor, direction=direction)
        section("The episodes", "newest first; a click opens one")
        widgets.paging(listed, cursor, direction)
        if listed.rows:
            widgets.episodes(listed.rows)
        else:
            muted("None passes the filters." if cursor is None else "No more.")


page()
