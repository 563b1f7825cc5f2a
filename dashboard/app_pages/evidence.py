"""Page of evidence: what changed for some arms, when, where, and the repair of that span."""

from __future__ import annotations

import streamlit as st

from dashboard import queries, sentences
from dashboard.reading import reading
from dashboard.widgets.evidence import cure, story
from dashboard.widgets.panel import panel
from dashboard.widgets.words import compacted, muted, sentence


def page() -> None:
    here = reading()
    chosen = story.requested()
    if chosen is None:
        return
    change = queries.evidence(*chosen)
    sentence(sentences.evidence(change, year_of_ms=here.frame.last_at_ms), here.tokens)
    muted(sentences.evidence_line(change))
    compacted(here.frame.compacted)
    left, right = st.columns([64, 36], gap="large")
    with left, panel("Used, by day"):
        story.picture(change)
    with right, panel("Repair", still="nothing was taken back"):
        cure.cure(change)
    left, right = st.columns([7, 5], gap="large")
    with left, panel("Runs concerned"):
        story.hits(change)
    with right:
        with panel("What else changed"):
            story.changed_too(change)
        with panel("Examples"):
            story.examples(change)


page()
