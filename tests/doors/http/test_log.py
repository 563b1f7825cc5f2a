"""The log of a server: one line for each request and act, with an id, and nothing of what was sent."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.doors import logs
from core.doors.http.app import Api, BelowPath
from core.doors.http.observed import Observed, request_id
from core.doors.http.serving import ROUTES
from core.doors.logs import LogWriter, acting, fields_of
from core.errors import InvalidReward, Unidentified
from core.flows.context import Context
from core.flows.learn import reward
from core.records.actor import Actor, Grant
from core.settings import LogFormat
from tests.doors.examples import ARM
from tests.doors.http.asking import Answered, Asking
from tests.doors.http.conftest import LOCAL, at_desk

AT = "/api/v1/learners/default"
TOKEN = "arms_" + "c4n4ry" * 8
PLANTED = ("canaryarm", "canaryuid", "canarytext", "canaryquery", "canarylearner", "canarypath", TOKEN)
SCOPED = {TOKEN: Actor(name="token:board\x1b[31m\nnext", role=None, grants=(Grant(role="operate"),), token=3)}
CONTROL = re.compile(r"[^\x20-\x7e]")

HEADER = st.tuples(st.sampled_from((b"x-request-id", b"traceparent", b"other")), st.binary(max_size=70))


@dataclass
class Log:
    """What a log wrote, read from a pipe."""

    ends: tuple[int, int] = field(default_factory=os.pipe)
    text: str = ""

    def read(self) -> None:
        while piece := os.read(self.ends[0], 1 << 16):
            self.text += piece.decode("ascii")

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


@contextmanager
def logged(form: LogFormat = "json") -> Iterator[Log]:
    """What the program logs meanwhile; all of it is there afterwards."""
    log = Log()
    reader = threading.Thread(target=log.read)
    reader.start()
    writer, ours = LogWriter(log.ends[1], form=form), logging.getLogger("armscope")
    before = ours.level
    ours.addHandler(writer)
    ours.setLevel(logging.DEBUG)
    try:
        yield log
    finally:
        ours.removeHandler(writer)
        ours.setLevel(before)
        writer.close()
        os.close(log.ends[1])
        reader.join()
        os.close(log.ends[0])


def observed(context: Context, path: str = "") -> Asking:
    def identify(secret: str) -> Actor:
        if secret not in SCOPED:
            raise Unidentified("A token that holds is needed, got none.", next_step="Ask for one.")
        return SCOPED[secret]

    api = Api(at_desk(context), ROUTES, listener=LOCAL, identify=identify)
    return Asking(app=BelowPath(Observed(api), path))


def hostile(asking: Asking, path: str) -> list[Answered]:
    """Requests with words where they belong and where they don't; each is answered."""
    bearer = {"authorization": f"Bearer {TOKEN}"}
    run = {"kind": "run", "uid": "canaryuid", "arms": ["tool:web:canaryarm"], "calls": ["canaryarm"]}
    run |= {"prompt": "canarytext\r\n127.0.0.1 - GET /"}
    return [
        asking.post(f"{path}{AT}/runs", run),
        asking.post(f"{path}{AT}/rewards", {"arm": "tool:web:canaryarm", "value": 1, "reason": "canarytext"}),
        asking.post(f"{path}{AT}/rewards", {"arm": "tool:web:canaryarmx", "value": "canarytext"}, **bearer),
        asking.get(f"{path}{AT}/runs/canaryuid?x=canaryquery"),
        asking.get(f"{path}{AT}/runs?cursor=canaryquery", **bearer),
        asking.get(f"{path}/api/v1/learners/canarylearner/status"),
        asking.get(f"{path}/canarypath/{TOKEN}%0d%0aX: canarytext"),
        asking.get(f"{path}{AT}/status", authorization=f"Bearer {TOKEN}x"),
        asking.get(f"{path}{AT}/status", host="canarytext.example"),
        asking.get(f"{path}{AT}/status", **{"x-request-id": TOKEN}),
        asking.get(f"{path}{AT}/status", **{"x-request-id": "a\x0b\x1b[0m canarytext", "traceparent": TOKEN}),
        asking.ask("CANARYQUERY", f"{path}{AT}/status"),
        asking.ask("POST", f"{path}{AT}/rewards", [b'{"arm": "canaryarm', None]),
        asking.post(f"{path}/mcp", {"jsonrpc": "2.0", "id": 1, "method": "canarytext"}),
    ]


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("path", ["", "/team/armscope"])
def test_a_line_for_each_request_and_nothing_of_what_was_sent(
    form: LogFormat, path: str, context: Context
) -> None:
    asking = observed(context, path)
    with logged(form) as log:
        answers = hostile(asking, path)
    asking.close()
    assert len({one.status for one in answers}) > 5
    assert len(log.lines) == len(answers)
    assert [word for word in PLANTED if word.lower() in log.text.lower()] == []
    assert CONTROL.search(log.text.replace("\n", "")) is None
    ids = [one.headers.get("x-request-id", "") for one in answers]
    assert all(known in line for known, line in zip(ids, log.lines, strict=True))


def test_a_line_has_template_status_time_learner_token_and_id(context: Context) -> None:
    asking = observed(context)
    with logged() as log:
        answered = asking.get(f"{AT}/status", authorization=f"Bearer {TOKEN}", x_request_id="build-7.a_b")
        denied = asking.get("/api/v1/learners/nothing/status")
        probed = asking.get("/livez")
    asking.close()
    first, second, third = map(json.loads, log.lines)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("time"))
    assert 0 < first.pop("ms") < 60_000
    assert first == {
        **{"level": "info", "event": "request", "method": "GET", "route": "/api/v1/learners/{name}/status"},
        **{"status": 200, "learner": "default", "token": "board\x1b[31m\nnext", "request": "build-7.a_b"},
    }
    assert answered.headers["x-request-id"] == "build-7.a_b"
    assert (second["level"], second["status"], "learner" in second) == ("warning", 404, False)
    assert denied.document["request"] == denied.headers["x-request-id"] == second["request"]
    assert (third["route"], probed.status) == ("/livez", 200)


