"""Looking and sending by several processes: nothing told twice, nothing lost when one is killed in the middle."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import uvicorn

from core.doors.alerting import Alarms, Watch, deliver, send_test
from core.doors.cli import main
from core.errors import StoreBusy
from core.flows import queries
from core.flows.alerts import alerts, look
from core.flows.context import Context, utc_now_ms
from core.flows.corrections import note
from core.flows.identity import note_denied
from core.flows.queues import add_queue
from core.flows.traces import take_spans, traces
from core.flows.webhooks import add_webhook
from core.records.alert import LEASE_MS, Alarm
from core.store.store import Store
from tests.conftest import ROOT
from tests.doors.conftest import Shell, document
from tests.doors.test_webhook import SECRET, failing, receiving, secret, well
from tests.engine import kept_in
from tests.flows.test_traces import spans_of
from tests.formats.test_otlp import AGENT
from tests.worlds import START_MS
from tests.worlds.reviewers import Desk

__all__ = ["secret"]
N = 8
ALARMS = [Alarm(learner="default", kind="poisoned", object=f"type-{number}", count=3) for number in range(N)]
PROCESSES = """
import os, sys
from pathlib import Path
from core.doors.alerting import look_and_send
from core.flows.context import Context
from core.records.actor import Actor
from core.records.alert import Alarm
from core.store.store import Store
path, now_ms, n, n_processes = sys.argv[1:]
for _ in range(int(n_processes) - 1):  # before anything is open: loading all this takes longer than the test
    if os.fork() == 0:
        break
