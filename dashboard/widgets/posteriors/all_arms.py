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

from core.columns import Ints
from core.flows.queries import Belief
from core.records.judgement import Judgement
from core.records.posterior import BANDS
from dashboard import sentences, wording
from dashboard.figures.arms import Order, ordered
from dashboard.reading import cached_figure, reading
from dashboard.widgets import opening
from dashboard.widgets.picker import matches
from dashboard.widgets.tables import (
    ALL_AT_ONCE,
    CHANCE,
    ROW_PX,
    arm_name,
    frame_to_arrow,
    height,
    type_cells,
    type_column,
)
from dashboard.widgets.tables import columns as columns_shown
from dashboard.wording import Markdown

FIND: Final = "find"
_PHONE: Final = {"type": 48, "arm": 152, "mean": 64, "95% interval": 104}

JUDGED: Final = (
    "The first that holds of: poisoned, gave way to a rival, drifting, rising, stale, never referenced, by rule, too "
    "early, and where its interval lies against the mean at which it breaks even at its cost"
)


EFFECTIVE: Final = (
    "Pulls that as many independent runs would be worth: runs of one session resemble each other"
)


def matching(known: Belief, by: Order) -> Ints:
    """Return the indexes of the arms that match the search, in the order of the table."""
    needle = st.session_state.get(FIND) or ""
    return cached_figure(("found arms", needle, by), lambda: _matching(known, by, needle))


def _matching(known: Belief, by: Order, needle: str) -> Ints:
    everywhere = np.arange(len(known.columns), dtype=np.int64)
    if needle:
        hits = set(matches(known.columns.keys, needle, at_most=len(everywhere)))
        everywhere = np.array(
            [index for index in everywhere if known.columns.keys[int(index)] in hits], dtype=np.int64
        )
    return ordered(known.columns, known.summary, everywhere, by)


def search_box() -> None:
    """Draw the search field for all arms, which filters while typing."""
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


def match_note(known: Belief, places: Sequence[int] | Ints) -> Markdown:
    """Return how many arms exist, and how many match the search."""
    total = wording.things(len(known.columns), "arm")
    counted = total if len(places) == len(known.columns) else f"{wording.count(len(places))} of {total}"
    return Markdown(
        f"{counted}; a click on one opens it"
        if opens(len(places))
        else f"{counted}; search for one to open it"
    )


def table(
    known: Belief,
    places: Ints,
    *,
    judged: Mapping[str, Judgement],
    truth: Mapping[str, float] = MappingProxyType({}),
    key: str,
) -> None:
    """Draw a sortable table of these arms. A click opens a row, except in a table so long that it loads in parts."""
    columns, year_of_ms = known.columns, reading().frame.last_at_ms
    frame = cached_figure(
        ("arm table", places.tobytes(), bool(truth)),
        lambda: frame_to_arrow(_arm_frame(known, places, judged=judged, truth=truth, year_of_ms=year_of_ms)),
    )
    shown: dict[str, Any] = {
        "hide_index": True,
        "row_height": ROW_PX,
        "height": height(len(places)),
        **columns_shown(frame.column_names, _arm_columns(), _PHONE),
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
    """Return whether rows of a table of this length open their arm: rows loaded while scrolling can't be clicked."""
    return n_arms <= ALL_AT_ONCE


def _arm_frame(
    known: Belief,
    places: Ints,
    *,
    judged: Mapping[str, Judgement],
    truth: Mapping[str, float],
    year_of_ms: int | None,
) -> pd.DataFrame:
    columns, summary = known.columns, known.summary
    shown = [columns.keys[int(index)] for index in places]
    judgements = [judged[key] for key in shown]
    cells: dict[str, object] = {
        "type": type_cells(shown),
        "arm": [arm_name(key) for key in shown],
        "mean": np.clip(summary.mean[places], 0.001, 0.999),
        "95% interval": [
            wording.interval(float(summary.lower[index]), float(summary.upper[index])) for index in places
        ],
        "judgement": [sentences.judgement(one, year_of_ms=year_of_ms) for one in judgements],
        "confidence": [wording.band(BANDS[int(summary.band[index])]) for index in places],
        "pulls": columns.pulls[places],
        "effective": [
            None if one.effective_pulls is None else round(one.effective_pulls) for one in judgements
        ],
        "in runs": columns.inclusions[places],
        "tokens": [int(cost) if cost >= 0 else None for cost in columns.token_cost[places]],
    }
    if truth:
        cells["planted"] = [truth.get(key) for key in shown]
    if any(one.chance is not None for one in judgements):
        cells["chance of inclusion"] = [_percent(one.chance, 0) for one in judgements]
        cells["±"] = [_percent(one.chance_error, 1) for one in judgements]
    cells["id"] = [wording.plain(key) for key in shown]
    return pd.DataFrame(cells)


def _percent(share: float | None, decimals: int) -> float | None:
    return None if share is None else round(100 * share, decimals)


def _arm_columns() -> dict[str, Any]:
    number = st.column_config.NumberColumn
    return {
        "type": type_column(),
        "arm": st.column_config.TextColumn("arm", width=208),
        "mean": number("mean", format="%.3f", width=64, help="Never rounded to 0 or 1"),
        "95% interval": st.column_config.TextColumn("95% interval", width=96, alignment="right"),
        "judgement": st.column_config.TextColumn("judgement", width=216, help=JUDGED),
        "confidence": st.column_config.TextColumn("confidence", width=112),
        "pulls": number("pulls", format="localized", width=64),
        "effective": number("effective", format="localized", width=72, help=EFFECTIVE),
        "in runs": number("in runs", format="localized", width=68),
        "tokens": number("tokens", format="localized", width=68),
        "planted": number("planted", format="%.3f", width=80),
        "chance of inclusion": st.column_config.ProgressColumn(
            "chance", format="%d%%", min_value=0, max_value=100, width=96, help=CHANCE
        ),
        "±": number("±", format="%.1f", width=46, help="Standard error of the chance, in points"),
    }
