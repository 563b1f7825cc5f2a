"""Page of one run: its conversation, then its arms with why each was in or out, and the buttons that judge them."""

from __future__ import annotations

import streamlit as st

from dashboard.reading import reading
from dashboard.sentences import runs as sentences
from dashboard.widgets.parts import how_it_is_computed, muted, panel, paragraphs, section, sentence
from dashboard.widgets.results import repaired
from dashboard.widgets.run import judging, story
from dashboard.widgets.transcript import conversation


def page() -> None:
    here = reading()
    story_of_run = story.requested()
    if story_of_run is None:
        return
    sentence(sentences.run(story_of_run), here.tokens)
    muted(sentences.run_facts(story_of_run, year_of_ms=here.frame.last_at_ms))
    story.links(story_of_run)
    with panel("Conversation", still="the facts above still hold"):
        conversation(story_of_run)
    with panel("Arms", still="the conversation above still holds"):
        section("Arms", sentences.selection_note(story_of_run))
        if out := sentences.stayed_out(story_of_run):
            paragraphs(out)
        if judging.may_judge(story_of_run):
            judging.panel_of(story_of_run)
        if story_of_run.arms:
            story.decisions(story_of_run, folded=judging.may_judge(story_of_run))
            repaired(story_of_run.repairs)
        else:
            muted("Hidden." if story_of_run.is_blind else "No arm was put to the test.")
    if story.may_reward(story_of_run):
        with panel("Reward the whole run"), st.expander("Reward the whole run", icon=":material/award_star:"):
            story.reward_form(story_of_run)
    with panel("The run in figures"):
        story.figures(story_of_run)
    with panel("The verdict"):
        story.verdict(story_of_run)
    with panel("Feedback of people"):
        story.by_hand(story_of_run)
    with panel("Evaluations"):
        story.evaluations(story_of_run)
    with panel("Where they were recognised"):
        story.excerpts(story_of_run)
    with panel("Prompt text on tools left out"):
        story.guidance(story_of_run)
    how_it_is_computed("savings", "detection")


page()
