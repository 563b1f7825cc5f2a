"""Compare page: the choice of two sides in the address, and their tables.

Sides are models, channels, spans or runs. The tables have the runs, and belief, selection and shift of each arm.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Final, Literal, NamedTuple

import streamlit as st

from core.explained.runs import ARMS_OF_SIDES
from core.formats.strict import utc_ms_of
from core.records.arm import MICRO
from core.records.run_query import RunSide
from core.records.sides import ComparedArm, ComparedSides, SideArm, SideRuns
from core.records.times import DAY_MS
from dashboard import pages, queries, wording
from dashboard.reading import reading
from dashboard.sentences import compare as sentences
from dashboard.widgets import address
from dashboard.widgets.fields import choice, lazy_popover
from dashboard.widgets.opening import open_one, opening_records
from dashboard.widgets.paging import paging
from dashboard.widgets.parts import as_table, both_ends, muted, section, small_table
from dashboard.wording import Markdown, Words

By = Literal["models", "channels", "spans", "runs"]
_BY: Final[tuple[By, ...]] = ("models", "channels", "spans", "runs")

_PAGE_ARMS: Final = 50
_MOST_ARMS: Final = 10_000
"""Arms that pages beyond the first are cut from; they are compared once."""
_LARGE: Final = 1_000 * MICRO
"""Amounts from here on have no decimals in a cell."""
_FOLD: Final = "other arms"
_PHONE: Final = {"type": 48, "arm": 170, "mean_a": 70, "mean_b": 70}


class NamedSides(NamedTuple):
    """Two sides, and their names as Markdown."""

    a: RunSide
    b: RunSide
    names: tuple[Markdown, Markdown]


def sides() -> NamedSides | None:
    """Draw the fields, and return the sides; None while one is not named."""
    frame = reading().frame
    usual: By = "models" if len(frame.models) > 1 else "channels" if len(frame.channels) > 1 else "spans"
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        by = choice(
            "Compare", {one: one.capitalize() for one in _BY}, usual, key=address.COMPARE_BY, labelled=True
        )
        if by == "runs":
            return _runs()
        if by == "spans":
            return _spans()
        return _named("model", frame.models) if by == "models" else _named("channel", frame.channels)


def _named(field: Literal["model", "channel"], known: Sequence[str]) -> NamedSides | None:
    if len(known) < 2:
        return None
    kind = "Model" if field == "model" else "Channel"
    labels = Words(f"{kind} A"), Words(f"{kind} B")
    chosen = [
        st.selectbox(
            label,
            list(known),
            index=index,
            key=f"{field}_{'ab'[index]}",
            bind="query-params",
            format_func=wording.plain,
            width=240,
        )
        for index, label in enumerate(labels)
    ]
    a, b = (RunSide(model=name) if field == "model" else RunSide(channel=name) for name in chosen)
    return NamedSides(a, b, (wording.literal(chosen[0]), wording.literal(chosen[1])))


def _runs() -> NamedSides | None:
    labels = Words("Run A"), Words("Run B")
    keys = address.COMPARE_RUN_A, address.COMPARE_RUN_B
    uids = [
        st.text_input(label, key=key, bind="query-params", width=240).strip()
        for label, key in zip(labels, keys, strict=True)
    ]
    if not all(uids):
        return None
    names: list[Markdown] = [f"run {wording.literal(wording.cut_middle(uid))}" for uid in uids]
    return NamedSides(RunSide(run=uids[0]), RunSide(run=uids[1]), (names[0], names[1]))


def _spans() -> NamedSides | None:
    """Return two spans of full days; by default the latest week and all days before it."""
    newest_ms = reading().frame.last_at_ms
    if newest_ms is None:
        return None
    latest = _day_of(newest_ms - (address.LATEST_DAYS - 1) * DAY_MS)
    usual = (None, _day_of(newest_ms - address.LATEST_DAYS * DAY_MS), latest, None)
    labels = Words("A from"), Words("A to, inclusive"), Words("B from"), Words("B to, inclusive")
    keys = (address.COMPARE_A_FROM, address.COMPARE_A_TO, address.COMPARE_B_FROM, address.COMPARE_B_TO)
    is_named = any(key in st.query_params for key in keys)
    days = [
        st.date_input(
            label,
            value=None if is_named else day,
            key=key,
            bind="query-params",
            format="YYYY-MM-DD",
            width=150,
        )
        for label, key, day in zip(labels, keys, usual, strict=True)
    ]
    a, b = ((_iso(first), _iso(last)) for first, last in (days[:2], days[2:]))
    for first, last in (a, b):
        if first is not None and last is not None and first > last:
            st.markdown(":red[A span begins after its end.]")
            return None
    return NamedSides(
        RunSide(from_=a[0], to=a[1]), RunSide(from_=b[0], to=b[1]), (_span_name(*a), _span_name(*b))
    )


def _day_of(at_ms: int) -> date:
    return datetime.fromtimestamp(at_ms / 1000, UTC).date()


def _iso(day: date | None) -> str | None:
    return None if day is None else day.isoformat()


def _span_name(first: str | None, last: str | None) -> Words:
    """Return the name of a span.

    >>> _span_name(None, "2026-01-31"), _span_name("2026-02-01", None), _span_name(None, None)
    ('until 31 Jan 2026', 'since 1 Feb 2026', 'all runs')
    """
    ends = [None if day is None else wording.day(utc_ms_of(day)[0]) for day in (first, last)]
    if ends[0] is None:
        return Words("all runs" if ends[1] is None else f"until {ends[1]}")
    return Words(f"since {ends[0]}" if ends[1] is None else f"{ends[0]} – {ends[1]}")


def compared(sides: NamedSides) -> ComparedSides:
    """Return both sides with the arms of the first page."""
    return queries.compared_sides(sides.a, sides.b, limit=_PAGE_ARMS)


def runs(both: ComparedSides, sides: NamedSides) -> None:
    """Draw failures, bill, savings and numbers of both sides."""
    names = sides.names
    saved = queries.side_savings(sides.a), queries.side_savings(sides.b)
    rows = [*sentences.side_rows(both), *sentences.side_savings(*saved)]
    section("Failures and bill", "brackets: 95% intervals; tokens and cost a run are means without one")
    small_table(
        {
            "figure": [head for head, _, _ in rows],
            f"A: {names[0]}": [a for _, a, _ in rows],
            f"B: {names[1]}": [b for _, _, b in rows],
        },
        alt="Runs, failures, tokens and cost of both sides",
    )
    if apart := sentences.savings_apart(*saved):
        muted(apart)


def other_arms(both: ComparedSides, sides: NamedSides, n_pictured: int) -> None:
    """Draw a page of the arms that no picture shows; a click opens one. Those of two runs are not folded."""
    n_listed = min(both.n_arms, _MOST_ARMS)
    if n_listed <= n_pictured:
        return
    start = _start(n_listed)
    if both.a.n_runs == both.b.n_runs == 1:
        behind = st.container(gap="small")
    else:
        st.session_state.setdefault(_FOLD, bool(start))
        behind = st.expander(sentences.rest_of(both, n_pictured), key=_FOLD, on_change="rerun")
        if not behind.open:
            return
    if start:
        both = queries.compared_sides(sides.a, sides.b, limit=_MOST_ARMS)
    end = start + _PAGE_ARMS
    rows = both.arms[max(start, n_pictured) : end]
    table = ARMS_OF_SIDES.but(
        in_a=lambda one: _selected(one.a, both.a),
        in_b=lambda one: _selected(one.b, both.b),
        shift_a=lambda one: shift_cell(one.a),
        shift_b=lambda one: shift_cell(one.b),
    )
    with behind:
        chosen = opening_records(
            table,
            rows,
            _PHONE,
            name="compared arms",
            rest="type",
            alt=f"{wording.things(len(rows), 'arm')} on both sides, by evidence",
            cache_key=(sides.a, sides.b, start, n_pictured),
        )
        if chosen is not None:
            open_one(pages.ARM, chosen.arm)
        onward = str(end) if end < n_listed else None
        with both_ends():
            paging(
                address.COMPARE_ARMS,
                onward,
                at_newest=not start,
                words=(Words("More arms"), Words("First arms")),
            )
            shifts = lazy_popover("Shift by source", key="shift by source")
            if shifts is not None:
                with shifts:
                    muted(
                        "Shifts are of present epochs. A reward about no run belongs to a span of time alone."
                    )
                    _shifts(rows)


def _start(n_listed: int) -> int:
    """Return the position of the first arm of the page that the address names; 0 where it names none."""
    start = address.number(address.COMPARE_ARMS, digits=9) or 0
    return start if start % _PAGE_ARMS == 0 and start < n_listed else 0


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
    exact = wording.exact(micro, "+")
    if len(exact.partition(".")[2]) <= 2 and abs(micro) < _LARGE:
        return exact
    return wording.signed_minus(f"{micro / MICRO:+,.{2 if abs(micro) < _LARGE else 0}f}")


def _shifts(rows: Sequence[ComparedArm]) -> None:
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
            "added to α": [wording.exact(shift.alpha_micro, "+") for _, _, shift in lines],
            "added to β": [wording.exact(shift.beta_micro, "+") for _, _, shift in lines],
        },
        alt="What each source added to alpha and beta, by arm and side",
    )
