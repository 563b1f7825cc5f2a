"""Page of trials: the verdicts of each one, and one trial with its tasks and cost."""

from __future__ import annotations

import streamlit as st

from core.explained import trials as explained
from dashboard import queries
from dashboard.reading import reading
from dashboard.sentences import trials as sentences
from dashboard.widgets import address, trials
from dashboard.widgets.parts import how_it_is_computed, muted, panel, sentence
from dashboard.wording import literal


def page() -> None:
    name = st.query_params.get(address.TRIAL, "")
    if name:
        _one(name)
        return
    rows = queries.trials()
    if not rows:
        trials.nothing_yet()
        return
    sentence(sentences.conclusion(rows), reading().tokens)
    with panel("The trials"):
        trials.table(rows)
    with panel("Read results"):
        trials.reading_form()
    with panel("Plan a trial"):
        trials.how_to_plan()
    how_it_is_computed("does-it-help", "designs")


def _one(name: str) -> None:
    story = trials.requested(name)
    if story is None:
        return
    sentence(sentences.conclusion([story.row]), reading().tokens)
    muted(literal(explained.story(story)))
    trials.links(story)
    with panel("The verdict"):
        trials.verdict(story.row.verdicts)
    with panel("Its results"):
        trials.readings(story)
    how_it_is_computed("does-it-help", "designs")


page()
