"""Transcript: what was written in a run, and beside it what the run had on offer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from core import explained
from core.flows.queries import RunArm, RunStory
from dashboard import queries, wording
from dashboard.reading import reading
from dashboard.sentences.transcript import how_to_keep, transcript, transcript_note
from dashboard.widgets.parts import chipped, muted, section, small
from dashboard.wording import Markdown, Words

_NAMED: Final = 15
_STATES: Final = ((Words("In the prompt"), "full"), (Words("By name"), "by name"), (Words("Left out"), "out"))


def conversation(story: RunStory, *, title: str = "Conversation") -> None:
    """Draw the transcript below the table of arms, or the reason for its absence; a presentation shows none."""
    here = reading()
    if here.presenting:
        return
    one = queries.transcript(story.facts.uid)
    if one.messages is None:
        section(wording.literal(title))
        muted(how_to_keep(keeps=here.frame.settings.keep_texts, may_read=one.may_read))
        return
    section(wording.literal(title), transcript_note(one.messages))
    left, right = st.columns([8, 4], gap="large")
    with left:
        st.html(transcript(one.messages, story.arms, here.tokens))
    with right:
        _offered(story)


def messages_of(story: RunStory) -> bool:
    """Draw the transcript of a run, folded; return whether there is one."""
    here = reading()
    messages = None if here.presenting else queries.transcript(story.facts.uid).messages
    if messages:
        with st.expander(f"Conversation: {transcript_note(messages)}"):
            st.html(transcript(messages, story.arms, here.tokens))
    return bool(messages)


def _offered(story: RunStory) -> None:
    """Draw the arms of the run by how they were there, those that it referenced first."""
    for title, state in _STATES:
        arms = [arm for arm in story.arms if _state(arm) == state]
        if arms:
            st.markdown(_list(title, sorted(arms, key=lambda arm: not arm.referenced)))


def _state(arm: RunArm) -> str:
    """Return the list of an arm. One that the run had by name and found (``loaded``) stays by name."""
    if arm.in_prompt and not arm.loaded:
        return "full"
    return "by name" if arm.loaded or arm.state == "by name" else "out"


def _note(arm: RunArm) -> Markdown:
    """Return that an arm was referenced, or why it was left out."""
    if arm.referenced:
        return small(Words(" · referenced"))
    why = explained.why(arm) if _state(arm) == "out" and arm.reason else ""
    return small(f" · {wording.literal(why)}") if why else Words("")


def _list(title: Words, arms: Sequence[RunArm]) -> Markdown:
    notes = [_note(arm) for arm in arms]
    shared = notes[0] if len(set(notes)) == 1 else Words("")
    names = [
        f"{chipped(arm.arm)}{'' if shared else note}" for arm, note in zip(arms[:_NAMED], notes, strict=False)
    ]
    more = (
        [small(f"and {wording.count(len(arms) - _NAMED)} more, in the table above")]
        if len(arms) > _NAMED
        else []
    )
    head = f"**{title}**, {wording.things(len(arms), 'arm')}{shared}"
    return Words("  \n").join([head, *names, *more])
