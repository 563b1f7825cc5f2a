"""Page of the audit: acts at the learner or the installation, and refusals. Every filter is in the address."""

from __future__ import annotations

import streamlit as st

from core.records.audit import AuditFilter, AuditPage, DenialPage
from dashboard.governing import Which
from dashboard.reading import reading
from dashboard.sentences import Sentence
from dashboard.sentences import audit as said
from dashboard.widgets.audit import filters, listing
from dashboard.widgets.panel import panel
from dashboard.widgets.words import muted, sentence


def page() -> None:
    here = reading()
    title = st.container(gap="small")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        of = filters.which()
        wanted = filters.audit_filter(of)
        st.space("stretch")
        taken_out = st.container(horizontal=True, gap="small", width="content")
    found = listing.asked(of, wanted)
    with title:
        sentence(_told(found, of, wanted), here.tokens)
        muted("Written with the act itself, and never taken back: an undo is a row of its own.")
    with taken_out:
        listing.files(
            of, wanted, is_empty=not (found.denials if isinstance(found, DenialPage) else found.entries)
        )
    with panel("The audit", still="the filters still work"):
        listing.table(found, narrowed=filters.narrowed(wanted))


def _told(found: AuditPage | DenialPage, of: Which, wanted: AuditFilter) -> Sentence:
    context, filtered = reading().context, filters.narrowed(wanted)
    now_ms = context.clock()
    if isinstance(found, DenialPage):
        return said.refused(next(iter(found.denials), None), now_ms, filtered=filtered)
    place = None if of == "installation" else context.learner
    return said.audit(next(iter(found.entries), None), place, now_ms, filtered=filtered)


page()
