"""Filters of the audit: of what, by whom, which act, when; all of it in the address.

Days are the audit's own: the span in the frame is of runs, and counts back from the newest.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Final, get_args

import streamlit as st

from core.permissions import Action
from core.records.actor import TOKENS
from core.records.audit import AuditFilter
from core.records.limits import MAX_LABEL_CHARS
from core.records.times import DAY_MS
from dashboard import administration, wording
from dashboard.administration import Which
from dashboard.reading import reading
from dashboard.sentences import audit as sentences
from dashboard.widgets import address
from dashboard.widgets.popover import in_use, lazy_popover
from dashboard.widgets.words import small
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
_LAST: Final = "audit filters as they were"
_ACTIONS: Final[dict[Which, tuple[str, ...]]] = {
    "acts": sentences.ACTIONS,
    "installation": sentences.OF_INSTALLATION,
    "refused": get_args(Action),
}


def which() -> Which:
    """Return acts at the learner, on the installation (members, tokens, …), or what was refused."""
    words: dict[Which, Words] = {
        "acts": Words("At this learner"),
        "installation": Words("Installation"),
        "refused": Words("Refused"),
    }
    return st.segmented_control(
        "Audit of",
        list(words),
        default="acts",
        required=True,
        format_func=lambda one: words[one],
        key=WHICH,
        bind="query-params",
        label_visibility="collapsed",
    )


def audit_filter(of: Which) -> AuditFilter:
    """Show one popover whose label names the filters. A new filter begins with the newest entry."""
    behind = lazy_popover(
        _label(of),
        icon=":material/filter_list:",
        key="audit filter popover",
        used=in_use(*_NAMES),
    )
    chosen = AuditFilter()
    if behind is not None:
        with behind:
            chosen = AuditFilter(
                actor=_one("By", _names(), ACTOR),
                action=_one("What", _ACTIONS[of], ACTION),
                since_ms=_day("From", SINCE),
                until_ms=_day("To, inclusive", UNTIL, n_days=1),
            )
            st.markdown(small("Days are UTC. The span in the row above is of runs."))
    now = (of, reading().context.learner, chosen)
    if st.session_state.setdefault(_LAST, now) != now:
        st.session_state[_LAST] = now
        if CURSOR in st.query_params:
            del st.query_params[CURSOR]
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


def _one(label: Markdown, options: list[str] | tuple[str, ...], key: str) -> str | None:
    chosen = st.selectbox(
        label,
        list(options),
        index=None,
        format_func=lambda one: wording.plain(_words(one) if key == ACTION else one),
        key=key,
        bind="query-params",
        placeholder="All",
        accept_new_options=key == ACTOR,
    )
    return chosen[:MAX_LABEL_CHARS] if chosen else None


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
    named = [wording.literal(wording.cut_middle(wording.plain(one))) for one in chosen if one]
    return Markdown(wording.listed(named) if named else "Everybody, everything")


def _words(action: str) -> str:
    """Return an action as it is chosen, and as the address has it."""
    return action.replace("_", " ")


def _is_day(text: str) -> bool:
    try:
        return _FIRST <= date.fromisoformat(text) <= _LAST_DAY
    except ValueError:
        return False
