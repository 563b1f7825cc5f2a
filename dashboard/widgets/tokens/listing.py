"""Tokens as a table: for what, where, until when, last used; on demand those that ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from core.records.token import TokenRow
from dashboard import wording
from dashboard.reading import reading
from dashboard.sentences import tokens as sentences
from dashboard.widgets.tables import ACT_PX, act_table
from dashboard.widgets.tokens import ending
from dashboard.widgets.words import both_ends, muted, section

ENDED: Final = "tokens_ended"
_WIDTHS: Final = {
    "token": 80,
    "name": 160,
    "scopes": 170,
    "learners": 170,
    "ends, UTC": 130,
    "last used": 100,
    "by": 100,
    "state": 130,
}
_PHONE: Final = {"act": ACT_PX, "name": 120, "scopes": 160}


def table(rows: Sequence[TokenRow]) -> None:
    """Draw the newest first; a click on the last column begins to end one."""
    now_ms = reading().context.clock()
    n_ended = sum(not sentences.is_in_force(one, now_ms) for one in rows)
    with both_ends():
        section("Tokens", "each is one program")
        if n_ended:
            st.toggle(f"Also {wording.count(n_ended)} ended", key=ENDED, bind="query-params")
    is_all = n_ended > 0 and bool(st.session_state.get(ENDED))
    shown = [one for one in rows if is_all or sentences.is_in_force(one, now_ms)]
    if not shown:
        muted("No active token. Programs on this machine need none; from elsewhere each needs its own.")
        return
    act_table(
        {
            "token": [one.id for one in shown],
            "name": [wording.plain(one.name) for one in shown],
            "scopes": [sentences.scopes(one) for one in shown],
            "learners": [sentences.where(one.learners) for one in shown],
            "ends, UTC": [wording.minute(one.expires_ms, year_of_ms=now_ms) for one in shown],
            "last used": [sentences.used(one, now_ms) for one in shown],
            "by": [wording.plain(one.by) for one in shown],
            "state": [sentences.state(one, now_ms) for one in shown],
            "act": ["Revoke" if sentences.is_in_force(one, now_ms) else "" for one in shown],
        },
        _WIDTHS,
        key="tokens",
        alt=f"{wording.things(len(shown), 'token')}, the newest first",
        phone=_PHONE,
        on_click=lambda row: ending.begin_with(shown[row]) if row < len(shown) else None,
        act="end",
    )
