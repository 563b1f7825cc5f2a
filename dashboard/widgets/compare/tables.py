"""Two sides in tables: their runs, and each arm's belief, selection and shift by source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import streamlit as st

from core.records.arm import MICRO
from core.records.sides import ComparedArm, ComparedSides, SideArm, SideRuns
from dashboard import queries, sentences, wording
from dashboard.reading import cached_figure
from dashboard.widgets import address
from dashboard.widgets.compare.choosing import NamedSides
from dashboard.widgets.opening import open_arm, opening_table
from dashboard.widgets.paging import paging
from dashboard.widgets.popover import lazy_popover
from dashboard.widgets.tables import arm_name, type_cells, type_column
from dashboard.widgets.words import as_table, both_ends, section, small_table
from dashboard.wording import Words

SHIFT_PX: Final = 200
_PAGE_ARMS: Final = 50
_MOST_ARMS: Final = 10_000
"""Arms that pages beyond the first are cut from; they are compared once."""
_LARGE: Final = 1_000 * MICRO
"""Amounts from here on have no decimals in a cell."""
_PHONE: Final = {"type": 48, "arm": 170, "mean A": 70, "mean B": 70}


def compared(sides: NamedSides) -> ComparedSides:
    """Return both sides with the arms of the first page."""
    return queries.compared_sides(sides.a, sides.b, limit=_PAGE_ARMS)


def runs(both: ComparedSides, sides: NamedSides) -> None:
    """Draw failures, bill, savings and numbers of both sides."""
    names = sides.names
    saved = sentences.side_savings(queries.side_savings(sides.a), queries.side_savings(sides.b))
    rows = [*sentences.side_rows(both), *saved]
    section("Failures and bill", "per run, with 95% intervals")
    small_table(
        {
            "figure": [head for head, _, _ in rows],
            f"A: {names[0]}": [a for _, a, _ in rows],
            f"B: {names[1]}": [b for _, _, b in rows],
        },
        alt="Runs, failures, tokens and cost of both sides",
    )


def arms(both: ComparedSides, sides: NamedSides) -> None:
    """Draw the belief, selection and shift by source of a page of arms; a click opens one."""
    n_listed = min(both.n_arms, _MOST_ARMS)
    start = _start(n_listed)
    if start:
        both = queries.compared_sides(sides.a, sides.b, limit=_MOST_ARMS)
    rows = both.arms[start : start + _PAGE_ARMS]
    with both_ends():
        section("By arm", sentences.arms_bound(both, start, len(rows)))
        behind = lazy_popover("Shift by source", key="shift by source")
        if behind is not None:
            with behind:
                _shifts(rows)
    key = "compared arms", sides.a, sides.b, start
    frame = cached_figure(key, lambda: _arms_frame(rows, (both.a, both.b)))
    text = st.column_config.TextColumn
    config: dict[str, Any] = {
        "type": type_column(),
        "arm": text("arm", width=254),
        "mean A": st.column_config.NumberColumn("mean A", format="%.3f", width=72),
        "mean B": st.column_config.NumberColumn("mean B", format="%.3f", width=72),
        "in prompts A": text("in prompts A", width=118),
        "in prompts B": text("in prompts B", width=118),
        "shift A": text("shift A: α, β", width=SHIFT_PX, help=sentences.SHIFT_HELP),
        "shift B": text("shift B: α, β", width=SHIFT_PX, help=sentences.SHIFT_HELP),
    }
    index = opening_table(
        frame,
        config,
        _PHONE,
        name="compared arms",
        rest="type",
        alt=f"{wording.things(len(rows), 'arm')} on both sides, by the difference of their means",
    )
    if index is not None:
        open_arm(rows[index].arm)
    end = start + _PAGE_ARMS
    onward = str(end) if end < n_listed else None
    paging(address.COMPARE_ARMS, onward, at_newest=not start, words=(Words("More arms"), Words("First arms")))


def _start(n_listed: int) -> int:
    """Return the position of the first arm of the page that the address names; 0 where it names none."""
    named = st.query_params.get(address.COMPARE_ARMS, "")
    start = int(named) if named.isascii() and named.isdecimal() and len(named) < len(str(10**9)) else 0
    return start if start % _PAGE_ARMS == 0 and start < n_listed else 0


def _arms_frame(rows: Sequence[ComparedArm], sides: tuple[SideRuns, SideRuns]) -> pa.Table:
    a, b = sides
    keys = [one.arm for one in rows]
    return pa.table(
        {
            "type": pa.array(type_cells(keys), type=pa.list_(pa.string())),
            "arm": [arm_name(key) for key in keys],
            "mean A": [one.a.mean for one in rows],
            "mean B": [one.b.mean for one in rows],
            "in prompts A": [_selected(one.a, a) for one in rows],
            "in prompts B": [_selected(one.b, b) for one in rows],
            "shift A": [shift_cell(one.a) for one in rows],
            "shift B": [shift_cell(one.b) for one in rows],
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


def shift_cell(side: SideArm) -> str:
    """Return what all observations added to alpha and beta, and their source, or the number of sources."""
    if not side.shifts:
        return wording.MISSING
    n = len(side.shifts)
    source = side.shifts[0].source if n == 1 else wording.things(n, "source")
    return f"{_rounded(side.alpha_micro)}, {_rounded(side.beta_micro)}, {source}"


def _rounded(micro: int) -> Words:
    """Return millionths as a decimal that fits a cell.

    >>> _rounded(1_500_000), _rounded(-1_666_667), _rounded(1_234_500_000)
    ('+1.5', '−1.67', '+1,234')
    """
    exact = _amount(micro)
    if len(exact.partition(".")[2]) <= 2 and abs(micro) < _LARGE:
        return exact
    return wording.signed_minus(f"{micro / MICRO:+,.{2 if abs(micro) < _LARGE else 0}f}")


def _shifts(rows: Sequence[ComparedArm]) -> None:
    """Draw what each source added, exactly, as a table."""
    lines = [
        (one.arm, name, shift)
        for one in rows
        for name, side in (("A", one.a), ("B", one.b))
        for shift in side.shifts
    ]
    as_table(
        {
            "arm": [wording.plain(arm) for arm, _, _ in lines],
            "side": [name for _, name, _ in lines],
            "source": [shift.source for _, _, shift in lines],
            "added to α": [_amount(shift.alpha_micro) for _, _, shift in lines],
            "added to β": [_amount(shift.beta_micro) for _, _, shift in lines],
        },
        alt="What each source added to alpha and beta, by arm and side",
    )


def _amount(micro: int) -> Words:
    """Return millionths as an exact decimal with its sign.

    >>> _amount(1_500_000), _amount(-2_000_000), _amount(1)
    ('+1.5', '−2', '+0.000001')
    """
    whole, rest = divmod(abs(micro), MICRO)
    digits = f".{rest:06}".rstrip("0") if rest else ""
    return Words(f"{'−' if micro < 0 else '+'}{whole:,}{digits}")