def test_requests_at_one_time_get_one_line_each(context: Context) -> None:
    asking = observed(context)
    names = [f"id-{number}" for number in range(120)]

    async def all_at_once() -> None:
        paths = [f"{AT}/status", "/livez", "/nowhere", f"{AT}/runs?limit=0"]
        await asyncio.gather(
            *(
                asking._ask("GET", paths[number % 4], (b"",), {"x-request-id": name})
                for number, name in enumerate(names)
            )
        )

    with logged() as log:
        asking.loop.run_until_complete(all_at_once())
    asking.close()
    assert Counter(json.loads(line)["request"] for line in log.lines) == Counter(names)


def test_a_fault_is_named_by_type_and_code_path_alone(context: Context) -> None:
    with logged() as log:
        try:
            int("canarytext")
        except ValueError:
            logging.getLogger("armscope").exception("the cause of %s", "canaryarm")
    (line,) = map(json.loads, log.lines)
    assert (line["error"], line["message"]) == ("ValueError", "the cause of %s")
    assert line["path"].startswith("doors/http/test_log.py:")
    assert "canary" not in log.text


def test_acts_beside_requests_have_lines_of_their_own(context: Context) -> None:
    page = replace(context, on_act=acting("page"))
    with logged() as log:
        reward(page, ARM, 0.5, reason="canarytext")
        with pytest.raises(InvalidReward):
            page.write("reward", lambda _: reward(context, ARM, 7))
        page.rehearse("reward", lambda txn: txn.revision)
    first, second = map(json.loads, log.lines)
    assert {**first, "time": "", "ms": 0} == {
        **{"time": "", "level": "info", "event": "act", "act": "reward", "source": "page", "result": "ok"},
        **{"ms": 0, "learner": "default"},
    }
    assert (second["result"], second["level"]) == ("invalid_reward", "warning")
    assert "canary" not in log.text


@given(values=st.dictionaries(st.sampled_from(("learner", "token", "route")), st.text()), message=st.text())
def test_any_value_stays_in_its_line(values: dict[str, str], message: str) -> None:
    record = logging.LogRecord("armscope", 20, "x.py", 1, message, None, None)
    record.fields = values
    fields = fields_of(record)
    for line in (logs._as_json(fields), logs._as_text(fields)):
        assert CONTROL.search(line) is None
    assert {name: json.loads(logs._as_json(fields))[name] for name in values} == values


@given(st.lists(HEADER, max_size=4))
def test_an_id_is_short_and_plain_whatever_was_sent(headers: list[tuple[bytes, bytes]]) -> None:
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,64}", request_id(headers))


@pytest.mark.parametrize(
    ("value", "is_taken"),
    [
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", True),
        ("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", True),
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", False),
        ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", False),
        ("00-00000000000000000000000000000000-b7ad6b7169203331-01", False),
        ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", False),
        ("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", False),
    ],
)
def test_a_trace_is_an_id_where_the_standard_says_so(value: str, is_taken: bool) -> None:
    found = request_id([(b"traceparent", value.encode())])
    assert (found == "0af7651916cd43dd8448eb211c80319c") is is_taken
    assert request_id([(b"traceparent", value.encode()), (b"x-request-id", b"own")]) == "own"


def _closed() -> int:
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def _full(*, is_waited_for: bool) -> int:
    _, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4096)
    os.set_blocking(writing, is_waited_for)
    return writing


@pytest.mark.parametrize(
    "descriptor",
    [lambda: None, _closed, lambda: _full(is_waited_for=True), lambda: _full(is_waited_for=False)],
    ids=["none", "closed", "full", "full without waiting"],
)
def test_a_log_that_takes_nothing_stops_no_request(
    descriptor: Callable[[], int | None], context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MOST_WAITING", 5)
    monkeypatch.setattr(logs, "_LAST_S", 0.05)
    taken = descriptor()
    writer, asking, ours = LogWriter(taken, form="json"), observed(context), logging.getLogger("armscope")
    ours.addHandler(writer)
    try:
        statuses = [asking.get("/nowhere").status for _ in range(40)]
    finally:
        ours.removeHandler(writer)
        writer.close()
        asking.close()
    assert statuses == [404] * 40
    assert (writer.n_lost > 0) == (taken is not None)


def test_lost_lines_are_counted_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MOST_WAITING", 1)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"x")
    writer = LogWriter(writing, form="json")
    for number in range(9):
        writer.handle(logging.LogRecord("armscope", 40, "x.py", 1, str(number), None, None))
    n_lost = writer.n_lost
    assert n_lost >= 7
    os.read(reading, 1 << 20)
    writer.close()
    last = [json.loads(line) for line in os.read(reading, 1 << 20).decode().splitlines()][-1]
    assert (last["event"], last["lines"]) == ("lines lost", n_lost)


def test_a_foreign_logger_names_its_line_and_no_message() -> None:
    record = logging.LogRecord("streamlit.runtime", 40, "/lib/x/y/z.py", 7, "canarytext", None, None)
    assert {**fields_of(record), "time": ""} == {
        **{"time": "", "level": "error", "event": "message"},
        **{"logger": "streamlit.runtime", "at": "x/y/z.py:7"},
    }
