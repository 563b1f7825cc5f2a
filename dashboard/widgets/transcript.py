"""Transcript: what was written in a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from core.flows.queries import RunStory
from core.records.bill import bill_of
from core.records.currency import PICO
from core.records.transcript import Message
from dashboard import queries, wording
from dashboard.reading import reading
from dashboard.sentences.transcript import how_to_keep, transcript, transcript_note
from dashboard.widgets.parts import muted, section


def conversation(story: RunStory, *, title: str = "Conversation") -> None:
    """Draw the transcript, or the reason for its absence."""
    here, one = reading(), queries.transcript(story.facts.uid)
    n_calls = story.facts.n_calls
    section(wording.literal(title), "" if one.messages is None else transcript_note(one.messages, n_calls))
    if one.messages is None:
        muted(how_to_keep(keeps=here.frame.settings.keep_texts, may_read=one.may_read))
    else:
        _steps(story, one.messages)


def messages_of(story: RunStory) -> bool:
    """Draw the transcript of a run without a head; return whether there is one."""
    messages = queries.transcript(story.facts.uid).messages
    if messages:
        muted(transcript_note(messages, story.facts.n_calls))
        _steps(story, messages)
    return bool(messages)


def _steps(story: RunStory, messages: Sequence[Message]) -> None:
    """Draw the messages with their cost, at the prices of the run's time."""
    here, run = reading(), story.facts

    def cost(one: Message) -> str:
        pico = bill_of(one.spent, run.model, run.at_ms, here.frame.settings.prices).pico
        return "" if pico is None else wording.money(pico / PICO, here.frame.settings.currency)

    st.html(transcript(messages, story.arms, here.tokens, cost=cost))


def steps_of(*texts: Message, who: Mapping[str, str]) -> None:
    """Draw texts of others as steps; ``who`` names the kinds."""
    if texts:
        st.html(transcript(texts, (), reading().tokens, who=who))
