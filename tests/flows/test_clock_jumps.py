"""Clock jumps: what a clock that ran ahead stored delays nothing later, and a small step back ends nothing early."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core import open_learner
from core.errors import Unidentified
from core.flows import queries
from core.flows.alerts import alerts, look
from core.flows.context import Context
from core.flows.identity import actor_of_session, actor_of_token, note_denied
from core.flows.members import add_member
from core.flows.offers import WAITS_MS, offer, report
from core.flows.queues import add_queue
from core.flows.review import draft, hold, keep_draft, next_item, submit
from core.flows.rollouts import rollouts, settle_rollouts, take_events
from core.flows.select import select
from core.flows.settings import change
from core.flows.tokens import create_token, tokens
from core.flows.traces import SILENT_MS, settle_traces, take_spans
from core.flows.webhooks import add_webhook, settle, take_due
from core.formats.otlp import read_spans
from core.records.alert import CLEAR_MS, LEASE_MS, MAX_TRIES, SendResult, pause_ms
from core.records.arm import Arm
from core.records.member import Session
from core.records.offer import Report, SelectionOptions
from core.records.review import DRAFT_MS, Draft, QueueAsks
from core.records.times import DAY_MS, HOUR_MS, MINUTE_MS
from core.store.rollouts import LIFETIME_MS, PAUSE_MS
from core.store.traces import LISTED_MS
from tests.flows.test_alerts import POISON, URL, finding
from tests.formats.test_otlp import AGENT, as_json
from tests.worlds.events import PLAYED, START
from tests.worlds.reviewers import QUEUE, Desk

YEARS_MS = 14 * 365 * DAY_MS
BOTH = SelectionOptions(k=2)
ONE = QueueAsks(limit=1)
HOLD_MS = ONE.hold_ms
ARMS = [Arm(key=f"tool:other:{name}", token_cost=10) for name in "abcdefgh"]


@pytest.fixture
def desk(desk: Desk) -> Iterator[Desk]:
    yield desk
    assert queries.verify(desk.context).clean


class Ahead:
    """A while in which the clock is years ahead."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def __enter__(self) -> None:
        self._desk.now_ms += YEARS_MS

    def __exit__(self, *_: object) -> None:
        self._desk.now_ms -= YEARS_MS


def stored(context: Context, table: str, column: str, where: str = "learner_id > 0") -> list[int]:
    """Numbers in a column of the learner's rows."""
    with context.reading() as snapshot:
        rows = snapshot.connection.rows(f"SELECT {column} FROM {table} WHERE {where}")
    return [int(number) for (number,) in rows]


# Leases


def test_a_message_waits_no_longer_than_its_longest_pause(desk: Desk) -> None:
    add_webhook(desk.context, URL)
    look(desk.context, find=finding(POISON))
    with Ahead(desk):
        first = take_due(desk.context)
        assert first is not None
    second = take_due(desk.context)
    assert second is not None
    assert (second.uid, second.tries) == (first.uid, 2)
    with Ahead(desk):
        settle(desk.context, second, SendResult(webhook="webhook-1", message="", result="500", ok=False))
    assert take_due(desk.context) is not None


@pytest.mark.parametrize("back_ms", [1, HOUR_MS, pause_ms(MAX_TRIES) - LEASE_MS])
def test_a_lease_outlives_a_clock_that_steps_back(desk: Desk, back_ms: int) -> None:
    add_webhook(desk.context, URL)
    look(desk.context, find=finding(POISON))
    assert take_due(desk.context) is not None
    desk.now_ms -= back_ms
    assert take_due(desk.context) is None, "another process sends it just now"
    desk.now_ms += pause_ms(MAX_TRIES)
    assert take_due(desk.context) is not None


def test_an_alert_that_was_missing_ahead_is_cleared_an_hour_later(desk: Desk) -> None:
    add_webhook(desk.context, URL)
    look(desk.context, find=finding(POISON))
    with Ahead(desk):
        look(desk.context, find=finding())
    look(desk.context, find=finding())
    desk.now_ms += CLEAR_MS - 1
    assert look(desk.context, find=finding()).cleared == ()
    desk.now_ms += 1
    assert look(desk.context, find=finding()).cleared == ("alert-1",)
    assert alerts(desk.context).alerts[0].cleared_ms == desk.now_ms


