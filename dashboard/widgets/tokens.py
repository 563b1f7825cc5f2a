"""Widgets of the tokens page: the form that makes a token, the table of all, and the form that revokes one.

The form shows a new secret once. This session keeps it shortly, because a double click draws the page twice. No
address, draft or log has it. A token is revoked at once, in every process, and for good; so the form asks first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Timer
from typing import Final, cast

import streamlit as st

from core.explained import people
from core.records.actor import Scope
from core.records.member import DEFAULT_DAYS, MAX_DAYS, MAX_LEARNERS, MAX_TOKEN_NAME_CHARS, NewToken, TokenRow
from core.records.times import DAY_MS
from dashboard import actions, administration, wording
from dashboard.actions import Flash
from dashboard.reading import reading
from dashboard.sentences import tokens as sentences
from dashboard.widgets.fields import choice
from dashboard.widgets.parts import COPIED, both_ends, muted, paragraphs, section, small
from dashboard.widgets.results import refusal
from dashboard.widgets.tables import ACT_PX, record_table
from dashboard.wording import Markdown, Words

DOING: Final = "tokens_do"
MAKE: Final = "make"
REVOKE: Final = "revoke"
_WORDS: Final = {MAKE: "Make", REVOKE: "Revoke"}
_CHOSEN: Final = "token to end"
_SURE: Final = "token sure"

LINGERS_S: Final = 1.0
_NEW: Final = "token made"
_ROUND: Final = "token form"
_EVERY: Final = "every"
_LEARNER_WORDS: Final = {_EVERY: "Every learner", "some": "Some learners"}

ENDED: Final = "tokens_ended"
_PHONE: Final = {"act": ACT_PX, "name": 120, "scopes": 160}


def doing() -> str:
    """Show the choice between making and revoking a token."""
    return choice("What to do", _WORDS, MAKE, key=DOING)


def begin_with(one: TokenRow) -> None:
    """Choose a token of the list."""
    st.session_state[DOING] = REVOKE
    st.session_state[_CHOSEN] = one.id


def chosen(rows: Sequence[TokenRow]) -> TokenRow | None:
    """Return the token that is to end, if one is chosen."""
    now_ms = reading().context.clock()
    live = {one.id: one for one in rows if sentences.is_in_force(one, now_ms)}
    if not live:
        muted("No token is active.")
        return None
    picked = st.selectbox(
        "Token",
        list(live),
        index=None,
        format_func=lambda one: f"{wording.plain(live[one].name)} ({one})" if one in live else one,
        key=_CHOSEN,
        placeholder="choose a token",
    )
    return None if picked is None else live.get(picked)


def what_ending_does(one: TokenRow | None) -> None:
    """Show the consequence, and the button, which is disabled until the person confirms."""
    section("What it will do", "nothing is changed yet")
    if one is None:
        muted("Choose the token to revoke.")
        return
    name, now_ms = wording.short(one.name), reading().context.clock()
    with st.container(border=True):
        paragraphs(
            f"Any program with **{name}** is refused from its next request on, in every process: "
            f"{wording.literal(wording.plain(people.token_use(one)))}. "
            f"Last used: {sentences.used(one, now_ms)}.",
            "Its acts stay, under its name.",
        )
        sure = st.checkbox(f"End {name} for good; no undo restores it", key=f"{_SURE} {one.id}")
        st.button(
            f"Revoke {name}",
            type="primary",
            key="revoke token",
            disabled=not sure,
            on_click=_revoke,
            args=(one.id, name),
        )
        refusal("token")


def _revoke(token: str, name: str) -> None:
    """Once more on the server: a click without the tick ends nothing."""
    if not st.session_state.get(f"{_SURE} {token}"):
        return

    def act() -> Flash:
        administration.revoke_token(token)
        st.session_state.pop(_CHOSEN, None)
        return Flash(text=f"{wording.literal(name)} is revoked, for good.")

    actions.tried("Nothing was revoked.", act, at="token")


@dataclass(frozen=True, kw_only=True)
class TokenForm:
    """A token as the form says it; ``learners`` None: every one."""

    name: str
    scopes: tuple[Scope, ...]
    learners: tuple[str, ...] | None
    days: int

    @property
    def is_complete(self) -> bool:
        """True if no field is missing."""
        return bool(self.name and self.scopes) and self.learners != ()


class Once:
    """A new token that stays visible until shortly after it was drawn."""

    def __init__(self, created: NewToken) -> None:
        self._created: NewToken | None = created
        self._is_ending = False

    def look(self) -> NewToken | None:
        """Return the token; None once the moment is over."""
        created = self._created
        if created is not None and not self._is_ending:
            self._is_ending = True
            forgetting = Timer(LINGERS_S, self._forget)
            forgetting.daemon = True
            forgetting.start()
        return created

    def _forget(self) -> None:
        self._created = None


def key(field: str) -> str:
    """Return a field's key; new once a token was made."""
    return f"token {field} {st.session_state.get(_ROUND, 0)}"


