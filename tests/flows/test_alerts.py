"""Alerts: what the overview says, raised once, cleared when it was gone for an hour, told to each webhook once."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InvalidInput, NotApplicable, NotFound, StoreDamaged
from core.flows import export, maintenance, queries
from core.flows.alerts import FindAlarms, alerts, look
from core.flows.audit import audit
from core.flows.context import Context
from core.flows.identity import note_denied
from core.flows.learn import record_all
from core.flows.learners import create_learner
from core.flows.queues import add_queue
from core.flows.webhooks import add_webhook, remove_webhook, settle, take_due, take_test
from core.records.alert import (
    CLEAR_MS,
    LEASE_MS,
    MAX_TRIES,
    MAX_WEBHOOKS,
    Alarm,
    Message,
    SendResult,
    body_of,
    pause_ms,
)
from core.records.times import DAY_MS
from core.store.store import Store
from tests.flows.test_judgement import planted
from tests.worlds import START_MS, context_at
from tests.worlds.reviewers import Desk, desk_at, judge_all

URL = "https://hooks.example/services/T0/secret-path"
POISON = Alarm(learner="default", kind="poisoned", object="tool", count=3, ids=("tool:fs:Read",))
SILENT = Alarm(learner="default", kind="silent", count=9)


def finding(*alarms: Alarm) -> FindAlarms:
    """Whoever asks a learner finds this."""
    return lambda context: [alarm for alarm in alarms if alarm.learner == context.learner]


def taken(context: Context) -> list[Message]:
    """Everything that is due, taken by oneself and sent."""
    found = []
    while (message := take_due(context)) is not None:
        settle(context, message, came(message, "200"))
        found.append(message)
    return found


def came(message: Message, result: str) -> SendResult:
    return SendResult(webhook=message.webhook.id, message=message.uid, result=result, ok=result == "200")


def states_of(messages: list[Message]) -> list[tuple[str, str]]:
    return [(message.state, message.alert.kind) for message in messages if message.alert is not None]


def test_what_the_overview_says_is_what_is_told(context: Context) -> None:
    """Poison by type, a queue by itself; nothing that the overview doesn't say, and nothing else decides it."""
    record_all(context, planted())
    add_queue(context, "W", due_days=0)
    later = replace(context, clock=lambda: START_MS + 40 * DAY_MS)
    said = {item.kind: item for item in queries.overview(later).attention}
    assert {"poisoned", "queue_overdue", "silent"} <= said.keys()
    found = {alarm.kind: alarm for alarm in queries.alarms(later)}
    assert found.keys() == said.keys() & {"poisoned", "costs_more", "queue_overdue", "silent"}
    poisoned = found["poisoned"]
    assert (poisoned.object, poisoned.count, poisoned.ids) == ("file", 2, said["poisoned"].arms)
    assert (found["queue_overdue"].object, found["queue_overdue"].count) == (
        "queue-1",
        said["queue_overdue"].count,
    )
    assert found["silent"].count == said["silent"].count
    context.store.close()


def test_a_queue_is_told_of_when_it_is_overdue_and_when_it_is_done(desk: Desk) -> None:
    add_webhook(desk.context, URL)
    add_queue(desk.context, "The secret plan", due_days=1)
    assert look(desk.context).raised == ()
    desk.pass_minutes(24 * 60 + 1)
    assert look(desk.context).raised == ("alert-1",)
    assert look(desk.context).raised == ()
    (message,) = taken(desk.context)
    assert states_of([message]) == [("raised", "queue_overdue")]
    body = msgspec.json.decode(body_of(message))
    assert body["url"] == (
        "http://127.0.0.1:8501/evidence?learner=default&finding=queue_overdue&finding_of=queue-1"
    )
    assert (body["type"], body["object"], body["count"]) == ("alert.raised", "queue-1", 30)
    assert b"secret plan" not in body_of(message), "its name is somebody's words"
    judge_all(desk.of("ann"))
    assert look(desk.context).cleared == ()
    desk.pass_minutes(60)
    assert look(desk.context).cleared == ("alert-1",)
    assert states_of(taken(desk.context)) == [("cleared", "queue_overdue")]


def test_many_refusals_are_told_of_as_the_installations(desk: Desk) -> None:
    add_webhook(desk.context, URL)
    add_webhook(desk.context, URL, learner="default")
    for _ in range(19):
        note_denied(desk.context.store, None, "identify", desk.now_ms)
    desk.context.store.refusals.flush(desk.context.store)
    assert look(desk.context).raised == ()
    note_denied(desk.context.store, None, "identify", desk.now_ms)
    desk.context.store.refusals.flush(desk.context.store)
    assert look(desk.context).raised == ("alert-1",)
    (message,) = taken(desk.context)
    assert message.webhook.id == "webhook-1", "one of a learner hears of that learner only"
    assert msgspec.json.decode(body_of(message))["learner"] is None
    desk.pass_minutes(12)
    look(desk.context)
    desk.pass_minutes(60)
    assert look(desk.context).cleared == ("alert-1",)


