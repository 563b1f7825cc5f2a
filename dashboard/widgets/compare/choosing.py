"""Choice of the two sides: models, channels, spans or runs; all of it in the address."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Final, Literal, NamedTuple

import streamlit as st

from core.records.run_query import RunSide
from core.records.times import DAY_MS
from dashboard import wording
from dashboard.reading import reading
from dashboard.widgets import address
from dashboard.wording import Markdown, Words

By = Literal["models", "channels", "spans", "runs"]
_BY: Final[tuple[By, ...]] = ("models", "channels", "spans", "runs")


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
        by = st.segmented_control(
            "Compare",
            _BY,
            default=usual,
            required=True,
            format_func=str.capitalize,
            key=address.COMPARE_BY,
            bind="query-params",
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
    ends = [None if day is None else _words_of(day) for day in (first, last)]
    if ends[0] is None:
        return Words("all runs" if ends[1] is None else f"until {ends[1]}")
    return Words(f"since {ends[0]}" if ends[1] is None else f"{ends[0]} – {ends[1]}")


def _words_of(day: str) -> Words:
    return wording.day(int(datetime.fromisoformat(f"{day}T00:00+00:00").timestamp()) * 1000)
