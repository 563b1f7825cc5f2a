"""Tables of arms and of acts: type and arm first, numbers right, the way back last.

Cells are text cells, which Streamlit shows as they are; chips are coloured by Streamlit's own colour names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import streamlit as st

from core.columns import ArmColumns, Ints
from core.flows.look import ResetPreview
from core.records.arm import ARM_TYPES
from core.records.posterior import BANDS
from core.statistics.summary import Summary
from dashboard import loading, wording
from dashboard.figures.theme import LIGHT
from dashboard.widgets import opening

ROW_PX: Final = 34
_ALL_AT_ONCE: Final = 2_000
_MANY_ROWS: Final = 15
_TALL_PX: Final = 420
_NAME_CHARS: Final = 40
_CHANCE: Final = (
    "Chance that a run which offers the arm has it in its prompt, simulated with the packer that selects, among "
    "the candidates of the latest runs. Its standard error is at most 1 point where a quarter of those runs offered "
    "the arm, at most 3 points elsewhere, and 0 where chance plays no part."
)
_RIGHT: Final = frozenset({"mean moved", "run"})


def type_column() -> Any:  # noqa: ANN401 - Streamlit's column types are opaque dicts
    """The type as a chip."""
    return st.column_config.MultiselectColumn(
        "type",
        options=list(ARM_TYPES),
        color=[LIGHT.types[kind].streamlit for kind in ARM_TYPES],
        width=90,
    )


def arm_table(
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
        lambda: _sent(_arm_frame(columns, summary, places, chances=chances, truth=truth)),
    )
    shown: dict[str, Any] = {
        "hide_index": True,
        "row_height": ROW_PX,
        "height": "content" if len(places) <= _MANY_ROWS else _TALL_PX,
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
    return n_arms <= _ALL_AT_ONCE


def _sent(frame: pd.DataFrame) -> pa.Table:
    """A frame as it travels to the browser: turned into Arrow once, not in every rerun."""
    return pa.Table.from_pandas(frame, preserve_index=False)


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
        "arm": [_name(arm) for arm in shown],
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


def _name(key: str) -> str:
    """An arm's name for a cell; the middle goes, and the hidden column "id" has it whole."""
    return wording.cut_middle(wording.plain(wording.full_name(key)), _NAME_CHARS)


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
            "chance of inclusion", format="%d%%", min_value=0, max_value=100, width=160, help=_CHANCE
        ),
    }


def reset_table(shown: ResetPreview, *, seeds: Sequence[str]) -> None:
    """Every arm that a reset would touch, now and after."""
    n_arms = len(shown.columns)
    frame = loading.drawn_once(
        ("reset table", shown.target, shown.columns.keys), lambda: _sent(_reset_frame(shown, seeds))
    )
    st.dataframe(
        frame,
        hide_index=True,
        row_height=ROW_PX,
        height="content" if n_arms <= _MANY_ROWS else _TALL_PX,
        lazy=True if n_arms > _ALL_AT_ONCE else None,
        column_order=[head for head in frame.column_names if head != "id"],
        column_config=_reset_columns(),
        key="reset preview",
        alt=f"What a reset would change for {wording.things(n_arms, 'arm')}",
    )


def _reset_frame(shown: ResetPreview, seeds: Sequence[str]) -> pd.DataFrame:
    columns, now = shown.columns, shown.summary
    places = range(len(columns))
    return pd.DataFrame(
        {
            "type": [[kind] for kind in columns.types],
            "arm": [_name(key) for key in columns.keys],
            "mean now": np.clip(now.mean, 0.01, 0.99),
            "95% interval": [wording.interval(float(now.lower[at]), float(now.upper[at])) for at in places],
            "pulls → 0": columns.pulls,
            "confidence now": [wording.band(BANDS[int(now.band[at])]) for at in places],
            "after": np.asarray(shown.mean),
            "interval after": [
                wording.interval(float(low), float(high))
                for low, high in zip(shown.lower, shown.upper, strict=True)
            ],
            "chance of inclusion": [_chance_words(shown, at, seeds) for at in places],
            "id": [wording.plain(key) for key in columns.keys],
        }
    )


def _reset_columns() -> dict[str, Any]:
    number = st.column_config.NumberColumn
    return {
        "type": type_column(),
        "arm": st.column_config.TextColumn("arm", width=250),
        "mean now": number("mean now", format="%.2f", width=88),
        "95% interval": st.column_config.TextColumn("95% interval", width=104, alignment="right"),
        "pulls → 0": number("pulls → 0", format="localized", width=88),
        "confidence now": st.column_config.TextColumn("confidence now", width=132),
        "after": number("after", format="%.2f", width=68),
        "interval after": st.column_config.TextColumn("interval after", width=108, alignment="right"),
        "chance of inclusion": st.column_config.TextColumn("chance of inclusion", width=160, help=_CHANCE),
    }


def _chance_words(shown: ResetPreview, at: int, seeds: Sequence[str]) -> str:
    """What the next run's prompt would do with an arm, now → after."""
    if shown.columns.keys[at] in seeds:
        return "always in (seed)"
    if np.isnan(shown.chance_now[at]):
        return wording.NOT_OFFERED
    now = wording.percent(float(shown.chance_now[at]), 0)
    after = wording.percent(float(shown.chance_after[at]), 0)
    return after if now == after else f"{now} → {after}"


def act_table(
    cells: Mapping[str, Sequence[object]],
    widths: Mapping[str, int],
    *,
    key: str,
    alt: str,
    on_click: Callable[[int], None] | None = None,
) -> None:
    """Acts with their way back in the last column ("Undo", "Redo" or nothing)."""
    frame = pd.DataFrame({head: list(column) for head, column in cells.items()})
    config: dict[str, Any] = {
        head: st.column_config.TextColumn(head, width=width, alignment="right" if head in _RIGHT else None)
        for head, width in widths.items()
    }
    config["type"] = type_column()
    clicked = f"{key} clicked"
    if on_click is not None and "act" in cells:
        config["act"] = st.column_config.ButtonColumn(
            "", type="tertiary", width=90, key=clicked, on_click=_clicked, args=(clicked, on_click)
        )
    st.dataframe(
        frame,
        hide_index=True,
        row_height=ROW_PX,
        height="content" if len(frame) <= _MANY_ROWS else _TALL_PX,
        column_config={head: config[head] for head in cells if head in config},
        key=key,
        alt=alt,
    )


def _clicked(key: str, on_click: Callable[[int], None]) -> None:
    click = st.session_state.get(key)
    if click is not None:
        on_click(int(click["row"]))
