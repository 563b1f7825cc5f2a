"""Charts as the page shows them: our own theme, no mode bar, the figure's alternative text."""

from __future__ import annotations

import streamlit as st

from dashboard.figures import theme
from dashboard.figures.drawn import Drawn


def chart(drawn: Drawn, *, key: str) -> None:
    """Show a figure over the full width of its column."""
    st.plotly_chart(drawn.figure, theme=None, config=dict(theme.CONFIG), alt=drawn.alt, key=key)