def test_refusals_of_another_time_are_none_of_the_last_minutes(desk: Desk) -> None:
    with Ahead(desk):
        for _ in range(30):
            note_denied(desk.context.store, desk.of("ann").actor, "reset", desk.now_ms)
            desk.now_ms += 1_000
        assert len(queries.refused(desk.context)) == 1
    assert queries.refused(desk.context) == ()


# Review


def test_an_item_that_was_held_ahead_is_free(desk: Desk) -> None:
    add_queue(desk.context, "W", ONE)
    ann, bob = desk.of("ann"), desk.of("bob")
    with Ahead(desk):
        assert next_item(ann, QUEUE).item is not None
    given = next_item(bob, QUEUE)
    assert given.item is not None
    assert (given.item.item, given.progress.holders) == (1, ())
    assert given.item.hold_until_ms == desk.now_ms + HOLD_MS
    assert submit(bob, QUEUE, 1, level=3, seen=given.item.seen).next.progress.done == 1


@pytest.mark.parametrize("back_ms", [1, HOLD_MS // 2, HOLD_MS])
def test_a_hold_outlives_a_clock_that_steps_back(desk: Desk, back_ms: int) -> None:
    add_queue(desk.context, "W", ONE)
    assert next_item(desk.of("ann"), QUEUE).item is not None
    desk.now_ms -= back_ms
    assert next_item(desk.of("bob"), QUEUE).item is None
    desk.now_ms += back_ms + HOLD_MS
    assert next_item(desk.of("bob"), QUEUE).item is not None


def test_a_draft_that_was_stored_ahead_is_kept_and_ends(desk: Desk) -> None:
    add_queue(desk.context, "W")
    ann = desk.of("ann")
    with Ahead(desk):
        hold(ann, QUEUE, 1)
        keep_draft(ann, QUEUE, 1, Draft(feedback="typed ahead"))
    keep_draft(ann, QUEUE, 2, Draft(feedback="typed now"))
    assert draft(ann, QUEUE, 1) == Draft(feedback="typed ahead")
    desk.now_ms += DRAFT_MS
    keep_draft(ann, QUEUE, 3, Draft(feedback="typed later"))
    assert stored(desk.context, "review_draft", "item_no") == [3]


# Selections


def test_a_prompt_that_was_used_ahead_holds_no_longer(desk: Desk) -> None:
    context = desk.context.of_own_door()
    change(context, "sticky", "session")
    with Ahead(desk):
        ahead = select(context, ARMS, session="s", k=3)
        select(context, ARMS, session="t", k=3)
    now = select(context, ARMS, session="s", k=3)
    assert (ahead.held_since_ms, now.held_since_ms) == (desk.now_ms + YEARS_MS, desk.now_ms)
    assert select(context, ARMS, session="s", k=3).held_since_ms == desk.now_ms
    with Ahead(desk):
        again = select(context, ARMS, session="s", k=3)
    assert again.held_since_ms == desk.now_ms + YEARS_MS + 1, "no two of a session begin at one time"
    assert stored(context, "hold", "began_ms", "choice <> ''") == [desk.now_ms + YEARS_MS + 1]


def test_an_offer_of_another_time_gets_no_report(desk: Desk) -> None:
    with Ahead(desk):
        offer(desk.context, ARMS[:2], BOTH)
    assert report(desk.context, Report(arm=ARMS[0].key, value=1.0)).run is None
    offer(desk.context, ARMS[2:4], BOTH)
    assert stored(desk.context, "offer", "offer_no", "choice <> ''") == [2]
    desk.now_ms -= WAITS_MS
    assert report(desk.context, Report(arm=ARMS[2].key, value=1.0)).run is not None


# What arrives in parts


def test_a_trace_that_grew_ahead_becomes_a_run_and_is_deleted(desk: Desk) -> None:
    n_runs = queries.status(desk.context).runs
    with Ahead(desk):
        take_spans(desk.context, read_spans(as_json(*AGENT[1:]), "json"))
    assert settle_traces(desk.context).runs == 1
    assert queries.status(desk.context).runs == n_runs + 1
    assert stored(desk.context, "span", "1") == []
    assert stored(desk.context, "trace", "1") == []


@pytest.mark.parametrize("back_ms", [1, SILENT_MS])
def test_a_trace_waits_for_its_root_though_the_clock_steps_back(desk: Desk, back_ms: int) -> None:
    take_spans(desk.context, read_spans(as_json(*AGENT[1:]), "json"))
    desk.now_ms -= back_ms
    assert settle_traces(desk.context).runs == 0
    desk.now_ms += back_ms + SILENT_MS
    assert settle_traces(desk.context).runs == 1
    desk.now_ms += LISTED_MS
    settle_traces(desk.context)
    settle_traces(desk.context)
    assert stored(desk.context, "trace", "1") == []


def test_a_rollout_that_grew_ahead_is_an_episode_and_one_without_a_start_waits(desk: Desk) -> None:
    many = [START, *({**PLAYED[0], "index": n, "eventId": f"m{n}"} for n in range(1_100))]
    late = {**PLAYED[0], "index": 1_100, "eventId": "m1100"}
    other = {**PLAYED[0], "rolloutEventId": "r2", "eventId": "x"}
    take_events(desk.context, many)
    with Ahead(desk):
        take_events(desk.context, [late, other])
    settle_rollouts(desk.context)
    assert stored(desk.context, "rollout", "n_events - n_told", "uid = 'r1'") == [0]
    assert [(one.rollout, one.events) for one in rollouts(desk.context)] == [("r2", 1)]
    desk.now_ms += LIFETIME_MS - 1
    settle_rollouts(desk.context)
    assert [one.rollout for one in rollouts(desk.context)] == ["r2"], "it may still start"
    desk.now_ms += PAUSE_MS
    settle_rollouts(desk.context)
    assert stored(desk.context, "rollout", "1") == []


# Who asks


def test_a_session_that_began_ahead_is_over_and_one_of_a_provider_a_little_ahead_lasts(desk: Desk) -> None:
    issuer = "https://id.example.com"
    add_member(desk.context, issuer, "u-jo", "jo")
    store, now_ms = desk.context.store, desk.now_ms
    for ahead_ms, is_in in ((0, True), (2 * MINUTE_MS, True), (HOUR_MS, False), (YEARS_MS, False)):
        session = Session(issuer=issuer, subject="u-jo", issued_ms=now_ms + ahead_ms)
        if is_in:
            assert actor_of_session(store, session, now_ms=now_ms).name == "jo"
        else:
            with pytest.raises(Unidentified):
                actor_of_session(store, session, now_ms=now_ms)


def test_a_token_ends_at_its_time_and_shows_its_last_use(desk: Desk) -> None:
    secret = create_token(desk.context, "ci", ("read",), days=30).secret
    with Ahead(desk), pytest.raises(Unidentified):
        actor_of_token(desk.context.store, secret, now_ms=desk.now_ms)
    desk.now_ms += 20 * DAY_MS
    actor_of_token(desk.context.store, secret, now_ms=desk.now_ms)
    ahead_hour_ms = tokens(desk.context)[0].used_hour_ms
    desk.now_ms -= 10 * DAY_MS
    actor_of_token(desk.context.store, secret, now_ms=desk.now_ms)
    now_hour_ms = desk.now_ms // HOUR_MS * HOUR_MS
    assert (ahead_hour_ms, tokens(desk.context)[0].used_hour_ms) == (now_hour_ms + 10 * DAY_MS, now_hour_ms)


def test_a_run_is_as_long_as_it_took_whatever_the_clock_does(tmp_path: Path) -> None:
    times = iter([0, YEARS_MS, 5, 2 * YEARS_MS] * 100)
    with open_learner(tmp_path / "a.db", clock=lambda: next(times)) as learner:
        for uid in ("r1", "r2", "r3", "r4"):
            with learner.run(["tool:other:a"], uid=uid) as run:
                run.called("a")
            took_ms = learner.run(uid).facts.duration_ms
            assert took_ms is not None
            assert 0 <= took_ms < MINUTE_MS
