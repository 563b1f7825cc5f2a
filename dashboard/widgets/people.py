"""People page: the form that changes members, and the table of members.

Each change has a preview and one undo. Texts about people stay in this session and never enter the address.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import streamlit as st

from core.errors import ArmscopeError
from core.explained import people
from core.records.actor import PersonRole
from core.records.member import MAX_IDENTITY_CHARS, MAX_MEMBER_CHARS, MemberAnswer, MemberRow
from dashboard import actions, administration, wording
from dashboard.actions import Flash
from dashboard.administration import Change, Doing
from dashboard.reading import reading
from dashboard.sentences import people as sentences
from dashboard.who import sign_in_here
from dashboard.widgets.fields import choice
from dashboard.widgets.keys import UNDO
from dashboard.widgets.parts import both_ends, muted, paragraphs, section, small
from dashboard.widgets.results import refusal
from dashboard.widgets.tables import ACT_PX, record_table
from dashboard.wording import Markdown, Words

DOING: Final = "people_do"
_DOING: Final[dict[Doing, str]] = {
    "let in": "Add",
    "role": "Change role",
    "remove": "Remove",
    "sign out": "End sessions",
}
_ROLES: Final[tuple[PersonRole, ...]] = ("viewer", "reviewer", "operator")
_ROLE_WORDS: Final[dict[PersonRole, str]] = {
    "viewer": "reads everything except texts",
    "reviewer": "also reads texts, gives rewards, judges, and undoes their own acts",
    "operator": "Full access; for all learners also people, tokens and audit",
}
_NOTHING: Final = "none"
_KNOWN_WORDS: Final = {"email": "E-mail, invited", "subject": "Subject"}
_ROUND: Final = "people form"
_LAST: Final = "people last"

REMOVED: Final = "people_removed"
_PHONE: Final = {"act": ACT_PX, "name": 110, "roles": 170}


@dataclass(frozen=True)
class _Done:
    """The latest change: the member before it (None = new), and its result."""

    was: MemberRow | None
    answer: MemberAnswer


def key(field: str) -> str:
    """Return a field's key; new once the form was sent."""
    return f"people {field} {st.session_state.get(_ROUND, 0)}"


def begin_with(one: MemberRow) -> None:
    """Fill the form in for a member of the list."""
    if sentences.is_there(one, reading().context.clock()):
        st.session_state[DOING] = "role"
        st.session_state[key("member")] = one.id
        st.session_state.pop(key("place"), None)
        return
    st.session_state[DOING] = "let in"
    st.session_state[key("name")] = one.name
    st.session_state[key("issuer")] = one.issuer
    st.session_state[key("known")] = "email" if one.subject is None else "subject"
    st.session_state[key("email")] = one.email
    st.session_state[key("subject")] = one.subject or ""


def fields(rows: Sequence[MemberRow]) -> Change | Words:
    """Show the fields and return the change, or what is missing for it."""
    doing: Doing = choice("What to do", _DOING, "let in", key=DOING)
    return _let_in(rows) if doing == "let in" else _of_member(doing, rows)


def _let_in(rows: Sequence[MemberRow]) -> Change | Words:
    optional = st.session_state.get(key("known"), "email") == "email"
    example = "optional with an e-mail" if optional else "Kim Doe"
    name = _typed("Name, as colleagues write it", "name", example, most=MAX_MEMBER_CHARS)
    known = choice("Known there by", _KNOWN_WORDS, "email", key=key("known"), bound=False, labelled=True)
    if known == "email":
        typed = _typed("E-mail, which the provider has verified", "email", "kim@example.com")
    else:
        typed = _typed("Subject, its id for the person (sub)", "subject")
    issuer = _issuer(rows)
    first: PersonRole = "viewer" if any(sentences.governs(one) for one in rows) else "operator"
    role, learner = _role(first), _learner_field()
    needed = (
        (Words("a name"), bool(name) or known == "email"),
        (Words("an e-mail" if known == "email" else "a subject"), bool(typed)),
        (Words("the identity provider"), bool(issuer)),
        (Words("a role"), role is not None),
    )
    missing = [words for words, is_there in needed if not is_there]
    if missing or role is None:
        return f"It needs {wording.listed(missing)}."
    return Change(
        doing="let in",
        name=name,
        issuer=issuer,
        email=typed if known == "email" else "",
        subject=typed if known == "subject" else "",
        role=role,
        learner=learner,
    )


