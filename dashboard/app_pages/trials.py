"""Page of trials and experiments: all verdicts, one trial with its tasks, or one experiment with its sessions."""

from __future__ import annotations

from typing import Final

import streamlit as st

from core.explained import experiments as explained_experiments
from core.explained import trials as explained
from dashboard.reading import reading
from dashboard.sentences import trials as sentences
from dashboard.widgets import address, experiments, trials
from dashboard.widgets.parts import how_it_is_computed, muted, panel, sentence
from dashboard.wording import literal

_EXPERIMENT: Final = "experiment-"
"""Begins the id of an experiment."""


def page() -> None:
    name = st.query_params.get(address.TRIAL, "")
    if name:
        (_experiment if name.startswith(_EXPERIMENT) else _trial)(name)
        return
    rows = trials.tests()
    if not rows:
        trials.nothing_yet()
        return
    sentence(sentences.conclusion(rows), reading().tokens)
    with panel("The trials and experiments"):
        trials.table(rows)
    with panel("Read results"):
        trials.reading_form()
    with panel("Plan a trial"):
        trials.how_to_plan()
    how_it_is_computed("does-it-help", "designs")


def _trial(name: str) -> None:
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


def _experiment(name: str) -> None:
    row = experiments.requested(name)
    if row is None:
        return
    sentence(sentences.experiment(row), reading().tokens)
    muted(literal(explained_experiments.story(row)[0]))
    experiments.links(row)
    left, right = st.columns([7, 5], gap="large")
    with left, panel("The effect so far"):
        experiments.picture(row)
    with right, panel("What now"):
        experiments.state(row)
        experiments.history(row)
    has_picture = row.figures.metric.effect.value is not None
    if has_picture:
        left, right = st.columns([7, 5], gap="large")
    with left, panel("Every measure"):
        experiments.measures(row)
    with right if has_picture else left, panel("Its sessions"):
        experiments.sides(row)
    with panel("What it rests on"):
        experiments.limits(row)
    how_it_is_computed("does-it-help", "how-an-experiment-decides")


page()
