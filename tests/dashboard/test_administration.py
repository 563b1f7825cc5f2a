"""People, tokens and the audit: who sees them, what is foreseen and done there, and what becomes of a new secret."""

from __future__ import annotations

import ast
import json
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from streamlit.testing.v1 import AppTest

from core.doors.cli import main
from core.errors import Unidentified
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.identity import actor_of_member, actor_of_token, note_denied
from core.flows.learn import reward
from core.flows.members import add_member, invite_member, members, remove_member, set_role
from core.flows.tokens import create_token, revoke_token, tokens
from core.records.actor import Actor, Grant
from core.records.audit import AuditEntry
from core.records.member import MemberRow
from core.records.times import DAY_MS
from core.store.facts import FACTS
from dashboard.sentences import audit as sentences
from dashboard.widgets import people
from dashboard.widgets import tokens as widgets
from tests.conftest import ROOT
from tests.dashboard.conftest import Open, at, check, texts
from tests.dashboard.worlds import HOSTILE, context_at, keys, world

ISSUER: Final = "https://id.example.com"
PAGES: Final = ("people", "tokens", "audit")


def acting(context: Context, name: str, role: str) -> Context:
    """A member of all learners who signed in."""
    add_member(context, ISSUER, f"u-{name}", name, role=role)  # type: ignore[arg-type]
    now_ms = context.clock()
    actor = actor_of_member(context.store, ISSUER, f"u-{name}", issued_ms=now_ms, now_ms=now_ms)
    return replace(context, actor=actor)


def press(page: AppTest, key: str) -> AppTest:
    """Press what is there and may be pressed."""
    button = page.button(key)
    assert not button.disabled
    button.click().run()
    check(page)
    return page


def table(page: AppTest) -> dict[str, list[object]]:
    """The page's first table."""
    return {str(head): list(cells) for head, cells in page.dataframe[0].value.items()}


def by_name(context: Context, name: str) -> MemberRow:
    return next(one for one in members(context) if one.name == name)


def said(page: AppTest) -> str:
    """All that is said, as it reads."""
    return " ".join(texts(page)).replace("\\", "").replace("\u2060", "")


# Who sees them


@pytest.mark.parametrize(
    "actor",
    [
        Actor(name="vi", role="viewer"),
        Actor(name="re", role="reviewer"),
        Actor(name="op", role=None, grants=(Grant(role="operator", learner="default"),)),
    ],
    ids=lambda one: one.name,
)
def test_who_does_not_govern_is_told_so_at_their_addresses_and_nothing_else(
    open_page: Open, database: Path, monkeypatch: pytest.MonkeyPatch, actor: Actor
) -> None:
    context = world(database, keys(3), 5)
    add_member(context, ISSUER, "u-1", "hidden-name", email="hidden@example.com")
    create_token(context, "hidden-token", ("read",))
    monkeypatch.setattr("core.settings.local_operator", lambda: actor)
    page = open_page()
    for name in PAGES:
        at(page, name)
        assert page.title[0].value == f"{name.capitalize()} is not open to you."
        assert "members needs one of the roles operator in every learner" in said(page)
        assert not page.dataframe
        assert "hidden" not in str(page.main)


# People


def test_people_are_listed_with_what_they_may_do_and_the_removed_on_demand(
    open_page: Open, context: Context
) -> None:
    acting(context, "ann", "operator")
    add_member(context, ISSUER, "u-bo", "bo", role="reviewer", learner="support")
    set_role(context, "bo", "viewer")
    invite_member(context, ISSUER, "jo@example.com", name="jo", role="reviewer")
    past = replace(context, clock=lambda: context.clock() - 8 * DAY_MS)
    invite_member(past, ISSUER, "late@example.com", name="late")
    remove_member(context, add_member(context, ISSUER, "u-gone", "gone").member.id)
    page = open_page("people")
    assert page.title[0].value.endswith(" may sign in, one as operator of all learners; one more is invited.")
    shown = table(page)
    assert shown["name"] == ["ann", "bo", "jo", "late"]
    assert shown["e-mail or subject"] == ["u-ann", "u-bo", "jo@example.com", "late@example.com"]
    assert shown["roles"][:3] == [
        "operator everywhere",
        "viewer everywhere, reviewer in support",
        "reviewer everywhere",
    ]
    assert shown["state"][0] == "may sign in, the last operator"
    assert [str(one).split(" until")[0] for one in shown["state"][1:]] == [
        "may sign in",
        "invited",
        "invitation is over",
    ]
    page.toggle("people_removed").set_value(True).run()
    assert table(page)["name"] == ["ann", "bo", "gone", "jo", "late"]
    assert table(page)["act"] == ["Change", "Change", "Add", "Change", "Add"]


