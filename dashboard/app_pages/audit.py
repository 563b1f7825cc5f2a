"""Page of the audit: acts at the learner or the installation, and refusals. Every filter is in the address."""

from __future__ import annotations

import streamlit as st

from core.records.audit import AuditFilter, AuditPage, DenialPage
from dashboard.administration import Which
from dashboard.reading import reading
from dashboard.sentences import Sentence
from dashboard.sentences import audit as sentences
from dashboard.widgets import audit
from dashboard.widgets.parts import muted, panel, sentence


def page() -> None:
    here = reading()
    title = st.container(gap="small")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        of = audit.which()
        audit_filter = audit.audit_filter(of)
        st.space("stretch")
        downloads = st.container(horizontal=True, gap="small", width="content")
    listed = audit.page_of(of, audit_filter)
    with title:
        sentence(_sentence(listed, of, audit_filter), here.tokens)
        muted("Written with the act itself, and never taken back: an undo is a row of its own.")
    with downloads:
        audit.files(
            of,
            audit_filter,
            is_empty=not (listed.denials if isinstance(listed, DenialPage) else listed.entries),
        )
    with panel("The audit", still="the filters still work"):
        audit.table(listed, narrowed=audit.narrowed(audit_filter))


def _sentence(listed: AuditPage | DenialPage, of: Which, audit_filter: AuditFilter) -> Sentence:
    context, filtered = reading().context, audit.narrowed(audit_filter)
    now_ms = context.clock()
    if isinstance(listed, DenialPage):
        return sentences.refused(next(iter(listed.denials), None), now_ms, filtered=filtered)
    learner = None if of == "installation" else context.learner
    return sentences.audit(next(iter(listed.entries), None), learner, now_ms, filtered=filtered)


page()
