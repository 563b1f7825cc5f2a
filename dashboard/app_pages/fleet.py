"""Page of all learners: which ones need attention; each row leads to its overview."""

from __future__ import annotations

import streamlit as st

from dashboard import queries
from dashboard.reading import reading
from dashboard.sentences import fleet as sentences
from dashboard.widgets import fleet
from dashboard.widgets.parts import muted, no_arms, panel, sentence


def page() -> None:
    fleet.open_chosen()
    rows = queries.fleet()
    if not rows:
        no_arms("How every learner is doing")
        return
    sentence(sentences.fleet(rows), reading().tokens)
    muted(
        "Tokens saved are plain figures; the page Savings of a learner has their interval. Alarms other than silence "
        "need a webhook on the page Alerts. The overview of a learner lists all that needs a look."
    )
    fleet.unreadable(rows)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        chosen = fleet.chosen(rows)
    with panel("The learners", still="the sentence above still holds"):
        fleet.table(chosen, n_learners=len(rows))


page()
