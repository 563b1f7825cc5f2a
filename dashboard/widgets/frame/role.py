"""Role: the person, the location of the data, two switches, the report and the first steps; and the sign-in page."""

from __future__ import annotations

import streamlit as st
from streamlit.elements.lib.mutable_popover_container import PopoverContainer

from core.errors import ArmscopeError, Unidentified
from core.flows.context import Context
from core.flows.queries import Frame
from core.records.actor import highest
from dashboard import actions, who, wording
from dashboard.pages import STEPS
from dashboard.reading import opened, reading, still
from dashboard.report import gather, rendered, report
from dashboard.sentences import sign_in as sentences
from dashboard.sign_in import session_ms
from dashboard.widgets.address import COMPACT, PRESENT
from dashboard.widgets.frame.window import compact, is_narrow, presenting
from dashboard.widgets.navigation import link
from dashboard.widgets.popover import in_use, popover


def role_badge(context: Context, frame: Frame, behind: PopoverContainer | None = None) -> None:
    """Draw the role as a button; behind it (or ``behind`` another) the person, the store, two switches, the report,
    the first steps.
    """
    actor, role = context.actor, highest(context.actor.roles(context.learner))
    label = wording.literal("Presenting" if presenting() else role.capitalize())
    behind = behind or popover(label, icon=":material/person:", key="role popover")
    with behind:
        if behind.open or in_use(PRESENT):
            st.toggle(
                "Presentation mode", key=PRESENT, bind="query-params", help="Read-only, no administration"
            )
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
        _report_button()
        if not reading().presenting:
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
            st.button("Sign out", icon=":material/logout:", key="sign out", on_click=actions.leave)


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
