"""Page of sessions: the latest of the view, each with its runs, outcomes and cost."""

from __future__ import annotations

import streamlit as st

from core.flows.queries import SESSIONS
from dashboard import pages, queries
from dashboard.reading import reading
from dashboard.sentences import runs as sentences
from dashboard.widgets import sessions
from dashboard.widgets.parts import compacted, link, muted, no_arms, panel, sentence


def page() -> None:
    if reading().frame.n_runs == 0:
        no_arms("Every session, with its runs")
        return
    rows = queries.sessions()
    sentence(sentences.sessions(rows, at_most=SESSIONS), reading().tokens)
    compacted(reading().frame.compacted, reading().frame.unpriced)
    if not rows:
        muted("A session joins the runs of one conversation. Runs of agents and transcripts name theirs.")
    with st.container(horizontal=True):
        link(pages.RUNS, "All runs")
    if rows:
        with panel("The sessions"):
            sessions.table(rows)


page()
