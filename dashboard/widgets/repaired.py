"""Repairs that take back some of what a page shows: each in a line, with a link to its evidence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import streamlit as st

from dashboard import pages, queries, wording
from dashboard.reading import reading
from dashboard.widgets import address
from dashboard.widgets.navigation import link
from dashboard.widgets.words import muted

_MOST: Final = 3


def repaired(names: Iterable[str | None]) -> None:
    """Draw who made each of these repairs, when, and a link to its page; nothing without one."""
    named = {name for name in names if name is not None}
    if not named:
        return
    year = reading().frame.last_at_ms
    for one in [one for one in queries.repairs() if one.id in named][:_MOST]:
        at = wording.minute(one.at_ms, year_of_ms=year)
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            name, n = wording.literal(one.id), wording.things(one.n_observations, "observation")
            muted(f"{name}: {wording.literal(one.actor)} took back {n} on {at} UTC.")
            link(pages.EVIDENCE, f"See {name}", **address.evidence(one.arms, one.since_ms))
