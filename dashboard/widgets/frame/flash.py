"""Flash: the result of an act as a toast, and the undo of the last act."""

from __future__ import annotations

import streamlit as st

from dashboard import actions, wording
from dashboard.reading import reading
from dashboard.widgets.keys import UNDO


def show_flashes() -> None:
    """Draw a toast for each success. Its control shows it too; a refusal is shown there alone, in full."""
    for flash in actions.flashes():
        if not flash.failed:
            st.toast(flash.text, icon=":material/check_circle:", duration="long")


def undo_last() -> None:
    """Show the person's latest act and its undo."""
    act = actions.last_act()
    if act is None or reading().presenting:
        return
    kind = act.rsplit("-", 1)[0].replace("-", " ")
    st.button(
        f"Undo {wording.literal(kind)}",
        type="tertiary",
        icon=":material/undo:",
        shortcut=UNDO,
        key=f"undo last {act}",
        on_click=actions.take_back,
        args=(act,),
    )
