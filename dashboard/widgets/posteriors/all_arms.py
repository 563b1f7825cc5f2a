"""All arms: the table of the posteriors page, and the search in it.

Cells are text cells, which Streamlit shows as they are; chips are coloured by Streamlit's own colour names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pandas as pd
import streamlit as st

from core.columns import ArmColumns, Ints
from core.flows.look import Belief
from core.records.posterior import BANDS
from core.statistics.summary import Summary
from dashboard import loading, wording
from dashboard.figures.arms import Order, ordered
from dashboard.widgets import opening
from dashboard.widgets.picker import matches
from dashboard.widgets.tables import ALL_AT_ONCE, CHANCE, ROW_PX, arm_name, height, sent_frame, type_column

FIND: Final = "find"


def found(known: Belief, by: Order) -> Ints:
    """Places of the arms that pass the search, in order."""
    needle = st.session_state.get(FIND) or ""
    return loading.drawn_once(("found arms", needle, by), lambda: _found(known, by, needle))


def _found(known: Belief, by: Order, needle: str) -> Ints:
    everywhere = np.arange(len(known.columns), dtype=np.int64)
    if needle:
        hits = set(matches(known.columns.keys, needle, at_most=len(everywhere)))
        everywhere = np.array(
            [place for place in everywhere if known.columns.keys[int(place)] in hits], dtype=np.int64
        )
    return ordered(known.columns, known.summary, everywhere, by)


def search_box() -> None:
    """Search among all arms, while typing."""
    st.text_input(
        "Search",
        key=FIND,
        bind="query-params",
        type="search",
        live=True,
        placeholder="Search arms",
        label_visibility="collapsed",
        width=240,
    )


def found_note(known: Belief, places: Sequence[int] | Ints) -> str:
    """How many arms there are, and how many pass the search."""
    total = wording.things(len(known.columns), "arm")
    counted = total if len(places) == len(known.columns) else f"{wording.count(len(places))} of {total}"
    return (
        f"{counted}; a click on one opens it"
        if opens(len(places))
        else f"{counted}; search for one to open it"
    )


def table(
    columns: ArmColumns,
    summary: Summary,
    places: Ints,
    *,
    chances: Mapping[str, float],
    truth: Mapping[str, float] = MappingProxyType({}),
    key: str,
) -> None:
    """All arms at these places, a sortable table whose rows open; long ones load as one scrolls, and don't open."""
    frame = loading.drawn_once(
        ("arm table", places.tobytes(), bool(truth)),
        lambda: sent_frame(_arm_frame(columns, summary, places, chances=chances, truth=truth)),
    )
    shown: dict[str, Any] = {
        "hide_index": True,
        "row_height": ROW_PX,
        "height": height(len(places)),
        "column_order": [head for head in frame.column_names if head != "id"],
        "column_config": _arm_columns(),
        "placeholder": wording.MISSING,
        "alt": f"Table of {wording.things(len(places), 'arm')} with mean, interval, confidence and pulls",
    }
    if not opens(len(places)):
        st.dataframe(frame, lazy=True, key=key, **shown)
        return
    key = opening.fresh(key)
    event = st.dataframe(frame, key=key, on_select="rerun", selection_mode="single-cell", **shown)
    row = opening.clicked_row(event, rest="type", key=key)
    if row is not None and row < len(places):
        opening.open_arm(columns.keys[int(places[row])])


def opens(n_arms: int) -> bool:
    """Whether a row of so long a table opens its arm: what loads as one scrolls can't be clicked."""
    return n_arms <= ALL_AT_ONCE


def _arm_frame(
    columns: ArmColumns,
    summary: Summary,
    places: Ints,
    *,
    chances: Mapping[str, float],
    truth: Mapping[str, float],
) -> pd.DataFrame:
    shown = [columns.keys[int(place)] for place in places]
    cells: dict[str, object] = {
        "type": [[columns.types[int(place)]] for place in places],
        "arm": [arm_name(arm) for arm in shown],
        "mean": np.clip(summary.mean[places], 0.001, 0.999),
        "95% interval": [
            wording.interval(float(summary.lower[place]), float(summary.upper[place])) for place in places
        ],
        "confidence": [wording.band(BANDS[int(summary.band[place])]) for place in places],
        "pulls": columns.pulls[places],
        "in runs": columns.inclusions[places],
        "tokens": [int(cost) if cost >= 0 else None for cost in columns.token_cost[places]],
    }
    if truth:
        cells["planted"] = [truth.get(arm) for arm in shown]
    if chances:
        cells["chance of inclusion"] = [_whole_percent(chances.get(arm)) for arm in shown]
    cells["id"] = [wording.plain(arm) for arm in shown]
    return pd.DataFrame(cells)


def _whole_percent(chance: float | None) -> int | None:
    return None if chance is None else round(100 * chance)


def _arm_columns() -> dict[str, Any]:
    number = st.column_config.NumberColumn
    return {
        "type": type_column(),
        "arm": st.column_config.TextColumn("arm", width=270),
        "mean": number("mean", format="%.3f", width=72, help="Never rounded to 0 or 1"),
        "95% interval": st.column_config.TextColumn("95% interval", width=104, alignment="right"),
        "confidence": st.column_config.TextColumn("confidence", width=132),
        "pulls": number("pulls", format="localized", width=72),
        "in runs": number("in runs", format="localized", width=76),
        "tokens": number("tokens", format="localized", width=80),
        "planted": number("planted", format="%.3f", width=80),
        "chance of inclusion": st.column_config.ProgressColumn(
            "chance of inclusion", format="%d%%", min_value=0, max_value=100, width=160, help=CHANCE
        ),
    }
