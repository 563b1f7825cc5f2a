"""Pages for people who sign in: who they are and what they may do is asked in every rerun and before every act."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, get_args

import pytest
import streamlit as st
from streamlit.navigation.page import Page as StreamlitPage
from streamlit.testing.v1 import AppTest

from core.flows import queries
from core.flows.audit import denials
from core.flows.context import Context
from core.flows.corrections import note
from core.flows.episode import record_step
from core.flows.identity import SESSION_MS
from core.flows.learn import record_all, reward
from core.flows.members import invite_member, members, remove_member, set_role
from core.flows.queues import add_queue
from core.records.actor import Action, Actor, PersonRole
from core.records.member import MemberRow
from core.records.times import HOUR_MS
from dashboard.pages import PAGES
from dashboard.reading import Reading, opened, still
from dashboard.widgets import people
from tests.conftest import ROOT
from tests.dashboard.conftest import APP, at, check, texts, unfold
from tests.dashboard.signed_in import ISSUER, ORIGIN, auth_file, claims, let_in
from tests.dashboard.worlds import keys, runs, world

ARM: Final = keys(1)[0]
SECRET_REASON: Final = "the reason that viewers are not told"
SECRET_NOTE: Final = "the note that viewers are not shown"

EPISODE: Final = "sums/1"

PAGE_ROLES: Final[dict[str, set[PersonRole]]] = {
    "rewards": {"reviewer", "operator"},
    "review": {"reviewer", "operator"},
    "reset": {"operator"},
    "people": {"operator"},
    "tokens": {"operator"},
    "audit": {"operator"},
    "alerts": {"operator"},
}
"""Who opens which page; every other is open to all."""
MENU: Final = {"Overview", "Arms", "Savings", "Runs", "Judging", "Manage", "Help"}
REQUIRED: Final = ("overview", "posteriors", "confidence", "savings", "rewards", "reset")


@pytest.fixture
def context(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    """A learner, on whose pages people sign in."""
    monkeypatch.setenv("ARMSCOPE_AUTH", str(auth_file(tmp_path)))
    return world(database, keys(6), 20)


def coming(user: dict[str, object] | None, **query: str) -> AppTest:
    """Whoever a provider says this is, on the first page."""
    page = AppTest.from_file(str(APP), default_timeout=60)
    page.user = user or {}
    for name, value in query.items():
        page.query_params[name] = value
    page.run()
    check(page)
    return page


def title(page: AppTest) -> str:
    return str(page.title[0].value)


def told(page: AppTest) -> str:
    """Everything that is written on the page."""
    return " ".join(
        [*texts(page), *(str(one.value) for kind in (page.text, page.code, page.toast) for one in kind)]
    ).replace("\\", "")


@pytest.mark.parametrize("role", get_args(PersonRole))
def test_the_menu_has_seven_heads_and_required_pages_a_line_each(
    context: Context, monkeypatch: pytest.MonkeyPatch, role: PersonRole
) -> None:
    menus: list[dict[str, list[StreamlitPage]]] = []
    draw = st.navigation

    def noted(shown: dict[str, list[StreamlitPage]], position: Literal["top", "hidden"]) -> StreamlitPage:
        menus.append(shown)
        return draw(shown, position=position)

    monkeypatch.setattr(st, "navigation", noted)
    let_in(context, "jo", role)
    coming(claims("u-jo"))
    lines = [
        (head or one.title, one.title)
        for head, of in menus[-1].items()
        for one in of
        if one.visibility == "visible"
    ]
    assert {head for head, _ in lines} <= MENU
    own = replace(context, actor=Actor(name="jo", role=role))
    for page in PAGES:
        if page.name in REQUIRED:
            assert [title for _, title in lines].count(page.title) == own.may(page.needs)
            assert (ROOT / f"dashboard/app_pages/{page.name}.py").is_file()


# Who may come


def test_nobody_is_let_in_unseen(context: Context) -> None:
    page = coming(None)
    assert title(page) == "Sign in to armscope."
    assert [button.label for button in page.button] == ["Sign in"]
    assert not page.dataframe
    for name in ("posteriors", "settings"):
        assert title(at(page, name)) == "Sign in to armscope."


@pytest.mark.parametrize(
    "said",
    [
        {"is_logged_in": False},
        {"is_logged_in": "yes"},
        {"iat": None},
        {"iat": True},
        {"iat": "1790000000"},
        {"iss": ""},
        {"sub": None},
    ],
)
def test_what_does_not_say_who_by_whom_and_when_is_nobody(context: Context, said: dict[str, object]) -> None:
    let_in(context, "jo", "operator")
    assert title(coming({**claims("u-jo"), **said})) == "Sign in to armscope."


def test_a_stranger_is_told_whom_to_ask_and_what_to_hand_on(context: Context) -> None:
    page = coming(claims("x'; <script>", email="jo@example.com"))
    assert title(page) == "No operator has added you yet."
    (line,) = [str(one.value) for one in page.code]
    assert f"--issuer {ISSUER}" in line
    assert "x'\"'\"'; <script>" in line, "as a shell takes it"
    assert "does not say in its ID token that it verified yours" in told(page)
    assert {button.label for button in page.button} == {"Sign in again", "Sign out"}


def test_an_invitation_is_taken_by_who_comes_with_its_verified_address(context: Context) -> None:
    invite_member(context, ISSUER, "jo@example.com", role="reviewer", name="jo")
    unverified = claims("u-jo", email="jo@example.com")
    assert title(coming(unverified)) == "No operator has added you yet."
    page = coming({**unverified, "email_verified": True})
    assert "saving" in title(page)
    (jo,) = members(context)
    assert (jo.subject, jo.invited_until_ms) == ("u-jo", None)
    stranger = coming(claims("u-2", email="jo@example.com", email_verified=True))
    assert "There is no invitation for" in told(stranger)


@pytest.mark.parametrize(("hours", "is_over"), [(None, SESSION_MS / HOUR_MS), ("0.5", 0.5)])
def test_a_session_ends_by_its_age(
    context: Context, monkeypatch: pytest.MonkeyPatch, hours: str | None, is_over: float
) -> None:
    if hours is not None:
        monkeypatch.setenv("ARMSCOPE_SESSION_HOURS", hours)
    let_in(context, "jo", "viewer")
    assert "saving" in title(coming(claims("u-jo", ago_s=is_over * 3600 - 60)))
    page = coming(claims("u-jo", ago_s=is_over * 3600 + 1))
    assert title(page) == "Your session is over."
    assert f"It ends after {is_over:g} hour" in told(page)


def test_who_is_removed_is_out_at_the_next_rerun(context: Context) -> None:
    let_in(context, "jo", "viewer")
    page = coming(claims("u-jo"))
    remove_member(context, "jo")
    page.run()
    assert title(page) == "No operator has added you yet."
    assert not page.dataframe


def test_a_role_taken_away_shows_at_the_next_rerun(context: Context) -> None:
    let_in(context, "jo", "operator")
    let_in(context, "kim", "operator")
    page = at(coming(claims("u-jo")), "reset")
    assert "Reset" in title(page)
    set_role(context, "jo", "viewer")
    page.run()
    assert title(page) == "Reset is not open to you."
    set_role(context, "jo", None)
    page.run()
    assert title(page) == "You have no role here."


def test_signing_out_ends_the_session_and_every_copy_of_its_cookie(context: Context) -> None:
    let_in(context, "jo", "viewer")
    cookie = claims("u-jo", ago_s=5)
    page, copied = coming(cookie), coming(cookie)
    unfold(page, "role popover").button("sign out").click().run()
    assert title(page) == "Sign in to armscope."
    copied.run()
    assert title(copied) == "Your session is over."
    assert title(coming(cookie)) == "Your session is over."
    assert "saving" in title(coming(claims("u-jo", ago_s=-1))), "who signs in anew is in"


def test_the_badge_names_the_person_and_the_role(context: Context) -> None:
    let_in(context, "jo", "reviewer")
    page = unfold(coming(claims("u-jo")), "role popover")
    assert "jo, reviewer" in [one.value for one in page.text]
    assert page.button("sign out").label == "Sign out"


def test_on_this_machine_nobody_signs_out(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARMSCOPE_AUTH")
    page = unfold(coming(None), "role popover")
    assert not [button for button in page.button if button.key == "sign out"]


def test_without_a_session_the_store_is_nobodys(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = opened()
    assert not [action for action in get_args(Action) if nobody.may(action)]
    monkeypatch.delenv("ARMSCOPE_AUTH")
    assert opened().may("members"), "the machine's user"


# Whose learners


def test_everybody_sees_their_own_learners_and_begins_at_one(context: Context) -> None:
    for name in ("sales", "support"):
        record_all(context.of(name), runs(keys(3), 8))
    let_in(context, "jo", "viewer", "support")
    let_in(context, "kim", "operator")
    page = unfold(coming(claims("u-jo"), learner="sales"), "learner popover")
    assert page.selectbox("learner").options == ["support"]
    assert not [one for one in page.text_input if one.key == "new learner"]
    page = unfold(coming(claims("u-kim"), learner="sales"), "learner popover")
    assert page.selectbox("learner").options == ["default", "sales", "support"]
    assert page.selectbox("learner").value == "sales"
    set_role(context, "jo", "operator", learner="support")
    page = unfold(coming(claims("u-jo")), "learner popover")
    assert not [one for one in page.text_input if one.key == "new learner"], "it would be one of others"


def test_what_an_operator_was_shown_is_kept_from_a_viewer(context: Context) -> None:
    reward(context, ARM, 1.0, reason=SECRET_REASON)
    note(context, ARM, SECRET_NOTE)
    let_in(context, "olga", "operator")
    let_in(context, "vic", "viewer")
    for subject, sees in (("u-olga", True), ("u-vic", False), ("u-olga", True)):
        page = at(coming(claims(subject), arm=ARM), "arm")
        for key in ("ledger", "notes"):
            page.session_state[key] = True
        page.run()
        shown = told(page) + " ".join(str(one.value.to_string()) for one in page.dataframe)
        assert (SECRET_NOTE in shown) == sees
        assert SECRET_REASON not in shown or sees


# Who may do what: the table of permissions, cell by cell


@dataclass(frozen=True)
class Offer:
    """Where an action is offered, and by what."""

    page: str
    is_there: Callable[[AppTest], bool]


def _button(*starts: str) -> Callable[[AppTest], bool]:
    def is_there(page: AppTest) -> bool:
        return any(str(one.key).startswith(starts) for one in page.button)

    return is_there


OFFERS: Final[dict[Action, Offer]] = {
    "read": Offer("posteriors", lambda page: len(page.dataframe) > 0),
    "read_words": Offer("arm", lambda page: SECRET_NOTE in told(page)),
    "reward": Offer("rewards", _button("send ")),
    "evaluate": Offer("review", _button("submit ", "put off ")),
    "judge": Offer("review", _button("submit ", "put off ")),
    "undo_own": Offer("overview", _button("take back")),
    "undo": Offer("overview", _button("take back note-1")),
    "reset": Offer("reset", _button("do reset")),
    "settings": Offer("settings", _button("send settings")),
    "credit": Offer("episode", _button("credit episode")),
    "ingest": Offer("data", lambda page: bool(page.get("file_uploader"))),
    "export_training": Offer("data", _button("make training")),
}
"""Rows of the table that pages have; selecting, erasing and connecting are for programs and the command line."""

ALLOWED: Final[dict[PersonRole, set[Action]]] = {
    "viewer": {"read"},
    "reviewer": {"read", "read_words", "reward", "evaluate", "judge", "undo_own"},
    "operator": set(OFFERS),
}
"""Written a second time by hand, so that a change of `core.records.actor` is meant."""


@pytest.mark.parametrize("role", get_args(PersonRole))
def test_each_role_is_offered_what_the_table_says(context: Context, role: PersonRole) -> None:
    note(context, ARM, SECRET_NOTE)
    add_queue(context, "week")
    run = queries.listed_runs(context).rows[0].uid
    record_step(context, EPISODE, environment="sums", reward=0.5, finished=True, run=run)
    let_in(context, "jo", role)
    page = coming(claims("u-jo"), arm=ARM, reward_arm=ARM, reward_outcome="Accepted", episode=EPISODE)
    if "reward" in ALLOWED[role]:
        at(page, "rewards")
        next(one for one in page.button if str(one.key).startswith("send ")).click().run()
        (given,) = queries.rewards(context)
        assert given.actor == "jo"
    for action, offer in OFFERS.items():
        at(page, offer.page)
        assert offer.is_there(page) == (action in ALLOWED[role]), (role, action)


@pytest.mark.parametrize("role", get_args(PersonRole))
def test_a_page_that_is_not_open_says_so_at_its_address_and_it_is_counted(
    context: Context, role: PersonRole
) -> None:
    let_in(context, "jo", role)
    page = coming(claims("u-jo"))
    closed = {one.name for one in PAGES if title(at(page, one.name)) == f"{one.title} is not open to you."}
    assert closed == {name for name, roles in PAGE_ROLES.items() if role not in roles}
    counted = {one.action for one in denials(context).denials if one.actor == "jo"}
    assert counted <= {one.needs for one in PAGES}
    assert bool(counted) == bool(closed)


def test_who_governs_one_learner_governs_neither_people_nor_tokens(context: Context) -> None:
    let_in(context, "jo", "operator", "default")
    page = coming(claims("u-jo"))
    assert "Reset" in title(at(page, "reset"))
    for name in ("people", "tokens", "audit"):
        assert title(at(page, name)) == f"{name.capitalize()} is not open to you."
        assert "in every learner" in told(page)


# Acts on a page that was drawn before a role was taken away


def _rewards(page: AppTest) -> None:
    at(page, "rewards")
    one = next(one for one in page.button if str(one.key).startswith("send "))
    one.click()


def _takes_back(page: AppTest) -> None:
    at(page, "overview").button("take back note-1").click()


def _verifies(page: AppTest) -> None:
    at(page, "data").button("make training").click()


def _judges(page: AppTest) -> None:
    at(page, "review")
    next(one for one in page.button if str(one.key).startswith("put off ")).click()


@pytest.mark.parametrize("draw", [_rewards, _takes_back, _verifies, _judges])
@pytest.mark.parametrize("left", ["viewer", None])
def test_an_act_is_refused_whose_role_was_taken_away_after_the_page_was_drawn(
    context: Context, draw: Callable[[AppTest], None], left: PersonRole | None
) -> None:
    note(context, ARM, SECRET_NOTE)
    add_queue(context, "week")
    let_in(context, "jo", "operator")
    let_in(context, "kim", "operator")
    page = coming(claims("u-jo"), reward_arm=ARM, reward_outcome="Accepted")
    draw(page)
    set_role(context, "jo", left)
    before = queries.revision(context).revision
    page.run()
    assert not page.exception
    assert queries.revision(context).revision == before
    assert not queries.rewards(context)


def test_an_act_is_refused_of_who_signed_out_elsewhere(context: Context) -> None:
    let_in(context, "jo", "operator")
    cookie = claims("u-jo", ago_s=5)
    page, other = coming(cookie, reward_arm=ARM, reward_outcome="Accepted"), coming(cookie)
    _rewards(page)
    unfold(other, "role popover").button("sign out").click().run()
    page.run()
    assert not queries.rewards(context)
    assert title(page) == "Your session is over."


def test_what_is_made_when_somebody_clicks_is_made_by_what_they_may_do_then(context: Context) -> None:
    """A file behind a button, or a part of the page that runs by itself, was drawn by who they were before."""
    let_in(context, "jo", "operator")
    let_in(context, "kim", "operator")
    drawn: Reading = coming(claims("u-jo")).session_state["armscope reading"]
    assert still(drawn) is drawn
    set_role(context, "jo", "viewer")
    now = still(drawn)
    assert (now.may("reset"), now.may("read")) == (False, True)
    assert now.frame.visibility != drawn.frame.visibility, "nothing kept for an operator is for a viewer"
    remove_member(context, "jo")
    assert not [action for action in get_args(Action) if still(drawn).may(action)]


def test_whoever_judges_is_the_rater(context: Context) -> None:
    add_queue(context, "week")
    jo: MemberRow = let_in(context, "jo", "reviewer")
    page = at(coming(claims("u-jo")), "review")
    next(one for one in page.button_group if str(one.key).startswith("review level ")).set_value(1).run()
    next(one for one in page.button if str(one.key).startswith("submit ")).click().run()
    (given,) = queries.evaluations(context)
    assert (given.rater, given.actor) == (jo.name, jo.name)


def test_the_issuer_of_the_sign_in_file_is_filled_in_and_an_invitation_has_a_link(context: Context) -> None:
    let_in(context, "ann", "operator")
    page = at(coming(claims("u-ann")), "people")
    assert "Sign-in is off" not in told(page)
    assert page.text_input(people.key("issuer")).value == ISSUER
    page.text_input(people.key("email")).set_value("kim@example.com").run()
    page.button("change a person").click().run()
    check(page)
    assert f"{ORIGIN}/" in [one.value for one in page.code]
