"""Sessions: the list, the one of the address, and its links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import streamlit as st

from core.records.run_page import RunsOfSession, SessionRow
from dashboard import pages, queries, wording
from dashboard.reading import cached_figure, reading
from dashboard.sentences import runs as sentences
from dashboard.widgets import address
from dashboard.widgets.empty import not_named, quoted
from dashboard.widgets.navigation import link
from dashboard.widgets.opening import open_session, opening_table

_PHONE: Final = {"last run, UTC": 110, "session": 150, "runs": 56}


def requested() -> RunsOfSession | None:
    """Return the session that the address names; None after a message with the next step."""
    name = st.query_params.get(address.SESSION, "")
    one = queries.session(name) if name else None
    if one is None:
        not_named(
            "session",
            name,
            unnamed="This page shows one session.",
            unknown=f"No active run names the session {quoted(name)}.",
            needed="the name of a session",
            to_do="**Choose a session** in the list.",
            listed_by="runs",
        )
        link(pages.SESSIONS, "All sessions")
    return one


def links(one: RunsOfSession) -> None:
    """Draw a link to all sessions, and the name to copy."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        link(pages.SESSIONS, "All sessions")
        link(pages.RUNS, "All runs")
        st.space("stretch")
        st.code(one.row.session, language=None, width="content", wrap_lines=True)


def table(rows: Sequence[SessionRow]) -> None:
    """Draw sessions, the latest first; a click opens one."""
    year_of_ms = reading().frame.last_at_ms
    frame = cached_figure(("sessions", tuple(rows)), lambda: _to_arrow(rows, year_of_ms))
    text, number = st.column_config.TextColumn, st.column_config.NumberColumn
    config: dict[str, Any] = {
        "last run, UTC": text("last run, UTC", width=136),
        "session": text("session", width=320),
        "runs": number("runs", format="localized", width=70),
        "observed": number("observed", format="localized", width=84),
        "unfinished": number("unfinished", format="localized", width=90),
        "tokens": number("tokens", format="localized", width=96),
        "cost": text("cost", width=90),
        "model": text("model", width=140),
        "channel": text("channel", width=96),
    }
    index = opening_table(
        frame,
        config,
        _PHONE,
        name="sessions",
        rest="last run, UTC",
        alt=f"Table of {wording.things(len(rows), 'session')}, the latest first",
        hidden="",
    )
    if index is not None:
        open_session(rows[index].session)


def _to_arrow(rows: Sequence[SessionRow], year_of_ms: int | None) -> pa.Table:
    return pa.table(
        {
            "last run, UTC": [wording.minute(row.last_ms, year_of_ms=year_of_ms) for row in rows],
            "session": [wording.plain(row.session) for row in rows],
            "runs": [row.n_runs for row in rows],
            "observed": [row.n_observed for row in rows],
            "unfinished": [row.n_unfinished for row in rows],
            "tokens": pa.array([row.tokens if row.n_tokens else None for row in rows], type=pa.int64()),
            "cost": [sentences.session_cost(row) for row in rows],
            "model": [_one_of(row.model, row.n_models) for row in rows],
            "channel": [_one_of(row.channel, row.n_channels) for row in rows],
        }
    )


def _one_of(name: str | None, number: int) -> str:
    if name is None:
        return wording.MISSING
    return wording.plain(name) if number == 1 else f"{number} of them"
