"""Page of the reset: scope, target and reason, a preview, a typed confirmation, and the undo."""

from __future__ import annotations

import streamlit as st

from dashboard import pages
from dashboard.reading import reading
from dashboard.widgets import reset
from dashboard.widgets.parts import no_arms, panel, section, sentence
from dashboard.widgets.results import result
from dashboard.wording import Words


def page() -> None:
    here = reading()
    if here.frame.n_arms == 0:
        no_arms("What a reset would change")
        return
    done = reset.done()
    if done is None:
        reset_form()
    else:
        sentence((done,), here.tokens)
        result("reset", onward=(pages.OVERVIEW, Words("Back to Overview")))
        with st.expander("Reset other arms"):
            reset_form(is_titled=False)
    with panel("Earlier resets", still="the form still works"):
        section("Earlier resets", "each opened an epoch; the ones before stay readable")
        reset.past()


def reset_form(*, is_titled: bool = True) -> None:
    """Draw the fields, the preview and the confirmation, below their sentence."""
    title = st.container()
    scope = reset.fields()
    preview = reset.preview(scope)
    if is_titled:
        with title:
            sentence(reset.title(scope, preview), reading().tokens)
    if preview is not None:
        with panel("What would change", still="nothing was reset"):
            section("What would change", reset.note(preview))
            reset.changes(preview)
        reset.confirmation(scope, preview)


page()
