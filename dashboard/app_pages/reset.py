"""Page of the reset: scope, target and reason, a preview, a typed confirmation, and the undo."""

from __future__ import annotations

import streamlit as st

from dashboard import sentences
from dashboard.reading import reading
from dashboard.widgets.empty import no_arms
from dashboard.widgets.panel import panel
from dashboard.widgets.reset import form, history, table
from dashboard.widgets.words import section, sentence


def page() -> None:
    here = reading()
    if here.frame.n_arms == 0:
        no_arms("What a reset would change")
        return
    title = st.container()
    scope = form.fields()
    preview = form.preview(scope)
    with title:
        if preview is None:
            sentence(("Choose the arms to start again; nothing is deleted.",), here.tokens)
        else:
            sentence(sentences.reset(preview.columns, uniform=scope.target == "uniform"), here.tokens)
    if preview is not None:
        with panel("What would change", still="nothing was reset"):
            section("What would change", form.note(preview))
            table.changes(preview)
        form.confirmation(scope, preview)
    with panel("Earlier resets", still="the form still works"):
        section("Earlier resets", "each opened an epoch; the ones before stay readable")
        history.table()


page()
