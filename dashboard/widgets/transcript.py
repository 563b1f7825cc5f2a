"""Transcript: what was written in a run."""

from __future__ import annotations

import streamlit as st

from core.flows.queries import RunStory
from dashboard import queries, wording
from dashboard.reading import reading
from dashboard.sentences.transcript import how_to_keep, transcript, transcript_note
from dashboard.widgets.parts import muted, section


def conversation(story: RunStory, *, title: str = "Conversation") -> None:
    """Draw the transcript, or the reason for its absence."""
    here = reading()
    one = queries.transcript(story.facts.uid)
    if one.messages is None:
        section(wording.literal(title))
        muted(how_to_keep(keeps=here.frame.settings.keep_texts, may_read=one.may_read))
        return
    section(wording.literal(title), transcript_note(one.messages))
    st.html(transcript(one.messages, story.arms, here.tokens))


def messages_of(story: RunStory) -> bool:
    """Draw the transcript of a run, folded; return whether there is one."""
    here = reading()
    messages = queries.transcript(story.facts.uid).messages
    if messages:
        with st.expander(f"Conversation: {transcript_note(messages)}"):
            st.html(transcript(messages, story.arms, here.tokens))
    return bool(messages)
