"""Page of tokens: programs and scopes; create one, whose secret is shown once, or revoke one for good."""

from __future__ import annotations

import streamlit as st

from dashboard import administration
from dashboard.reading import reading
from dashboard.sentences import tokens
from dashboard.widgets import tokens as widgets
from dashboard.widgets.parts import muted, panel, section, sentence


def page() -> None:
    here = reading()
    rows = administration.tokens()
    sentence(tokens.tokens(rows, here.context.clock()), here.tokens)
    muted(
        "A token belongs to one program: the audit lists its acts apart from yours. Only a digest of its secret "
        "is stored."
    )
    st.space("xsmall")
    with panel("Tokens", still="the form still works"):
        widgets.token_table(rows)
    st.space("small")
    left, right = st.columns([5, 7], gap="large")
    with left, panel("Make or revoke"):
        section("Make or revoke", "a grant never exceeds your own rights")
        if widgets.doing() == widgets.MAKE:
            token = widgets.fields()
            with right, panel("What it will do", still="nothing was made"):
                widgets.what_making_does(token, rows)
        else:
            one = widgets.chosen(rows)
            with right, panel("What it will do", still="nothing was revoked"):
                widgets.what_ending_does(one)


page()
