"""Page of settings: the settings in force, the preview of a change, and the history."""

from __future__ import annotations

import streamlit as st

from dashboard.pages import ALERTS
from dashboard.reading import reading
from dashboard.sentences import settings as sentences
from dashboard.widgets import settings as widgets
from dashboard.widgets.parts import link, muted, panel, section, sentence


def page() -> None:
    here = reading()
    sentence(sentences.settings(here.frame.settings), here.tokens)
    muted("Every change shows its effect first, is logged, and can be undone.")
    st.space("xsmall")
    if here.may("settings"):
        left, right = st.columns([7, 5], gap="large")
        with left:
            drafts = widgets.fields()
        with right:
            with panel("What would change", still="the settings are as they were"):
                section("What would change")
                widgets.preview(drafts)
            widgets.send(drafts)
    else:
        with panel("Settings"):
            section("Settings", "an operator changes them")
            widgets.settings_table()
    st.space("small")
    with panel("Rubrics", still="the form still works"), st.expander("Rubrics, by which people judge"):
        widgets.rubric_table()
    with panel("Changes", still="the form still works"), st.expander("Changes of settings"):
        widgets.change_table()
    if here.may("alerts"):
        link(ALERTS, "Alerts have a page of their own")


page()
