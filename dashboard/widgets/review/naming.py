"""Name of a browser, where people do not sign in."""

from __future__ import annotations

from typing import Final

import streamlit as st

from core.records.actor import Actor
from dashboard import wording
from dashboard.reading import reading
from dashboard.widgets.browser import MAX_NAME, own_name
from dashboard.widgets.popover import lazy_popover
from dashboard.widgets.review import open_item
from dashboard.widgets.words import muted
from dashboard.wording import Markdown

NAME_HERE: Final = "browser-name"
"""Key of the field and the button; ``browser.js`` stores the name and reads the page again."""


_RENAMED: Final = "review renamed"


def is_renamed() -> bool:
    """Return whether the browser reads the page again under another name; until then it takes no item."""
    return bool(st.session_state.get(_RENAMED))


def _let_go() -> None:
    open_item.let_go()
    st.session_state[_RENAMED] = True


def name() -> None:
    """Let a browser name itself. The name holds items, and is the rater's once an operator has confirmed it."""
    actor = reading().context.actor
    if not actor.browser:
        return
    known = own_name()
    shown = wording.literal(known) if actor.person else f"{wording.literal(known)}, not signed in"
    label = shown if known else "Who are you?"
    behind = lazy_popover(label, key="review name", icon=":material/person:")
    if behind is None:
        return
    with behind, st.container(key=NAME_HERE):
        st.text_input("Your name in this browser", known, max_chars=MAX_NAME, key="browser name")
        st.button("Use this name", key="use browser name", on_click=_let_go)
        muted(f"People do not sign in here. Two browsers never get the same item. {_whose(actor)}")


def _whose(actor: Actor) -> Markdown:
    """Return whose judgements those of this browser count as."""
    if actor.person:
        return f"An operator confirmed this name: your judgements count as those of {wording.literal(actor.name)}."
    until = " until an operator confirms your name" if own_name() else ""
    return (
        f"Your judgements count as those of {wording.literal(actor.name)}{until}. So a later one of the same run "
        "replaces an earlier one of another such browser, and its undo brings that back."
    )
