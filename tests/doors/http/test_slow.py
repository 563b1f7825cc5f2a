"""Slow, silent and unknown clients keep no one else waiting, and what is held for them is bounded."""

from __future__ import annotations

import stat
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest
import urllib3

from core.doors.http.guard import BODIES_OF_TOKEN
from core.flows.context import Context
from core.formats.strict import MAX_BODY_BYTES
from tests.doors.examples import ARM, example_world
from tests.doors.http.slow import AT, STREAMING, Running, crowds, head_of, running
from tests.waiting import until

_JSON = "application/json"
_MOST_MIB = 64


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    context = example_world(tmp_path)
    yield context
    context.store.close()


def look(server: Running) -> None:
    """The probes answer, and so does a reward by a token."""
    for path in ("/healthz", "/livez", "/readyz"):
        assert server.ask(path)[0] == 200
    status, told, _ = server.ask(f"{AT}/rewards", {"arm": ARM, "value": 0.5}, **server.bearer)
    assert status == 200, told


def upload(server: Running, n_bytes: int, bytes_a_second: int) -> tuple[int, int]:
    """An honest upload by a thin line: the number of its runs, and of those that were recorded."""
    line = b'{"kind":"run","uid":"%d-%08d","arms":["tool:web:search"]}\n'
    uid, number = threading.get_ident(), 0

    def pieces() -> Iterator[bytes]:
        nonlocal number
        n_sent, began = 0, time.monotonic()
        while n_sent < n_bytes:
            piece = b"".join(line % (uid, number + at) for at in range(128))
            number += 128
            n_sent += len(piece)
            time.sleep(max(0.0, n_sent / bytes_a_second - (time.monotonic() - began)))
            yield piece

    answer = urllib3.request(
        "POST",
        f"http://127.0.0.1:{server.port}{AT}/runs:batch",
        body=pieces(),
        headers={"Content-Type": "application/x-ndjson", **server.bearer},
        retries=False,
        timeout=600,
    )
    assert answer.status == 207
    return number, answer.data.count(b'"ok":true')