def test_where_nobody_is_told_nothing_is_looked_for_and_nothing_written(desk: Desk) -> None:
    def nobody(context: Context) -> tuple[Alarm, ...]:
        raise AssertionError(context.learner)

    look(desk.context, find=nobody)
    assert alerts(desk.context).alerts == ()
    remove_webhook(desk.context, add_webhook(desk.context, URL).id)
    look(desk.context, find=nobody)


def test_a_learners_revision_does_not_move(desk: Desk) -> None:
    add_webhook(desk.context, URL)
    before = queries.revision(desk.context).snapshot_key
    look(desk.context, find=finding(POISON))
    taken(desk.context)
    assert queries.revision(desk.context).snapshot_key == before


@settings(max_examples=25, deadline=None)
@given(holds=st.lists(st.booleans(), max_size=40), minutes=st.sampled_from([1, 20, 61]))
def test_what_comes_and_goes_is_told_once(
    tmp_path_factory: pytest.TempPathFactory, holds: list[bool], minutes: int
) -> None:
    """Against the rule in three lines: raised at the first sight, cleared an hour after the last."""
    desk = Desk(context=context_at(tmp_path_factory.mktemp("flap") / "a.db"))
    context = replace(desk.context, clock=lambda: desk.now_ms)
    with closing(context.store):
        create_learner(context, "default")
        add_webhook(context, URL)
        stands, gone_since, expected = False, None, []
        for held in holds:
            if held and not stands:
                expected.append("raised")
            stands = stands or held
            if held:
                gone_since = None
            elif stands and gone_since is None:
                gone_since = desk.now_ms
            elif stands and gone_since is not None and desk.now_ms - gone_since >= CLEAR_MS:
                expected.append("cleared")
                stands, gone_since = False, None
            look(context, find=finding(*[POISON] * held))
            desk.pass_minutes(minutes)
        assert [message.state for message in taken(context)] == expected
        assert queries.verify(context).clean


def test_each_condition_stands_by_itself(desk: Desk) -> None:
    add_webhook(desk.context, URL)
    other = msgspec.structs.replace(POISON, object="file")
    assert look(desk.context, find=finding(POISON, other, SILENT)).raised == ("alert-1", "alert-2", "alert-3")
    look(desk.context, find=finding(other))
    desk.pass_minutes(60)
    assert look(desk.context, find=finding(other)).cleared == ("alert-1", "alert-3")
    assert look(desk.context, find=finding(POISON)).raised == ("alert-4",)
    seen = alerts(desk.context, limit=2).alerts
    assert [(one.id, one.cleared_ms is None) for one in seen] == [("alert-4", True), ("alert-3", False)]


def test_a_learner_that_cannot_be_read_keeps_its_alerts_and_nobody_elses(desk: Desk) -> None:
    create_learner(desk.context, "sales")
    add_webhook(desk.context, URL)
    of_sales = msgspec.structs.replace(POISON, learner="sales")
    look(desk.context, find=finding(POISON, of_sales))

    def broken(context: Context) -> list[Alarm]:
        if context.learner == "default":
            raise StoreDamaged("It can't be read.", next_step="Restore a backup.")
        return []

    for _ in range(3):
        with pytest.raises(StoreDamaged):
            look(desk.context, find=broken)
        desk.pass_minutes(40)
    standing = [one.learner for one in alerts(desk.context).alerts if one.cleared_ms is None]
    assert standing == ["default"]


def test_a_message_is_one_persons_until_its_time_is_over(desk: Desk) -> None:
    add_webhook(desk.context, URL)
    look(desk.context, find=finding(POISON))
    first = take_due(desk.context)
    assert first is not None
    assert take_due(desk.context) is None
    desk.now_ms += LEASE_MS - 1
    assert take_due(desk.context) is None
    desk.now_ms += 1
    second = take_due(desk.context)
    assert second is not None
    assert (second.uid, second.tries, body_of(second)) == (first.uid, 2, body_of(first))
    settle(desk.context, first, came(first, "500"))
    settle(desk.context, second, came(second, "200"))
    assert alerts(desk.context).webhooks[0].last_result == "200"
    desk.now_ms += 365 * DAY_MS
    assert take_due(desk.context) is None


