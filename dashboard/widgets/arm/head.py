"""Head of an arm's page: chip, full id, tokens, prior, epoch, next steps, and notes; or the page without an arm.

The form's key is new after each note that was written, so that a second click on it writes nothing more.
"""

from __future__ import annotations

import uuid
from typing import Final

import streamlit as st

from core.columns import UNKNOWN
from core.explained import EXCLUDED
from core.flows.queries import ArmPath, Belief
from core.records.arm import MICRO
from core.records.corrections import MAX_NOTE_CHARS
from dashboard import actions, pages, queries, wording
from dashboard.reading import reading
from dashboard.sentences import transcript
from dashboard.widgets import address
from dashboard.widgets.fields import lazy_popover
from dashboard.widgets.parts import chip, empty, link, muted, no_arms, not_named, quoted, section, small
from dashboard.widgets.results import offered_undo, result, way_back
from dashboard.wording import Words

_NEAR: Final = 5
_TEXT: Final = "note text"
_WRITTEN: Final = "notes"
_KEY: Final = "note form key"


def requested() -> str | None:
    """Return the arm that the address names, if there is one; else the page says what to do instead."""
    name = st.query_params.get(address.ARM, "")
    known = queries.as_of().columns
    if name in known.places:
        return name
    if not len(queries.everything().columns):
        no_arms("One arm, and what is believed of it,")
    elif name in queries.everything().columns.places:
        _not_yet(name)
    else:
        _no_such_arm(name)
    return None


def _not_yet(name: str) -> None:
    empty(
        ("This arm was not known yet.",),
        f"{wording.literal(wording.short_name(name))} was first seen after the end of the span.",
        rows={
            "needed": ["a later end"],
            "now": ["earlier"],
            "which is": [":yellow[:material/warning:] too early"],
        },
        to_do="**Widen the time span** in the row above.",
        shell=None,
    )


def _no_such_arm(name: str) -> None:
    not_named(
        "arm",
        name,
        unnamed="This page shows one arm: what is believed of it, and why.",
        unknown=f"No arm has the id {quoted(name)}.",
        needed="the id of an arm",
        to_do="**Choose an arm** in the table of all arms, or list them.",
        listed_by="arms",
    )
    near = queries.near_arms(name)[:_NEAR] if name else ()
    if near:
        section("Did you mean")
        for key in near:
            kind = wording.type_of(key)
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                st.markdown(chip(kind), width="content")
                link(pages.ARM, wording.literal(wording.short_name(key)), **{address.ARM: key})
    link(pages.POSTERIORS, "All arms")


def head(known: Belief, index: int, arm_path: ArmPath) -> None:
    """Draw one row: the type, the whole id in a box that copies, tokens, prior and epoch; right what can be done."""
    here = reading()
    columns = known.columns
    kind, key = columns.types[index], columns.keys[index]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(chip(kind), width="content")
        st.code(key, language=None, width="content", wrap_lines=True)
        muted_facts = f":gray[{' · '.join(_facts(known, index, arm_path))}]"
        st.markdown(muted_facts, width="content")
        st.space("stretch")
        if here.may("reward"):
            link(pages.REWARDS, "Reward", **{address.REWARDS_ARM: key})
        if here.may("reset"):
            link(pages.RESET, "Reset", **address.reset([key]))
        if here.may("reward"):
            write_note(key)


def _facts(known: Belief, index: int, arm_path: ArmPath) -> list[Words]:
    columns = known.columns
    cost = token_cost(known, index)
    alpha, beta = int(columns.prior_alpha_micro[index]) / MICRO, int(columns.prior_beta_micro[index]) / MICRO
    facts = [Words("tokens unknown") if cost is None else wording.things(cost, "token")]
    facts.append(f"prior {wording.beta(alpha, beta)}")
    facts.append(f"epoch {arm_path.epoch_no}")
    settings = reading().frame.settings
    if columns.keys[index] in settings.left_out:
        facts.append(Words(EXCLUDED))
    if columns.keys[index] in settings.always_in:
        facts.append(Words("seed, always in"))
    return facts


def token_cost(known: Belief, index: int) -> int | None:
    """Return the arm's cost in tokens, where known."""
    cost = int(known.columns.token_cost[index])
    return None if cost == UNKNOWN else cost


def none_by_day() -> None:
    """Show that there is no path, because no day of the arm is known."""
    muted("No observation of it has a time, so there is no path to draw.")


def write_note(arm: str) -> None:
    """Draw a button that opens the form."""
    behind = lazy_popover("Note", icon=":material/edit_note:", key="note popover")
    if behind is None:
        return
    with behind:
        key: str = st.session_state.setdefault(_KEY, uuid.uuid4().hex)
        st.text_area(
            "Note about this arm",
            key=_TEXT,
            persist_state="page",
            height=110,
            max_chars=MAX_NOTE_CHARS,
            placeholder="what others should know; it moves no number",
        )
        st.button(
            "Write note",
            type="primary",
            key=f"write note {key}",
            on_click=_send,
            args=(arm, key),
        )
        result("note")


def _send(arm: str, key: str) -> None:
    """Send the text of the field. The browser sends text and click together, so the callback reads the text."""
    actions.send_note(arm, st.session_state.get(_TEXT) or "", key, _emptied)


def _emptied() -> None:
    st.session_state[_TEXT] = ""
    st.session_state[_KEY] = uuid.uuid4().hex


def read_notes(arm: str) -> None:
    """Show time and author in small, the text as text, and its undo."""
    here = reading()
    written = queries.arm_notes(arm)
    section("Notes", "newest first; they move no number" if written else "")
    if not written:
        muted("None yet." + (" Write one with the button above." if here.may("reward") else ""))
    result(_WRITTEN)
    for one in written:
        with st.container(horizontal=True, vertical_alignment="top", gap="small", wrap=False):
            with st.container(gap=None):
                state = " · undone" if one.undone else ""
                when = wording.minute(one.at_ms, year_of_ms=here.frame.last_at_ms)
                st.markdown(small(f"{when} UTC · {wording.literal(one.actor)}{state}"))
                if not one.text:
                    muted(transcript.hidden(may_read=here.context.may("read_words")))
                elif one.undone:
                    muted(wording.literal(one.text))
                else:
                    st.text(wording.plain(one.text))
            way_back(offered_undo(one), one.id, again=one.undone, at=_WRITTEN)