def test_nobody_is_there_and_the_first_is_let_in_as_operator_and_taken_back(
    open_page: Open, context: Context
) -> None:
    page = open_page("people")
    assert page.title[0].value.startswith("No member yet")
    page.text_input(people.key("issuer")).set_value(ISSUER).run()
    page.text_input(people.key("email")).set_value("Kim@Example.com").run()
    check(page)
    assert members(context) == (), "foreseen, and nothing is written"
    assert "The first person to sign in" in said(page)
    press(page, "change a person")
    (kim,) = members(context)
    assert (kim.name, kim.email, kim.roles) == (
        "kim@example.com",
        "kim@example.com",
        (Grant(role="operator"),),
    )
    assert page.text_input("people email 1").value == "", "the form is a new one"
    press(page, "undo person")
    assert by_name(context, kim.name).removed_ms is not None
    assert "undo person" not in {one.key for one in page.button}


def test_the_form_names_what_is_missing_and_that_sign_in_is_off(open_page: Open) -> None:
    page = open_page("people")
    assert "Sign-in is off" in said(page)
    assert page.button("change a person").disabled
    assert all(one in said(page) for one in ("an e-mail", "the identity provider"))


def test_a_person_is_let_in_by_subject_under_a_name(open_page: Open, context: Context) -> None:
    page = open_page("people")
    page.text_input(people.key("issuer")).set_value(ISSUER).run()
    page.button_group(people.key("known")).set_value("subject").run()
    page.text_input(people.key("subject")).set_value("u-7").run()
    assert page.button("change a person").disabled
    assert "It needs a name." in said(page)
    page.text_input(people.key("name")).set_value("Kim").run()
    press(page, "change a person")
    assert (members(context)[0].name, members(context)[0].subject) == ("Kim", "u-7")


def test_removing_says_which_tokens_end_asks_for_it_and_undo_brings_all_back_but_them(
    open_page: Open, context: Context
) -> None:
    bo = acting(context, "bo", "operator")
    acting(context, "ann", "operator")
    set_role(context, "bo", "reviewer", learner="support")
    made = create_token(bo, "nightly", ("read",))
    before = members(context)
    page = open_page("people", people_do="Remove")
    page.selectbox(people.key("member")).set_value(by_name(context, "bo").id).run()
    assert "Of the tokens they made, these end with it: nightly (token-1)." in said(page)
    assert page.button("change a person").disabled
    page.checkbox(people.key("confirmed")).check().run()
    press(page, "change a person")
    assert by_name(context, "bo").removed_ms is not None
    assert "1 token of theirs ended." in said(page)
    press(page, "undo person")
    assert members(context) == before
    assert tokens(context)[0].revoked_ms is not None
    with pytest.raises(Unidentified):
        actor_of_token(context.store, made.secret, now_ms=context.clock())


def test_a_token_made_meanwhile_does_not_end_unconfirmed(open_page: Open, context: Context) -> None:
    bo = acting(context, "bo", "operator")
    acting(context, "ann", "operator")
    page = open_page("people", people_do="Remove")
    page.selectbox(people.key("member")).set_value(by_name(context, "bo").id).run()
    create_token(bo, "since then", ("read",))
    page.button("change a person").click().run()
    assert "a token was made meanwhile" in said(page)
    assert by_name(context, "bo").removed_ms is None


def test_a_role_is_changed_in_a_learner_and_what_changed_since_is_not_overwritten(
    open_page: Open, database: Path
) -> None:
    context = world(database, keys(3), 5)
    acting(context, "ann", "operator")
    add_member(context, ISSUER, "u-bo", "bo")
    page = open_page("people", people_do="Change role")
    page.selectbox(people.key("member")).set_value(by_name(context, "bo").id).run()
    assert "Nothing would change." in said(page)
    assert page.button("change a person").disabled
    page.selectbox(people.key("place")).set_value("default").run()
    page.button_group(people.key("role None True")).set_value("reviewer").run()
    assert "Roles: viewer everywhere → viewer everywhere, reviewer in default." in said(page).replace(
        "**", ""
    )
    press(page, "change a person")
    assert by_name(context, "bo").roles[1] == Grant(role="reviewer", learner="default")
    set_role(context, "bo", "operator", learner="default")
    page.button("undo person").click().run()
    assert "Another user changed" in said(page)
    assert by_name(context, "bo").roles[1] == Grant(role="operator", learner="default")


