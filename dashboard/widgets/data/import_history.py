"""Import history: every import with who, when, what came of it, and a look at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from core.flows.queries import PastImport
from dashboard import queries, sentences, wording
from dashboard.widgets.data.import_form import IMPORT
from dashboard.widgets.tables import ACT_PX, act_table

_WIDTHS: Final = {
    "import": 96,
    "when, UTC": 130,
    "by": 110,
    "format": 126,
    "files": 64,
    "left behind": 180,
    "known": 76,
    "skipped": 84,
    "rejected": 84,
    "state": 90,
}
_PHONE: Final = {"act": ACT_PX, "import": 86, "left behind": 130}


def chosen() -> PastImport | None:
    """Return the import whose report is open; the choice is in the address."""
    done = queries.imports()
    ids = [one.id for one in done]
    if not ids:
        return None
    selected = st.selectbox(
        "Report of",
        ids,
        index=None,
        key=IMPORT,
        bind="query-params",
        placeholder="an import",
        width=200,
    )
    return next((one for one in done if one.id == selected), None)


def table() -> None:
    """Draw the imports, newest first; "Look" opens the report."""
    done = queries.imports()
    if not done:
        st.markdown(":gray[None yet.]")
        return
    answers = [one.answer for one in done]
    cells: dict[str, Sequence[object]] = {
        "import": [one.id for one in done],
        "when, UTC": [wording.minute(one.at_ms) for one in done],
        "by": [wording.plain(one.actor) for one in done],
        "format": [wording.plain(one.format) for one in answers],
        "files": [one.files for one in answers],
        "left behind": [sentences.left_behind(one) for one in done],
        "known": [one.duplicates + one.n_other_known for one in answers],
        "skipped": [one.skipped for one in answers],
        "rejected": [one.rejected_count for one in answers],
        "state": ["undone" if one.undone else "active" for one in done],
        "act": ["Look"] * len(done),
    }

    def clicked(row: int) -> None:
        if row < len(done):
            st.session_state[IMPORT] = done[row].id

    act_table(
        cells,
        _WIDTHS,
        key="imports",
        alt="Imports, newest first",
        phone=_PHONE,
        on_click=clicked,
        act="report",
    )
