"""Page of people: members and roles; every change has a preview and an undo."""

from __future__ import annotations

import streamlit as st

from dashboard import administration
from dashboard.reading import reading
from dashboard.sentences import people
from dashboard.widgets.panel import panel
from dashboard.widgets.people import form, listing
from dashboard.widgets.words import muted, section, sentence


def page() -> None:
    here = reading()
    rows = administration.members()
    sentence(people.people(rows, here.context.clock()), here.tokens)
    muted(
        "Members sign in with your identity provider. A change applies from the next request on, and is in the audit."
    )
    st.space("xsmall")
    with panel("Members", still="the form still works"):
        listing.table(rows)
    st.space("small")
    left, right = st.columns([5, 7], gap="large")
    change = None
    with left, panel("Change"):
        section("Change", "a grant never exceeds your own rights")
        change = form.fields(rows)
    with right, panel("What it will do", still="nothing was changed"):
        form.what_it_does(change, rows)


page()
