"""Flash: the result of an act, shown once on the next page, with its undo."""

from __future__ import annotations

import streamlit as st

from dashboard import actions, wording
from dashboard.reading import reading
from dashboard.widgets.keys import UNDO


def show_flashes() -> None:
    """Draw a toast for each success; a failure also gets a line that stays."""
    for flash in actions.flashes():
        if flash.failed:
            st.toast(flash.text, icon=":material/error:", duration="long")
            with st.container(border=True):
                st.markdown(f":red[:material/error:] {flash.text}")
        else:
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
