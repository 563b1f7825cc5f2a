"""Chat: whom it answers, what it takes for an arm or a number, and what a reset must be told twice."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from core.doors.chat import CONFIRM_S, MAX_COMMAND_CHARS, ChatMessage, MemberOf, chat, routes
from core.doors.exchange import HttpCall
from core.doors.service import Service
from core.errors import Denied, InvalidInput
from core.flows import learn, queries
from core.flows.learn import reward
from core.records.actor import Actor, Grant, Role
from core.records.arm import Arm
from core.records.run import Inventory
from tests.worlds import a_run, context_at

ARMS: Final = (
    "tool:exec:Bash",
    "tool:web:search",
    "skill:coding:main",
    "skill:go:main",
    "file:workspace:chapter 2",
    "memory:x:<b>note</b>",
)
MARA: Final = Actor(name="mara")
BRIDGE: Final = Actor(name="token:bridge", role="operate", token=7)

MAY: Final[dict[str, set[str]]] = {
    "V1": {"status"},
    "R1": {"status", "reward bash 0"},
    "U1": {"status", "reward bash 0", "reset"},
}
TOKENS: Final[dict[Role, set[str]]] = {
    "read": {"status"},
    "review": {"status", "reward bash 0"},
    "operate": {"status", "reward bash 0", "reset"},
    "ingest": set(),
}


@dataclass
class Room:
    """A desk, and a clock that moves when it is told to."""

    service: Service
    now_ms: int = 1_790_000_000_000

    def says(self, text: str, actor: Actor = MARA) -> str | None:
        return chat(self.service, actor, ChatMessage(text=text))

    def bridged(
        self, text: str, sender: str = "U1", *, actor: Actor = BRIDGE, channel: str = "general"
    ) -> str | None:
        return chat(
            self.service, actor, ChatMessage(text=text, channel=channel, sender=sender), member_of=members
        )

    def given(self) -> list[tuple[str, float, str]]:
        found = queries.rewards(self.service.context(MARA))
        return [(one.arm, one.reward, one.actor) for one in found]

    @property
    def moment(self) -> object:
        return queries.revision(self.service.context(MARA))

    def n_pulls(self) -> int:
        return sum(one.pulls for one in queries.posteriors(self.service.context(MARA)))


def members(channel: str, sender: str) -> Actor | None:
    known = {
        ("general", "U1"): Actor(name="mara", role="operator"),
        ("general", "U2"): Actor(name="kim", role="operator"),
        ("general", "V1"): Actor(name="vi", role="viewer"),
        ("general", "R1"): Actor(name="rae", role="reviewer"),
        ("general", "S1"): Actor(name="sam", role=None, grants=(Grant(role="operator", learner="sales"),)),
    }
    return known.get((channel, sender))


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    context = context_at(tmp_path / "a.db")
    prompt = Inventory(kind="declared", arms=tuple(Arm(key=key) for key in ARMS))
    learn.record(context, a_run("r", inventory=prompt, calls=["Bash"]))
    made = Room(Service(store=context.store, learner="default"))
    made.service = replace(made.service, clock=lambda: made.now_ms)
    yield made
    context.store.close()


# What is meant


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("", "Usage"),
        ("tool", "may mean tool:exec:Bash, tool:web:search"),
        ("main 1", "may mean skill:coding:main, skill:go:main"),
        ("serch", "Did you mean tool:web:search?"),
        ("tool:web:serch", "Did you mean tool:web:search"),
        ("1", "No arm is called '1'"),
        ("quux 1", "No arm is called 'quux'"),
        ("bash 2", "from 0 to 1"),
        ("bash -0.5", "from 0 to 1"),
        ("bash 00", "from 0 to 1"),
        ("bash 0,5", "from 0 to 1"),
        ("bash 50%", "from 0 to 1"),
        ("bash 1e400", "from 0 to 1"),
        ("bash nan", "No arm is called 'bash nan'"),
        ("a:b", "type:category:name"),
        ("bash" + "h" * MAX_COMMAND_CHARS, "at most 2,000 characters"),
    ],
)
def test_what_is_not_clear_is_asked_and_nothing_is_recorded(room: Room, said: str, answer: str) -> None:
    before = room.moment
    told = room.says(f"/learning reward {said}")
    assert told is not None
    assert answer in told
    assert len(told) < 600
    assert room.moment == before


@pytest.mark.parametrize(
    "said", ["", "hi", "hello /learning", "/learningx", "/learn", "/learning reward bash\n0"]
)
def test_what_is_no_command_gets_no_answer(room: Room, said: str) -> None:
    assert room.says(said) is None


# Reset


def code_in(told: str | None) -> str:
    found = re.search(r"/learning reset (.*confirm \w{8})$", told or "")
    assert found is not None, told
    return found[1]


def test_a_confirmation_is_of_its_sender_its_scope_and_its_moment(room: Room) -> None:
    told = room.bridged("/learning reset")
    code = code_in(told)
    before = room.moment
    for answer in (
        room.bridged(f"/learning reset {code}", "U2"),
        room.says(f"/learning reset {code}"),
        room.bridged(f"/learning reset tools {code}"),
        room.bridged("/learning reset confirm AAAAAAAA"),
        room.bridged("/learning reset confirm"),
    ):
        assert "Reset" not in (answer or "").split("This would")[0]
    assert room.moment == before
    reward(room.service.context(MARA), ARMS[0])
    assert "is invalid" in (room.bridged(f"/learning reset {code}") or "")
    assert room.n_pulls() == 7


@pytest.mark.parametrize(
    ("scope", "n"),
    [("all", 6), ("tools", 2), ("skill", 2), ("memories", 1), ("bash", 1), ("file:workspace:chapter 2", 1)],
)
def test_a_reset_has_a_scope(room: Room, scope: str, n: int) -> None:
    told = room.says(f"/learning reset {scope}")
    assert f"reset {n} arm(s)" in (told or "")
    assert f"Reset {n} arm(s)" in (room.says(f"/learning reset {code_in(told)}") or "")
    assert room.n_pulls() == 6 - n


@pytest.mark.parametrize(("after_s", "holds"), [(CONFIRM_S - 1, True), (CONFIRM_S, False)])
def test_a_confirmation_ends_after_five_minutes(room: Room, after_s: int, holds: bool) -> None:
    code = code_in(room.says("/learning reset"))
    room.now_ms += 1000 * after_s
    told = room.says(f"/learning reset {code.lower()}")
    assert (told or "").startswith("Reset 6 arm(s)") is holds


# MemberOf is answered


def test_a_stranger_gets_no_answer(room: Room) -> None:
    before = room.moment
    for text in ("/learning", "/learning reward bash 0", "/learning reset", "/learning bogus"):
        assert room.bridged(text, "X9") is None
        assert room.bridged(text, "U1", channel="elsewhere") is None
        assert room.bridged(text, "S1") is None  # of another learner
    assert room.moment == before


@pytest.mark.parametrize("role", TOKENS)
@pytest.mark.parametrize("sender", MAY)
def test_both_the_token_and_the_member_must_be_allowed(room: Room, sender: str, role: Role) -> None:
    actor = Actor(name="token:bridge", role=role, token=7)
    for said in ("status", "reward bash 0", "reset"):
        before = room.moment
        if said in MAY[sender] & TOKENS[role]:
            assert room.bridged(f"/learning {said}", sender, actor=actor)
        else:
            with pytest.raises(Denied):
                room.bridged(f"/learning {said}", sender, actor=actor)
            assert room.moment == before


def test_what_is_done_is_done_in_the_senders_name(room: Room) -> None:
    room.bridged("/learning reward bash 0.5", "R1")
    assert room.given() == [("tool:exec:Bash", 0.5, "rae")]


def test_only_a_bridge_names_a_sender_and_it_must(room: Room) -> None:
    for named in (ChatMessage(text="/learning", sender="U1"), ChatMessage(text="hi", channel="general")):
        with pytest.raises(Denied):
            chat(room.service, MARA, named)
    for named in (
        ChatMessage(text="/learning"),
        ChatMessage(text="/learning", sender="U1"),
        ChatMessage(text="x", channel="", sender=""),
    ):
        with pytest.raises(InvalidInput):
            chat(room.service, BRIDGE, named, member_of=members)


def test_over_http_a_message_is_an_object_with_a_text(room: Room) -> None:
    def who(_service: Service, actor: Actor) -> MemberOf | None:
        return members if actor.token == BRIDGE.token else None

    (route,) = routes(who)
    assert (route.methods, route.path, route.action) == (("POST",), "/api/v1/chat", "read")

    def sent(body: bytes, actor: Actor = MARA) -> object:
        answer = route.handler(room.service, actor, HttpCall("POST", route.path, body=body))
        assert answer.status == 200
        return json.loads(answer.body)["reply"]

    assert "Learning Layer Status" in str(sent(b'{"text": "/learning"}'))
    assert sent(b'{"text": "hi"}') is None
    assert sent(b'{"text": "/learning", "channel": "general", "sender": "X9"}', BRIDGE) is None
    assert sent(b'{"text": "/learning reward bash", "channel": "general", "sender": "R1"}', BRIDGE)
    before = room.moment
    for body in (
        b"",
        b"[]",
        b'{"text": 7}',
        b'{"text": NaN}',
        b'{"text": "/learning", "text": "/learning reset"}',
        b'{"text": "/learning", "admin": true}',
        b'{"text": "\\ud800"}',
        b'{"channel": "general", "sender": "U1"}',
        b'{"text": "/learning", "channel": ["general"], "sender": "U1"}',
    ):
        with pytest.raises(InvalidInput):
            sent(body, BRIDGE)
    assert room.moment == before
