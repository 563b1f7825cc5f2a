"""Transcript: what was written in a run."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from core.flows.queries import RunStory
from core.records.transcript import Message
from dashboard import queries, wording
from dashboard.reading import reading
from dashboard.sentences.transcript import how_to_keep, transcript, transcript_note
from dashboard.widgets.parts import muted, section


def conversation(story: RunStory, *, title: str = "Conversation") -> None:
    """Draw the transcript, or the reason for its absence."""
    here, one = reading(), queries.transcript(story.facts.uid)
    section(wording.literal(title), "" if one.messages is None else transcript_note(one.messages))
    if one.messages is None:
        muted(how_to_keep(keeps=here.frame.settings.keep_texts, may_read=one.may_read))
    else:
        st.html(transcript(one.messages, story.arms, here.tokens))


def messages_of(story: RunStory) -> bool:
    """Draw the transcript of a run without a head; return whether there is one."""
    here = reading()
    messages = queries.transcript(story.facts.uid).messages
    if messages:
        muted(transcript_note(messages))
        st.html(transcript(messages, story.arms, here.tokens))
    return bool(messages)


def steps_of(*texts: Message, who: Mapping[str, str]) -> None:
    """Draw texts of others as steps; ``who`` names the kinds."""
    if texts:
        st.html(transcript(texts, (), reading().tokens, who=who))
