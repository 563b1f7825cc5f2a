"""People as a table: who may come in and as what, who is invited, and on demand who was removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from core.records.member import MemberRow
from dashboard import wording
from dashboard.reading import reading
from dashboard.sentences import people as sentences
from dashboard.widgets.people import form
from dashboard.widgets.tables import ACT_PX, act_table
from dashboard.widgets.words import both_ends, muted, section

REMOVED: Final = "people_removed"
_WIDTHS: Final = {
    "name": 160,
    "e-mail or subject": 220,
    "roles": 260,
    "state": 170,
    "since, UTC": 130,
    "by": 100,
}
_PHONE: Final = {"act": ACT_PX, "name": 110, "roles": 170}


def table(rows: Sequence[MemberRow]) -> None:
    """Draw all members by name; a click on the last column fills the form in."""
    n_removed = sum(one.removed_ms is not None for one in rows)
    with both_ends():
        section("Members", "as their identity provider knows them")
        if n_removed:
            st.toggle(f"Also {wording.count(n_removed)} removed", key=REMOVED, bind="query-params")
    is_all = n_removed > 0 and bool(st.session_state.get(REMOVED))
    shown = sorted(
        (one for one in rows if is_all or one.removed_ms is None), key=lambda one: one.name.casefold()
    )
    if not shown:
        muted("No member yet. Let the first one in below, as operator of every learner.")
        return
    now_ms = reading().context.clock()
    act_table(
        {
            "name": [wording.plain(one.name) for one in shown],
            "e-mail or subject": [sentences.known_by(one) for one in shown],
            "roles": [sentences.roles(one.roles) for one in shown],
            "state": [sentences.state(one, rows, now_ms) for one in shown],
            "since, UTC": [wording.minute(one.at_ms, year_of_ms=now_ms) for one in shown],
            "by": [wording.plain(one.by) for one in shown],
            "act": ["Change" if sentences.is_there(one, now_ms) else "Add" for one in shown],
        },
        _WIDTHS,
        key="people",
        alt=f"{wording.things(len(shown), 'person', 'people')} and what they may do",
        phone=_PHONE,
        on_click=lambda row: form.begin_with(shown[row]) if row < len(shown) else None,
        act="change",
    )
