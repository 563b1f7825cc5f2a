"""Browsers that judge without sign-in: what each counts as, and the operator's confirmation of its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from core.records.browser import BrowserRow
from dashboard import actions, reviews, wording
from dashboard.actions import Flash
from dashboard.reading import reading
from dashboard.widgets.results import result
from dashboard.widgets.words import both_ends, muted, section, small
from dashboard.wording import Markdown, Words

_SHOWN: Final = 12
_HOW: Final = (
    "People do not sign in here, so a browser gives itself a name. Its judgements count as those of the machine’s "
    "user until an operator confirms the name. Confirm a name only if you know who uses that browser."
)


def browsers() -> None:
    """Draw every named browser with its confirmation, or its undo; nothing where there is none."""
    rows = reviews.browsers()
    if not rows:
        return
    section("Browsers without sign-in", _waiting(rows))
    with st.container(border=True, gap="xsmall"):
        for one in rows[:_SHOWN]:
            _browser(one)
        if len(rows) > _SHOWN:
            muted(
                f"{wording.things(len(rows) - _SHOWN, 'more browser', 'more browsers')}: `armscope browser list`."
            )
    result("browser")
    muted(_HOW)


def _browser(one: BrowserRow) -> None:
    name, person = (wording.literal(wording.plain(text)) for text in (one.name, one.person))
    counts = f"**{name}** is confirmed" if one.id else f"**{name}** is not signed in, and counts as {person}"
    with both_ends(wrap=False):
        st.markdown(f"{counts}  \n{small(_details(one))}", width="stretch")
        st.button(
            "Confirm" if one.id is None else "Undo",
            key=f"browser {one.browser}",
            type="tertiary",
            icon=":material/how_to_reg:" if one.id is None else ":material/undo:",
            help=f"browser {wording.literal(wording.plain(one.browser))}",
            on_click=_act,
            args=(one,),
        )


def _details(one: BrowserRow) -> Markdown:
    year = reading().context.clock()
    parts = [wording.literal(one.browser.rpartition(" ")[2]), wording.things(one.n_judged, "judgement")]
    if one.last_ms is not None:
        parts.append(f"latest {wording.minute(one.last_ms, year_of_ms=year)}")
    if one.by is not None:
        parts.append(f"by {wording.literal(wording.plain(one.by))}")
    return " · ".join(parts)


def _waiting(rows: Sequence[BrowserRow]) -> Words:
    n = sum(one.id is None for one in rows)
    if not n:
        return Words("every name is confirmed")
    return f"{wording.things(n, 'name')} {'waits' if n == 1 else 'wait'} for an operator"


def _act(one: BrowserRow) -> None:
    if one.id is not None:
        actions.take_back(one.id, at="browser")
        return

    def act() -> Flash:
        answer = reviews.confirm_browser(one.browser)
        judged = wording.things(answer.n_judged, "judgement")
        return Flash(
            text=f"{wording.literal(answer.name)} counts as a rater, with {judged}.",
            act=answer.id,
        )

    actions.tried("The name was not confirmed.", act, at="browser")
