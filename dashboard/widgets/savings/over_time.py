"""Savings over time: in per cent, in tokens, or in money where a price is set; the choice is in the address."""

from __future__ import annotations

from typing import Final, Literal

import streamlit as st

from core.statistics.savings import Savings
from dashboard import sentences
from dashboard.figures.drawn import Drawn
from dashboard.figures.savings_time import money_time, savings_time, tokens_time
from dashboard.reading import pictured_once, reading
from dashboard.widgets.chart import chart
from dashboard.widgets.words import section

UNIT: Final = "unit"

Unit = Literal["percent", "tokens", "money"]
_WORDS: Final[dict[Unit, str]] = {"percent": "%", "tokens": "Tokens", "money": "Money"}


def over_time(saved: Savings) -> None:
    """The head with the choice of unit, and the figure."""
    head = st.container()
    units: list[Unit] = ["percent", "tokens"] if saved.money is None else ["percent", "tokens", "money"]
    asked = st.segmented_control(
        "Unit",
        units,
        default="percent",
        required=True,
        format_func=lambda unit: next((word for name, word in _WORDS.items() if name == unit), ""),
        key=UNIT,
        bind="query-params",
        label_visibility="collapsed",
    )
    unit = next((name for name in units if name == asked), units[0])
    drawn = pictured_once(("time", unit), lambda: _picture(saved, unit))
    with head:
        section("Savings over time", sentences.path_note(saved), table=drawn.table, key="time")
    chart(drawn, key="time")


def _picture(saved: Savings, unit: Unit) -> Drawn:
    here = reading()
    if unit == "money" and saved.money is not None:
        return money_time(saved.money.total, saved.over_time, here.tokens, compact=here.compact)
    if unit == "tokens":
        return tokens_time(saved.tokens, saved.over_time, here.tokens, compact=here.compact)
    return savings_time(saved.over_time, here.tokens, compact=here.compact)