def test_the_last_operator_stays_and_the_page_says_so_before_anything_is_sent(
    open_page: Open, context: Context
) -> None:
    ann = acting(context, "ann", "operator").actor.member
    page = open_page("people", people_do="Remove")
    page.selectbox(people.key("member")).set_value(f"member-{ann}").run()
    assert "ann is the last operator of all learners, and one must stay." in said(page)
    assert "change a person" not in {one.key for one in page.button}


def test_sessions_are_ended(open_page: Open, context: Context) -> None:
    bo = acting(context, "bo", "viewer")
    page = open_page("people", people_do="End sessions")
    page.selectbox(people.key("member")).set_value(f"member-{bo.actor.member}").run()
    press(page, "change a person")
    with pytest.raises(Unidentified):
        actor_of_member(context.store, ISSUER, "u-bo", issued_ms=bo.clock() - 60_000, now_ms=bo.clock())
    assert by_name(context, "bo").removed_ms is None


# Tokens


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A moment that is over at once; called, it waits until it is."""
    monkeypatch.setattr(widgets, "LINGERS_S", 0.0)

    def over() -> None:
        for one in threading.enumerate():
            if isinstance(one, threading.Timer):
                one.join()

    return over


def fill_in(page: AppTest, name: str) -> AppTest:
    page.text_input(widgets.key("name")).set_value(name).run()
    page.checkbox(widgets.key("ingest")).check().run()
    return page


def making_button(page: AppTest) -> str:
    (key,) = (str(one.key) for one in page.button if str(one.key).startswith("make token"))
    return key


def test_a_new_secret_is_shown_once_and_is_then_nowhere(
    open_page: Open, context: Context, quick: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    page = fill_in(open_page("tokens"), "nightly")
    assert "token:nightly" in said(page)
    press(page, making_button(page))
    secret = str(page.code[0].value)
    assert actor_of_token(context.store, secret, now_ms=context.clock()).name == "token:nightly"
    assert tokens(context)[0].expires_ms // DAY_MS == (context.clock() + 90 * DAY_MS) // DAY_MS
    assert "It can’t be shown again" in said(page)
    assert page.text_input("token name 1").value == "", "the form is a new one"
    quick()
    for _ in range(2):
        check(page.run())
        assert not page.code
        assert secret not in str(page)
        held = list(page.session_state.values())
        assert not [one for one in held if isinstance(one, widgets.Once) or secret in str(one)]
    assert secret not in str(page.query_params) + caplog.text
    assert secret not in str(at(page, "audit"))


def test_the_second_half_of_a_double_click_keeps_the_secret_in_sight(open_page: Open, database: Path) -> None:
    context = context_at(database)
    page = fill_in(open_page("tokens"), "nightly")
    press(page, making_button(page))
    secret = page.code[0].value
    page.run()
    assert page.code[0].value == secret
    assert len(tokens(context)) == 1


def test_what_is_missing_of_a_token_is_said_and_nothing_is_made(open_page: Open, database: Path) -> None:
    context = world(database, keys(3), 5)
    create_token(context, "old", ("read",))
    revoke_token(context, "old")
    page = open_page("tokens")
    assert page.button(making_button(page)).disabled
    assert "It needs a name and what it lets." in said(page)
    fill_in(page, "old")
    assert "was called old before" in said(page)
    assert page.button(making_button(page)).disabled
    page.text_input(widgets.key("name")).set_value("new").run()
    page.button_group(widgets.key("place")).set_value("some").run()
    assert "It needs its learners." in said(page)
    page.multiselect(widgets.key("learners")).set_value(["default"]).run()
    page.number_input(widgets.key("days")).set_value(365).run()
    press(page, making_button(page))
    made = tokens(context)[0]
    assert (made.name, made.scopes, made.learners) == ("new", ("ingest",), ("default",))
    assert made.expires_ms - made.at_ms == 365 * DAY_MS


def test_a_token_is_revoked_once_somebody_is_sure_and_is_listed_on_demand(
    open_page: Open, context: Context
) -> None:
    secret = create_token(context, "nightly", ("read",)).secret
    create_token(context, "weekly", ("operate",), learners=["support"])
    actor_of_token(context.store, secret, now_ms=context.clock())
    page = open_page("tokens")
    shown = table(page)
    assert shown["token"] == ["token-2", "token-1"]
    assert shown["learners"] == ["support", "every learner"]
    assert shown["last used, UTC"][0] == "never"
    assert str(shown["last used, UTC"][1]).endswith(" h")
    page.session_state[widgets.DOING] = widgets.REVOKE
    page.run()
    page.selectbox("token to end").set_value("token-1").run()
    assert page.button("revoke token").disabled
    page.checkbox("token sure token-1").check().run()
    press(page, "revoke token")
    with pytest.raises(Unidentified):
        actor_of_token(context.store, secret, now_ms=context.clock())
    assert table(page)["name"] == ["weekly"]
    page.toggle("tokens_ended").set_value(True).run()
    assert table(page)["act"] == ["Revoke", ""]


# The audit


def test_the_audit_tells_acts_and_refusals_by_what_the_address_asks_for(
    open_page: Open, database: Path
) -> None:
    context = world(database, keys(3), 5)
    reward(context, keys(3)[0], 0.5, reason="half")
    undo(context, "reward-1")
    add_member(context, ISSUER, "u-bo", "bo", role="reviewer")
    create_token(context, "ci", ("read", "ingest"))
    note_denied(context.store, Actor(name="vi", role="viewer"), "undo_own", context.clock())
    page = open_page("audit")
    assert table(page)["what"] == ["took back a reward", "rewarded fs:t0 0.5 by hand"]
    assert table(page)["state"] == ["active", "undone"]
    page = open_page("audit", audit_of="Installation")
    assert table(page)["what"] == ["made the token ci for read, ingest", "added bo as reviewer everywhere"]
    page = open_page("audit", audit_of="Refused")
    assert page.title[0].value.endswith(" was refused undo own, just now.")
    assert (table(page)["who"], table(page)["times"]) == (["vi"], [1])
    page = open_page("audit", audit_of="Refused", audit_by="somebody else", audit_until="2000-01-01")
    assert page.title[0].value == "No refusal passes the filters."


def test_whatever_a_flow_notes_can_be_chosen_and_is_told_in_words_of_its_own() -> None:
    noted = {
        str(call.args[0].value)
        for path in (ROOT / "core" / "flows").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "audit"
        and call.args
        and isinstance(call.args[0], ast.Constant)
    }
    assert len(noted) > 10
    assert noted <= {*sentences.ACTIONS, *sentences.OF_INSTALLATION}
    assert set(FACTS) <= set(sentences.ACTIONS)
    for action in noted:
        entry = AuditEntry(at_ms=0, actor="jo", action=action, act=None, detail={}, revision=1)
        assert not sentences.act(entry, "$").startswith(f"added a {action}"), action


def test_nothing_was_done_yet(open_page: Open) -> None:
    assert open_page("audit").title[0].value == "Nothing was done at default yet."
    assert open_page("audit", audit_of="Refused").title[0].value == "No request was refused yet."


@pytest.mark.parametrize("of", ["At this learner", "Refused"])
def test_older_rows_are_a_page_on_and_none_is_left_out(open_page: Open, database: Path, of: str) -> None:
    context = world(database, keys(3), 5)
    for number in range(60):
        if of == "Refused":
            note_denied(
                context.store, Actor(name=f"<b>{number}", role="viewer"), "reset", 60_000 * (7 + number // 2)
            )
        else:
            reward(context, keys(3)[0], number / 100)
    page = open_page("audit", audit_of=of)
    column = "who" if of == "Refused" else "noted"
    first = table(page)[column]
    assert len(first) == 50
    page.button("older audit_from").click().run()
    check(page)
    assert len({*first, *table(page)[column]}) == 60
    page.button("newest audit_from").click().run()
    assert table(page)[column] == first


@pytest.mark.parametrize(
    ("of", "options"),
    [("acts", ["--action", "undo"]), ("installation", ["--installation"]), ("refused", ["--denials"])],
)
def test_the_files_are_those_that_the_command_line_writes(
    open_page: Open, database: Path, request: pytest.FixtureRequest, of: str, options: list[str]
) -> None:
    context = world(database, HOSTILE, 5)
    for number in range(3):
        reward(context, HOSTILE[number], 0.5, reason=f'=cmd "{number}", \n {HOSTILE[number]}')
    undo(context, "reward-2")
    add_member(context, ISSUER, "u-bo", "bo")
    note_denied(context.store, None, "read", context.clock())
    monkeypatch, capsys = (request.getfixturevalue(name) for name in ("monkeypatch", "capsys"))
    made: dict[str, Callable[[], bytes]] = {}
    monkeypatch.setattr(
        "streamlit.download_button", lambda label, content, **_: made.setdefault(label, content)
    )
    words = {"acts": "At this learner", "installation": "Installation", "refused": "Refused"}
    open_page("audit", audit_of=words[of], **({"audit_act": "undo"} if len(options) > 1 else {}))
    for label, form_of in (("CSV", ["--format", "csv"]), ("JSON", ["--json"])):
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["--database", str(database), "audit", "--all", *options, *form_of])
        told = capsys.readouterr().out.encode()
        assert ended.value.code == 0
        assert made[label]() == told
        assert b"\n" in told
    assert json.loads(made["JSON"]())["next"] is None


# Hostile names
