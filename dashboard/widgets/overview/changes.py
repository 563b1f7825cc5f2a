"""What changed: the last entries of the audit log, each with its way back, and a table of many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import streamlit as st

from core.records.audit import AuditEntry
from dashboard import acting, loading, sentences, wording
from dashboard.widgets.fold import fold
from dashboard.widgets.tables import act_table
from dashboard.widgets.way_back import Back, way_back
from dashboard.widgets.words import both_ends, small

_ALL: Final = 200
_ALL_PX: Final = 760
_WIDTHS: Final = {"when, UTC": 130, "by": 120, "what": 420, "state": 90}


def head() -> None:
    """The section's head, with all changes behind a button."""
    with both_ends():
        st.header("What changed", anchor=False, width="content")
        every = fold("All changes", key="all changes")
        if every is not None:
            with every, st.container(width=_ALL_PX):
                _all()


def rows() -> None:
    """The last entries of the audit log: when and who in small, what in body text, and the way back."""
    entries = loading.changes()
    with st.container(border=True, gap="xsmall"):
        if not entries:
            st.markdown("Nothing was changed by hand yet.")
        for place, entry in enumerate(entries):
            _entry(entry, place)


def _entry(entry: AuditEntry, place: int) -> None:
    when = wording.moment(entry.at_ms, year_of_ms=loading.reading().frame.last_at_ms)
    said = f"{small(f'{when} · {wording.literal(entry.actor)}')}  \n{sentences.change(entry)}"
    with st.container(
        horizontal=True, vertical_alignment="center", gap="small", wrap=False, key=f"changed {place}"
    ):
        st.markdown(said, width="stretch")
        back = _way_back(entry)
        if back is not None and entry.act is not None:
            st.button(
                back,
                type="tertiary",
                key=f"take back {entry.act}",
                on_click=acting.take_back,
                args=(entry.act,),
                kwargs={"again": entry.undone},
            )


class _LoggedAct(NamedTuple):
    """The act that an entry tells of."""

    id: str
    actor: str
    undone: bool


def _way_back(entry: AuditEntry) -> Back | None:
    """What can be done about an entry by this person; undoing an undo lets its act stand again."""
    is_undo = entry.action == "undo"
    if entry.act is None or (is_undo and entry.undone):
        return None
    back = way_back(_LoggedAct(entry.act, entry.actor, entry.undone))
    lets_stand = is_undo and entry.detail.get("kind") != "undo"
    return "Redo" if back is not None and lets_stand else back


def _all() -> None:
    """The last 200 entries as a table, text cells only."""
    entries = loading.changes(_ALL)
    if not entries:
        st.markdown("Nothing was changed by hand yet.")
        return
    cells: dict[str, Sequence[object]] = {
        "when, UTC": [wording.moment(entry.at_ms) for entry in entries],
        "by": [wording.plain(entry.actor) for entry in entries],
        "what": [wording.plain(sentences.deed(entry)) for entry in entries],
        "state": ["undone" if entry.undone else "" for entry in entries],
        "act": [_way_back(entry) or "" for entry in entries],
    }

    def clicked(row: int) -> None:
        if row < len(entries):
            act = entries[row].act
            if act is not None and _way_back(entries[row]) is not None:
                acting.take_back(act, again=entries[row].undone)

    act_table(cells, _WIDTHS, key="every change", alt="Changes, newest first", on_click=clicked)
