"""Notes about an arm: write one, read them newest first, take one back.

The form's key is new after each note that was written, so that a second click on it writes nothing more.
"""

from __future__ import annotations

import uuid
from typing import Final

import streamlit as st

from core.records.note import MAX_NOTE_CHARS
from dashboard import actions, queries, wording
from dashboard.reading import reading
from dashboard.sentences import texts
from dashboard.widgets.popover import lazy_popover
from dashboard.widgets.results import result
from dashboard.widgets.undo_button import offered_undo
from dashboard.widgets.words import muted, section, small

_TEXT: Final = "note text"
_WRITTEN: Final = "notes"
_KEY: Final = "note form key"


def write(arm: str) -> None:
    """Draw a button that opens the form."""
    behind = lazy_popover("Note", icon=":material/edit_note:", key="note popover")
    if behind is None:
        return
    with behind:
        key: str = st.session_state.setdefault(_KEY, uuid.uuid4().hex)
        st.text_area(
            "Note about this arm",
            key=_TEXT,
            persist_state="page",
            height=110,
            max_chars=MAX_NOTE_CHARS,
            placeholder="what others should know; it moves no number",
        )
        st.button(
            "Write note",
            type="primary",
            key=f"write note {key}",
            on_click=_send,
            args=(arm, key),
        )
        result("note")


def _send(arm: str, key: str) -> None:
    """Send the text of the field. The browser sends text and click together, so the callback reads the text."""
    actions.send_note(arm, st.session_state.get(_TEXT) or "", key, _emptied)


def _emptied() -> None:
    st.session_state[_TEXT] = ""
    st.session_state[_KEY] = uuid.uuid4().hex


def read(arm: str) -> None:
    """Show time and author in small, the text as text, and its undo."""
    here = reading()
    written = queries.arm_notes(arm)
    section("Notes", "newest first; they move no number" if written else "")
    if not written:
        muted("None yet." + (" Write one with the button above." if here.may("reward") else ""))
    result(_WRITTEN)
    for one in written:
        with st.container(horizontal=True, vertical_alignment="top", gap="small", wrap=False):
            with st.container(gap=None):
                state = " · undone" if one.undone else ""
                when = wording.minute(one.at_ms, year_of_ms=here.frame.last_at_ms)
                st.markdown(small(f"{when} UTC · {wording.literal(one.actor)}{state}"))
                if not one.text:
                    muted(texts.hidden(may_read=here.context.may("read_words")))
                elif one.undone:
                    muted(wording.literal(one.text))
                else:
                    st.text(wording.plain(one.text))
            back = offered_undo(one)
            if back is not None:
                st.button(
                    back,
                    type="tertiary",
                    key=f"take back {one.id}",
                    on_click=actions.take_back,
                    args=(one.id,),
                    kwargs={"again": one.undone, "at": _WRITTEN},
                )
