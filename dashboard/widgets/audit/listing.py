"""The audit as a table, the newest first, page by page; and all that passes the filters as a file."""

from __future__ import annotations

from typing import Final

import streamlit as st

from core.records.audit import AuditEntry, AuditFilter, AuditPage, Denial, DenialPage
from dashboard import administration, wording
from dashboard.administration import Which
from dashboard.reading import reading
from dashboard.sentences import audit as sentences
from dashboard.widgets.audit.filters import CURSOR
from dashboard.widgets.paging import paging
from dashboard.widgets.tables import act_table
from dashboard.widgets.words import muted

_WIDTHS: Final = {"when, UTC": 112, "who": 120, "what": 440, "act": 108, "noted": 260, "state": 72}
_REFUSED_WIDTHS: Final = {"minute, UTC": 140, "who": 260, "refused": 240, "times": 90}
_PHONE: Final = {"when, UTC": 104, "who": 90, "what": 170}
_REFUSED_PHONE: Final = {"minute, UTC": 104, "who": 120, "refused": 100}
_MIME: Final = {"csv": "text/csv", "json": "application/json"}


def page_of(of: Which, chosen: AuditFilter) -> AuditPage | DenialPage:
    """Return the page of the table that the address names; anything else begins at the newest."""
    if of == "refused":
        return administration.refused(chosen, administration.read_cursor(st.query_params.get(CURSOR, "")))
    return administration.acts(chosen, installation=of == "installation", before=_before())


def _before() -> int | None:
    cursor = st.query_params.get(CURSOR, "")
    return int(cursor) if cursor.isascii() and cursor.isdigit() and len(cursor) < 16 else None


def table(page: AuditPage | DenialPage, *, narrowed: bool) -> None:
    """Draw the rows, and the way to older ones."""
    is_newest = CURSOR not in st.query_params
    onward: str | None
    if isinstance(page, DenialPage):
        onward = None if page.next is None else administration.cursor_of(page.next)
        n_rows = len(page.denials)
        if n_rows:
            _refused(page.denials)
    else:
        onward = None if page.next is None else str(page.next)
        n_rows = len(page.entries)
        if n_rows:
            _acts(page)
    if not n_rows:
        muted(
            "No older ones."
            if not is_newest
            else "Widen the filters."
            if narrowed
            else "Acts and refusals are listed here; no row is ever removed."
        )
    paging(CURSOR, onward, at_newest=is_newest)


def _acts(page: AuditPage) -> None:
    now_ms, entries = reading().context.clock(), page.entries
    act_table(
        {
            "when, UTC": [wording.minute(one.at_ms, year_of_ms=now_ms) for one in entries],
            "who": [sentences.actor(one.actor) for one in entries],
            "what": [sentences.act(one) for one in entries],
            "act": [one.act or wording.MISSING for one in entries],
            "noted": [sentences.details(one) for one in entries],
            "state": [_state(one) for one in entries],
        },
        _WIDTHS,
        key="audit",
        alt=f"{wording.things(len(entries), 'act')}, the newest first",
        phone=_PHONE,
    )


def _state(one: AuditEntry) -> str:
    """Return whether an act is active; an act without undo has no state."""
    return wording.MISSING if one.act is None else "undone" if one.undone else "active"


def _refused(denials: tuple[Denial, ...]) -> None:
    now_ms = reading().context.clock()
    act_table(
        {
            "minute, UTC": [wording.minute(one.at_ms, year_of_ms=now_ms) for one in denials],
            "who": [sentences.actor(one.actor) for one in denials],
            "refused": [sentences.refusal(one.action) for one in denials],
            "times": [wording.count(one.n) for one in denials],
        },
        _REFUSED_WIDTHS,
        key="refused",
        alt=f"{wording.things(len(denials), 'refusal')} by minute, the newest first",
        phone=_REFUSED_PHONE,
    )


def files(of: Which, chosen: AuditFilter, *, is_empty: bool) -> None:
    """Show the download of all matches, made on request."""
    for form in ("csv", "json"):
        st.download_button(
            form.upper(),
            administration.whole_audit(of, chosen, "csv" if form == "csv" else "json"),
            file_name=f"armscope-audit-{of}.{form}",
            mime=_MIME[form],
            type="tertiary",
            icon=":material/download:",
            on_click="ignore",
            disabled=is_empty,
            key=f"audit {form}",
        )
