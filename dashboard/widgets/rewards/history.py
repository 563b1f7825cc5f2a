"""The last rewards, one's own or everyone's, each with its way back (or forth)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import streamlit as st

from core import explained
from core.records.observation import Observation
from dashboard import queries, wording
from dashboard.reading import reading
from dashboard.widgets.tables import ACT_PX, act_table, type_cells
from dashboard.widgets.way_back import acts_column, taking_back

SHOWN: Final = 20
WHOSE: Final = "rewards_of"
Whose = Literal["mine", "everyone"]
_WHOSE: Final[tuple[Whose, ...]] = ("mine", "everyone")
_WIDTHS: Final = {
    "when, UTC": 116,
    "by": 80,
    "arm": 210,
    "reward": 84,
    "run": 70,
    "kind": 96,
    "why": 180,
    "mean moved": 104,
}
_PHONE: Final = {"act": ACT_PX, "type": 48, "arm": 98, "reward": 62, "mean moved": 86}


def whose() -> Whose:
    """One's own rewards, or everyone's; who may undo others' sees them at first."""
    return st.segmented_control(
        "Whose rewards",
        _WHOSE,
        default="everyone" if reading().may("undo") else "mine",
        required=True,
        format_func=str.capitalize,
        key=WHOSE,
        bind="query-params",
        label_visibility="collapsed",
    )


def table(chosen: Whose) -> None:
    """When, by whom, arm, reward, kind, why, how far the mean moved, and Undo or Redo."""
    given = queries.rewards(SHOWN, everyone=chosen == "everyone")
    if not given:
        st.markdown(":gray[None yet. The first one you send appears here, with its undo.]")
        return
    newest = given[0].at_ms
    cells: dict[str, Sequence[object]] = {
        "when, UTC": [wording.moment(one.at_ms, year_of_ms=newest) for one in given],
        "by": [wording.plain(one.actor) for one in given],
        "type": type_cells([one.arm for one in given]),
        "arm": [wording.plain(wording.full_name(one.arm)) for one in given],
        "reward": [wording.reward(one.reward) for one in given],
        "run": [wording.MISSING if one.run_no is None else wording.count(one.run_no) for one in given],
        "kind": [_kind(one) for one in given],
        "why": [wording.plain(_why(one)) for one in given],
        "mean moved": [_moved(one) for one in given],
        **acts_column(given),
    }
    if chosen == "mine":
        del cells["by"]
    act_table(
        cells, _WIDTHS, key="last rewards", alt="Last rewards", phone=_PHONE, on_click=taking_back(given)
    )


def _kind(one: Observation) -> str:
    return "undone" if one.undone else "replaced" if one.replaced_by is not None else one.kind


def _why(one: Observation) -> str:
    """The reason; of a correction that gave way, by what it was replaced and what its undo would do."""
    said = [part for part in (explained.replaced(one), one.reason) if part]
    return "; ".join(said) or wording.MISSING


def _moved(one: Observation) -> str:
    if one.mean_moved is None:
        return "0" if not one.counts else wording.MISSING
    return wording.small_change(one.mean_moved)
