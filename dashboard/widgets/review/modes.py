"""Modes of review: one item after another, pairs of answers, many at once, or the queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import streamlit as st

from dashboard.reading import reading
from dashboard.widgets.address import QUEUES, held
from dashboard.widgets.address import REVIEW_HOW as HOW

How = Literal["one", "pairs", "many", "queues"]
_HOWS: Final[Mapping[How, str]] = {
    "one": "One by one",
    "pairs": "Pairs",
    "many": "Many at once",
    "queues": QUEUES,
}


def chosen() -> How:
    """Return the mode before its field is drawn."""
    named = st.query_params.get(HOW)
    if named == _HOWS["queues"] and not reading().may("queue"):
        return "one"
    known: How | None = held(HOW)
    if known is not None:
        return known
    for how, word in _HOWS.items():
        if word == named:
            return how
    return "one"


def modes() -> How:
    """Return the field; making queues is for those who may."""
    return st.segmented_control(
        "How to judge",
        [how for how in _HOWS if how != "queues" or reading().may("queue")],
        default="one",
        required=True,
        format_func=_HOWS.__getitem__,
        key=HOW,
        bind="query-params",
        label_visibility="collapsed",
    )
