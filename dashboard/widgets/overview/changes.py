"""Latest changes: each act with its undo; many of one kind are one line, and a table lists all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import streamlit as st

from core.records.audit import ActionName, AuditEntry
from core.records.times import DAY_MS
from dashboard import actions, pages, queries, wording
from dashboard.reading import reading
from dashboard.sentences import changes as sentences
from dashboard.widgets import address
from dashboard.widgets.fields import choice, in_use, lazy_popover
from dashboard.widgets.parts import both_ends, link, small
from dashboard.widgets.results import NamedAct, UndoLabel, offered_undo, result, way_back
from dashboard.widgets.tables import ACT_PX, act_table
from dashboard.wording import Markdown

KIND: Final = "changes_of"
_LINES: Final = 5
_READ: Final = 1_000
"""Entries that are folded and filtered; what lies longer ago, exports hold."""
_LISTED: Final = 200
_ALL_PX: Final = 760
_LATEST: Final = "latest changes"
_WIDTHS: Final = {"when, UTC": 130, "by": 120, "what": 420, "state": 90}
_PHONE: Final = {"act": ACT_PX, "what": 200, "by": 90}
Kind = Literal["all", "rewards", "resets", "imports", "settings", "notes", "undone"]
_KINDS: Final[dict[Kind, tuple[ActionName, ...]]] = {
    "all": (),
    "rewards": ("reward",),
    "resets": ("reset", "repair"),
    "imports": ("import",),
    "settings": ("setting",),
    "notes": ("note",),
    "undone": ("undo",),
}


def head() -> None:
    """Draw the links of the section, and all changes behind a button; the fold has its title."""
    with both_ends():
        newest_ms = reading().frame.last_at_ms
        if newest_ms is not None:
            since_ms = newest_ms - (address.LATEST_DAYS - 1) * DAY_MS
            link(pages.COMPARE, "Compared with before", **address.changed_since(since_ms))
        every = lazy_popover("All changes", key="all changes", used=in_use(KIND, unused="all"))
        if every is not None:
            with every, st.container(width=_ALL_PX):
                _all()


def rows() -> None:
    """Draw the last acts: when and who in small, what in body text, and the way back."""
    lines = sentences.folded(queries.changes(_READ))[:_LINES]
    with st.container(border=True, gap="xsmall"):
        result(_LATEST)
        if not lines:
            st.markdown("Nothing was changed by hand yet.")
            return
        with st.container(gap="xsmall", key="list of changes"):
            for index, entries in enumerate(lines):
                with st.container(
                    horizontal=True,
                    vertical_alignment="center",
                    gap="small",
                    wrap=False,
                    key=f"changed {index}",
                ):
                    if len(entries) == 1:
                        _one(entries[0])
                    else:
                        _many(entries)


def _one(entry: AuditEntry) -> None:
    when = wording.minute(entry.at_ms, year_of_ms=reading().frame.last_at_ms)
    _line(when, entry.actor, sentences.change(entry, reading().frame.settings.currency))
    back = _label_of(entry)
    if entry.act is not None:
        way_back(back, entry.act, again=entry.undone, at=_LATEST)


def _many(entries: Sequence[AuditEntry]) -> None:
    """Show a person's repeated acts of a day as one line, with each behind a button."""
    first, last = entries[-1], entries[0]
    day = wording.day(last.at_ms, year_of_ms=reading().frame.last_at_ms)
    times = [wording.minute(entry.at_ms).split(" ")[-1] for entry in (first, last)]
    _line(
        f"{day} {'–'.join(times[times[0] == times[1] :])}",
        last.actor,
        sentences.many_changes(entries, or_more=_is_cut(entries)),
    )
    _whole(entries)
    each = lazy_popover("Each", key=f"each {first.revision}")
    if each is not None:
        with each, st.container(width=_ALL_PX):
            _table(entries, key=f"table of each {first.revision}")


def _is_cut(entries: Sequence[AuditEntry]) -> bool:
    """Return whether more entries may exist than were read."""
    read = queries.changes(_READ)
    return len(read) == _READ and entries[-1] is read[-1]


def _whole(entries: Sequence[AuditEntry]) -> None:
    """Draw the way back from rewards that are one act."""
    first = next((entry for entry in entries if not entry.undone), entries[0])
    batch = None if first.act is None else queries.batches().get(first.act)
    back = _label_of(first)
    if batch is None or back is None or len({entry.revision for entry in entries}) > 1:
        return
    way_back(f"{back} all", batch.id, again=first.undone, at=_LATEST)


def _line(when: Markdown, actor: str, what: Markdown) -> None:
    st.markdown(f"{small(f'{when} · {wording.literal(actor)}')}  \n{what}", width="stretch")


def _label_of(entry: AuditEntry) -> UndoLabel | None:
    """Return this person's undo or redo of an entry; undoing an undo redoes its act."""
    is_undo = entry.action == "undo"
    if entry.act is None or (is_undo and entry.undone):
        return None
    back = offered_undo(NamedAct(entry.act, entry.actor, entry.undone))
    lets_stand = is_undo and entry.detail.get("kind") != "undo"
    return "Redo" if back is not None and lets_stand else back


def _all() -> None:
    kind = choice("Which changes", {one: one.capitalize() for one in _KINDS}, "all", key=KIND)
    actions = _KINDS[kind]
    entries = [entry for entry in queries.changes(_READ) if not actions or entry.action in actions]
    if entries:
        _table(entries[:_LISTED], key=f"every change {kind}")
    else:
        st.markdown("None yet.")


def _table(entries: Sequence[AuditEntry], *, key: str) -> None:
    currency = reading().frame.settings.currency
    cells: dict[str, Sequence[object]] = {
        "when, UTC": [wording.minute(entry.at_ms) for entry in entries],
        "by": [wording.plain(entry.actor) for entry in entries],
        "what": [wording.plain(sentences.act(entry, currency)) for entry in entries],
        "state": ["undone" if entry.undone else "" for entry in entries],
        "act": [_label_of(entry) or "" for entry in entries],
    }

    def clicked(row: int) -> None:
        if row < len(entries):
            act = entries[row].act
            if act is not None and _label_of(entries[row]) is not None:
                actions.take_back(act, again=entries[row].undone, at=key)

    act_table(cells, _WIDTHS, key=key, alt="Changes, newest first", phone=_PHONE, on_click=clicked)
    result(key)
