"""Unread: whether every observation is read by some posterior, and how that was found out."""

from __future__ import annotations

import streamlit as st

from dashboard import loading, sentences
from dashboard.widgets.words import as_table, small


def unread() -> None:
    """The figure, what it was computed from, and, should there be any, the arms concerned."""
    seen = loading.unread()
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(sentences.unread(seen), width="content")
        st.space("stretch")
        behind = st.popover("How it is counted", type="tertiary", key="unread query", on_change="rerun")
        if behind.open:
            with behind:
                st.markdown(small("Standing rewards by who reads them; asked for in these words."))
                st.code(seen.query, language="sql", wrap_lines=True)
    st.markdown(small(sentences.unread_counts(seen)))
    if seen.arms:
        as_table(sentences.unread_table(seen), alt="Arms with observations that nobody reads")
