"""History of resets: time, scope, actor, state; each can be undone and redone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from core.records.reset import Reset
from dashboard import queries, wording
from dashboard.reading import reading
from dashboard.widgets.results import result
from dashboard.widgets.tables import ACT_PX, act_table
from dashboard.widgets.way_back import acts_column, taking_back

_TABLE: Final = "earlier resets"
_WIDTHS: Final = {"when, UTC": 112, "scope": 220, "by": 96, "why": 540, "state": 76}
_PHONE: Final = {"act": ACT_PX, "scope": 190, "when, UTC": 104}


def table() -> None:
    """Draw the resets, newest first."""
    done = queries.resets()
    if not done:
        st.markdown(":gray[None yet.]")
        return
    cells: dict[str, Sequence[object]] = {
        "when, UTC": [wording.minute(one.at_ms, year_of_ms=reading().frame.last_at_ms) for one in done],
        "scope": [f"{_scope(one)} → {_target(one)}" for one in done],
        "by": [wording.plain(one.actor) for one in done],
        "why": [wording.plain(one.reason or wording.MISSING) for one in done],
        "state": ["undone" if one.undone else "active" for one in done],
        **acts_column(done),
    }
    act_table(
        cells,
        _WIDTHS,
        key=_TABLE,
        alt="Earlier resets",
        phone=_PHONE,
        on_click=taking_back(done, at=_TABLE),
    )
    result(_TABLE)


def _target(one: Reset) -> str:
    return "Beta(1, 1)" if one.target == "uniform" else "own prior"


def _scope(one: Reset) -> str:
    """Return the scope, with its number where the words lack it."""
    words = wording.plain(one.scope)
    return words if words[:1].isdigit() else f"{words} ({wording.count(one.n_arms)})"