def test_what_fails_is_tried_again_ever_later_and_given_up(desk: Desk) -> None:
    add_webhook(desk.context, URL)
    look(desk.context, find=finding(POISON))
    waits, uids = [], set()
    for tries in range(1, MAX_TRIES + 1):
        message = take_due(desk.context)
        assert message is not None
        assert message.tries == tries
        uids.add(message.uid)
        settle(desk.context, message, came(message, "503"))
        began_ms, pause = desk.now_ms, pause_ms(tries)
        desk.now_ms = began_ms + pause - 1
        assert take_due(desk.context) is None
        desk.now_ms = began_ms + pause
        waits.append(pause)
    assert take_due(desk.context) is None
    (webhook,) = alerts(desk.context).webhooks
    assert (webhook.last_result, webhook.n_waiting, webhook.n_given_up, len(uids)) == ("503", 0, 1, 1)
    assert sum(waits[:-1]) < DAY_MS


def test_a_webhook_that_is_taken_away_is_told_nothing_and_comes_back_with_what_waits(desk: Desk) -> None:
    made = add_webhook(desk.context, URL)
    add_webhook(desk.context, "https://other.example/")
    look(desk.context, find=finding(POISON))
    gone = remove_webhook(desk.context, URL)
    assert (gone.id, gone.removed_ms is None) == (made.id, False)
    assert [message.webhook.id for message in taken(desk.context)] == ["webhook-2"]
    with pytest.raises(NotFound):
        remove_webhook(desk.context, made.id)
    with pytest.raises(NotFound):
        take_test(desk.context, made.id)
    assert add_webhook(desk.context, URL).id == made.id
    assert [message.webhook.id for message in taken(desk.context)] == [made.id]
    assert len(alerts(desk.context).webhooks) == 2
    done = [entry.action for entry in audit(desk.context, installation=True).entries]
    assert done == ["webhook_add", "webhook_remove", "webhook_add", "webhook_add"]


def test_a_test_tells_nothing_is_tried_once_and_shows_its_result(desk: Desk) -> None:
    add_webhook(desk.context, URL)
    message = take_test(desk.context, "webhook-1")
    body = msgspec.json.decode(body_of(message))
    assert (body["type"], body["id"], "learner" in body) == ("test", message.uid, False)
    settle(desk.context, message, came(message, "404"))
    desk.now_ms += DAY_MS
    assert take_due(desk.context) is None
    (webhook,) = alerts(desk.context).webhooks
    assert (webhook.last_result, webhook.n_waiting, webhook.n_given_up) == ("404", 0, 0)


def test_ids_are_nobody_elses(desk: Desk, tmp_path: Path) -> None:
    other = desk_at(tmp_path / "other.db")
    uids = set()
    for one in (desk.context, other.context):
        add_webhook(one, URL)
        look(one, find=finding(POISON, SILENT))
        uids |= {message.uid for message in taken(one)}
    assert len(uids) == 4
    other.context.store.close()


def test_there_are_twenty_at_most(desk: Desk) -> None:
    for number in range(MAX_WEBHOOKS):
        add_webhook(desk.context, f"{URL}/{number}")
    with pytest.raises(NotApplicable, match="at most 20"):
        add_webhook(desk.context, URL)
    assert len(alerts(desk.context).webhooks) == MAX_WEBHOOKS


@pytest.mark.parametrize(
    "url",
    [
        "", "hooks.invalid", "http://hooks.example/", "ftp://hooks.example/", "https://", "https://:80/",
        "https://user:pass@hooks.example/", "https://hooks.example/#part", "https://hooks.example:0/",
        "https://hooks.example:99999/", "https://hooks.example/a b", "https://hooks.example/\n",
        "https://h\u00fcks.example/", "https://hooks.example\\@evil.example/", "file:///etc/passwd", "https://[::1/",
        f"https://hooks.example/{'a' * 2_000}",
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_told_is_refused_and_not_repeated(desk: Desk, url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        add_webhook(desk.context, url)
    assert len(url) < 9 or url not in str(refused.value)
    assert alerts(desk.context).webhooks == ()


def test_whoever_names_http_is_told_what_allows_it(desk: Desk) -> None:
    with pytest.raises(InvalidInput, match="--private"):
        add_webhook(desk.context, "HTTP://hooks.example/secret")


def test_a_backup_has_them_an_export_of_a_learner_never(desk: Desk, tmp_path: Path) -> None:
    add_webhook(desk.context, URL)
    look(desk.context, find=finding(POISON))
    with (tmp_path / "all.jsonl").open("wb") as file:
        export.export_into(desk.context, file, "-")
    assert b"hooks.example" not in (tmp_path / "all.jsonl").read_bytes()
    maintenance.backup(desk.context, tmp_path / "copy.db")
    with closing(Store(tmp_path / "copy.db")) as store:
        copy = alerts(replace(desk.context, store=store))
    assert copy == alerts(desk.context)
    assert "secret-path" not in repr(audit(desk.context, installation=True)), "a path may hold a secret"
