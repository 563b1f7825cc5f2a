"""Page of help: the topics of the guide with a search. Topic, part and query are in the address."""

from __future__ import annotations

import streamlit as st

from core import guide
from dashboard import wording
from dashboard.reading import reading
from dashboard.sentences import Phrase
from dashboard.widgets import help_topics
from dashboard.widgets.address import HELP_PART, HELP_QUERY, HELP_TOPIC
from dashboard.widgets.parts import HELPING, muted, panel, sentence


def page() -> None:
    with st.container(key=HELPING):
        _show()


def _show() -> None:
    here = reading()
    title = st.container(gap="small")
    query = st.text_input(
        "Search the guide",
        key=HELP_QUERY,
        bind="query-params",
        type="search",
        placeholder="for example: standby, prior, erase",
        max_chars=100,
        width=400,
    ).strip()
    st.space("small")
    if query:
        spelled = guide.spelled(query)
        matches = guide.search(spelled)
        with title:
            if matches:
                words = (
                    "1 section of the guide answers this."
                    if len(matches) == 1
                    else f"{len(matches)} sections of the guide answer this, the best first."
                )
                sentence((words,), here.tokens)
            else:
                sentence(("No section of the guide has these words.",), here.tokens)
            if spelled != query:
                muted(f"Searched for {wording.literal(spelled)}.")
        with panel("The search"):
            help_topics.results(spelled, [match.section for match in matches])
        return
    try:
        topic = next(one for one in guide.topics() if one.name == st.query_params.get(HELP_TOPIC))
    except StopIteration:
        with title:
            sentence(("Choose a topic, or ", Phrase("search"), " the guide."), here.tokens)
            muted("On the command line: `armscope help`.")
        help_topics.index()
        return
    with title:
        sentence((wording.literal(topic.title),), here.tokens)
    with panel("The topic"):
        help_topics.show_topic(topic, st.query_params.get(HELP_PART, ""))


page()