context = Context(store=Store(Path(path)), actor=Actor(name="armscope"), clock=lambda: int(now_ms))
alarms = [Alarm(learner="default", kind="poisoned", object=f"type-{k}", count=3) for k in range(int(n))]
done = look_and_send(context, lambda one: alarms)
os.write(1, f"{len(done.raised)} {len(done.sent)}\\n".encode())  # at once: both write into one pipe
"""


def processes(context: Context, n: int) -> subprocess.Popen[str]:
    """So many others that look and send, each once."""
    return subprocess.Popen(
        [sys.executable, "-c", PROCESSES, str(kept_in(context.store)), str(START_MS), str(N), str(n)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_two_processes_tell_everything_once(desk: Desk) -> None:
    with receiving() as (port, received):
        for path in ("/a", "/b"):
            add_webhook(desk.context, f"http://127.0.0.1:{port}{path}", private=True)
        out, _ = processes(desk.context, 2).communicate(timeout=120)
    said = [tuple(map(int, line.split())) for line in out.splitlines()]
    assert sorted(raised for raised, _ in said) == [0, N], "one found what is new, the other that it isn't"
    assert sum(sent for _, sent in said) == 2 * N
    seen = Counter((path, headers["webhook-id"]) for path, headers, _ in received)
    assert len(seen) == 2 * N
    assert set(seen.values()) == {1}
    assert [one.n_waiting for one in alerts(desk.context).webhooks] == [0, 0]


def test_what_a_process_had_in_its_hands_when_it_was_killed_is_told_by_the_next(desk: Desk) -> None:
    """Killed after it was received and before that was noted, which is when it may be told twice: under one id."""
    killed: list[subprocess.Popen[str]] = []

    def deadly(handler: BaseHTTPRequestHandler) -> None:
        if len(received) == N // 2 and killed[0].poll() is None:
            killed[0].kill()
            killed[0].wait()
        else:
            well(handler)

    with receiving(deadly) as (port, received):
        add_webhook(desk.context, f"http://127.0.0.1:{port}/", private=True)
        killed.append(processes(desk.context, 1))
        assert killed[0].communicate(timeout=120)[0] == ""
        assert len(received) == N // 2
        deliver(desk.context)
        assert len({headers["webhook-id"] for _, headers, _ in received}) == N
        before = len(received)
        assert alerts(desk.context).webhooks[0].n_waiting == 1, "the one that it had is its own for a while"
        desk.now_ms += LEASE_MS
        deliver(desk.context)
        again = Counter(headers["webhook-id"] for _, headers, _ in received)
        assert len(received) == before + 1
    assert sorted(again.values()) == [*[1] * (N - 1), 2]
    bodies = [body for _, headers, body in received if again[headers["webhook-id"]] == 2]
    assert bodies[0] == bodies[1]
    assert alerts(desk.context).webhooks[0].n_waiting == 0


def test_one_that_fails_keeps_no_other_waiting(desk: Desk) -> None:
    with receiving(failing) as (bad, refused), receiving() as (good, taken):
        for port in (bad, good):
            add_webhook(desk.context, f"http://127.0.0.1:{port}/", private=True)
        look(desk.context, find=lambda _: ALARMS)
        deliver(desk.context)
        assert (len(refused), len(taken)) == (1, N)
        desk.pass_minutes(1)
        deliver(desk.context)
        assert (len(refused), len(taken)) == (2, N)


def test_a_process_without_the_secret_leaves_it_to_one_that_has_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiving() as (port, received):
        add_webhook(desk.context, f"http://127.0.0.1:{port}/", private=True)
        other = add_webhook(
            desk.context,
            f"http://127.0.0.1:{port}/other",
            secret_from="ARMSCOPE_WEBHOOK_SECRET_OTHER",
            private=True,
        )
        look(desk.context, find=lambda _: ALARMS)
        deliver(desk.context)
        assert [path for path, _, _ in received] == ["/"] * N
        (_, waiting) = alerts(desk.context).webhooks
        assert (waiting.id, waiting.n_waiting, waiting.last_result) == (other.id, N, None)
        monkeypatch.setenv("ARMSCOPE_WEBHOOK_SECRET_OTHER", SECRET)
        deliver(desk.context)
        assert len(received) == 2 * N


def test_a_test_is_sent_at_once_whatever_waits(desk: Desk) -> None:
    with receiving() as (port, received):
        made = add_webhook(desk.context, f"http://127.0.0.1:{port}/", private=True)
        look(desk.context, find=lambda _: ALARMS)
        assert send_test(desk.context, made.id).ok
    assert len(received) == 1
    assert b'"type":"test"' in received[0][2]


def test_the_thread_looks_until_it_is_stopped_and_says_once_what_is_wrong(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    seen, looked = threading.Event(), threading.Event()
    n_failed = 0

    def opened() -> Context:
        nonlocal n_failed
        n_failed += 1
        if n_failed <= 3:
            raise StoreBusy("Somebody writes.", next_step="Wait.")
        looked.set()
        return desk.context

    def noticed(handler: BaseHTTPRequestHandler) -> None:
        well(handler)
        seen.set()

    add_queue(desk.context, "W", due_days=0)
    desk.pass_minutes(1)
    caplog.set_level(logging.ERROR, logger="armscope")
    with receiving(noticed) as (port, received):
        add_webhook(desk.context, f"http://127.0.0.1:{port}/", private=True)
        watch = Watch(opened, every_s=0.01).start()
        assert seen.wait(60)
        watch.stop()
    assert looked.is_set()
    assert len(received) == 1
    assert [record.message for record in caplog.records] == ["alerts could not be checked"]
    assert SECRET not in caplog.text


def test_a_trace_without_a_root_becomes_a_run_though_nobody_sends_more(desk: Desk) -> None:
    take_spans(desk.context, spans_of(*AGENT[1:]))
    desk.pass_minutes(61)
    before, settled = queries.status(desk.context).runs, threading.Event()

    def opened() -> Context:
        if queries.status(desk.context).runs > before:
            settled.set()
        return desk.context

    watch = Watch(opened, every_s=0.01).start()
    assert settled.wait(60)
    watch.stop()
    assert [row.state for row in traces(desk.context)] == ["rootless"]


def test_what_holds_is_found_anew_only_where_something_was_recorded_or_time_has_passed(desk: Desk) -> None:
    """A queue that becomes overdue by the clock alone is found within ten minutes."""
    found = Alarms()
    add_queue(desk.context, "W", due_days=1)
    assert found(desk.context) == ()
    desk.pass_minutes(24 * 60 + 10)
    (alarm,) = found(desk.context)
    assert alarm.count == 30
    again = found(desk.context)
    assert again[0] is alarm
    note(desk.context, "tool:other:a", "x")
    assert found(desk.context)[0] is not alarm
    assert found(desk.context) == queries.alarms(desk.context)


def watching() -> list[str]:
    """Threads that look."""
    return [one.name for one in threading.enumerate() if one.name == "armscope-alerts"]


def test_the_api_looks_as_long_as_it_answers(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr(uvicorn, "run", lambda *args, **named: seen.append(watching()))
    with pytest.raises(SystemExit):
        main(["--database", str(kept_in(desk.context.store)), "api", "--port", "0"])
    assert seen == [["armscope-alerts"]]
    assert watching() == []


def test_from_the_first_address_to_the_last_message(shell: Shell, tmp_path: Path) -> None:
    code, out, _ = shell("alert")
    assert (code, "No webhook receives alerts" in out) == (0, True)
    with receiving() as (port, received):
        made = document(shell("alert", "add", f"http://127.0.0.1:{port}/", "--private", "--json"))
        assert (made["id"], made["learner"], made["private"]) == ("webhook-1", None, True)
        sent = document(shell("alert", "test", "webhook-1", "--json"))
        assert (sent["result"], sent["ok"]) == ("204", True)
        store = Store(tmp_path / "a.db")
        for _ in range(20):
            note_denied(store, None, "identify", utc_now_ms())
        store.refusals.flush(store)
        store.close()
        looked = document(shell("alert", "look", "--json"))
        assert (looked["raised"], len(looked["sent"]), len(received)) == (["alert-1"], 1, 2)
        code, out, _ = shell("alert", "look")
        assert (code, "Raised: nothing; cleared: nothing." in out) == (0, True)
    code, out, _ = shell("alert", "list")
    assert re.search(r"webhook-1\s+http://127\.0\.0\.1:\d+/\s+everything\s+\S+\s+204\s+0\s+0", out)
    assert re.search(r"alert-1\s+\S+\s+denials\s+20", out)
    gone = document(shell("alert", "remove", "webhook-1", "--json"))
    assert gone["removed_ms"] is not None
    assert document(shell("alert", "list", "--json"))["webhooks"] == []


def test_what_fails_says_so_and_ends_with_one(shell: Shell) -> None:
    with receiving(failing) as (port, _):
        assert shell("alert", "add", f"http://127.0.0.1:{port}/", "--private")[0] == 0
        code, out, _ = shell("alert", "test", "webhook-1")
        assert (code, "did not take" in out, "500" in out) == (1, True, True)
        assert document(shell("alert", "test", "webhook-1", "--json"), 1)["ok"] is False
    assert SECRET not in out