def _issuer(rows: Sequence[MemberRow]) -> str:
    """Return the issuer: that of the last member or of the sign-in file, folded, where there is one."""
    here = sign_in_here()
    known = (*(one.issuer for one in rows[-1:]), *(() if here is None else here.issuers))
    st.session_state.setdefault(key("issuer"), known[0] if known else "")
    with st.expander("Identity provider", expanded=not known, key=key("provider")):
        label = Words("Issuer, as the identity provider calls itself (iss)")
        return _typed(label, "issuer", "https://id.example.com")


def _typed(label: Words, field: str, example: str | None = None, *, most: int = MAX_IDENTITY_CHARS) -> str:
    text = st.text_input(label, key=key(field), max_chars=most, placeholder=example, autocomplete="off")
    return text.strip()


def _of_member(doing: Doing, rows: Sequence[MemberRow]) -> Change | Words:
    there = {one.id: one for one in rows if one.removed_ms is None}
    if not there:
        return Words("There is no member yet.")
    chosen = st.selectbox(
        "Who",
        sorted(there, key=lambda one: there[one].name.casefold()),
        index=None,
        format_func=lambda one: wording.plain(there[one].name) if one in there else "",
        key=key("member"),
        placeholder="choose a person",
    )
    if chosen is None:
        return Words("It needs a person.")
    if doing != "role":
        return Change(doing=doing, member=chosen)
    learner = _learner_field()
    held = next((grant.role for grant in there[chosen].roles if grant.learner == learner), None)
    role = _role(next((one for one in _ROLES if one == held), None), or_none=True)
    return Change(doing=doing, member=chosen, role=role, learner=learner)


def _role(held: PersonRole | None, *, or_none: bool = False) -> PersonRole | None:
    """Return a role with what it lets do, ``held`` at first; None: none of them."""
    words: dict[str, Markdown] = {role: role.capitalize() for role in _ROLES}
    if or_none:
        words[_NOTHING] = Words("None")
    chosen = choice(
        "Role", words, held or _NOTHING, key=key(f"role {held} {or_none}"), bound=False, labelled=True
    )
    role = next((one for one in _ROLES if one == chosen), None)
    st.markdown(small(_ROLE_WORDS[role] if role else "no access"))
    return role


def _learner_field() -> str | None:
    """Return the learner that a role is for; None: every one."""
    learners = reading().frame.learners
    chosen = st.selectbox(
        "In",
        ["", *learners],
        format_func=lambda one: wording.plain(one) or sentences.EVERY_LEARNER,
        key=key("place"),
    )
    return chosen or None


def what_it_does(change: Change | Words, rows: Sequence[MemberRow]) -> None:
    """Show the effect of the change, or why it can't be made, and its button."""
    _last()
    section("What it will do", "nothing is changed yet")
    if not isinstance(change, Change):
        st.button("Change", type="primary", key="change a person", disabled=True)
        muted(change)
        return
    with st.container(border=True):
        try:
            answer = administration.change_member(change, rehearses=True)
        except ArmscopeError as problem:
            st.markdown(f":red[:material/error:] {wording.literal(str(problem))}")
            return
        was = next((one for one in rows if one.id == answer.member.id), None)
        _consequence(change, was, answer)


def _consequence(change: Change, was: MemberRow | None, answer: MemberAnswer) -> None:
    now = answer.member
    lines = [sentences.sessions_end(now.name)] if change.doing == "sign out" else sentences.effects(was, now)
    if now.number == reading().context.actor.member:
        lines.append(Words(":red[:material/error:] **This is you**: it holds from your next click on."))
    paragraphs(*(lines or [Words("Nothing would change.")]))
    confirmed = True
    if answer.revoked:
        tokens = wording.things(len(answer.revoked), "token")
        st.markdown(
            f"Of the tokens they made, these end with it: {sentences.ended_tokens(answer, administration.tokens())}."
        )
        confirmed = st.checkbox(f"End {tokens} for good; no undo restores them", key=key("confirmed"))
    st.button(
        _button(change, now),
        type="primary",
        key="change a person",
        disabled=not lines or not confirmed,
        on_click=_carry_out,
        args=(change, was, answer.revoked),
    )
    refusal("people")


