"""Keys of the keyboard, in a dialog that a key opens; and keys of elements that the browser's script uses."""

from __future__ import annotations

from typing import Final

import streamlit as st

from dashboard.widgets.parts import muted, small_table

KEYS: Final = "K"
UNDO: Final = "U"
SEARCH: Final = "/"
SEND: Final = "Ctrl+Enter"
NEXT: Final = "N"

_ROWS: Final = (
    (KEYS, "every page", "this list"),
    (SEARCH, "every page", "go to the search; Enter searches"),
    (UNDO, "every page", "undo your last act"),
    (SEND, "Rewards, a run, Review", "send what is filled in or marked, from any field"),
    ("1 to 9", "Review", "choose a level, outside text fields"),
    ("S, L", "Review", "put an item off until you ask for it, or until the others are done"),
    ("A, B, E", "Review, pairs", "A is better, B is better, equal"),
    (NEXT, "a run", "go on to the next run"),
    ("1 to 4", "Rewards", "choose the outcome, while no field has the focus"),
    ("Tab, Shift + Tab", "every page", "next or previous control; Enter or Space presses it"),
    ("Arrow keys", "tables, choices", "move inside; in a table ↓ and ↑ choose a row, → opens it"),
    ("Ctrl + F", "tables", "search in a table that has the focus"),
    ("Escape", "every page", "close a menu or this list"),
    ("R", "every page", "read and draw again"),
)

SEND_HERE: Final = "send here"
"""Key of what holds the button that Ctrl + Enter presses from wherever the focus is; once on a page."""
JUDGE_BAR: Final = "judge-bar"
"""Key of the buttons of a judgement that stay in view in a narrow window."""
JUDGE_SIDE: Final = "judge-side"
"""Key of the judgement that stays in view beside its evidence in a wide window."""
JUDGE_EFFECT: Final = "judge-effect"
"""Key of the button that shows the effect of a chosen level; the browser presses it after a pause."""

SLIDE: Final = "slide"
"""Key of what a slide shows."""
TURN: Final = "turn-slide"
"""Key of what holds its buttons."""


def keys_button() -> None:
    """Draw the button that lists the keys; `KEYS` presses it."""
    st.button(
        "Keys", type="tertiary", icon=":material/keyboard:", shortcut=KEYS, key="keys", on_click=_list_keys
    )


@st.dialog("Keys", width="medium")
def _list_keys() -> None:
    cells = {
        "key": [f"`{key.replace('+', ' + ')}`" if " " not in key else f"`{key}`" for key, _, _ in _ROWS],
        "where": [where for _, where, _ in _ROWS],
        "does": [does for _, _, does in _ROWS],
    }
    small_table(cells, alt="Keys, where they work and what they do")
    muted("Letters work while no field has the focus.")
