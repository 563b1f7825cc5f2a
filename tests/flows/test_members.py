"""Members and tokens: known by issuer and subject or by secret, let in by operators, out at once when revoked."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as replace_session

from core.errors import Conflict, Denied, InvalidSetting, NotApplicable, NotFound, Unidentified
from core.flows import queries
from core.flows.audit import audit
from core.flows.context import Context
from core.flows.corrections import redo
from core.flows.identity import (
    SESSION_MS,
    actor_of_member,
    actor_of_session,
    actor_of_token,
    has_operator,
    is_member,
    sign_out,
    take_invitation,
)
from core.flows.members import (
    add_member,
    invite_member,
    members,
    remove_member,
    restore_member,
    set_role,
    sign_out_member,
)
from core.flows.tokens import create_token, revoke_token, tokens
from core.records.actor import PERSON_ROLES, Action, Actor, Grant, Role, may, may_give
from core.records.member import INVITED_MS, MemberAnswer, Session, session_of
from core.records.times import DAY_MS, HOUR_MS
from tests.engine import kept_in
from tests.worlds import START_MS

ID = "https://id.example.com"
ACTIONS: tuple[Action, ...] = get_args(Action)

_PLACES = st.sampled_from([None, "support", "sales"])
_GRANTS = st.builds(
    Grant, role=st.sampled_from([*PERSON_ROLES, "read", "ingest", "review", "operate"]), learner=_PLACES
)


def signed_in(context: Context, subject: str, issuer: str = ID) -> Actor:
    now_ms = context.clock()
    return actor_of_member(context.store, issuer, subject, issued_ms=now_ms, now_ms=now_ms)


def ann(context: Context) -> Context:
    """An operator of all learners who signed in."""
    add_member(context, ID, "u-ann", "ann", role="operator")
    return replace(context, actor=signed_in(context, "u-ann"))


def test_a_member_is_who_issuer_and_subject_say_and_what_the_roles_say(context: Context) -> None:
    add_member(context, ID, "u-1", "jo", role="reviewer", learner="support", email="Jo@Example.com")
    set_role(context, "jo", "viewer")
    actor = signed_in(context, "u-1")
    assert (actor.name, actor.role, actor.token, actor.member) == ("jo", None, 0, 1)
    assert actor.roles("support") == {"reviewer", "viewer"}
    assert actor.roles("sales") == actor.roles(None) == {"viewer"}
    set_role(context, "member-1", None, learner="support")
    assert signed_in(context, "u-1").roles("support") == {"viewer"}
    for issuer, subject in ((ID, "jo@example.com"), (ID, "U-1"), (f"{ID}/", "u-1"), (ID, "")):
        with pytest.raises(Unidentified):
            signed_in(context, subject, issuer)
    assert members(context)[0].email == "jo@example.com"


def test_a_member_returns_with_the_earlier_address_unless_another_is_given(context: Context) -> None:
    add_member(context, ID, "u-1", "jo", email="jo@example.com")
    for email, expected in (("", "jo@example.com"), ("jo@new.example.com", "jo@new.example.com")):
        remove_member(context, "jo")
        add_member(context, ID, "u-1", "jo", email=email)
        assert members(context)[0].email == expected


def test_an_invitation_is_taken_once_in_time_by_a_verified_address_at_its_issuer(context: Context) -> None:
    invited = invite_member(context, ID, "Jo@Example.com", role="reviewer").member
    assert (invited.name, invited.subject) == ("jo@example.com", None)
    until_ms = invited.invited_until_ms
    assert until_ms is not None

    def take(
        subject: str, email: str, *, verified: bool = True, issuer: str = ID, late_ms: int = -1
    ) -> Actor:
        # The last millisecond is -1; at 0 the invitation has ended.
        return take_invitation(
            context.store, issuer, subject, email=email, email_verified=verified, now_ms=until_ms + late_ms
        )

    refused: tuple[Callable[[], Actor], ...] = (
        lambda: take("u-1", "jo@example.com", verified=False),
        lambda: take("u-1", "jo@example.com", verified="true"),  # type: ignore[arg-type]
        lambda: take("u-1", "jo@example.com", issuer="https://other.example.com"),
        lambda: take("u-1", "jo@example.com", late_ms=0),
        lambda: take("u-1", "kim@example.com"),
        lambda: take("u-1", ""),
        lambda: take("", "jo@example.com"),
        lambda: take("u-1", "jo@example.\N{KELVIN SIGN}om"),
    )
    words = set()
    for attempt in refused:
        with pytest.raises(Unidentified) as problem:
            attempt()
        words.add(str(problem.value))
    with pytest.raises(Unidentified) as problem:
        signed_in(context, "nobody")
    assert words == {str(problem.value)}
    assert take("u-1", "JO@example.com").roles(None) == {"reviewer"}
    assert take("u-1", "JO@example.com") == signed_in(context, "u-1"), "a reload is no second taking"
    with pytest.raises(Unidentified):
        take("u-2", "jo@example.com")
    assert until_ms - invited.at_ms == INVITED_MS


def test_inviting_again_begins_anew_and_who_was_removed_comes_back_as_who_they_were(context: Context) -> None:
    invite_member(context, ID, "jo@example.com", role="operator", name="jo")
    invite_member(context, ID, "jo@example.com", name="jo", learner="support")
    (only,) = members(context)
    assert only.roles == (Grant(role="viewer", learner="support"),)
    now_ms = context.clock()
    first = take_invitation(
        context.store, ID, "u-1", email="jo@example.com", email_verified=True, now_ms=now_ms
    )
    remove_member(context, "jo")
    with pytest.raises(Unidentified):
        signed_in(context, "u-1")
    invite_member(context, ID, "jo@new.example.com", role="reviewer")
    now_ms = context.clock()
    again = take_invitation(
        context.store, ID, "u-1", email="jo@new.example.com", email_verified=True, now_ms=now_ms
    )
    assert (again.name, again.member) == ("jo", first.member)
    assert again.roles(None) == {"reviewer"}
    remove_member(context, "jo")
    with pytest.raises(Conflict, match="'jo'"):
        add_member(context, ID, "u-1", "josephine")
    add_member(context, ID, "u-1", "jo")
    assert signed_in(context, "u-1").roles(None) == {"viewer"}
    with pytest.raises(Conflict, match="that of the member 'jo'"):
        add_member(context, ID, "u-1", "jo")


def test_a_session_ends_by_age_sign_out_and_removal(context: Context) -> None:
    operator = ann(context)
    issued_ms = context.clock()

    def at(now_ms: int) -> Actor:
        return actor_of_member(context.store, ID, "u-ann", issued_ms=issued_ms, now_ms=now_ms)

    assert at(issued_ms + SESSION_MS - 1) == operator.actor
    with pytest.raises(Unidentified):
        at(issued_ms + SESSION_MS)
    sign_out(context.store, operator.actor, now_ms=issued_ms + 5)
    with pytest.raises(Unidentified):
        at(issued_ms + 4)
    later_ms = issued_ms + 5
    assert actor_of_member(context.store, ID, "u-ann", issued_ms=later_ms, now_ms=later_ms).name == "ann"
    far = replace(context, clock=lambda: later_ms + 9)
    sign_out_member(far, "ann")
    with pytest.raises(Unidentified):
        actor_of_member(context.store, ID, "u-ann", issued_ms=later_ms, now_ms=later_ms + 9)


def test_who_is_removed_takes_their_tokens_along_and_the_last_operator_stays(context: Context) -> None:
    operator = ann(context)
    kept = create_token(context, "machine", ("operate",))
    made = create_token(operator, "ci", ("ingest",))
    acts: tuple[Callable[[], object], ...] = (
        lambda: remove_member(operator, "ann"),
        lambda: set_role(context, "ann", "reviewer"),
        lambda: set_role(context, "ann", None),
    )
    for act in acts:
        with pytest.raises(NotApplicable, match="last operator"):
            act()
    assert has_operator(context.store)
    assert actor_of_token(context.store, made.secret, now_ms=context.clock()).name == "token:ci"
    invite_member(context, ID, "kim@example.com", role="operator", name="kim")
    with pytest.raises(NotApplicable, match="last operator"):
        remove_member(context, "ann")
    add_member(context, ID, "u-bo", "bo", role="operator")
    assert remove_member(context, "ann").revoked == (made.token.id,)
    with pytest.raises(Unidentified):
        actor_of_token(context.store, made.secret, now_ms=context.clock())
    assert actor_of_token(context.store, kept.secret, now_ms=context.clock()).name == "token:machine"
    add_member(context, ID, "u-ann", "ann", role="operator")
    with pytest.raises(Unidentified):
        actor_of_token(context.store, made.secret, now_ms=context.clock())
    with pytest.raises(NotFound):
        remove_member(context, "nobody")


def test_what_was_done_to_a_member_is_taken_back_but_for_what_ended_with_it(context: Context) -> None:
    operator = ann(context)
    add_member(context, ID, "u-bo", "bo", role="operator")
    set_role(context, "bo", "reviewer", learner="support")
    invite_member(context, ID, "jo@example.com", name="jo", role="viewer", learner="sales")
    made = create_token(replace(context, actor=signed_in(context, "u-bo")), "ci", ("ingest",))
    acts: tuple[tuple[str, Callable[[Context], MemberAnswer]], ...] = (
        ("bo", lambda one: set_role(one, "bo", "viewer")),
        ("bo", lambda one: set_role(one, "bo", None, learner="support")),
        ("bo", lambda one: remove_member(one, "bo")),
        ("jo", lambda one: set_role(one, "jo", "operator")),
        ("jo", lambda one: remove_member(one, "jo")),
        ("jo", lambda one: invite_member(one, ID, "jo@example.com", name="jo")),
    )
    for name, act in acts:
        before = members(context)
        (was,) = (one for one in before if one.name == name)
        foreseen = act(operator.for_rehearsal())
        assert members(context) == before, "a rehearsal changes nothing"
        done = act(operator)
        assert (foreseen.member.roles, foreseen.revoked) == (done.member.roles, done.revoked)
        back = restore_member(operator, was, current=done.member)
        assert members(context) == before
        if was.removed_ms is None:
            restore_member(operator, done.member, current=back.member)
            assert [one.roles for one in members(context) if one.name == name] == [done.member.roles]
            restore_member(operator, was, current=next(one for one in members(context) if one.name == name))
    with pytest.raises(Unidentified):
        actor_of_token(context.store, made.secret, now_ms=context.clock())
    assert signed_in(context, "u-bo").roles("support") == {"operator", "reviewer"}


def test_what_somebody_changed_meanwhile_is_not_taken_back_over_it(context: Context) -> None:
    operator = ann(context)
    was = add_member(context, ID, "u-bo", "bo").member
    seen = set_role(operator, "bo", "reviewer").member
    set_role(context, "bo", "operator")
    other = add_member(context, ID, "u-jo", "jo", role="operator").member
    for one in (was, other):
        with pytest.raises(Conflict, match="meanwhile"):
            restore_member(operator, one, current=seen)
    assert signed_in(context, "u-bo").roles(None) == {"operator"}
    remove_member(context, "jo")
    remove_member(context, "bo")
    (now,) = (one for one in members(context) if one.name == "ann")
    with pytest.raises(NotApplicable, match="last operator"):
        restore_member(context, msgspec.structs.replace(now, roles=()), current=now)


def test_what_goes_beyond_a_smaller_role_is_revoked_with_it(context: Context) -> None:
    operator = ann(context)
    add_member(context, ID, "u-bo", "bo", role="operator")
    inside = create_token(operator, "inside", ("ingest",), learners=["support"])
    beyond = create_token(operator, "beyond", ("ingest",), learners=["support", "sales"])
    set_role(context, "ann", "operator", learner="support")
    assert set_role(context, "ann", None).revoked == (beyond.token.id,)
    assert [one.revoked_ms for one in tokens(context) if one.id == inside.token.id] == [None]


def test_every_act_is_in_the_audit_of_the_installation_and_names_no_secret(context: Context) -> None:
    operator = ann(context)
    secret = create_token(operator, "ci", ("read",)).secret
    add_member(operator, ID, "u-1", "jo")
    set_role(operator, "jo", "reviewer")
    remove_member(operator, "jo")
    page = audit(operator, installation=True)
    assert [(one.actor, one.action) for one in reversed(page.entries)] == [
        ("mara", "member_add"),
        ("ann", "token_create"),
        ("ann", "member_add"),
        ("ann", "member_role"),
        ("ann", "member_remove"),
    ]
    assert secret not in str(page)
    assert audit(operator).entries == ()


# No one gives more than he holds


@given(st.lists(_GRANTS, max_size=3), _GRANTS)
def test_whoever_gets_what_somebody_may_give_can_do_no_more_than_they(held: list[Grant], one: Grant) -> None:
    giver = Actor(name="mara", role=None, grants=tuple(held))
    taker = Actor(name="jo", role=None, grants=(one,))
    places = (None, "support", "sales", "other")
    more = [
        (action, place)
        for action in ACTIONS
        for place in places
        if may(taker, action, place) and not may(giver, action, place)
    ]
    assert may_give(giver, one) == (more == [])


@pytest.mark.parametrize("role", PERSON_ROLES)
def test_only_who_governs_all_learners_gives_anything(context: Context, role: Role) -> None:
    for grants in ((Grant(role=role, learner="default"),), (Grant(role="operate"),)):
        jo = replace(context, actor=Actor(name="jo", role=None, grants=grants))
        for act in (
            lambda one: add_member(one, ID, "u-1", "kim"),
            lambda one: invite_member(one, ID, "kim@example.com"),
            lambda one: create_token(one, "ci", ("read",), learners=["default"]),
            lambda one: revoke_token(one, "token-1"),
            tokens,
            members,
            audit,
        ):
            with pytest.raises(Denied):
                act(jo)
    assert members(context) == ()


def test_a_session_takes_the_invitation_of_its_verified_address_once(context: Context) -> None:
    invite_member(context, ID, "jo@example.com", role="reviewer", name="jo")
    now_ms = context.clock()
    jo = Session(issuer=ID, subject="u-jo", issued_ms=now_ms, email="jo@example.com")
    unverified = session_of({"iss": ID, "sub": "u-jo", "iat": now_ms / 1000, "email": "jo@example.com"})
    assert unverified is not None
    for stranger in (
        unverified,
        replace_session(jo, issuer="https://other.example.com"),
        replace_session(jo, email="kim@example.com"),
        replace_session(jo, issued_ms=now_ms - SESSION_MS),
    ):
        revision = audit(context, installation=True).entries[0].revision
        with pytest.raises(Unidentified):
            actor_of_session(context.store, stranger, now_ms=now_ms)
        assert audit(context, installation=True).entries[0].revision == revision
    assert not is_member(context.store, jo)
    assert actor_of_session(context.store, jo, now_ms=now_ms).name == "jo"
    assert is_member(context.store, jo)
    with pytest.raises(Unidentified):
        actor_of_session(context.store, replace_session(jo, subject="u-2"), now_ms=now_ms)


def test_an_invitation_revives_no_session_that_is_over(context: Context) -> None:
    """Of a member who is there taking an invitation would say who they are, no matter what became of the session."""
    add_member(context, ID, "u-jo", "jo", email="jo@example.com")
    now_ms = context.clock()
    jo = Session(issuer=ID, subject="u-jo", issued_ms=now_ms, email="jo@example.com")
    actor = actor_of_session(context.store, jo, now_ms=now_ms)
    invite_member(context, ID, "jo@example.com", name="another", role="operator")
    sign_out(context.store, actor, now_ms=now_ms + 1)
    with pytest.raises(Unidentified):
        actor_of_session(context.store, jo, now_ms=now_ms + 2)


def test_signing_out_ends_a_session_that_a_clock_ahead_of_ours_began(context: Context) -> None:
    add_member(context, ID, "u-jo", "jo")
    now_ms = context.clock()
    ahead = Session(issuer=ID, subject="u-jo", issued_ms=now_ms + 60_000)
    actor = actor_of_session(context.store, ahead, now_ms=now_ms)
    sign_out(context.store, actor, now_ms=now_ms, issued_ms=ahead.issued_ms)
    with pytest.raises(Unidentified):
        actor_of_session(context.store, ahead, now_ms=now_ms + 90_000)


def at(context: Context, now_ms: int) -> Context:
    return replace(context, clock=lambda: now_ms)


@pytest.mark.of_file
def test_a_secret_says_who_acts_where_and_is_stored_nowhere(context: Context) -> None:
    made = create_token(context, "ci", ("ingest", "read"), learners=["support", "sales"])
    everywhere = create_token(context, "all", ("operate",))
    actor = actor_of_token(context.store, made.secret, now_ms=context.clock())
    assert (actor.name, actor.role, actor.token) == ("token:ci", None, 1)
    assert actor.roles("support") == {"read", "ingest"}
    assert not actor.roles("other") | actor.roles(None)
    all_of_it = actor_of_token(context.store, everywhere.secret, now_ms=context.clock())
    assert all_of_it.roles(None) == {"operate"}
    context.store.close()
    for path in kept_in(context.store).parent.iterdir():
        assert made.secret.encode() not in path.read_bytes()


def test_whatever_is_wrong_with_a_secret_is_said_in_the_same_words(context: Context) -> None:
    secrets = [create_token(context, name, ("read",), days=1).secret for name in ("good", "over", "gone")]
    revoke_token(context, "gone")
    good, over, gone = secrets
    end_ms = tokens(context)[1].expires_ms
    now_ms = end_ms - DAY_MS
    wrong = [
        "",
        "arms_",
        good[:-1],
        good + "x",
        good[:20] + "\u0661" + good[21:],
        good.lower(),
        "\0" * 54,
        gone,
    ]
    said = set()
    for secret in wrong:
        with pytest.raises(Unidentified) as refused:
            actor_of_token(context.store, secret, now_ms=now_ms)
        said.add(str(refused.value))
    assert actor_of_token(context.store, over, now_ms=end_ms - 1).name == "token:over"
    with pytest.raises(Unidentified) as refused:
        actor_of_token(context.store, over, now_ms=end_ms)
    assert said == {str(refused.value)}


@pytest.mark.of_file
def test_a_token_that_is_revoked_is_over_in_every_process_and_for_good(context: Context) -> None:
    secret = create_token(context, "ci", ("read",)).secret
    now_ms = context.clock()
    asking = (
        "import sys; from pathlib import Path; from core.errors import Unidentified;"
        "from core.flows.identity import actor_of_token; from core.store.store import Store\n"
        "store = Store(Path(sys.argv[1]))\n"
        "for line in sys.stdin:\n"
        "    try: answer = actor_of_token(store, line.strip(), now_ms=int(sys.argv[2])).name\n"
        "    except Unidentified: answer = 'nobody'\n"
        "    print(answer, flush=True)\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", asking, str(kept_in(context.store)), str(now_ms)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdin is not None
    assert other.stdout is not None

    def asked() -> str:
        assert other.stdin is not None
        assert other.stdout is not None
        print(secret, file=other.stdin, flush=True)
        return other.stdout.readline().strip()

    assert [asked(), asked()] == ["token:ci", "token:ci"]
    first = revoke_token(context, "token-1")
    assert asked() == "nobody"
    other.communicate()
    assert revoke_token(at(context, now_ms + 5), "ci") == first
    with pytest.raises(NotFound):
        redo(context, "token-1")
    with pytest.raises(Unidentified):
        actor_of_token(context.store, secret, now_ms=now_ms)


def test_the_last_use_is_known_by_the_hour(context: Context) -> None:
    secret = create_token(context, "ci", ("read",)).secret
    assert tokens(context)[0].used_hour_ms is None
    used_ms = START_MS // HOUR_MS * HOUR_MS + 7 * HOUR_MS
    for now_ms in (used_ms + 5, used_ms + HOUR_MS - 1, used_ms - HOUR_MS):
        actor_of_token(context.store, secret, now_ms=now_ms)
        assert tokens(context)[0].used_hour_ms == used_ms


def test_the_hidden_learner_is_in_no_list_and_no_name_leads_there(context: Context) -> None:
    create_token(context, "ci", ("read",))
    with pytest.raises(InvalidSetting):
        context.of("")
    assert queries.changes(context) == ()
    assert queries.verify(context).clean
