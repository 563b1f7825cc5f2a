"""Two lists of the overview: what needs a look, and what changed."""

from __future__ import annotations

from typing import Final

import streamlit as st

from core.statistics.overview import Attention, Overview
from dashboard import loading, sentences, wording
from dashboard.figures.densities import MAX_CHOSEN
from dashboard.figures.theme import Severity
from dashboard.widgets import choosing, ways
from dashboard.widgets.words import small

_ICONS: Final[dict[Severity, str]] = {
    "critical": "error",
    "warning": "warning",
    "notice": "info",
    "info": "check_circle",
}
_PAGES: Final[dict[str, ways.PageName]] = {
    "savings": "savings",
    "confidence": "confidence",
    "posteriors": "posteriors",
}


def rows(seen: Overview) -> None:
    """Icon, bold claim with its evidence under it, and the way there; sorted by severity."""
    with st.container(border=True, gap="small"):
        if not seen.attention:
            at = seen.data_end_ms
            checked = "" if at is None else f" Checked {wording.day(at)}, {wording.instant(at):%H:%M} UTC."
            st.markdown(f"Nothing needs a look.{checked}")
        for place, item in enumerate(seen.attention):
            _row(item, place)


def _row(item: Attention, place: int) -> None:
    here = loading.reading()
    claim = sentences.attention(item, loading.savings(), min_pulls=here.frame.settings.min_pulls)
    colour = here.tokens.severities[item.severity]
    icon = f':color[:material/{_ICONS[item.severity]}:]{{foreground="{colour}"}}'
    with st.container(
        horizontal=True, vertical_alignment="center", gap="small", wrap=False, key=f"attention {place}"
    ):
        st.markdown(icon, width="content")
        st.markdown(f"**{claim.claim}**  \n{small(claim.evidence)}", width="stretch")
        target = _PAGES.get(item.page)
        if target is not None:
            named = {choosing.ARMS: item.arms[:MAX_CHOSEN]} if target == "posteriors" and item.arms else {}
            ways.way(target, claim.way, **named)


def changes() -> None:
    """The last entries of the audit log: when and who in small, what in body text."""
    here = loading.reading()
    entries = loading.changes()
    with st.container(border=True, gap="small"):
        if not entries:
            st.markdown("Nothing was changed by hand yet.")
        for entry in entries:
            when = wording.moment(entry.at_ms, year_of_ms=here.frame.last_at_ms)
            st.markdown(f"{small(f'{when} · {wording.literal(entry.actor)}')}  \n{sentences.change(entry)}")
