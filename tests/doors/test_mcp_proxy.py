"""The proxy in front of MCP servers: same answers, chosen tools, recorded runs, and work without a learner."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import mcp.client
import pytest
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import CreateMessageResult, TextContent
from msgspec.structs import replace

from core import Client, open_learner
from core.doors.mcp.proxy import Lines, Proxy
from core.doors.mcp.session import ProxySession
from core.doors.mcp.upstream import ServerOptions, configured, server_of
from core.doors.protocol import LearnerProtocol
from core.doors.python import LateLearner
from core.errors import InvalidSetting, StoreBusy
from core.settings import Settings
from tests.bench.servers import free_port
from tests.conftest import ROOT
from tests.doors.conftest import Shell
from tests.doors.front import Front
from tests.doors.http.test_served import served
from tests.worlds import context_at

pytestmark = pytest.mark.anyio
Document = dict[str, Any]
RAW = ROOT / "tests" / "doors" / "raw_mcp.py"
NAMES = ["say", "wait", "ask", "die", "only_a", "other_a"]
PATIENCE_S = 60

LIAR = """
import json, sys
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
print("Listening. {[", flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, id_ = message.get("method"), message.get("id")
    if method == "initialize":
        say(id=id_, result={"protocolVersion": 7, "capabilities": {"tools": True}, "instructions": [1]})
    elif method == "tools/list":
        say(id=id_, result={"tools": {"name": "no list"}})
    elif method == "notifications/poke":
        for number in range(2000):
            say(method="notifications/unknown", params={"number": number})
        say(id=50, result={"forged": True})
        say(method="notifications/cancelled", params={"requestId": "a:1"})
    elif id_ is not None:
        say(id=[id_], result={})
        say(id=id_, error="odd")
        say(id=id_, result={"again": True})
"""

CUTTER = r"""
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    id_ = message.get("id")
    if message["method"] == "initialize":
        info = {"name": "c", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    elif message["method"] == "tools/list":
        result = {"tools": [{"name": "cut", "description": "a \ud83d", "inputSchema": {"type": "object"}}]}
    elif id_ is not None:
        result = {"content": [{"type": "text", "text": "\ud83d \ud83d\ude00 " + message["params"]["arguments"]["x"]}]}
    if id_ is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": id_, "result": result}), flush=True)
"""

PLANTED = ("-m", "tests.doors.planted_mcp")

changes: list[str] = []

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-IS", "-c", "import time; time.sleep(600)"])
sys.stderr.write(f"pids {os.getpid()} {child.pid}\\n")
sys.stderr.flush()
time.sleep(600)
"""
"""A server that neither its end of input nor a TERM ends, with a process of its own."""

_CLIENT = """
import subprocess, sys
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)
print(server.pid, flush=True)
sys.stdin.read()
server.stdin.close()
server.wait()
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def raw(name: str) -> ServerOptions:
    return ServerOptions(command=sys.executable, args=("-IS", str(RAW), name))


def late(database: Path) -> Callable[[], LearnerProtocol]:
    return lambda: LateLearner(Settings.from_environment(database=str(database)))


class Peer:
    """A client without an SDK: it sees each byte."""

    def __init__(self, reader: asyncio.StreamReader, writing: int) -> None:
        self._reader = reader
        self.writing = writing
        self.others: list[Document] = []
        self._numbers = iter(range(1, 10_000))

    def send(self, **message: Any) -> None:  # noqa: ANN401
        os.write(self.writing, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def line(self) -> bytes:
        return await asyncio.wait_for(self._reader.readline(), PATIENCE_S)

    async def answer(self, number: object) -> Document:
        while True:
            message: Document = json.loads(await self.line())
            if message.get("id") == number and "method" not in message:
                return message
            self.others.append(message)

    async def ask(self, method: str, **params: Any) -> Document:  # noqa: ANN401
        number = next(self._numbers)
        self.send(id=number, method=method, params=params)
        return await self.answer(number)

    async def call(self, name: str, meta: Document | None = None, **arguments: Any) -> Document:  # noqa: ANN401
        more = {} if meta is None else {"_meta": meta}
        return await self.ask("tools/call", name=name, arguments=arguments, **more)

    async def tools(self) -> list[str]:
        return [tool["name"] for tool in (await self.ask("tools/list"))["result"]["tools"]]

    async def begin(self) -> Document:
        about = {"name": "peer", "version": "1"}
        answer = await self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=about)
        self.send(method="notifications/initialized")
        return answer

    async def leave(self) -> None:
        os.close(self.writing)


@asynccontextmanager
async def peer_of(server: ServerOptions) -> AsyncIterator[Peer]:
    """A client of one server, without a proxy."""
    read, wrote = os.pipe()
    process = await asyncio.create_subprocess_exec(
        server.command, *server.args, stdin=read, stdout=asyncio.subprocess.PIPE, limit=1 << 24
    )
    assert process.stdout is not None
    yield Peer(process.stdout, wrote)
    os.close(wrote)
    os.close(read)
    await process.wait()


@asynccontextmanager
async def proxied(
    open_: Callable[[], LearnerProtocol],
    *names: str,
    is_named: bool = False,
    begins: bool = True,
    **others: ServerOptions,
) -> AsyncIterator[Peer]:
    """A client of a proxy in front of raw servers and ``others``; at the end it leaves."""
    (read, wrote), (reading, writing) = os.pipe(), os.pipe()
    lines, session = Lines(read, writing), ProxySession(open_)
    servers = {name: raw(name) for name in names} | others
    upstream = [server_of(name, options) for name, options in servers.items()]
    serving = asyncio.create_task(Proxy(upstream, session, lines, is_named=is_named).serve())
    reader = asyncio.StreamReader(limit=1 << 24)
    pipe = os.fdopen(reading, "rb")
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    peer = Peer(reader, wrote)
    try:
        if begins:
            await peer.begin()
        yield peer
    finally:
        with suppress(OSError):
            os.close(wrote)
        await asyncio.wait_for(serving, PATIENCE_S)
        transport.close()
        os.close(read)
        os.close(writing)


async def test_what_a_proxy_does_not_know_passes_as_it_is(tmp_path: Path) -> None:
    async with proxied(late(tmp_path / "a.db"), "a", begins=False) as peer:
        begun = await peer.begin()
        assert begun["x-envelope"] == "a"
        assert begun["result"]["capabilities"]["x"] == {"a": True}
        peer.send(id="é", method="unknown/any", params={"x": 1.50, "big": 2**70})
        line = await peer.line()
        assert b'"id": "\\u00e9"' in line, "byte by byte, with its spaces and escapes"
        assert json.loads(line)["result"]["got"]["params"] == {"x": 1.5, "big": 2**70}
        missing = await peer.ask("nothing/known")
        assert missing["error"] == {"code": -32601, "message": "Method not found"}
        peer.send(method="notifications/y", params={"z": [1]})
        assert json.loads(await peer.line())["params"]["got"]["params"] == {"z": [1]}
        await peer.tools()
        unknown = await peer.call("nothing")
        assert unknown["error"]["data"] == {"x": 1}


async def test_a_list_has_all_pages_and_its_unknown_members(tmp_path: Path) -> None:
    async with proxied(late(tmp_path / "a.db"), "a") as peer:
        answer = await peer.ask("tools/list")
        assert answer["x-envelope"] == "a"
        assert answer["result"]["_meta"] == {"x": 1}
        assert "nextCursor" not in answer["result"]
        tools = answer["result"]["tools"]
        assert [tool["name"] for tool in tools] == NAMES
        assert tools[4]["x-unknown"] == {"é": [1000.0]}


async def test_odd_tools_are_listed_as_they_are(tmp_path: Path) -> None:
    async with proxied(late(tmp_path / "a.db"), "odd") as peer:
        tools = (await peer.ask("tools/list"))["result"]["tools"]
        assert [one["name"] for one in tools[:4]] == NAMES[:4]
        odd = [5, None, {}, {"name": ""}, {"name": 7}, {"name": "x" * 600}, {"name": "a\x07"}]
        assert tools[6:13] == odd
        assert tools[13] == tools[14] == tools[0]
        assert "result" in await peer.call("say")
        os.write(peer.writing, b"no JSON\n[]\n5\n" + b"[" * 10_000 + b"\n")
        for length in (8, 3, 2, 10_001):
            assert await peer.line() == f"no message: {length}\n".encode()
        assert "result" in await peer.call("say")
    with open_learner(tmp_path / "a.db") as learner:
        (row,) = learner.runs()
        assert learner.why(row.uid).facts.n_calls == 2
        assert learner.verify().clean


async def test_a_server_may_have_no_tool_or_know_no_tools(tmp_path: Path) -> None:
    async with proxied(late(tmp_path / "a.db"), "none") as peer:
        assert await peer.tools() == []
    async with proxied(late(tmp_path / "a.db"), "none", "a", begins=False) as peer:
        assert (await peer.ask("prompts/list"))["error"]["code"] == -32601
        assert (await peer.ask("tools/list"))["error"]["code"] == -32601, "before the handshake"
        await peer.begin()
        assert await peer.tools() == NAMES


def chooses(database: Path, n_tools: int) -> None:
    """A learner that knows the tools, and includes ``n_tools`` of them."""
    with open_learner(database) as learner:
        arms = [f"tool:a:{name}" for name in NAMES]
        for number in range(8):
            learner.record(f"earlier-{number}", arms=arms, calls=["say"])
        for name, value in {"k": n_tools, "baseline_rate": 0.0, "min_pulls": 0}.items():
            learner.change(name, value)


async def test_a_session_is_a_run_of_the_chosen_tools(tmp_path: Path) -> None:
    """A call of a hidden tool is answered, and the tool counts as one of the prompt from then on."""
    chooses(tmp_path / "a.db", 2)
    hidden: list[str] = []
    async with proxied(late(tmp_path / "a.db"), "a", is_named=True) as peer:
        shown = await peer.tools()
        assert len(shown) == 2
        assert "say" in shown, "it was always used"
        assert await peer.tools() == shown, "as long as the session lasts"
        hidden.extend(name for name in NAMES if name not in {*shown, "die", "ask", "wait"})
        assert json.loads((await peer.call("say"))["result"]["content"][0]["text"]) == ["a", {}]
        assert (await peer.call(hidden[0], fail=True))["result"]["isError"] is True
    with open_learner(tmp_path / "a.db") as learner:
        row = learner.runs()[0]
        story = learner.why(row.uid)
        assert (row.run_class, row.outcome, row.status) == ("selected", "observed", "completed")
        assert row.uid.startswith("mcp-")
        assert story.facts.channel == "peer"
        used = {one.arm for one in story.arms if one.referenced}
        assert used == {"tool:a:say", f"tool:a:{hidden[0]}"}
        assert sum(one.in_prompt for one in story.arms) == 3
        assert learner.verify().clean


async def test_turns_that_a_client_names_are_runs(tmp_path: Path) -> None:
    codex = {"x-codex-turn-metadata": {"turn_id": "2", "model": "gpt-x"}}
    async with proxied(late(tmp_path / "a.db"), "a", is_named=True) as peer:
        await peer.tools()
        for meta, name in (({"armscope/turn": "1"}, "say"), (codex, "only_a"), (codex, "say")):
            await peer.call(name, meta)
        started = [peer.call("wait", {"armscope/turn": "3"}, seconds=0.2)]
        peer.send(id="w", method="tools/call", params={"name": "say", "_meta": {"armscope/turn": "4"}})
        await asyncio.gather(*started)
    with open_learner(tmp_path / "a.db") as learner:
        runs = learner.runs()
        called = [sorted(one.arm for one in learner.why(row.uid).arms if one.referenced) for row in runs]
        assert sorted(map(len, called)) == [1, 1, 1, 2]
        assert ["tool:a:only_a", "tool:a:say"] in called
        assert sorted(str(row.model) for row in runs) == ["None", "None", "None", "gpt-x"]
        assert len({learner.why(row.uid).facts.session for row in runs}) == 1
        assert learner.verify().clean


async def test_an_excluded_tool_that_is_called_is_not_offered(tmp_path: Path) -> None:
    with open_learner(tmp_path / "a.db") as learner:
        learner.change("excluded_arms", ["tool:a:say"])
    async with proxied(late(tmp_path / "a.db"), "a", is_named=True) as peer:
        assert "say" not in await peer.tools()
        answer = await peer.call("say", x=1)
        assert answer["result"]["content"][0]["text"] == 'The tool "say" is not offered.'
        assert "result" in await peer.call("only_a", x=1)
    with open_learner(tmp_path / "a.db") as learner:
        (row,) = learner.runs()
        assert {one.arm: one.in_prompt for one in learner.why(row.uid).arms}["tool:a:say"] is False


async def test_twenty_calls_at_once_get_their_own_answers(tmp_path: Path) -> None:
    async with proxied(late(tmp_path / "a.db"), "a") as peer:
        for number in range(20):
            arguments = {"seconds": (20 - number) / 100, "number": number, "text": "x" * 100_000}
            peer.send(id=f"c{number}", method="tools/call", params={"name": "wait", "arguments": arguments})
            if number == 10:
                peer.send(id="list", method="tools/list")
        answers: dict[object, Document] = {}
        while len(answers) < 21:
            message = json.loads(await peer.line())
            answers[message["id"]] = message
        for number in range(20):
            _, arguments = json.loads(answers[f"c{number}"]["result"]["content"][0]["text"])
            assert arguments["number"] == number
        assert len(answers["list"]["result"]["tools"]) == len(NAMES)
    with open_learner(tmp_path / "a.db") as learner:
        (row,) = learner.runs()
        assert learner.why(row.uid).facts.n_calls == 20
        assert learner.verify().clean


async def test_what_a_client_cancels_is_no_longer_waited_for(tmp_path: Path) -> None:
    async with proxied(late(tmp_path / "a.db"), "a") as peer:
        await peer.tools()
        peer.send(id=70, method="tools/call", params={"name": "wait", "arguments": {"seconds": 0.2}})
        peer.send(method="notifications/cancelled", params={"requestId": 70})
        peer.send(id=71, method="tools/list")
        peer.send(method="notifications/cancelled", params={"requestId": 71})
        assert "result" in await peer.call("say")
        assert json.loads((await peer.answer(70))["result"]["content"][0]["text"])[0] == "a"
        assert 71 not in [one.get("id") for one in peer.others]
        assert await peer.tools() == NAMES
    with open_learner(tmp_path / "a.db") as learner:
        (row,) = learner.runs()
        assert (row.status, learner.why(row.uid).facts.n_calls) == ("completed", 2)


# Without a learner


class Broken(LateLearner):
    """A learner whose selection fails in a way that is no error of ours."""

    @property
    def context(self) -> Any:  # noqa: ANN401
        raise ZeroDivisionError("no learner here")


def broken(folder: Path) -> LearnerProtocol:
    return Broken(Settings.from_environment(database=str(folder / "b.db")))


def unopened(_: Path) -> LearnerProtocol:
    raise OSError("no such thing")


AWAY: dict[str, Callable[[Path], LearnerProtocol]] = {
    "absent": lambda folder: late(folder / "nowhere" / "file" / "a.db")(),
    "no database": lambda folder: late(RAW)(),
    "locked": lambda folder: late(folder / "a.db")(),
    "server": lambda _: Client("http://127.0.0.1:9"),
    "broken": broken,
    "unopened": unopened,
}


@pytest.mark.parametrize("away", AWAY)
async def test_without_a_learner_all_tools_are_there_in_time(
    away: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second for the first selection, nothing for later ones; the calls are answered as ever."""
    monkeypatch.setenv("ARMSCOPE_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("ARMSCOPE_SELECT_S", "0.3")
    monkeypatch.setenv("ARMSCOPE_RECORD_S", "0.2")
    chooses(tmp_path / "a.db", 2)
    (tmp_path / "nowhere").write_text("a file, and no folder")
    lock = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE" if away == "locked" else "SELECT 1")
    async with proxied(lambda: AWAY[away](tmp_path), "a", is_named=True) as peer:
        assert await peer.tools() == NAMES
        assert "result" in await peer.call("say")
        assert await peer.tools() == NAMES
    lock.close()
    if away == "locked":  # then it is sent later, and counts as a fallback
        with open_learner(tmp_path / "a.db") as learner:
            until = time.monotonic() + 20
            # The sender of the proxy may be at work still.
            while learner.runs()[0].run_class != "fallback" and time.monotonic() < until:
                with suppress(StoreBusy):
                    learner._attempts.send_all(rejected=False)
            row = learner.runs()[0]
            assert row.run_class == "fallback"
            assert [one.arm for one in learner.why(row.uid).arms if one.referenced] == ["tool:a:say"]
            assert learner.verify().clean


async def test_a_learner_that_comes_back_chooses_the_next_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a server, which is away at first: the run is the one that was selected, and is recorded there."""
    monkeypatch.setenv("ARMSCOPE_SPOOL", str(tmp_path / "spool"))
    chooses(tmp_path / "a.db", 2)
    context = context_at(tmp_path / "a.db")
    with served(context) as url, closing(Front(url)) as front:
        front.be("refused")
        async with proxied(lambda: Client(front.url), "a", is_named=True) as peer:
            assert await peer.tools() == NAMES
            front.be("passing")
            deadline_s = time.monotonic() + PATIENCE_S
            while len(await peer.tools()) != 2:
                assert time.monotonic() < deadline_s
                await asyncio.sleep(0.05)
            await peer.call("say")
    context.store.close()
    with open_learner(tmp_path / "a.db") as learner:
        row = max(learner.runs(), key=lambda one: one.run_no)
        assert (len(learner.runs()), row.run_class, row.outcome) == (9, "selected", "observed")
        assert learner.verify().clean


# Servers


async def test_a_server_that_dies_ends_the_proxy_and_answers_what_waits(tmp_path: Path) -> None:
    async with proxied(late(tmp_path / "a.db"), "a") as peer:
        await peer.tools()
        peer.send(id="w", method="tools/call", params={"name": "wait", "arguments": {"seconds": 60}})
        died = await peer.call("die")
        assert "server a has ended" in died["error"]["message"]
        (waited,) = [one for one in peer.others if one.get("id") == "w"]
        assert waited["error"]["code"] == -32000
    with open_learner(tmp_path / "a.db") as learner:
        (row,) = learner.runs()
        assert (row.outcome, row.status) == ("observed", "error")


async def test_a_server_that_lies_harms_itself_alone(tmp_path: Path) -> None:
    """It prints text, promises in wrong types, floods, and answers and cancels the requests of another server."""
    liar = ServerOptions(command=sys.executable, args=("-ISc", LIAR))
    async with proxied(late(tmp_path / "a.db"), "a", liar=liar, begins=False) as peer:
        begun = (await peer.begin())["result"]
        assert begun["capabilities"]["tools"] == {"listChanged": True}
        assert begun["instructions"] == "Use a."
        assert set(NAMES) <= {*await peer.tools(), "other_a"}
        peer.send(id=50, method="tools/call", params={"name": "ask", "arguments": {}})
        while (asked := json.loads(await peer.line())).get("method") != "sampling/createMessage":
            assert "id" not in asked
        peer.send(method="notifications/poke")
        unknown = 0
        while unknown < 2_000:
            message = json.loads(await peer.line())
            assert message["method"] in {"notifications/unknown", "notifications/x"}, "nothing forged"
            unknown += message["method"] == "notifications/unknown"
        assert json.loads((await peer.call("say", x=1))["result"]["content"][0]["text"]) == ["a", {"x": 1}]
        peer.send(id=asked["id"], result={"for": "a"})
        assert (await peer.answer(50))["result"]["came"] == {"for": "a"}
        assert [one for one in peer.others if "forged" in str(one) or "cancel" in str(one)] == []


async def test_half_a_character_stops_neither_lists_nor_calls(tmp_path: Path) -> None:
    cutter = ServerOptions(command=sys.executable, args=("-ISc", CUTTER))
    async with proxied(late(tmp_path / "a.db"), "a", cutter=cutter) as peer:
        assert "cut" in await peer.tools()
        answer = await peer.call("cut", x="\ud83d")
        assert answer["result"]["content"][0]["text"] == "\ufffd 😀 \ufffd"
        assert "result" in await peer.call("say", x=1)


async def test_a_tool_whose_new_name_is_another_tools_own_gets_a_third(tmp_path: Path) -> None:
    async with proxied(late(tmp_path / "a.db"), "only", "say", is_named=True) as peer:
        tools = await peer.tools()
        assert len(tools) == len(set(tools))
        for name, of in {"only_say_": "only", "say_say": "say"}.items():
            assert name in tools
            assert json.loads((await peer.call(name, x=1))["result"]["content"][0]["text"])[0] == of


async def test_several_servers_are_one(tmp_path: Path) -> None:
    """Tools with one name get that of their server before it; requests of servers get numbers of their own."""
    async with proxied(late(tmp_path / "a.db"), "a", "b", "c.d", is_named=True, begins=False) as peer:
        assert (await peer.ask("server/discover"))["error"]["code"] == -32601
        begun = (await peer.begin())["result"]
        assert begun["capabilities"]["x"] == {"a": True, "b": True, "c.d": True}
        assert begun["instructions"].split("\n\n") == ["Use a.", "Use b.", "Use c.d."]
        assert begun["serverInfo"]["name"] == "armscope"
        tools = await peer.tools()
        assert {"a_say", "b_say", "c_d_say", "only_a", "only_b", "only_c.d"} < set(tools)
        assert len(tools) == len(set(tools)) == 18
        for name, of in {"a_say": "a", "b_say": "b", "c_d_say": "c.d", "only_b": "b"}.items():
            assert json.loads((await peer.call(name, x=1))["result"]["content"][0]["text"]) == [of, {"x": 1}]
        assert "Unknown tool" in (await peer.call("say_what"))["error"]["message"]
        assert [one["uri"] for one in (await peer.ask("resources/list"))["result"]["resources"]] == [
            "x://a",
            "x://b",
            "x://c.d",
        ]
        assert (await peer.ask("unknown/b"))["result"]["big"] == 2**70
        assert (await peer.ask("nothing/known"))["error"]["code"] == -32601
        asked: dict[str, Document] = {}
        for number, name in enumerate(("a_ask", "b_ask"), 900):
            peer.send(id=number, method="tools/call", params={"name": name, "arguments": {}})
        while len(asked) < 2:
            message = json.loads(await peer.line())
            asked[message["params"]["of"]] = message
        assert asked["a"]["id"] != asked["b"]["id"]
        peer.send(id=asked["b"]["id"], result={"for": "b"})
        assert (await peer.answer(901))["result"]["came"] == {"for": "b"}
        peer.send(id=asked["a"]["id"], result={"for": "a"})
        assert (await peer.answer(900))["result"]["came"] == {"for": "a"}
        died = await peer.call("b_die")
        assert "server b has ended" in died["error"]["message"]
        left = await peer.tools()
        assert {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"} in peer.others
        assert {"say", "only_b"} & set(left) == set()
        assert {"a_say", "only_a"} < set(left)
    with open_learner(tmp_path / "a.db") as learner:
        arms = {one.arm for row in learner.runs() for one in learner.why(row.uid).arms if one.referenced}
        assert arms == {
            f"tool:{of}:{name}"
            for of, name in [
                ("a", "say"),
                ("b", "say"),
                ("c.d", "say"),
                ("b", "only_b"),
                ("a", "ask"),
                ("b", "ask"),
                ("b", "die"),
            ]
        }
        assert learner.verify().clean


# The real SDK on both sides


def command_of(*arguments: str, **variables: str) -> StdioServerParameters:
    """Python, as a client starts a server."""
    own = {
        name: value for name, value in os.environ.items() if name.startswith(("ARMSCOPE_", "XDG_", "HOME"))
    }
    return StdioServerParameters(
        command=sys.executable,
        args=list(arguments),
        cwd=ROOT,
        env=own | {"PYTHONPATH": str(ROOT)} | variables,
    )


def proxy_of(database: Path, *arguments: str, **variables: str) -> StdioServerParameters:
    program = ("-c", "from core.doors.cli import main; main()", "mcp-proxy", "--database", str(database))
    return command_of(*program, *arguments, **variables)


@pytest.fixture(autouse=True)
def patient_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the SDK's probe as much time as a busy machine needs; after 10 s it goes back to a handshake."""
    monkeypatch.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", PATIENCE_S)


@asynccontextmanager
async def connected(server: StdioServerParameters, log: Path, mode: str) -> AsyncIterator[mcp.client.Client]:
    """A client of the SDK with a model; ``log`` is where the server's errors go."""

    changes.clear()
    with log.open("w+") as errors:
        async with mcp.client.Client(
            stdio_client(server, errors), mode=mode, sampling_callback=_model, message_handler=_changed
        ) as client:
            yield client


async def _model(context: object, params: Any) -> CreateMessageResult:  # noqa: ANN401
    text = TextContent(text=f"model of {params.messages[0].content.text}")
    return CreateMessageResult(role="assistant", content=text, model="planted")


async def _changed(message: Any) -> None:  # noqa: ANN401
    changes.append(type(message).__name__)


async def everything(client: mcp.client.Client, mode: str) -> list[object]:
    """What a server with everything answers."""
    steps: list[tuple[float, float | None, str | None]] = []

    async def step(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total, message))

    answers: list[Any] = [
        client.server_capabilities,
        client.server_info,
        client.instructions,
        await client.list_tools(),
        await client.call_tool("add", {"a": 2, "b": 3}),
        await client.call_tool("fail", {}),
        await client.call_tool("slow", {"seconds": 0.03}, progress_callback=step),
        await client.list_resources(),
        await client.list_resource_templates(),
        await client.read_resource("planted://planted"),
        await client.read_resource("planted://planted/half"),
        await client.list_prompts(),
        await client.get_prompt("greet", {"who": "Mara"}),
        *await asyncio.gather(*(client.call_tool("add", {"a": n, "b": n}) for n in range(20))),
    ]
    if mode == "legacy":
        answers += [await client.call_tool("ask", {"question": "why"}), await client.send_ping()]
    for work in (
        client.call_tool("nothing", {}),
        client.get_prompt("nothing"),
        client.read_resource("x://y"),
    ):
        try:
            answers.append(await work)
        except MCPError as problem:
            answers.append((problem.code, problem.message, problem.data))
    answers.append(await client.call_tool("grow", {}))
    async with asyncio.timeout(PATIENCE_S):  # notifications may arrive after the answer
        while len(steps) < 3 or len(changes) < 3:
            await asyncio.sleep(0.05)
    answers += [steps, [tool.name for tool in (await client.list_tools()).tools], changes[:3]]
    return [one.model_dump() if hasattr(one, "model_dump") else one for one in answers]


@pytest.mark.long
@pytest.mark.filterwarnings(f"ignore::{MCPDeprecationWarning.__module__}.MCPDeprecationWarning")
@pytest.mark.parametrize("mode", ["legacy", pytest.param("auto", marks=pytest.mark.long)])
def test_the_sdk_sees_no_difference(mode: str, tmp_path: Path) -> None:
    async def work(server: StdioServerParameters, log: Path) -> list[object]:
        async with connected(server, log, mode) as client:
            return await everything(client, mode)

    proxy = proxy_of(tmp_path / "a.db", "--", sys.executable, *PLANTED, "planted")
    direct = asyncio.run(work(command_of(*PLANTED, "planted"), tmp_path / "direct"))
    through = asyncio.run(work(proxy, tmp_path / "through"))
    assert through == direct
    assert len(direct) > 35
    assert "planted starts as" in (tmp_path / "through").read_text()
    with open_learner(tmp_path / "a.db") as learner:
        (row,) = learner.runs()
        assert learner.why(row.uid).facts.n_calls == 25 + (mode == "legacy")
        assert learner.verify().clean


@contextmanager
def over_http(name: str, log: Path) -> Iterator[str]:
    """The planted server at an address."""
    port = free_port()
    arguments = [sys.executable, *PLANTED, name, str(port)]
    with (
        log.open("w") as errors,
        subprocess.Popen(arguments, cwd=ROOT, stdout=errors, stderr=errors) as server,
    ):
        try:
            for _ in range(600):
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            server.kill()


@pytest.mark.filterwarnings(f"ignore::{MCPDeprecationWarning.__module__}.MCPDeprecationWarning")
@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.long)])
def test_a_server_over_http_is_the_same(mode: str, tmp_path: Path) -> None:
    """Alone with and without a handshake, and beside a process; keys reach the servers and no other file."""
    key, database, log = "k3y-of-a-server", tmp_path / "a.db", tmp_path / "log"
    config = tmp_path / "servers.json"

    async def alone() -> list[object]:
        server = proxy_of(database, "--config", str(config), KEY=key)
        async with connected(server, log, mode) as client:
            return await everything(client, mode)

    async def grown(url: str) -> None:
        async with mcp.client.Client(url) as client:
            await client.call_tool("grow", {})

    async def direct(url: str) -> list[object]:
        changes.clear()
        async with mcp.client.Client(
            url, mode=mode, sampling_callback=_model, message_handler=_changed
        ) as client:
            return await everything(client, mode)

    async def both(url: str) -> None:
        near = replace(raw("near"), env={"PLANTED_KEY": key})
        far = ServerOptions(url=url, headers={"X-Key": key})
        async with proxied(late(database), is_named=True, far=far, near=near) as peer:
            assert {"far_ask", "near_ask", "where", "only_near"} < set(await peer.tools())
            assert (await peer.call("where"))["result"]["content"][0]["text"] == "planted"
            assert (await peer.call("header"))["result"]["content"][0]["text"] == key
            assert json.loads((await peer.call("env"))["result"]["content"][0]["text"]) == [key, None]
            peer.send(
                id="a", method="tools/call", params={"name": "far_ask", "arguments": {"question": "why"}}
            )
            while (asked := json.loads(await peer.line())).get("method") != "sampling/createMessage":
                pass
            answer = {"role": "assistant", "content": {"type": "text", "text": "so"}, "model": "planted"}
            peer.send(id=asked["id"], result=answer)
            assert (await peer.answer("a"))["result"]["content"][0]["text"] == "planted: so"
            read = await peer.ask("resources/read", uri="planted://planted")
            assert read["result"]["contents"][0]["text"] == "all of planted"

    with over_http("planted", tmp_path / "http") as url:
        config.write_text(
            json.dumps({"mcpServers": {"far": {"url": url, "headers": {"X-Key": "${KEY:-none}"}}}})
        )
        asyncio.run(grown(url))
        through, plain = asyncio.run(alone()), asyncio.run(direct(url))
        assert through == plain
        asyncio.run(both(url))
    with open_learner(database) as learner:
        assert learner.verify().clean
        arms = {one.arm for row in learner.runs() for one in learner.why(row.uid).arms if one.referenced}
        assert {"tool:far:where", "tool:near:env", "tool:far:ask", "tool:far:add"} <= arms
    for path in (*tmp_path.glob("a.db*"), log):
        assert key.encode() not in path.read_bytes(), path


