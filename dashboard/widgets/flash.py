"""Flash: what an act did, shown once on the page that follows it, with its undo."""

from __future__ import annotations

import streamlit as st

from dashboard import acting


def show_flashes() -> None:
    """Toasts for what worked, a bordered line for what did not."""
    for flash in acting.flashes():
        if flash.failed:
            with st.container(border=True):
                st.markdown(f":red[:material/error:] {flash.text}")
        else:
            st.toast(flash.text, icon=":material/check_circle:", duration="long")
