"""Settings history: who changed what, when, from what to what, and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from dashboard import queries, sentences, wording
from dashboard.reading import reading
from dashboard.widgets.tables import ACT_PX
from dashboard.widgets.undo_button import history

_TABLE: Final = "setting changes"
_WIDTHS: Final = {"when, UTC": 140, "by": 120, "setting": 150, "before": 250, "after": 250, "state": 100}
_PHONE: Final = {"act": ACT_PX, "setting": 110, "before": 92, "after": 92}


def table() -> None:
    """Draw the changes of settings, newest first."""
    done = queries.setting_changes()
    if not done:
        st.markdown(":gray[None yet: all settings are the defaults.]")
        return
    newest = reading().frame.last_at_ms
    cells: dict[str, Sequence[object]] = {
        "when, UTC": [wording.minute(one.at_ms, year_of_ms=newest) for one in done],
        "by": [wording.plain(one.actor) for one in done],
        "setting": [sentences.SETTING_WORDS[one.name].label.partition(",")[0] for one in done],
        "before": [wording.plain(sentences.setting_text(one.name, one.before)) for one in done],
        "after": [wording.plain(sentences.setting_text(one.name, one.value)) for one in done],
        "state": ["undone" if one.undone else "active" for one in done],
    }
    history(done, cells, _WIDTHS, key=_TABLE, alt="Changes of settings, newest first", phone=_PHONE)
