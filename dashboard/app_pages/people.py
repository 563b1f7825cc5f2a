"""Page of people: members and roles; every change has a preview and an undo."""

from __future__ import annotations

import streamlit as st

from dashboard import administration
from dashboard.pages import HELP
from dashboard.reading import reading
from dashboard.sentences import people as sentences
from dashboard.who import people_sign_in
from dashboard.widgets import people
from dashboard.widgets.address import HELP_PART, HELP_TOPIC
from dashboard.widgets.parts import link, muted, panel, section, sentence
from dashboard.wording import Words


def page() -> None:
    here = reading()
    rows = administration.members()
    sentence(sentences.people(rows, here.context.clock()), here.tokens)
    muted(
        "Members sign in with your identity provider. A change applies from the next request on, and is in the audit."
    )
    if not people_sign_in():
        muted("Sign-in is off here, so a change has no effect yet.")
        link(HELP, "Switch sign-in on", **{HELP_TOPIC: "people", HELP_PART: "sign-in"})
    st.space("xsmall")
    with panel("Members", still="the form still works"):
        people.table(rows)
    st.space("small")
    left, right = st.columns([5, 7], gap="large")
    change: administration.Change | Words = Words("The form can't be shown.")
    with left, panel("Change"):
        section("Change", "a grant never exceeds your own rights")
        change = people.fields(rows)
    with right, panel("What it will do", still="nothing was changed"):
        people.what_it_does(change, rows)


page()
