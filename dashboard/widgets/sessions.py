"""Sessions: the list, the one of the address, and its links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from core.explained.runs import SESSIONS
from core.records.run_page import RunsOfSession, SessionRow
from dashboard import pages, queries, wording
from dashboard.sentences.runs import session_cost
from dashboard.widgets import address
from dashboard.widgets.opening import open_one, opening_records
from dashboard.widgets.parts import link, not_named, quoted

_PHONE: Final = {"last": 110, "session": 150, "n_runs": 56}


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
    one = opening_records(
        SESSIONS.but(cost=session_cost),
        rows,
        _PHONE,
        name="sessions",
        rest="last",
        alt=f"Table of {wording.things(len(rows), 'session')}, the latest first",
        cache_key=tuple(rows),
    )
    if one is not None:
        open_one(pages.SESSION, one.session)
