"""Table of a reset's effect: every arm in its scope, now and after."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd
import streamlit as st

from core.explained import EXCLUDED, NOT_OFFERED, chance_words
from core.flows.queries import ResetPreview
from core.records.learner import LearnerSettings
from core.records.posterior import BANDS
from dashboard import wording
from dashboard.reading import cached_figure, reading
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

ARM_PX: Final = 280
_PHONE: Final = {"type": 48, "arm": 152, "mean now": 88, "after": 68}


def changes(shown: ResetPreview) -> None:
    """Draw every arm that a reset would touch, now and after."""
    settings = reading().frame.settings
    n_arms = len(shown.columns)
    frame = cached_figure(
        ("reset table", shown.target, shown.columns.keys),
        lambda: frame_to_arrow(_reset_frame(shown, settings)),
    )
    st.dataframe(
        frame,
        placeholder=wording.MISSING,
        hide_index=True,
        row_height=ROW_PX,
        height=height(n_arms),
        lazy=True if n_arms > ALL_AT_ONCE else None,
        **columns_shown(frame.column_names, _reset_columns(), _PHONE),
        key="reset preview",
        alt=f"What a reset would change for {wording.things(n_arms, 'arm')}",
    )


def _reset_frame(shown: ResetPreview, settings: LearnerSettings) -> pd.DataFrame:
    columns, now = shown.columns, shown.summary
    places = range(len(columns))
    return pd.DataFrame(
        {
            "type": type_cells(columns.keys),
            "arm": [arm_name(key) for key in columns.keys],
            "mean now": np.clip(
                now.mean, 0.01, 0.99
            ),  # no belief is certain, so none is shown as 0.00 or 1.00
            "95% interval": [wording.interval(float(now.lower[at]), float(now.upper[at])) for at in places],
            "pulls → 0": columns.pulls,
            "confidence now": [wording.band(BANDS[int(now.band[at])]) for at in places],
            "after": np.asarray(shown.mean),
            "interval after": [
                wording.interval(float(low), float(high))
                for low, high in zip(shown.lower, shown.upper, strict=True)
            ],
            "chance of inclusion": [_chance_words(shown, at, settings) for at in places],
            "id": [wording.plain(key) for key in columns.keys],
        }
    )


def _reset_columns() -> dict[str, Any]:
    number = st.column_config.NumberColumn
    return {
        "type": type_column(),
        "arm": st.column_config.TextColumn("arm", width=ARM_PX),
        "mean now": number("mean now", format="%.2f", width=80),
        "95% interval": st.column_config.TextColumn("95% interval", width=104, alignment="right"),
        "pulls → 0": number("pulls → 0", format="localized", width=76),
        "confidence now": st.column_config.TextColumn("confidence now", width=132),
        "after": number("after", format="%.2f", width=58),
        "interval after": st.column_config.TextColumn("interval after", width=108, alignment="right"),
        "chance of inclusion": st.column_config.TextColumn("chance of inclusion", width=190, help=CHANCE),
    }


def _chance_words(shown: ResetPreview, at: int, settings: LearnerSettings) -> str:
    """Return an arm's chance of inclusion in the next run, now → after."""
    if shown.columns.keys[at] in settings.left_out:
        return EXCLUDED
    if shown.columns.keys[at] in settings.always_in:
        return "always in (seed)"
    if np.isnan(shown.chance_now[at]):
        return NOT_OFFERED
    now, after = (
        chance_words(float(chance[at]), float(error[at]))
        for chance, error in ((shown.chance_now, shown.error_now), (shown.chance_after, shown.error_after))
    )
    return after if now == after else f"{now} → {after}"
