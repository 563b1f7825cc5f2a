"""Bridges: who speaks as whom is said by operators, holds at once, ends with the member; others get silence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.doors.http.serving import doors
from core.errors import Conflict, NotFound
from core.flows import queries
from core.flows.audit import audit
from core.flows.context import Context
from core.flows.members import (
    add_member,
    add_sender,
    remove_member,
    remove_sender,
    senders,
    set_role,
)
from core.flows.tokens import create_token
from tests.doors.examples import ARM, example_world
from tests.doors.http.asking import Answered, Asking
from tests.doors.http.conftest import at_desk

ISSUER = "https://id.example.com"


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    made = example_world(tmp_path)
    yield made
    made.store.close()


def test_a_sender_is_one_member_until_somebody_takes_it_back(context: Context) -> None:
    add_member(context, ISSUER, "u-2", "kim", role="viewer")
    made = add_sender(context, "kim", "slack", "U2")
    assert made == add_sender(context, "kim", "slack", "U2"), "said again it is the same"
    with pytest.raises(Conflict, match="kim"):
        add_sender(context, "ann", "slack", "U2")
    add_sender(context, "kim", "irc", "U2")
    assert [(one.channel, one.sender, one.member) for one in senders(context)] == [
        ("irc", "U2", "kim"),
        ("slack", "U017", "ann"),
        ("slack", "U2", "kim"),
    ]
    was = remove_sender(context, "slack", "U2")
    assert was == made
    with pytest.raises(NotFound):
        remove_sender(context, "slack", "U2")
    add_sender(context, was.member, was.channel, was.sender)
    remove_member(context, "kim")
    assert [one.member for one in senders(context)] == ["ann"], "with the member go the senders"
    entries = audit(context, installation=True).entries
    assert [one.action for one in entries if one.action.startswith("sender")] == [
        *("sender_add", "sender_remove", "sender_add", "sender_add", "sender_add")
    ]
    assert "U2" not in repr(entries), "whoever is called so elsewhere stands in no audit"


def test_over_http_a_bridge_speaks_for_members_and_nobody_else_is_answered(context: Context) -> None:
    add_member(context, ISSUER, "u-2", "kim", role="viewer")
    add_sender(context, "kim", "slack", "U2")
    bridge = create_token(context, "bridge", ("read", "review", "operate"), bridge=True).secret
    reader = create_token(context, "reader", ("read",), bridge=True).secret
    plain = create_token(context, "plain", ("read", "operate")).secret
    asking = Asking(app=doors(at_desk(context), asks_tokens=True))

    def say(text: str, sender: str, secret: str = bridge, channel: str = "slack") -> Answered:
        message = {"text": f"/learning {text}", "channel": channel, "sender": sender}
        return asking.post("/api/v1/chat", message, authorization=f"Bearer {secret}")

    assert "Learning" in say("status", "U017").document["reply"]
    silence = say("status", "nobody")
    assert (silence.status, silence.document) == (200, {"reply": None})
    for other in (say("reset", "nobody"), say("status", "U017", channel="irc"), say("nonsense", "u017")):
        assert (other.status, other.body) == (silence.status, silence.body)
    assert say("status", "U2").status == 200
    assert say(f"reward {ARM} 0.5", "U2").status == 403, "a viewer may not, though the bridge may"
    assert say(f"reward {ARM} 0.5", "U017", reader).status == 403, "nor may a bridge that only reads"
    assert say("status", "U017", plain).status == 403, "what is no bridge speaks for nobody"
    given = say(f"reward {ARM} 0.5", "U017")
    assert given.document["reply"].startswith("Recorded partial")
    assert queries.rewards(context)[0].actor == "ann"
    asks = say("reset", "U017").document["reply"]
    code = asks.rsplit(" ", 1)[-1]
    remove_sender(context, "slack", "U017")
    assert say(f"reset confirm {code}", "U017").body == silence.body, "what is taken back holds at once"
    add_sender(context, "ann", "slack", "U017")
    set_role(context, "ann", "viewer", learner="default")
    assert say(f"reset confirm {code}", "U017").status == 403
    asking.close()
