"""Page of one arm: its belief, its path, inclusion and exclusion, value, and ledger."""

from __future__ import annotations

import streamlit as st

from core import explained
from dashboard import queries
from dashboard.figures.arms import rows
from dashboard.reading import reading
from dashboard.sentences import arm as arm_sentences
from dashboard.sentences import judgement as sentences
from dashboard.sentences.review import missed_use
from dashboard.widgets import trials
from dashboard.widgets.arm import belief, head, ledger
from dashboard.widgets.parts import compacted, how_it_is_computed, muted, panel, sentence
from dashboard.wording import literal


def page() -> None:
    here = reading()
    arm = head.requested()
    if arm is None:
        return
    known, path = queries.as_of(), queries.arm_path(arm)
    index = known.columns.places[arm]
    (row,) = rows(known.columns, known.summary, [index])
    then = belief.then_day(path)
    head.head(known, index, path)
    judged, year_of_ms = queries.judgements()[arm], here.frame.last_at_ms
    cost = head.token_cost(known, index)
    sentence(sentences.arm(judged, token_cost=cost, year_of_ms=year_of_ms), here.tokens)
    muted(arm_sentences.arm_facts(judged, row.band, path, year_of_ms=year_of_ms))
    if path.use is not None:
        muted(literal(explained.skill_use(path.use)))
    compacted(here.frame.compacted)
    ledger.lately(arm)
    left, right = st.columns(2, gap="large")
    with left, panel("Belief now"):
        belief.now(row, path, then)
    with right, panel("How it got there"):
        belief.path(row, path, judged.change)
    left, right = st.columns(2, gap="large")
    with left, panel("Its break-even"):
        belief.worth(judged, known, index)
    with right, panel("Notes"):
        head.read_notes(arm)
    with panel("Does it help?"):
        trials.of_arm(arm)
        if arm in queries.missed_use():
            st.markdown(missed_use(queries.missed_use()[arm]))
    with panel("Where the belief comes from"):
        belief.sources(judged)
    with panel("Versions of its definition"):
        belief.versions(path.versions)
    with panel("In or left out"):
        ledger.in_or_out(arm)
    with panel("Evaluations"):
        ledger.evaluations(arm)
    with panel("Ledger"):
        ledger.ledger(arm)
    how_it_is_computed("savings", "judgement-of-an-arm")


page()
