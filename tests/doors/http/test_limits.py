"""Limits of callers and bodies: who is counted, what is refused, and that a refusal holds nothing."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import ASGIApp, Message

from core.doors.exchange import HttpAnswer, HttpCall
from core.doors.http import app as app_module
from core.doors.http.address import network_of
from core.doors.http.app import Api
from core.doors.http.bodies import IN_MEMORY_BYTES, Bodies
from core.doors.http.connections import MOST_CONNECTIONS, bounded_protocol
from core.doors.http.guard import BODIES, BODIES_OF_TOKEN, FAILURES_PER_MINUTE, Callers, Listener, Slots
from core.doors.http.refusals import Full, TooLarge, TooMany
from core.doors.http.routes import NDJSON, Route
from core.doors.http.serving import doors
from core.errors import StoreFull, Unidentified
from core.flows import queries
from core.flows.audit import denials
from core.flows.context import Context
from core.flows.tokens import create_token, revoke_token
from core.records.actor import Actor
from tests.doors.examples import ARM
from tests.doors.http.asking import Asking
from tests.doors.http.conftest import MARA, ROUTES, Asked, at_desk
from tests.doors.http.slow import crowds, head_of

AT: Final = "/api/v1/learners/default"
RUN: Final = {"kind": "run", "uid": "x", "arms": [ARM]}
LINE: Final = json.dumps(RUN).encode() + b"\n"


class Untouched:
    """A body that must not be read."""

    n_reads = 0

    async def __call__(self) -> Message:
        self.n_reads += 1
        return {"type": "http.request", "body": b"", "more_body": False}


def headers_only(app: ASGIApp, path: str, headers: dict[str, str], body: Untouched) -> int:
    """The status of a request whose body is still on its way."""
    statuses: list[int] = []

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
            assert body.n_reads == 0, "headers decide"

    every = {"host": "localhost", "content-length": "100", "content-type": "application/json", **headers}
    scope: dict[str, Any] = {
        "type": "http", "method": "POST", "path": path, "client": ("203.0.113.7", 1),
        "headers": [(name.encode(), value.encode()) for name, value in every.items()],
    }  # fmt: skip

    async def ask() -> None:
        await app(scope, body, send)

    asyncio.run(ask())
    return statuses[0]


@pytest.mark.parametrize(
    "path", [f"{AT}/rewards", f"{AT}/runs:batch", f"{AT}/imports", "/v1/traces", "/api/reward"]
)
def test_an_unknown_caller_is_refused_before_the_body(path: str, context: Context, ask_as: Asked) -> None:
    app = ask_as(Listener()).app
    kinds = {f"{AT}/runs:batch": NDJSON, f"{AT}/imports": "application/octet-stream"}
    kind = {"content-type": kinds.get(path, "application/json")}
    for wrong in ({}, {"authorization": "Bearer arms_nonsense"}, {"x-api-key": "arms_nonsense"}):
        assert headers_only(app, path, {**kind, **wrong}, Untouched()) == 401


def test_a_stream_that_a_token_may_not_send_is_refused_before_it_comes(ask_as: Asked) -> None:
    app = ask_as(Listener(), vi=Actor(name="token:vi", role="viewer", token=3)).app
    headers = {"authorization": "Bearer vi", "content-type": NDJSON}
    assert headers_only(app, f"{AT}/runs:batch", headers, Untouched()) == 403


def test_a_token_revoked_while_its_body_arrives_does_nothing(context: Context) -> None:
    made = create_token(context, "bot", scopes=("ingest",), learners=("default",))
    asking = Asking(app=doors(at_desk(context), asks_tokens=True))
    before = queries.revision(context).n_runs
    statuses: list[int] = []
    pieces = iter([LINE[:9], LINE[9:]])

    async def receive() -> Message:
        piece = next(pieces)
        if piece == LINE[9:]:
            revoke_token(context, made.token.id)
        return {"type": "http.request", "body": piece, "more_body": piece == LINE[:9]}

    async def send(message: Message) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    headers = [(b"host", b"localhost"), (b"content-type", NDJSON.encode())]
    headers.append((b"authorization", f"Bearer {made.secret}".encode()))
    scope = {"type": "http", "method": "POST", "path": f"{AT}/runs:batch", "headers": headers}
    asking.loop.run_until_complete(asking.app(scope, receive, send))
    asking.close()
    assert statuses == [401]
    assert queries.revision(context).n_runs == before


# Failed authentication


def callers(**actors: int) -> Callers:
    def identify(secret: str) -> Actor:
        if secret not in actors:
            raise Unidentified("A valid token is needed, got none.", next_step="Send one.")
        return Actor(name=f"token:{secret}", role="viewer", token=actors[secret])

    return Callers(identify, Listener(local=MARA), failures_per_minute=3, seconds=lambda: 0.0)


def sends(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def test_an_address_may_fail_so_often_and_no_other_pays_for_it() -> None:
    known = callers(good=1, late=2)
    assert known.counted_actor(sends("good"), "203.0.113.7").token == 1
    for _ in range(3):
        with pytest.raises(Unidentified):
            known.counted_actor(sends("arms_bad"), "203.0.113.7")
    with pytest.raises(TooMany) as refused:
        known.counted_actor(sends("arms_bad"), "203.0.113.7")
    assert refused.value.limits["ratelimit-remaining"] == "0"
    assert known.counted_actor(sends("good"), "203.0.113.7").token == 1, "known before"
    with pytest.raises(TooMany):
        known.counted_actor(sends("late"), "203.0.113.7")
    assert known.counted_actor(sends("late"), "203.0.113.8").token == 2


def test_valid_tokens_are_no_failures() -> None:
    known = callers(**{f"t{number}": number + 1 for number in range(50)})
    assert [known.counted_actor(sends(f"t{number}"), "::1").token for number in range(50)] == list(
        range(1, 51)
    )
    assert known.failures.headers(network_of("::1"))["ratelimit-remaining"] == "3"


@given(st.ip_addresses(v=6))
def test_addresses_of_one_network_are_one_caller(address: Any) -> None:  # noqa: ANN401 - either version
    other = type(address)(int(address) ^ 0xFFFF)  # in the same /64
    if address.ipv4_mapped is None:
        assert network_of(str(address)) == network_of(str(other))
    else:
        assert network_of(str(address)) == str(address.ipv4_mapped)


def test_refused_callers_are_counted_and_told_their_limits(context: Context) -> None:
    made = create_token(context, "bot", scopes=("ingest", "read"), learners=("default",))
    asking = Asking(app=doors(at_desk(context), asks_tokens=True))
    wrong = [asking.get(f"{AT}/status", **sends("nonsense")) for _ in range(FAILURES_PER_MINUTE)]
    while wrong[-1].status == 401 and len(wrong) < 3 * FAILURES_PER_MINUTE:  # a slow machine is given more
        wrong.append(asking.get(f"{AT}/status", **sends("nonsense")))
    assert [one.status for one in wrong] == [401] * (len(wrong) - 1) + [429]
    assert [wrong[0].headers["ratelimit-remaining"], wrong[-1].headers["ratelimit-remaining"]] == ["119", "0"]
    assert len({one.headers["x-request-id"] for one in wrong}) == len(wrong)
    assert {(one.actor, one.action) for one in denials(context).denials} == {("", "identify")}
    bearer = {"authorization": f"Bearer {made.secret}"}
    assert asking.get(f"{AT}/status", **bearer).status == 429, "first seen from an address that guesses"
    asking.close()
    asking = Asking(app=doors(at_desk(context), per_minute=2))
    answers = [asking.get(f"{AT}/status", **bearer) for _ in range(3)]
    assert [one.status for one in answers] == [200, 200, 429]
    assert [one.headers["ratelimit-remaining"] for one in answers] == ["1", "0", "0"]
    assert {one.headers["ratelimit-limit"] for one in answers} == {"2"}
    assert all(0 < int(one.headers["ratelimit-reset"]) <= 60 for one in answers)
    local = [asking.get(f"{AT}/status") for _ in range(20)]
    assert {one.status for one in local} == {200}, "the operator of this machine is not counted"
    assert not any("ratelimit-limit" in one.headers for one in local)
    asking.close()


# Bodies


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=40))
def test_slots_are_given_back_and_never_exceeded(steps: list[tuple[int, bool]]) -> None:
    slots, inside = Slots(of_token=2, of_all=4), list[int]()
    for token, enters in steps:
        if enters:
            # Token 0 is the operator of this machine, without a limit of its own.
            allowed = len(inside) < 4 and (token == 0 or inside.count(token) < 2)
            try:
                slots.enter(token)
            except (TooMany, Full):
                assert not allowed
            else:
                assert allowed
                inside.append(token)
        elif token in inside:
            inside.remove(token)
            slots.leave(token)


def bytes_of(bodies: Bodies, sizes: list[int], most: int = 1 << 30) -> tuple[bytes, bool]:
    """A body of such pieces, and whether it was held in a file."""
    sent = [bytes([number % 251]) * size for number, size in enumerate(sizes)]

    async def arriving() -> Any:  # noqa: ANN401 - an async generator
        for piece in sent:
            yield piece

    async def held() -> tuple[bytes, bool]:
        body = await bodies.held(arriving(), most)
        try:
            assert body.whole() == b"".join(body.pieces()) == b"".join(sent)
            return body.whole(), body.file is not None
        finally:
            body.close()

    return asyncio.run(held())


@given(st.lists(st.integers(0, 90_000), max_size=8))
def test_a_body_is_what_was_sent_in_memory_or_in_a_file(sizes: list[int]) -> None:
    bodies = Bodies()
    _, is_file = bytes_of(bodies, sizes)
    assert is_file == (sum(sizes) > IN_MEMORY_BYTES)
    assert bodies.n_bytes == 0


def test_what_all_bodies_hold_is_bounded_and_given_back() -> None:
    bodies = Bodies(held_bytes=300_000)
    with pytest.raises(Full):
        bytes_of(bodies, [100_000] * 4)
    with pytest.raises(TooLarge):
        bytes_of(bodies, [100_000] * 2, most=150_000)
    assert bodies.n_bytes == 0
    bytes_of(bodies, [100_000] * 3)


def test_a_full_disk_is_said_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Disk", (), {"free": 1 << 40}))
    bodies = Bodies()
    with pytest.raises(StoreFull, match="TMPDIR"):
        bytes_of(bodies, [IN_MEMORY_BYTES + 1])
    assert bodies.n_bytes == 0
    assert bytes_of(bodies, [IN_MEMORY_BYTES])[1] is False


# At a socket


@contextmanager
def at_socket(context: Context, routes: Any = ROUTES, **listener: Any) -> Iterator[tuple[Api, int]]:  # noqa: ANN401
    app = Api(at_desk(context), routes, listener=Listener(local=MARA, **listener))
    listening = socket.create_server(("127.0.0.1", 0))
    settings = uvicorn.Config(app, lifespan="off", log_level="critical", http=bounded_protocol())
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield app, listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def answer_to(port: int, sent: bytes, creep: Callable[[socket.socket], None] | None = None) -> bytes:
    """All that a server answers until it ends the connection."""
    with socket.create_connection(("127.0.0.1", port), 20) as one:
        one.sendall(sent)
        if creep is not None:
            creep(one)
        answer = b""
        try:
            while piece := one.recv(65_536):
                answer += piece
        except ConnectionError:
            pass
        return answer


def test_a_creeping_body_ends_in_time_and_one_that_arrives_has_time(context: Context) -> None:
    """16 KiB add a second: a body that brings them may take longer than one that creeps."""
    head = f"POST {AT}/runs:batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: {NDJSON}\r\n"

    def creep(one: socket.socket) -> None:
        try:
            for _ in range(100):
                one.sendall(b"1\r\n \r\n")
                time.sleep(0.05)
        except OSError:
            return

    with at_socket(context, patience_s=0.4) as (_, port):
        began = time.monotonic()
        answer = answer_to(port, f"{head}Transfer-Encoding: chunked\r\n\r\n".encode(), creep)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"connection: close" in answer
        assert time.monotonic() - began < 4, "a byte now and then is no reason to go on"
        padding = b" " * 16_000 + b"\n"
        body = padding + LINE

        def thin(one: socket.socket) -> None:
            for start in range(0, len(body), 4_000):
                one.sendall(body[start : start + 4_000])
                time.sleep(0.15)

        whole = f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
        assert answer_to(port, whole, thin).startswith(b"HTTP/1.1 207 "), (
            "0.75 s, at more than 16 KiB a second"
        )


@pytest.mark.parametrize("path", [f"{AT}/resets", "/__openclaw__/api/learning/reset", "/v1/learning/reset"])
def test_a_body_with_two_lengths_is_refused_and_resets_nothing(context: Context, path: str) -> None:
    """Servers in a row may read different bodies; of a reset an empty one can mean everything."""
    with context.reading() as snapshot:
        before = snapshot.revision
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
    )
    lengths = "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    with at_socket(context) as (_, port):
        answer = answer_to(port, f"{head}{lengths}".encode(), lambda _: None)
    assert answer.startswith(b"HTTP/1.1 400 ")
    with context.reading() as snapshot:
        assert snapshot.revision == before


def test_probes_answer_while_every_thread_works_and_every_slot_is_taken(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "_MOST_OPEN", 40)
    going_on = threading.Event()

    def wait(desk: object, actor: Actor, call: HttpCall) -> HttpAnswer:
        going_on.wait(30)
        return HttpAnswer(200, b"{}")

    routes = (*ROUTES, Route(("GET",), "/api/wait", "read", wait))
    line = b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with at_socket(context, routes) as (app, port):
        waiting = [socket.create_connection(("127.0.0.1", port), 20) for _ in range(40)]
        try:
            for one in waiting:
                one.sendall(line % b"/api/wait")
            until = time.monotonic() + 10
            while app._n_open < 40 and time.monotonic() < until:
                time.sleep(0.01)
            for _ in range(3):
                for probe in (b"/healthz", b"/livez"):
                    assert answer_to(port, line % probe).startswith(b"HTTP/1.1 200 ")
                full = answer_to(port, line % b"/api/v1/version")
                assert full.startswith(b"HTTP/1.1 503 ")
                assert b"retry-after: 1" in full
        finally:
            going_on.set()
            for one in waiting:
                one.close()


@pytest.mark.parametrize("n_draining", [0, 128])
def test_refused_callers_take_no_place_of_others(
    n_draining: int, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server still reads the bodies of up to ``n_draining`` refused requests."""
    monkeypatch.setattr(app_module, "_MOST_OPEN", 5)
    monkeypatch.setattr(app_module, "_MOST_DRAINING", n_draining)
    line = b"GET /api/v1/version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    wrong = head_of(f"{AT}/rewards", "application/json", "Authorization: Bearer arms_nonsense", n_bytes=1_000)
    with at_socket(context) as (_, port), crowds(port) as (crowd,):
        crowd.connect(30, wrong)
        until = time.monotonic() + 10
        while len(crowd.answered()) < 30 and time.monotonic() < until:
            time.sleep(0.01)
        assert set(crowd.answered()) <= {401, 503}, "as they come at one time"
        assert answer_to(port, line).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("version", ["1.0", "0.9"])
def test_an_older_http_is_refused_without_a_sign_in(version: str, context: Context) -> None:
    line = f"GET {AT}/status HTTP/{version}\r\nHost: localhost\r\n\r\n".encode()
    with at_socket(context) as (_, port):
        assert answer_to(port, line).split(b" ")[1] in {b"403", b"400"}
    with at_socket(context, signs_in=True) as (_, port):
        assert answer_to(port, line).startswith(b"HTTP/1.1 200 ")


def test_the_bounds_fit_into_each_other() -> None:
    """Idle connections can always make room, and the operator's bodies leave room for requests."""
    assert BODIES_OF_TOKEN < BODIES < app_module._MOST_OPEN < MOST_CONNECTIONS
