"""Audit page: filters, the table page by page, and its files.

The filters are subject, person, act and day; all are in the address. Days are calendar days, because the span in the
frame counts back from the newest run.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Final, get_args

import streamlit as st

from core.explained import people
from core.records.actor import TOKENS, Action
from core.records.audit import AuditFilter, AuditPage, DenialPage
from core.records.limits import MAX_LABEL_CHARS
from core.records.times import DAY_MS
from dashboard import administration, wording
from dashboard.administration import Which
from dashboard.reading import reading
from dashboard.sentences import audit as sentences
from dashboard.widgets import address
from dashboard.widgets.fields import choice, filters, one_of
from dashboard.widgets.paging import paging
from dashboard.widgets.parts import muted, small
from dashboard.widgets.tables import record_table
from dashboard.wording import Markdown, Words

WHICH: Final = "audit_of"
ACTOR: Final = "audit_by"
ACTION: Final = "audit_act"
SINCE: Final = "audit_since"
UNTIL: Final = "audit_until"
CURSOR: Final = "audit_from"
"""Parameter for the start of the table's page."""
_FIRST: Final = date(1970, 1, 1)
_LAST_DAY: Final = date(2999, 12, 31)
_NAMES: Final = (ACTOR, ACTION, SINCE, UNTIL)
_ACTIONS: Final[dict[Which, tuple[str, ...]]] = {
    "acts": sentences.ACTIONS,
    "installation": sentences.OF_INSTALLATION,
    "refused": get_args(Action),
}

_PHONE: Final = {"at": 104, "actor": 90, "action": 170}
_REFUSED_PHONE: Final = {"at": 104, "actor": 120, "action": 100}
_MIME: Final = {"csv": "text/csv", "json": "application/json"}


def which() -> Which:
    """Return acts at the learner, on the installation (members, tokens, …), or what was refused."""
    words: dict[Which, Words] = {
        "acts": Words("At this learner"),
        "installation": Words("Installation"),
        "refused": Words("Refused"),
    }
    return choice("Audit of", words, "acts", key=WHICH)


def audit_filter(of: Which) -> AuditFilter:
    """Show one popover whose label names the filters. A new filter begins with the newest entry."""
    return filters(
        _label(of),
        _NAMES,
        AuditFilter(),
        lambda: _requested(of),
        key="audit filter",
        places=(CURSOR,),
        of=(of, reading().context.learner),
    )


def _requested(of: Which) -> AuditFilter:
    actor = one_of("By", _names(), ACTOR, accept_new_options=True)
    chosen = AuditFilter(
        actor=actor[:MAX_LABEL_CHARS] if actor else None,
        action=one_of("What", _ACTIONS[of], ACTION, {one: _words(one) for one in _ACTIONS[of]}),
        since_ms=_day("From", SINCE),
        until_ms=_day("To, inclusive", UNTIL, n_days=1),
    )
    st.markdown(small("Days are UTC. The span in the row above is of runs."))
    return chosen


def narrowed(chosen: AuditFilter) -> bool:
    """Return whether a filter is active."""
    return chosen != AuditFilter()


def _names() -> list[str]:
    """Return possible actors: the person, members and tokens; any other name can be typed."""
    known = {
        reading().context.actor.name,
        *(one.name for one in administration.members()),
        *(TOKENS + one.name for one in administration.tokens()),
    }
    return sorted(known, key=str.casefold)


def _day(label: Markdown, key: str, *, n_days: int = 0) -> int | None:
    """Return the start of a day (of the ``n_days`` after it), UTC milliseconds."""
    day = st.date_input(
        label,
        value=None,
        min_value=_FIRST,
        max_value=_LAST_DAY,
        key=key,
        bind="query-params",
        format="YYYY-MM-DD",
    )
    if day is None:
        return None
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000) + n_days * DAY_MS


def _label(of: Which) -> Markdown:
    """Return the active filters in the button's words; values that no widget takes are no filter."""
    values = {key: str(address.held(key) or st.query_params.get(key, "")) for key in _NAMES}
    known = {_words(one) for one in _ACTIONS[of]}
    chosen = [
        values[ACTOR],
        *(one for one in [_words(values[ACTION])] if one in known),
        *(f"from {one}" for one in [values[SINCE]] if _is_day(one)),
        *(f"to {one}" for one in [values[UNTIL]] if _is_day(one)),
    ]
    named = [wording.short(one, wording.NAME_CHARS) for one in chosen if one]
    return Markdown(wording.listed(named) if named else "Everybody, everything")


def _words(action: str) -> str:
    """Return an action as it is chosen, and as the address has it."""
    return action.replace("_", " ")


def _is_day(text: str) -> bool:
    try:
        return _FIRST <= date.fromisoformat(text) <= _LAST_DAY
    except ValueError:
        return False


def page_of(of: Which, chosen: AuditFilter) -> AuditPage | DenialPage:
    """Return the page of the table that the address names; anything else begins at the newest."""
    if of == "refused":
        return administration.refused(chosen, administration.read_cursor(st.query_params.get(CURSOR, "")))
    return administration.acts(chosen, installation=of == "installation", before=address.number(CURSOR))


def table(page: AuditPage | DenialPage, *, narrowed: bool) -> None:
    """Draw the rows, and the way to older ones."""
    is_newest = CURSOR not in st.query_params
    now_ms = reading().context.clock()
    onward: str | None
    if isinstance(page, DenialPage):
        onward = None if page.next is None else administration.cursor_of(page.next)
        n_rows = len(page.denials)
        if n_rows:
            alt = f"{wording.things(n_rows, 'refusal')} by minute, the newest first"
            record_table(
                people.DENIALS, page.denials, key="refused", alt=alt, phone=_REFUSED_PHONE, year_of_ms=now_ms
            )
    else:
        onward = None if page.next is None else str(page.next)
        n_rows = len(page.entries)
        if n_rows:
            alt = f"{wording.things(n_rows, 'act')}, the newest first"
            currency = reading().frame.settings.currency
            acts = people.AUDIT.but(action=lambda one: sentences.act(one, currency))
            record_table(acts, page.entries, key="audit", alt=alt, phone=_PHONE, year_of_ms=now_ms)
    if not n_rows:
        muted(
            "No older ones."
            if not is_newest
            else "Widen the filters."
            if narrowed
            else "Acts and refusals are listed here; no row is ever removed."
        )
    paging(CURSOR, onward, at_newest=is_newest)


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
