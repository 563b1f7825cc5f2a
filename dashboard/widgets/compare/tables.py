"""Two sides in tables: their runs, and each arm's belief, selection and shift by source."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import streamlit as st

from core.records.arm import MICRO
from core.records.sides import ComparedSides, SideArm, SideRuns
from dashboard import sentences, wording
from dashboard.reading import cached_figure
from dashboard.widgets.opening import clicked_row, fresh, open_arm
from dashboard.widgets.tables import ROW_PX, arm_name, columns, height, type_cells, type_column
from dashboard.widgets.words import section, small_table
from dashboard.wording import Markdown, Words

_PHONE: Final = {"type": 48, "arm": 170, "mean A": 70, "mean B": 70}


def runs(both: ComparedSides, names: tuple[Markdown, Markdown]) -> None:
    """Draw failures, bill and numbers of both sides."""
    rows = sentences.side_rows(both)
    section("Failures and bill", "per run, with 95% intervals")
    small_table(
        {
            "figure": [head for head, _, _ in rows],
            f"A: {names[0]}": [a for _, a, _ in rows],
            f"B: {names[1]}": [b for _, _, b in rows],
        },
        alt="Runs, failures, tokens and cost of both sides",
    )


def arms(both: ComparedSides) -> None:
    """Draw every arm's belief, selection and shift by source; a click opens one."""
    section("By arm", sentences.arms_bound(both))
    frame = cached_figure(("compared arms", both), lambda: _arms_frame(both))
    text = st.column_config.TextColumn
    config: dict[str, Any] = {
        "type": type_column(),
        "arm": text("arm", width=230),
        "mean A": st.column_config.NumberColumn("mean A", format="%.3f", width=72),
        "mean B": st.column_config.NumberColumn("mean B", format="%.3f", width=72),
        "in prompts A": text("in prompts A", width=150),
        "in prompts B": text("in prompts B", width=150),
        "shift A": text("shift A: α, β", width=190, help=sentences.SHIFT_HELP),
        "shift B": text("shift B: α, β", width=190, help=sentences.SHIFT_HELP),
    }
    clicked = st.dataframe(
        frame,
        hide_index=True,
        row_height=ROW_PX,
        height=height(len(both.arms)),
        **columns(frame.column_names, config, _PHONE),
        key=fresh("compared arms"),
        on_select="rerun",
        selection_mode="single-cell",
        alt=f"{wording.things(len(both.arms), 'arm')} on both sides, by the difference of their means",
    )
    index = clicked_row(clicked, rest="type", key=fresh("compared arms"))
    if index is not None and index < len(both.arms):
        open_arm(both.arms[index].arm)


def _arms_frame(both: ComparedSides) -> pa.Table:
    rows = both.arms
    keys = [one.arm for one in rows]
    return pa.table(
        {
            "type": pa.array(type_cells(keys), type=pa.list_(pa.string())),
            "arm": [arm_name(key) for key in keys],
            "mean A": [one.a.mean for one in rows],
            "mean B": [one.b.mean for one in rows],
            "in prompts A": [_selected(one.a, both.a) for one in rows],
            "in prompts B": [_selected(one.b, both.b) for one in rows],
            "shift A": [_shift(one.a) for one in rows],
            "shift B": [_shift(one.b) for one in rows],
            "id": [wording.plain(key) for key in keys],
        }
    )


def _selected(arm: SideArm, side: SideRuns) -> str:
    """Return the share of runs with the arm, and its interval; of a single run, whether it had the arm."""
    one = arm.selected
    if side.n_runs == 1:
        return "in" if arm.n_in else "out"
    if one.value is None:
        return wording.MISSING
    share = wording.percent(one.value, 0)
    if one.limits is None:
        return share
    return f"{share}, {wording.percent_interval(100 * one.limits[0], 100 * one.limits[1], 0)}"


def _shift(side: SideArm) -> str:
    """Return what each source added to alpha and beta, and the exact sum where there are several."""
    parts = [f"{one.source} {_amounts(one.alpha_micro, one.beta_micro)}" for one in side.shifts]
    if len(parts) > 1:
        parts.append(f"= {_amounts(side.alpha_micro, side.beta_micro)}")
    return " · ".join(parts) or wording.MISSING


def _amounts(alpha_micro: int, beta_micro: int) -> Words:
    return Words(f"{_amount(alpha_micro)}, {_amount(beta_micro)}")


def _amount(micro: int) -> Words:
    """Return millionths as an exact decimal with its sign.

    >>> _amount(1_500_000), _amount(-2_000_000), _amount(1)
    ('+1.5', '−2', '+0.000001')
    """
    whole, rest = divmod(abs(micro), MICRO)
    digits = f".{rest:06}".rstrip("0") if rest else ""
    return Words(f"{'−' if micro < 0 else '+'}{whole:,}{digits}")
