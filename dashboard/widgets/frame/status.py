"""Right end of the frame: state of the data, results as toasts, undo, and the person with switches and report.

The fragment that polls redraws the page by itself in two cases only. After a switch of theme, which does not rerun
the script, charts would keep the old colours. A person who lost a role loses what it showed.
"""

from __future__ import annotations

import logging
from typing import Final

import streamlit as st
from streamlit.elements.lib.mutable_popover_container import PopoverContainer

from core.errors import ArmscopeError, Unidentified
from core.flows.context import Context
from core.flows.queries import Frame
from core.records.actor import highest
from core.records.times import DAY_MS
from dashboard import actions, queries, who, wording
from dashboard.pages import PRESENT, STEPS
from dashboard.reading import begun_here, has_changed_hands, opened, reading, still
from dashboard.report import gather, rendered, report
from dashboard.sentences import sign_in as sentences
from dashboard.sign_in import session_ms
from dashboard.widgets.address import COMPACT
from dashboard.widgets.fields import popover
from dashboard.widgets.frame.window import compact, is_narrow
from dashboard.widgets.keys import UNDO
from dashboard.widgets.parts import link
from dashboard.widgets.results import way_back
from dashboard.wording import Markdown, Words

_EVERY_S: Final = 10
_UP_TO_DATE: Final = "Up to date"
_BUTTON_PX: Final = 112
log = logging.getLogger(__name__)


@st.fragment(run_every=_EVERY_S)
def status() -> None:
    """Draw the time of the data, and a button when the learner has a newer revision."""
    here = reading()
    if (st.context.theme.type or "light") != here.tokens.name or has_changed_hands():
        st.rerun(scope="app")
    with st.container(
        horizontal=True,
        vertical_alignment="center",
        horizontal_alignment="right",
        gap="small",
        width="content",
    ):
        waiting = _waiting(short=here.compact)
        # One of the two: both may need a second line, and the page would jump.
        if not here.compact and not waiting:
            now_ms = here.pages.clock()
            st.markdown(f":small[:gray[{age(here.frame.last_at_ms, now_ms)}]]", width="content")
        # In a narrow window the row has no room left: a button that came by itself would push its neighbours
        # away from the finger, so it is there from the beginning.
        if (waiting or here.compact) and st.button(
            waiting or _UP_TO_DATE,
            type="tertiary",
            icon=":material/refresh:",
            key="load new data",
            disabled=not waiting,
            width=_BUTTON_PX if here.compact else "content",
        ):
            st.rerun(scope="app")


def age(last_at_ms: int | None, now_ms: int) -> Words:
    """Return when the newest run ended, and how long ago.

    >>> age(1_773_939_306_000, 1_795_777_000_000), age(1_773_939_306_000, 1_773_939_400_000)
    ('Newest run 19 Mar 2026, 252 days ago', 'Newest run a minute ago')
    """
    if last_at_ms is None:
        return Words("No dated runs yet")
    days = (now_ms - last_at_ms) // DAY_MS
    if days < 1:
        return f"Newest run {wording.ago(last_at_ms, now_ms)}"
    return f"Newest run {wording.day_near(last_at_ms, now_ms)}, {wording.things(days, 'day')} ago"


def _waiting(*, short: bool) -> Markdown | None:
    """Return the button's words; None while the page shows the newest revision."""
    if begun_here():  # this rerun has just read the frame; the next poll sees newer revisions
        return None
    shown = reading().frame
    try:
        now = queries.revision()
    except ArmscopeError as problem:
        log.warning("the status line could not read: %s", problem)
        return None
    if now.snapshot_key == shown.snapshot_key:
        return None
    more = now.n_runs - shown.n_runs
    return Markdown(
        f"{wording.things(more, 'new run')}" if more > 0 else "New data" if short else "New data: refresh"
    )


def show_flashes() -> None:
    """Draw a toast for each success. Its control shows it too; a refusal is shown there alone, in full."""
    for flash in actions.flashes():
        if not flash.failed:
            st.toast(flash.text, icon=":material/check_circle:", duration="long")


def undo_last() -> None:
    """Show the person's latest act and its undo."""
    act = actions.last_act()
    if act is None:
        return
    kind = act.rsplit("-", 1)[0].replace("-", " ")
    way_back(f"Undo {wording.literal(kind)}", act, has_icon=True, key="undo last", shortcut=UNDO)


def role_badge(context: Context, frame: Frame, behind: PopoverContainer | None = None) -> None:
    """Draw the role as a button; behind it (or ``behind`` another) the person, the store, a switch, the slides, the
    report, the first steps.
    """
    actor, role = context.actor, highest(context.actor.roles(context.learner))
    behind = behind or popover(
        wording.literal(role.capitalize()), icon=":material/person:", key="role popover"
    )
    with behind:
        if behind.open or compact() != is_narrow():
            st.toggle("Compact charts", value=is_narrow(), key=COMPACT, bind="query-params")
        if not behind.open:
            return
        st.text(f"{actor.name}, {role}")
        if reading().session is not None:
            st.button(
                "Sign out",
                type="tertiary",
                icon=":material/logout:",
                key="sign out",
                on_click=actions.sign_out,
                help="Ends your sessions in every browser.",
            )
        st.text(f"Data: {frame.database}")
        link(PRESENT, "Present")
        _report_button()
        link(STEPS, "First steps")
        st.markdown(":small[:gray[Light or dark: menu ⋮, Settings.]]")


def _report_button() -> None:
    """Show the button for a report with these filters; the report is made on request."""
    here = reading()

    def frozen() -> bytes:
        now = still(here)  # the click may come after the user lost the role
        return rendered(report(gather(now.context, now.view)))

    st.download_button(
        "Download report",
        frozen,
        file_name=f"armscope-revision-{here.frame.revision}.html",
        mime="text/html",
        type="tertiary",
        icon=":material/description:",
        on_click="ignore",
        help="One HTML file that opens without a network; every number names its question.",
        key="report",
    )


def no_access() -> None:
    """Show why the visitor has no access, and the next step."""
    session = who.session_here()
    message = _message()
    st.title(message.title, anchor=False)
    st.markdown(wording.literal(message.text))
    for line in message.lines:
        st.code(line, language=None, wrap_lines=True)
    with st.container(horizontal=True):
        for index, name in enumerate(_providers()):
            st.button(
                sentences.button(name, is_first=session is None),
                type="secondary" if index else "primary",
                icon=":material/login:",
                key=f"sign in {name}",
                on_click=st.login,
                args=(name,),
            )
        if session is not None:
            st.button("Sign out", icon=":material/logout:", key="sign out", on_click=st.logout)


def _message() -> sentences.SignInMessage:
    session, context = who.session_here(), opened()
    try:
        return sentences.no_role(who.acting(context, session).actor.name)
    except Unidentified:
        return sentences.next_step(who.sign_in_state(context, session), session, session_ms())


def _providers() -> tuple[str, ...]:
    """Return the identity providers; none if the file has become invalid."""
    try:
        sign_in = who.sign_in_here()
    except ArmscopeError:
        return ()
    return () if sign_in is None else sign_in.providers