def fields() -> TokenForm:
    """Return name, scopes with what each lets, learners, days."""
    name = st.text_input(
        "Name of the program that will use it",
        key=key("name"),
        max_chars=MAX_TOKEN_NAME_CHARS,
        placeholder="ci-support",
        autocomplete="off",
        live=True,
    )
    with st.container(gap="xsmall"):
        st.markdown(small("What it lets the program do; choose the fewest"))
        scopes = tuple(
            scope
            for scope, words in sentences.SCOPE_WORDS.items()
            if st.checkbox(f"**{scope}** {small(words)}", key=key(scope))
        )
    learners = _learners()
    days = st.number_input(
        f"Days until it ends, at most {MAX_DAYS}",
        min_value=1,
        max_value=MAX_DAYS,
        value=DEFAULT_DAYS,
        step=1,
        key=key("days"),
    )
    return TokenForm(name=(name or "").strip(), scopes=scopes, learners=learners, days=int(days))


def _learners() -> tuple[str, ...] | None:
    place = choice("Where", _LEARNER_WORDS, _EVERY, key=key("place"), bound=False, labelled=True)
    if place == _EVERY:
        return None
    chosen = st.multiselect(
        "Learners",
        list(reading().frame.learners),
        key=key("learners"),
        max_selections=MAX_LEARNERS,
        placeholder="choose learners",
    )
    return tuple(chosen)


def what_making_does(form: TokenForm, rows: tuple[TokenRow, ...]) -> None:
    """Draw the token that was just made, this once; else what the one that is filled in would be."""
    once = cast("Once | None", st.session_state.get(_NEW))
    created = None if once is None else once.look()
    if created is not None:
        _shown_once(created)
        return
    st.session_state.pop(_NEW, None)
    section("What it will do", "nothing is made yet")
    problem = _problem(form, rows)
    if problem:
        muted(problem)
    else:
        until = wording.day(reading().context.clock() + form.days * DAY_MS)
        lets = "; ".join(f"**{scope}**: {sentences.SCOPE_WORDS[scope]}" for scope in form.scopes)
        paragraphs(
            f"Its holder acts as **token:{wording.short(form.name)}** in "
            f"{wording.literal(people.where(form.learners))}, until **{until}**.",
            f"It {lets}.".replace("It **", "**", 1),
            "Its secret is shown once, right here. It is stored nowhere, and can be revoked at once.",
        )
    st.button(
        "Make the token",
        type="primary",
        icon=":material/key:",
        key=f"make {key('button')}",
        disabled=bool(problem),
        on_click=_make,
        args=(form,),
    )
    refusal("token")


def _problem(form: TokenForm, rows: tuple[TokenRow, ...]) -> Markdown:
    """Return why it can't be made with this content; "" where it can."""
    if not form.is_complete:
        needed = {"a name": form.name, "what it lets": form.scopes, "its learners": form.learners != ()}
        missing = [Words(words) for words, is_there in needed.items() if not is_there]
        return f"It needs {wording.listed(missing)}."
    if any(one.name == form.name for one in rows):
        return f"A token was called {wording.short(form.name)} before; give this one another name, say with the year."
    return Words("")


@actions.as_act("No token was made.", at="token")
def _make(form: TokenForm) -> Flash:
    created = administration.make_token(form.name, form.scopes, learners=form.learners, days=form.days)
    st.session_state[_NEW] = Once(created)
    st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1
    return Flash(text=f"The token {wording.short(created.token.name)} is made. Copy its secret now.")


def _shown_once(created: NewToken) -> None:
    one = created.token
    section("Copy it now", "it can’t be shown again")
    with st.container(border=True, key=COPIED):
        st.code(created.secret, language=None, wrap_lines=True)
        paragraphs(
            f"This is **{wording.short(one.name)}** ({wording.literal(one.id)}): "
            f"{wording.literal(people.token_use(one))}, until {wording.day(one.expires_ms)}.",
            "**It can’t be shown again**: it is gone with your next click here. The program sends it as "
            "`Authorization: Bearer …`. If it is lost, revoke it and make another.",
        )


def token_table(rows: Sequence[TokenRow]) -> None:
    """Draw the newest first; a click on the last column begins to end one."""
    now_ms = reading().context.clock()
    n_ended = sum(not sentences.is_in_force(one, now_ms) for one in rows)
    with both_ends():
        section("Tokens", "each is one program")
        if n_ended:
            st.toggle(f"Also {wording.count(n_ended)} ended", key=ENDED, bind="query-params")
    is_all = n_ended > 0 and bool(st.session_state.get(ENDED))
    shown = [one for one in rows if is_all or sentences.is_in_force(one, now_ms)]
    if not shown:
        muted("No active token. Programs on this machine need none; from elsewhere each needs its own.")
        return
    record_table(
        people.TOKENS.but(
            used=lambda one: sentences.used(one, now_ms), state=lambda one: sentences.state(one, now_ms)
        ),
        shown,
        key="tokens",
        alt=f"{wording.things(len(shown), 'token')}, the newest first",
        phone=_PHONE,
        year_of_ms=now_ms,
        labels=["Revoke" if sentences.is_in_force(one, now_ms) else "" for one in shown],
        on_click=lambda row: begin_with(shown[row]) if row < len(shown) else None,
        act="end",
    )
