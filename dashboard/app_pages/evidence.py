"""Page of evidence: what changed for some arms, when, where, and the repair of that span."""

from __future__ import annotations

import streamlit as st

from dashboard import queries
from dashboard.reading import reading
from dashboard.sentences import evidence as sentences
from dashboard.widgets import evidence
from dashboard.widgets.parts import compacted, muted, panel, sentence


def page() -> None:
    here = reading()
    chosen = evidence.requested()
    if chosen is None:
        return
    change = queries.evidence(*chosen)
    sentence(sentences.evidence(change, year_of_ms=here.frame.last_at_ms), here.tokens)
    muted(sentences.evidence_line(change))
    compacted(here.frame.compacted)
    left, right = st.columns([64, 36], gap="large")
    with left, panel("Used, by day"):
        evidence.picture(change)
    with right, panel("Repair", still="nothing was taken back"):
        evidence.cure(change)
    left, right = st.columns([7, 5], gap="large")
    with left, panel("Runs concerned"):
        evidence.hits(change)
    with right:
        with panel("What else changed"):
            evidence.changed_too(change)
        with panel("Examples"):
            evidence.examples(change)


page()