# Processes


@pytest.mark.parametrize("way", ["kill the client", "TERM"])
def test_no_process_outlives_its_client(way: str, tmp_path: Path) -> None:
    """Whatever ends the client: the proxy, its servers and what they started end too."""
    arguments = proxy_of(tmp_path / "a.db", "--", sys.executable, "-IS", "-c", STUBBORN)
    command, log = [arguments.command, *arguments.args], tmp_path / "log"
    with log.open("w") as errors:
        # The client is a process between: where it is killed, the pipe to the proxy closes.
        client = subprocess.Popen(
            [sys.executable, "-IS", "-c", _CLIENT, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=ROOT,
            env=arguments.env,
        )
    assert client.stdin is not None
    assert client.stdout is not None
    proxy = int(client.stdout.readline())
    pids: list[int] = []
    while not pids:
        time.sleep(0.05)
        if lines := re.findall(r"pids (\d+) (\d+)", log.read_text()):
            pids = [proxy, *map(int, lines[0])]
    if way == "kill the client":
        client.kill()
    else:
        os.kill(proxy, signal.SIGTERM)
    deadline_s = time.monotonic() + PATIENCE_S
    while any(map(is_alive, pids)) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert [pid for pid in pids if is_alive(pid)] == []
    client.stdin.close()
    client.stdout.close()
    client.wait()


def is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


# The configuration


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("", "must be JSON with mcpServers"),
        ("[" * 100_000, "must be JSON with mcpServers"),
        ("{}", "must name a server"),
        ('{"mcpServers": {"s3": {"command": "x", "disabled": true}}}', "must name a server"),
        ('{"mcpServers": {"s3": {}}}', "got another: 's3'"),
        ('{"mcpServers": {"s3": {"command": "x", "url": "y"}}}', "got another: 's3'"),
        ('{"mcpServers": {"s3": {"url": "https://x?key=hid-den", "type": "sse"}}}', "got another: 's3'"),
        ('{"mcpServers": {"s3": {"command": "x", "env": {"KEY": ["hid-den"]}}}}', "must be JSON"),
        ('{"mcpServers": {"s3": {"command": "x", "args": ["${NOT_SET_HERE}"]}}}', "NOT_SET_HERE"),
    ],
)
def test_a_wrong_configuration_is_named_without_its_values(document: str, problem: str) -> None:
    with pytest.raises(InvalidSetting, match=re.escape(problem)) as raised:
        configured(document.encode())
    assert "hid-den" not in str(raised.value)


def test_variables_of_a_configuration_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED", 'a "key" \\x')
    document = {"command": "${PLANTED_NOT:-npx}", "args": ["--key=${PLANTED}"], "env": {"A": "$PLANTED"}}
    (server,) = configured(json.dumps({"mcpServers": {"s": document}}).encode()).values()
    assert (server.command, server.args) == ("npx", ('--key=a "key" \\x',))
    assert server.env == {"A": "$PLANTED"}


@pytest.mark.parametrize(
    "arguments", [[], ["--config", "servers.json", "--", "x"], ["--", "/no/such/command"]]
)
def test_a_wrong_command_line_ends_with_the_next_step(
    arguments: list[str], shell: Shell, tmp_path: Path
) -> None:
    code, _, error = shell("mcp-proxy", "--database", str(tmp_path / "a.db"), *arguments)
    assert code == 1
    assert "armscope" in error
