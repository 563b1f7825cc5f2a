"""Tokens: shown once, known by their secret only, over at once when revoked, in every process."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from core.errors import InvalidSetting, NotFound, Unidentified
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import redo
from core.flows.identity import actor_of_token
from core.flows.tokens import create_token, revoke_token, tokens
from core.records.times import DAY_MS, HOUR_MS
from tests.engine import kept_in
from tests.worlds import START_MS


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
