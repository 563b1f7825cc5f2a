"""Filters: learner, time span, models, channels and types; each is in the address.

A bound widget drops values that it does not offer. So an address with unknown or hostile values shows the page
without that filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.elements.lib.mutable_popover_container import PopoverContainer

from core.flows.queries import Frame
from core.records.arm import ARM_TYPES, ArmType
from core.records.run_query import SPAN_DAYS, SPANS, Span, View, days_before
from dashboard import actions, wording
from dashboard.widgets.address import CHANNEL, LEARNER, MODEL, SINCE, SPAN, TYPE, UNTIL
from dashboard.widgets.fields import choice, in_use, popover
from dashboard.widgets.frame.window import compact
from dashboard.wording import Markdown, Words

NEW_LEARNER: Final = "new learner"

_Named = tuple[tuple[str, ...], tuple[str, ...], tuple[ArmType, ...]]


def requested_learner(known: Sequence[str], otherwise: str) -> str:
    """Return the learner that the picker or the address names, if there is one by that name."""
    requested = st.session_state.get(LEARNER) or st.query_params.get(LEARNER)
    return str(requested) if requested in known else otherwise


@dataclass(frozen=True, kw_only=True)
class Pickers:
    """The fields of the view, the popover of a narrow window, and where the result of a new learner is drawn."""

    view: View
    behind: PopoverContainer | None
    created: DeltaGenerator | None


def pickers(frame: Frame, default: str, *, now_ms: int, may_create: bool) -> Pickers:
    """Return learner, time span and filters, each behind a button; in a narrow window all behind one.

    Going to another learner keeps the page, and the filters that apply there. ``default`` needs no word in the
    address; where it is empty, each learner is named there.
    """
    if not default and LEARNER not in st.session_state and LEARNER not in st.query_params:
        st.query_params[LEARNER] = st.session_state[LEARNER] = frame.learner
    labels: dict[str, Markdown] = {
        "learner popover": wording.short(frame.learner, wording.NAME_CHARS),
        "span popover": _span_label(frame, now_ms),
        "filter popover": _filter_label(frame) or Words("All models, channels and types"),
    }
    one = None
    if compact():
        chosen = [labels["learner popover"], labels["span popover"], _filter_label(frame)]
        one = popover(" · ".join(label for label in chosen if label), key="frame popover")
    learner, span, filters = (one or popover(label, key=key) for key, label in labels.items())
    created = None
    if learner.open or in_use(LEARNER, unused=default):
        with learner:
            created = _learner(frame, default, may_create=may_create, open_=bool(learner.open))
    limits: tuple[int | None, int | None] = None, None
    if span.open or in_use(SPAN, unused="all"):
        with span:
            limits = _span(frame)
    named: _Named = (), (), ()
    if filters.open or in_use(MODEL, CHANNEL, TYPE):
        with filters:
            named = _filters(frame)
    models, channels, types = named
    return Pickers(
        view=View(since_ms=limits[0], until_ms=limits[1], models=models, channels=channels, types=types),
        behind=one,
        created=created,
    )


def _learner(frame: Frame, default: str, *, may_create: bool, open_: bool) -> DeltaGenerator | None:
    options = list(dict.fromkeys([*filter(None, [default]), *frame.learners]))
    st.selectbox(
        "Learner",
        options,
        index=0 if default else None,
        key=LEARNER,
        bind="query-params",
        disabled=len(options) < 2,
    )
    if open_:
        st.text(f"{wording.things(frame.n_runs, 'run')}, {wording.things(frame.n_arms, 'arm')}")
        if may_create:
            return _new_learner()
    return None


def _new_learner() -> DeltaGenerator:
    """Draw a name and a button, and return where its result is drawn. A new learner is in view from then on."""
    name = st.text_input("New learner", key=NEW_LEARNER, placeholder="a name", max_chars=128, live=True)
    st.button(
        "Create",
        icon=":material/add:",
        key="create learner",
        disabled=not (name or "").strip(),
        on_click=actions.new_learner,
        args=((name or "").strip(), _go_to),
    )
    created = st.container()
    st.markdown(
        ":small[:gray[It starts empty with default settings. Import the export of another to fill it.]]"
    )
    return created


def _go_to(learner: str) -> None:
    st.session_state[LEARNER] = learner
    st.session_state[NEW_LEARNER] = ""


def _span(frame: Frame) -> tuple[int | None, int | None]:
    """Start and end of the span in UTC milliseconds; "days" are measured from the end of the data."""
    span = choice("Time span", {one: one.capitalize() for one in SPANS}, "all", key=SPAN, labelled=True)
    st.markdown(":small[:gray[Days count back from the newest run. Times are UTC.]]")
    if span == "dates":
        st.date_input("From", value=None, key=SINCE, bind="query-params", format="YYYY-MM-DD")
        st.date_input("To, inclusive", value=None, key=UNTIL, bind="query-params", format="YYYY-MM-DD")
    return _limits(frame, span if span in SPANS else "all")


def _limits(frame: Frame, span: Span) -> tuple[int | None, int | None]:
    if span in SPAN_DAYS:
        return days_before(frame.last_at_ms, SPAN_DAYS[span]), None
    if span == "dates":
        first, last = st.session_state.get(SINCE), st.session_state.get(UNTIL)
        return _start_of(first), None if last is None else _start_of(last + timedelta(days=1))
    return None, None


def _start_of(day: date | None) -> int | None:
    return None if day is None else int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)


def _span_label(frame: Frame, now_ms: int) -> Markdown:
    """Return first and last day in view; an end that is months back has its year."""
    span = st.session_state.get(SPAN) or st.query_params.get(SPAN, "all")
    if frame.first_at_ms is None or frame.last_at_ms is None:
        return Words("No dated runs" if frame.n_runs else "No runs yet")
    since, until = _limits(frame, next((name for name in SPANS if name == span), "all"))
    first = frame.first_at_ms if since is None else max(since, frame.first_at_ms)
    last = frame.last_at_ms if until is None else min(until - 1, frame.last_at_ms)
    end = wording.day_near(last, now_ms)
    if wording.day(first) == wording.day(last):
        return end
    return f"{wording.day(first, year_of_ms=last)} – {end}"


def _filters(frame: Frame) -> _Named:
    models = _choice("Models", frame.models, MODEL)
    channels = _choice("Channels", frame.channels, CHANNEL)
    types = _choice("Arm types", ARM_TYPES, TYPE)
    st.markdown(
        ":small[:gray[Models and channels choose runs; there is one belief per arm, from all of them.]]"
    )
    return models, channels, tuple(kind for kind in ARM_TYPES if kind in types)


def _choice(label: Markdown, options: Sequence[str], key: str) -> tuple[str, ...]:
    chosen = st.multiselect(
        label, list(options), key=key, bind="query-params", placeholder="All", filter_mode="contains"
    )
    return tuple(chosen)


def _filter_label(frame: Frame) -> Markdown:
    parts = [
        _part(_requested(MODEL, frame.models), "model"),
        _part(_requested(CHANNEL, frame.channels), "channel"),
        _part(_requested(TYPE, ARM_TYPES), "type"),
    ]
    chosen = [part for part in parts if part]
    return Markdown(wording.listed(chosen) if chosen else "")


def _requested(key: str, known: Sequence[str]) -> list[str]:
    requested = st.session_state.get(key)
    if requested is None:
        requested = st.query_params.get_all(key)
    return [value for value in requested if value in known]


def _part(chosen: Sequence[str], noun: Words) -> Markdown:
    """Return the name of a single choice, or the number of choices.

    >>> _part(["tool"], "type"), _part(["a", "b"], "model"), _part([], "type")
    ('tool', '2 models', '')
    """
    if not chosen:
        return Words("")
    one = len(chosen) == 1
    return wording.short(chosen[0], wording.NAME_CHARS) if one else wording.things(len(chosen), noun)
