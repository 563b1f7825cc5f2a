"""Two lists of the overview: what needs a look, and what changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from core.records.audit import AuditEntry
from core.statistics.change import FALSE_ALARM, MIN_FALL, NOTHING, TOGETHER_DAYS, WINDOW_DAYS
from core.statistics.overview import Attention, Overview, Page
from dashboard import acting, loading, sentences, wording
from dashboard.figures.densities import MAX_CHOSEN
from dashboard.figures.theme import Severity
from dashboard.widgets import ways
from dashboard.widgets.arm.head import ARM
from dashboard.widgets.fold import fold
from dashboard.widgets.posteriors import choosing
from dashboard.widgets.reset import form as reset_form
from dashboard.widgets.tables import act_table
from dashboard.widgets.words import both_ends, small

_ICONS: Final[dict[Severity, str]] = {
    "critical": "error",
    "warning": "warning",
    "notice": "info",
    "info": "check_circle",
}
_PUBLIC: Final[frozenset[Page]] = frozenset({"savings", "confidence", "runs"})
"""Pages without administration, which a presentation links to."""

_MOST_IN_ADDRESS: Final = 100
_ALL: Final = 200
_ALL_PX: Final = 760
_WIDTHS: Final = {"when, UTC": 130, "by": 120, "what": 420, "state": 90}


_HOW: Final = (
    "**Drifting and poisoned arms** are found by Fisher’s exact test, one-sided, at the beginning of each of the "
    f"last {WINDOW_DAYS} days, against all earlier observations of the arm’s epoch. All tests together name an arm "
    f"by mistake in at most {FALSE_ALARM:.0%} of looks, if observations are independent; runs of one session are "
    f"not quite. Falls of less than {MIN_FALL:g} are not named. Arms of one type that fell to a mean of at most "
    f"{NOTHING:g} within {TOGETHER_DAYS} days of one another look poisoned: a broken detector does that."
)


def head() -> None:
    """The section's head, with how claims about arms are found behind a button."""
    with both_ends():
        st.subheader("Needs attention", anchor=False, width="content")
        behind = fold("How it is found", key="how found")
        if behind is not None:
            behind.markdown(_HOW)


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
    claim = sentences.attention(
        item,
        loading.savings(),
        min_pulls=here.frame.settings.min_pulls,
        year_of_ms=here.frame.last_at_ms,
    )
    colour = here.tokens.severities[item.severity]
    icon = f':color[:material/{_ICONS[item.severity]}:]{{foreground="{colour}"}}'
    with st.container(
        horizontal=True, vertical_alignment="center", gap="small", wrap=False, key=f"attention {place}"
    ):
        st.markdown(icon, width="content")
        st.markdown(f"**{claim.claim}**  \n{small(claim.evidence)}", width="stretch")
        _ways(item, claim.way)


def _ways(item: Attention, words: str) -> None:
    """To the page where it is seen in full, with what is concerned in the address; poison has its cure too."""
    shown = item.arms[:MAX_CHOSEN]
    if item.kind == "poisoned":
        with st.container(width="content", gap=None):
            ways.way("posteriors", "Check evidence", **{choosing.ARMS: shown})
            if loading.reading().may("reset"):
                ways.way("reset", words, **reset_form.address(item.arms[:_MOST_IN_ADDRESS]))
    elif item.page == "arm":
        ways.way("arm", words, **{ARM: item.arms[0]})
    elif item.page == "posteriors":
        ways.way("posteriors", words, **{choosing.ARMS: shown} if shown else {})
    elif not loading.reading().presenting or item.page in _PUBLIC:
        ways.way(item.page, words)


def changes_head() -> None:
    """The section's head, with all changes behind a button."""
    with both_ends():
        st.subheader("What changed", anchor=False, width="content")
        if loading.changes():
            every = fold("All changes", key="all changes")
            if every is not None:
                with every, st.container(width=_ALL_PX):
                    _all()


def changes() -> None:
    """The last entries of the audit log: when and who in small, what in body text, and the way back."""
    entries = loading.changes()
    with st.container(border=True, gap="small"):
        if not entries:
            st.markdown("Nothing was changed by hand yet.")
        for place, entry in enumerate(entries):
            _entry(entry, place)


def _entry(entry: AuditEntry, place: int) -> None:
    when = wording.moment(entry.at_ms, year_of_ms=loading.reading().frame.last_at_ms)
    said = f"{small(f'{when} · {wording.literal(entry.actor)}')}  \n{sentences.change(entry)}"
    with st.container(
        horizontal=True, vertical_alignment="center", gap="small", wrap=False, key=f"changed {place}"
    ):
        st.markdown(said, width="stretch")
        back = _way_back(entry)
        if back is not None and entry.act is not None:
            st.button(
                back,
                type="tertiary",
                key=f"take back {entry.act}",
                on_click=acting.take_back,
                args=(entry.act,),
                kwargs={"again": entry.undone},
            )


def _way_back(entry: AuditEntry) -> str | None:
    """What can be done about an entry by this person: nothing, Undo or Redo."""
    here = loading.reading()
    own = entry.actor == here.desk.actor.name
    if entry.act is None or not here.may("undo_own" if own else "undo"):
        return None
    if entry.action == "undo":
        return None if entry.undone else "Redo"
    return "Redo" if entry.undone else "Undo"


def _all() -> None:
    """The last 200 entries as a table, text cells only."""
    entries = loading.changes(_ALL)
    cells: dict[str, Sequence[object]] = {
        "when, UTC": [wording.moment(entry.at_ms) for entry in entries],
        "by": [wording.plain(entry.actor) for entry in entries],
        "what": [wording.plain(sentences.deed(entry)) for entry in entries],
        "state": ["undone" if entry.undone else "" for entry in entries],
        "act": [_way_back(entry) or "" for entry in entries],
    }

    def clicked(row: int) -> None:
        if row < len(entries):
            act = entries[row].act
            if act is not None and _way_back(entries[row]) is not None:
                acting.take_back(act, again=entries[row].undone)

    act_table(cells, _WIDTHS, key="every change", alt="Changes, newest first", on_click=clicked)
