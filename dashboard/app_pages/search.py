"""Page of search: everything in which the words of the address occur; a click opens it."""

from __future__ import annotations

import streamlit as st

from dashboard import queries
from dashboard.reading import reading
from dashboard.sentences import search as sentences
from dashboard.widgets.address import SEARCH_WORDS
from dashboard.widgets.frame import search
from dashboard.widgets.frame.search import page_field
from dashboard.widgets.parts import muted, no_arms, panel, sentence


def page() -> None:
    here = reading()
    if here.frame.n_runs == 0 and not st.query_params.get(SEARCH_WORDS, "").strip():
        no_arms("What can be searched")
        return
    title = st.container(gap="small")
    if here.compact:
        page_field()
    words = st.query_params.get(SEARCH_WORDS, "")
    if not words.strip():
        with title:
            sentence(("Type a part of a name or id, then Enter.",), here.tokens)
            muted(
                "For example a session, the uid of a run, a part of an arm, a model or a task. / goes to the field."
            )
        return
    with panel("The search"):
        answer = queries.matches(words)
        with title:
            sentence(sentences.search(answer), here.tokens)
            muted(sentences.searched(answer))
        if answer.hits:
            search.hits(answer.hits)
        else:
            muted("Use fewer or shorter words: a part of a name is enough. Names have no wildcards.")


page()
