"""Unread observations: those that no posterior counts, and how they were counted."""

from __future__ import annotations

import streamlit as st

from dashboard import queries, sentences
from dashboard.widgets.popover import lazy_popover
from dashboard.widgets.words import as_table, both_ends, small


def unread() -> None:
    """Draw the figure, what it was computed from, and, should there be any, the arms concerned."""
    counts = queries.unread()
    with both_ends():
        st.markdown(sentences.unread(counts), width="content")
        behind = lazy_popover("How it is counted", key="unread query")
        if behind is not None:
            with behind:
                st.markdown(small("Active rewards by who reads them, from this query."))
                st.code(counts.query, language="sql", wrap_lines=True)
    st.markdown(small(sentences.unread_counts(counts)))
    if counts.arms:
        as_table(sentences.unread_table(counts), alt="Arms with unread observations")
