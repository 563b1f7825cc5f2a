"""Page of rewards: the form for late rewards with its preview, and the latest rewards with undo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import streamlit as st

from dashboard.reading import reading
from dashboard.widgets.parts import no_arms, panel, section, sentence
from dashboard.widgets.rewards import form, many
from dashboard.widgets.rewards.form import effect

_SENTENCES: Final[Mapping[many.How, str]] = {
    "one": "A reward given by hand counts once, is marked as lagged, and can be undone.",
    "table": "A table of rewards is one act: all of it counts or nothing, and one undo takes it back.",
}


def page() -> None:
    here = reading()
    if here.frame.n_arms == 0:
        no_arms("The reward form")
        return
    sentence((_SENTENCES[many.chosen()],), here.tokens)
    how = many.how()
    left, right = st.columns([5, 7], gap="large")
    if how == "one":
        with left, panel("Give a reward"):
            filled = form.fields()
        with right, panel("What it would change", still="the form still works"):
            effect(filled)
    else:
        with left, panel("Give many rewards"):
            pasted, preview = many.fields()
        with right, panel("What it would change", still="the table can still be sent"):
            many.effect(pasted, preview)
    st.space("small")
    with panel("Last rewards", still="the form still works"):
        section("Last rewards", "undo keeps the record and takes the effect away")
        many.last_rewards(many.whose())


page()
