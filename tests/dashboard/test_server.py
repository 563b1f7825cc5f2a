"""What our application adds to Streamlit's, seen through a real server and a real connection."""

from __future__ import annotations

import asyncio
import gc
import logging
import pkgutil
import socket
from pathlib import Path
from typing import cast
from urllib.request import urlopen

import pytest
import uvicorn
from starlette.types import Message, Receive, Scope, Send
from websockets.asyncio.client import connect

from core import open_learner
from core.doors.http.app import Api
from dashboard.gate import PERSON
from dashboard.server import Beside, Promptly, Sockets, connection_of, remember_names, warm
from tests.doors.http.asking import Asking
from tests.doors.test_alerting import watching


async def _delays(*, promptly: bool) -> set[tuple[str, bool]]:
    """Return whether a socket made as Streamlit makes it delays small messages, of answers and over a web socket."""
    found: set[tuple[str, bool]] = set()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        connection = connection_of(receive)
        assert connection is not None
        found.add((scope["type"], not connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.close"})
        else:
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})

    listening = socket.socket(socket.AF_INET)
    listening.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        Promptly(app) if promptly else app, ws="websockets-sansio", lifespan="off", log_level="error"
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve([listening]))
    while not server.started:
        await asyncio.sleep(0.01)
    place = f"127.0.0.1:{listening.getsockname()[1]}"
    async with connect(f"ws://{place}/"):
        pass
    with await asyncio.to_thread(urlopen, f"http://{place}/"):
        pass
    server.should_exit = True
    await serving
    return found


def test_small_messages_leave_at_once() -> None:
    held = asyncio.run(_delays(promptly=False))
    assert held == {("http", True), ("websocket", True)}, "else Promptly has nothing left to do"
    assert asyncio.run(_delays(promptly=True)) == {("http", False), ("websocket", False)}


def test_without_a_connection_there_is_nothing_to_set() -> None:
    async def receive() -> dict[str, str]:
        return {}

    assert connection_of(receive) is None


def test_names_of_options_are_spelt_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should Streamlit call it otherwise some day, nothing breaks, and this says that nothing is left to do."""
    name, asked = "streamlit.runtime.app_session.to_snake_case", list[str]()
    spelt = pkgutil.resolve_name(name)
    assert spelt("codeFontSize") == "code_font_size"

    def spell(option: str) -> str:
        asked.append(option)
        return str(spelt(option))

    monkeypatch.setattr(name, spell)
    remember_names()
    assert [pkgutil.resolve_name(name)("codeFontSize") for _ in range(3)] == ["code_font_size"] * 3
    assert asked == ["codeFontSize"]


def test_programs_are_answered_beside_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARMSCOPE_DATABASE", str(tmp_path / "a.db"))
    monkeypatch.delenv("ARMSCOPE_LEARNER", raising=False)

    async def pages(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 418, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    asking = Asking(app=cast("Api", Beside(pages)))
    run = {"kind": "run", "uid": "r1", "arms": ["tool:fs:Read"], "calls": ["Read"]}
    assert asking.post("/api/v1/learners/default/runs", run).document["told"] == "new"
    assert asking.get("/api/nothing").status == 404
    assert [asking.get(path).status for path in ("/", "/runs", "/_stcore/health", "/apis")] == [418] * 4
    asking.close()
    with open_learner(tmp_path / "a.db") as learner:
        assert learner.status().runs == 1


def test_alerts_are_looked_for_as_long_as_pages_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMSCOPE_DATABASE", str(tmp_path / "a.db"))
    for name in (
        "freeze",
        "collect",
        "set_threshold",
    ):  # what is right for a server's process is not for this one
        monkeypatch.setattr(gc, name, lambda *_: None)
    loggers = [logging.getLogger(name) for name in ("asyncio", "uvicorn.error", "uvicorn.asgi", "streamlit")]
    for one in (*loggers, *logging.getLogger().handlers):
        monkeypatch.setattr(one, "filters", [*one.filters])

    async def served() -> list[str]:
        async with warm(None):
            return watching()

    assert asyncio.run(served()) == ["armscope-alerts"]
    assert watching() == []


def test_one_person_does_not_take_all_pages_and_each_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboard.server.sockets_allowed", lambda _: 8)

    async def opened() -> None:
        leave = asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await leave.wait()
            raise ConnectionResetError("however it ends")

        sockets, told = Sockets(app), list[Message]()

        async def send(message: Message) -> None:
            told.append(message)

        async def receive() -> Message:
            return {"type": "websocket.connect"}

        def come(name: str) -> asyncio.Task[None]:
            scope: Scope = {"type": "websocket", "path": "/", "headers": [], PERSON: ("i", name)}
            scope["extensions"] = {"websocket.http.response": {}}
            return asyncio.create_task(sockets(scope, receive, send))

        for _ in range(3):
            told.clear()
            leave.clear()
            tasks = [come(name) for name in ("ada",) * 9 + ("bo", "cy", "dan", "eve") * 2]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            refused = [one for one in told if one["type"] == "websocket.http.response.start"]
            assert [one["status"] for one in refused] == [503] * (7 + 2)
            leave.set()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(opened())


def test_other_requests_come_in_between_the_messages_of_many_pages() -> None:
    async def heard() -> list[int]:
        order, n = list[int](), 0

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await receive()
            order.append(n)

        async def receive() -> Message:
            return {"type": "websocket.receive", "bytes": b""}

        async def send(message: Message) -> None:
            raise AssertionError(message)

        sockets, scope = Sockets(app), {"type": "websocket", "path": "/", "headers": []}
        tasks = [asyncio.create_task(sockets(scope, receive, send)) for _ in range(50)]
        while len(order) < len(tasks):
            n += 1  # a turn of the event loop, in which it looks for other requests
            await asyncio.sleep(0)
        return order

    assert len(set(asyncio.run(heard()))) == 50, "one message a turn"
