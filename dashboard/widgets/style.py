"""The few looks that Streamlit's theme has no option for, as one style sheet.

Should a selector lose its target in a later Streamlit, the page stays usable: colours fall back to the theme's.
"""

from __future__ import annotations

import streamlit as st

from dashboard.figures.theme import Tokens

_LARGE = "html { font-size: 18px; }"


def style(look: Tokens, *, presenting: bool) -> None:
    """Selected labels in accent text (the fill is too dark for text in dark); larger type when presenting."""
    selected = (
        'button[data-variant="segmented_control"][aria-checked="true"] p '
        f"{{ color: {look.accent_text}; font-weight: 600; }}"
    )
    st.html(f"<style>{selected} {_LARGE if presenting else ''}</style>")