def _button(change: Change, now: MemberRow) -> Markdown:
    who = wording.short(now.name)
    if change.doing == "let in":
        return f"{'Invite' if now.subject is None else 'Add'} {who}"
    if change.doing == "role":
        return Markdown(f"Make {who} {change.role}" if change.role else f"Take {who}’s role away")
    return Markdown(f"Remove {who}" if change.doing == "remove" else f"End {who}’s sessions")


@actions.as_act("Nothing was changed.", at="people")
def _carry_out(change: Change, was: MemberRow | None, revoked: tuple[str, ...]) -> Flash:
    """Do what was foreseen; not where more would end with it than was confirmed."""
    now_revoked = administration.change_member(change, rehearses=True).revoked
    if set(now_revoked) - set(revoked):
        return Flash(text="Nothing was changed: a token was made meanwhile that would end too.", failed=True)
    answer = administration.change_member(change)
    st.session_state[_LAST] = None if change.doing == "sign out" else _Done(was, answer)
    st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1
    if change.doing == "sign out":
        return Flash(text=f"The sessions of {wording.short(answer.member.name)} ended.")
    return Flash(text=sentences.done(was, answer))


def _last() -> None:
    last: _Done | None = st.session_state.get(_LAST)
    if last is None:
        return
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        st.markdown(sentences.done(last.was, last.answer), width="content")
        st.space("stretch")
        st.button(
            "Undo",
            type="tertiary",
            icon=":material/undo:",
            shortcut=UNDO if actions.last_act() is None else None,
            key="undo person",
            on_click=_take_back,
            args=(last,),
        )
    _invitation(last.answer.member)


def _invitation(one: MemberRow) -> None:
    """Show the link that an invited person needs, to copy."""
    here = sign_in_here()
    if here is None or one.subject is not None or one.removed_ms is not None:
        return
    st.markdown(small("Nothing is sent. Copy this link for them:"))
    st.code(f"{here.origin}{here.path}/", language=None)


@actions.as_act("Nothing was taken back.", at="people")
def _take_back(last: _Done) -> Flash:
    st.session_state[_LAST] = None
    answer = administration.take_back(last.was, last.answer.member)
    stay = " Tokens that ended stay ended." if last.answer.revoked else ""
    return Flash(text=f"Taken back: {sentences.done(last.answer.member, answer)}{stay}")


def table(rows: Sequence[MemberRow]) -> None:
    """Draw all members by name; a click on the last column fills the form in."""
    n_removed = sum(one.removed_ms is not None for one in rows)
    with both_ends():
        section("Members", "as their identity provider knows them")
        if n_removed:
            st.toggle(f"Also {wording.count(n_removed)} removed", key=REMOVED, bind="query-params")
    is_all = n_removed > 0 and bool(st.session_state.get(REMOVED))
    shown = sorted(
        (one for one in rows if is_all or one.removed_ms is None), key=lambda one: one.name.casefold()
    )
    if not shown:
        muted("No member yet. Let the first one in below, as operator of every learner.")
        return
    now_ms = reading().context.clock()
    record_table(
        people.MEMBERS.only("name", "known", "roles", "state", "at", "by").but(
            roles=lambda one: sentences.roles(one.roles), state=lambda one: sentences.state(one, rows, now_ms)
        ),
        shown,
        key="people",
        alt=f"{wording.things(len(shown), 'person', 'people')} and what they may do",
        phone=_PHONE,
        year_of_ms=now_ms,
        labels=["Change" if sentences.is_there(one, now_ms) else "Add" for one in shown],
        on_click=lambda row: begin_with(shown[row]) if row < len(shown) else None,
        act="change",
    )
