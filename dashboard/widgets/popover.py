"""Popovers, and those whose content is drawn only while they are open or in use.

Each widget costs time in every rerun, visible or not. One that is bound to the address must exist while it is in use.
"""

from __future__ import annotations

from typing import Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.elements.lib.mutable_popover_container import PopoverContainer

from dashboard.wording import Markdown


def lazy_popover(
    label: Markdown,
    *,
    key: str,
    used: bool = False,
    icon: str | None = None,
    type: Literal["secondary", "tertiary"] = "tertiary",
) -> DeltaGenerator | None:
    """Return a button and what is behind it; None while that is neither seen nor ``used``."""
    behind = popover(label, key=key, icon=icon, type=type)
    return behind if behind.open or used else None


def popover(
    label: Markdown, *, key: str, icon: str | None = None, type: Literal["secondary", "tertiary"] = "tertiary"
) -> PopoverContainer:
    """Show a popover and return whether it is open.

    Streamlit identifies it by its label. A new label on an open one would close it, so the label changes after
    closing.
    """
    label_key = f"{key} label"
    if st.session_state.get(key):
        label = st.session_state.get(label_key, label)
    st.session_state[label_key] = label
    return st.popover(label, type=type, icon=icon, key=key, on_change="rerun")


def in_use(*names: str, unused: object = None) -> bool:
    """Return whether the address or session holds a value other than ``unused`` under one of these names."""
    return any(
        name in st.query_params or st.session_state.get(name) not in (unused, None, [], False)
        for name in names
    )