@pytest.mark.parametrize("n_bytes", [4 << 20, pytest.param(200 << 20, marks=pytest.mark.long)])
def test_creeping_bodies_on_every_streaming_route_keep_nobody_waiting(n_bytes: int, context: Context) -> None:
    """48 on each route by the machine's operator, and 16 honest uploads of a token that finish meanwhile."""
    with running(context) as server, crowds(server.port, len(STREAMING)) as creeping:
        before = server.forget_peak()
        for crowd, (path, media) in zip(creeping, STREAMING.items(), strict=True):
            crowd.connect(48, head_of(path, media))
        n_runs: list[tuple[int, int]] = []
        uploads = [
            threading.Thread(target=lambda: n_runs.append(upload(server, n_bytes // 16, 1 << 16)))
            for _ in range(16)
        ]
        for one in uploads:
            one.start()
        began, peak = time.monotonic(), before
        while any(one.is_alive() for one in uploads):
            for crowd in creeping:
                crowd.send(b"1\r\n \r\n")
            if time.monotonic() - began < 20:
                assert not any(crowd.answered() for crowd in creeping), "they are still there"
            look(server)
            # Later they are recorded, and after a minute the alerts are looked at: that takes memory of its own.
            if time.monotonic() - began < min(50, n_bytes / 16 / (1 << 16)):
                peak = server.memory_mib("VmHWM")
            time.sleep(0.3)
        assert len(n_runs) == 16
        assert all(n_sent == n_recorded > 0 for n_sent, n_recorded in n_runs)
        assert peak - before < _MOST_MIB


def test_unknown_callers_are_answered_before_their_bodies_and_take_no_memory(context: Context) -> None:
    almost = b"x" * (MAX_BODY_BYTES - 10)
    wrong = head_of(f"{AT}/rewards", _JSON, "Authorization: Bearer arms_nonsense", n_bytes=MAX_BODY_BYTES)
    with running(context) as server, crowds(server.port, 2) as (silent, pouring):
        look(server)
        before = server.forget_peak()
        silent.connect(100, wrong)
        until(lambda: len(silent.answered()) == 100)
        assert silent.answered() == [401] * 100, "nothing of a body was sent"
        pouring.connect(200, wrong)
        pouring.pour(almost, at_most_s=5)
        until(lambda: len(pouring.answered()) == 200)
        assert set(pouring.answered()) <= {401, 429, 0}
        look(server)
        silent.close()
        pouring.close()
        look(server)
        assert server.memory_mib("VmHWM") - before < _MOST_MIB


def test_known_callers_hold_no_more_than_is_said(context: Context) -> None:
    """So many bodies of one token, each nearly complete; the one after is refused, and others come in."""
    almost = b"x" * (MAX_BODY_BYTES - 10)
    with running(context) as server, crowds(server.port) as (known,):
        look(server)
        before = server.forget_peak()
        bearer = f"Authorization: Bearer {server.secret}"
        known.connect(BODIES_OF_TOKEN, head_of(f"{AT}/rewards", _JSON, bearer, n_bytes=MAX_BODY_BYTES))
        known.send(b"x")
        time.sleep(0.2)
        known.connect(1, head_of(f"{AT}/rewards", _JSON, bearer, n_bytes=MAX_BODY_BYTES))
        until(lambda: bool(known.answered()))
        assert known.answered() == [429]
        for one in known.open[:-1]:
            one.settimeout(30)
            one.sendall(almost[:-1])
        until(lambda: len(_spooled(server)) == BODIES_OF_TOKEN)
        files = _spooled(server)
        assert len(files) == BODIES_OF_TOKEN
        assert all(stat.S_IMODE(mode) == 0o600 for mode in files)
        for path in ("/healthz", "/livez", "/readyz"):
            assert server.ask(path)[0] == 200
        assert server.ask(f"{AT}/rewards", {"arm": ARM, "value": 0.5})[0] == 200
        assert server.memory_mib("VmHWM") - before < _MOST_MIB
        known.close()
        until(lambda: not _spooled(server))
        assert _spooled(server) == [], "their files are gone"


def _spooled(server: Running) -> list[int]:
    """The modes of the files without a name that the server has open."""
    modes = []
    for link in Path(f"/proc/{server.pid}/fd").iterdir():
        try:
            if "(deleted)" in str(link.readlink()):
                modes.append(link.stat().st_mode)
        except OSError:  # closed meanwhile
            continue
    return modes


@pytest.mark.parametrize("n", [1_200, pytest.param(5_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("head", [b"", b"GET /healthz HTTP/1.1\r\nHost: loc"], ids=["silent", "half a head"])
def test_idle_connections_make_room_for_others(n: int, head: bytes, context: Context) -> None:
    with (
        running(context) as server,
        crowds(server.port) as (crowd,),
        closing(HTTPConnection("127.0.0.1", server.port, timeout=20)) as kept,
    ):
        look(server)
        before = server.forget_peak()
        for _ in range(n // 100):
            kept.request("GET", "/livez")
            assert kept.getresponse().read().startswith(b'{"ok":true')
            crowd.connect(100, head)
            assert server.ask("/healthz")[0] == 200
        look(server)
        ended = [status for status in crowd.answered() if status == 0]
        assert len(ended) >= n - 1_024
        assert server.memory_mib("VmHWM") - before < _MOST_MIB


def test_beside_the_pages_it_is_the_same(context: Context) -> None:
    """Creeping, unknown and idle clients of ``serve`` at one time; probes, a reward and a page are answered."""
    with (
        running(context, command=("serve", "--no-browser")) as server,
        crowds(server.port, 3) as (creeping, unknown, idle),
    ):
        look(server)
        before = server.forget_peak()
        for path, media in STREAMING.items():
            creeping.connect(16, head_of(path, media))
        wrong = head_of(f"{AT}/rewards", _JSON, "Authorization: Bearer arms_nonsense", n_bytes=MAX_BODY_BYTES)
        unknown.connect(100, wrong)
        idle.connect(1_200)
        creeping.send(b"1\r\n \r\n")
        look(server)
        page = urllib3.request("GET", f"http://127.0.0.1:{server.port}/runs", retries=False, timeout=20)
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert creeping.answered() == [], "they are still there"
        assert len(idle.answered()) >= 1_200 + 64 - 1_024, "the oldest made room"
        until(lambda: len(unknown.answered()) == 100)
        assert set(unknown.answered()) <= {401, 0}
        assert server.memory_mib("VmHWM") - before < _MOST_MIB


def test_where_a_token_is_required_the_machines_own_user_needs_one(context: Context) -> None:
    with running(context, "--require-token") as server:
        path = f"{AT}/status"
        assert [server.ask(path)[0], server.ask(path, **server.bearer)[0]] == [401, 200]
