"""Page of alerts: webhooks that receive alarms of any learner, and the latest alerts."""

from __future__ import annotations

import streamlit as st

from dashboard import queries
from dashboard.reading import reading
from dashboard.sentences import alerts as sentences
from dashboard.widgets import alerts
from dashboard.widgets.panel import panel
from dashboard.widgets.words import muted, sentence


def page() -> None:
    view = queries.alerts()
    sentence(sentences.alerts(view), reading().tokens)
    muted(
        "Notified are poisoned arms, a selection that costs more, overdue queues, hacked rewards, silence and many "
        "refusals. A message holds ids and counts, no texts."
    )
    st.space("xsmall")
    with panel("Webhooks", still="the other panels still work"):
        alerts.webhooks(view.webhooks)
    st.space("small")
    with panel("Alerts", still="the form still works"):
        alerts.latest(view.alerts)


page()
