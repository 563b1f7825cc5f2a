"""Last judgements of the reviewer, each with its undo, and several at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from core.records.review import MyJudgement
from dashboard import actions, queries, reviews
from dashboard.actions import Flash
from dashboard.reading import reading
from dashboard.sentences import judging
from dashboard.sentences import review as sentences
from dashboard.widgets.popover import lazy_popover
from dashboard.widgets.results import result
from dashboard.widgets.tables import ACT_PX, act_table
from dashboard.widgets.words import muted

SHOWN: Final = 20
_HERE: Final = "review last"
_WIDTHS: Final = {"when, UTC": 116, "queue": 110, "about": 300, "judgement": 110}
_PHONE: Final = {"act": ACT_PX, "judgement": 90, "about": 150}


def last() -> None:
    """Behind a button: they are looked at when something went wrong."""
    behind = lazy_popover(f"My last {SHOWN}", key="review last", icon=":material/history:")
    if behind is None:
        return
    with behind:
        rows = [one for one in reviews.my_last(SHOWN) if not one.undone]
        if not rows:
            muted("You have no active judgement yet.")
            result(_HERE)
            return
        cells: dict[str, Sequence[object]] = {
            **sentences.last_table(
                rows,
                layers=judging.layer_names(queries.layers()),
                year_of_ms=reading().frame.last_at_ms,
            )
        }
        cells["act"] = ["Undo"] * len(rows)
        act_table(
            cells,
            _WIDTHS,
            key=f"my last {rows[0].id} {len(rows)}",
            alt="My last judgements",
            phone=_PHONE,
            on_click=lambda row: actions.take_back(rows[row].id, at=_HERE) if row < len(rows) else None,
        )
        _several(rows)


def _several(rows: Sequence[MyJudgement]) -> None:
    """Draw the latest few, as one act."""
    many = st.number_input("The latest", 1, len(rows), 1, key="review take back")
    st.button(
        "Take all of these back",
        key="review take back all",
        on_click=_take_back,
        args=([one.id for one in rows[:many]],),
    )
    result(_HERE)


def _take_back(acts: Sequence[str]) -> None:
    def act() -> Flash:
        return Flash(text=f"{reviews.take_back(acts)} taken back. What they judged is open again.")

    actions.tried("Nothing was taken back.", act, at=_HERE)
