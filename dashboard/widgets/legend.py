"""Legends: the five types in one row, and the five bands."""

from __future__ import annotations

import streamlit as st

from core.records.posterior import BANDS
from dashboard import wording
from dashboard.figures.theme import Tokens


def type_legend(look: Tokens) -> None:
    """● tool ◆ skill ■ file ▲ memory + section."""
    glyphs = [
        f':color[{tokens.glyph if tokens.glyph != "+" else "**+**"}]{{foreground="{tokens.mark}"}} {kind}'
        for kind, tokens in look.types.items()
    ]
    st.markdown(f":small[{' &emsp; '.join(glyphs)}]", width="content")


def band_legend(look: Tokens) -> None:
    """Every band as colour, dots and word."""
    bands = [
        f':color[■]{{foreground="{look.bands[place]}"}}\u00a0:gray[{_unbroken(wording.band(band))}]'
        for place, band in enumerate(BANDS)
    ]
    st.markdown(f":small[{' &ensp; '.join(bands)}]")


def _unbroken(words: str) -> str:
    """Words that stay on one line."""
    return words.replace(" ", "\u00a0")
