"""Doors: what coming in over HTTP or MCP costs, against the flow itself and the barest answer by the same way."""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import orjson
import urllib3
from mcp.client.stdio import StdioServerParameters

from core.doors import qortex
from core.doors.service import Service
from core.flows.importing import import_files
from core.flows.reward import reward
from core.permissions import authorise
from core.store.transaction import Transaction
from tests.bench.harness import Row, Scale, pairs
from tests.bench.pages import filled
from tests.bench.servers import api, dashboard, echo
from tests.bench.visitor import Visitor
from tests.bench.worlds import context_at, write_lines
from tests.conformance.mcp_client import Agent, agent_at, agent_of

_JSON: Final = {"Content-Type": "application/json"}
_LINES: Final = {"Content-Type": "application/x-ndjson"}
_ARM: Final = "tool:other:tool_00001"
_REWARDS: Final = "/api/v1/learners/default/rewards"
_ECHO: Final = """
import asyncio, json
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

async def listed(context, params):
    return ListToolsResult(tools=[Tool(name="echo", input_schema={"type": "object"})])

async def echo(context, params):
    said = params.arguments
    return CallToolResult(content=[TextContent(text=json.dumps(said))], structured_content=said)

async def serve():
    server = Server("echo", on_list_tools=listed, on_call_tool=echo)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())

asyncio.run(serve())
"""


@contextmanager
def _posting(place: str) -> Iterator[Callable[[str, bytes, dict[str, str]], bytes]]:
    """Posts over one connection that is kept."""
    with urllib3.PoolManager(maxsize=1) as pool:

        def post(path: str, body: bytes, headers: dict[str, str]) -> bytes:
            found = pool.request("POST", f"{place}{path}", body=body, headers=headers, retries=False)
            if found.status not in {200, 207}:
                raise AssertionError(f"it must be answered, got {found.status}: {found.data[:300]!r}")
            return found.data

        yield post


def batch_of_runs(scale: Scale, folder: Path) -> list[Row]:
    """A file of runs as the body of one request, and imported; each time by a learner that is new."""
    n = scale.n_batch_rewards
    write_lines(folder / "runs.jsonl", n)
    body = (folder / "runs.jsonl").read_bytes()
    here = context_at(folder / "here.db")

    def imported(number: int) -> object:
        return import_files(here.of(f"learner {number}"), [folder / "runs.jsonl"])

    with api(folder / "there.db") as place, _posting(place) as post:

        def posted(number: int) -> None:
            told = post(f"/api/v1/learners/learner%20{number}/runs:batch", body, _LINES)
            if told.count(b'"ok":true') != n:
                raise AssertionError("every line must be recorded")

        timed = pairs(imported, posted, scale.n_batch_pairs)
    here.store.close()
    return [timed.row(f"{n:,} runs in one request", "import of the same file", 2.0)]


def one_reward(scale: Scale, folder: Path) -> list[Row]:
    """One manual reward over HTTP, on disk when it is answered: by the doors alone, and beside the pages."""
    n = scale.n_durable_pairs
    for name in ("here", "there", "beside"):
        filled(folder / f"{name}.db", 20).store.close()
    here = context_at(folder / "here.db")
    given = {"arm": _ARM, "value": 0.5, "reason": "seen in review"}
    body = orjson.dumps(given)
    with (
        echo() as bare,
        api(folder / "there.db") as place,
        dashboard(folder / "beside.db") as pages,
        _posting(bare) as say,
        _posting(place) as post,
        _posting(pages.rstrip("/")) as post_beside,
    ):

        def base(number: int) -> None:
            reward(here, _ARM, 0.5, reason="seen in review")
            say("", body, _JSON)

        def ours(number: int) -> None:
            post(_REWARDS, body, _JSON)

        def beside(number: int) -> None:
            post_beside(_REWARDS, body, _JSON)

        alone = pairs(base, ours, n, collect=False)
        among_pages = pairs(ours, beside, n, collect=False)
    here.store.close()
    return [
        alone.row("one reward over HTTP, durable", "the flow, and a bare echo over HTTP", 1.5),
        among_pages.row("one reward over HTTP, beside the pages", "by the doors alone", 1.5),
    ]


def one_select(scale: Scale, folder: Path) -> list[Row]:
    """One selection by MCP over standard input and output."""
    given = {
        "learner": "default",
        "candidates": [{"id": f"tool:other:tool_{n:05}", "token_cost": 100} for n in range(30)],
        "k": 10,
    }
    for name in ("here", "there"):
        filled(folder / f"{name}.db", 20).store.close()
    here = context_at(folder / "here.db")
    service = Service(store=here.store, learner="default")
    server = StdioServerParameters(command=sys.executable, args=["-c", _ECHO])
    with agent_of(server) as bare, agent_at(folder / "there.db") as agent:

        def base(number: int) -> None:
            _called(bare, "echo", qortex.call(service, here.actor, "select", given))

        def ours(number: int) -> None:
            _called(agent, "qortex_learning_select", given)

        timed = pairs(base, ours, scale.n_durable_pairs, collect=False)
    here.store.close()
    return [timed.row("one selection by MCP, durable", "the flow, and an echo tool", 1.3)]


def _called(agent: Agent, name: str, given: dict[str, Any]) -> None:
    said, is_refused = agent.call(name, given)
    if is_refused:
        raise AssertionError(f"{name} must be answered, got {said}")


def while_a_batch_runs(scale: Scale, folder: Path) -> list[Row]:
    """Reruns of a page while the same process takes batches of runs, against the same in quiet."""
    filled(folder / "ours.db", 400).store.close()
    write_lines(folder / "runs.jsonl", scale.n_batch_rewards)
    body = (folder / "runs.jsonl").read_bytes()
    with (
        dashboard(folder / "ours.db") as url,
        Visitor(url, "posteriors") as visitor,
        _posting(url[:-1]) as post,
    ):
        quiet = [visitor.rerun() for _ in range(scale.n_screen_pairs + 1)][1:]
        busy: list[float] = []
        done = threading.Event()

        def load() -> None:
            number = 0
            while not done.is_set():
                number += 1
                post(f"/api/v1/learners/batch%20{number}/runs:batch", body, _LINES)

        loading = threading.Thread(target=load)
        loading.start()
        try:
            until = time.monotonic() + scale.crowd_s / 2
            while len(busy) < scale.n_screen_pairs or time.monotonic() < until:
                busy.append(visitor.rerun())
        finally:
            done.set()
            loading.join()
    base, ours = statistics.median(quiet), statistics.median(busy)
    return [
        Row(
            name=f"posteriors while batches of {scale.n_batch_rewards:,} come in, median",
            base="the same in quiet",
            figure=ours / base,
            goal=2.0,
            base_ms=base,
            ours_ms=ours,
            n=len(busy),
            note=f"slowest {max(busy):.0f} ms",
        )
    ]


def permission(scale: Scale, folder: Path) -> list[Row]:
    """What authorising and the audit's row are of a durable write; as a share of it."""
    context = filled(folder / "ours.db", 20)
    spent: list[int] = []

    def asked_and_noted(txn: Transaction) -> None:
        began = time.perf_counter_ns()
        authorise(context.actor, "reward", context.learner)
        txn.audit("reward", "reward-1", {"arm": _ARM, "reward": 0.5, "run": None, "reason": "seen in review"})
        spent.append(time.perf_counter_ns() - began)

    whole: list[float] = []
    for _ in range(scale.n_durable_pairs + 1):
        began = time.perf_counter_ns()
        reward(context, _ARM, 0.5, reason="seen in review")
        whole.append((time.perf_counter_ns() - began) / 1e6)
        context.write("reward", asked_and_noted)
    context.store.close()
    base, ours = statistics.median(whole[1:]), statistics.median(spent[1:]) / 1e6
    return [
        Row(
            name="authorise and audit, of one write",
            base="one reward, durable",
            figure=ours / base,
            goal=0.05,
            base_ms=base,
            ours_ms=ours,
            n=len(whole) - 1,
        )
    ]


def start(scale: Scale, folder: Path) -> list[Row]:
    """From starting the process to the first page drawn over its web socket, with the doors and without."""
    filled(folder / "ours.db", 1_000).store.close()

    def started(*, has_doors: bool) -> None:
        with dashboard(folder / "ours.db", has_doors=has_doors) as url, Visitor(url):
            pass

    timed = pairs(
        lambda _: started(has_doors=False),
        lambda _: started(has_doors=True),
        max(scale.n_starts, scale.n_batch_pairs // 2, 1),
        collect=False,
    )
    return [timed.row("start to the first page, with the doors", "the pages alone", 1.3)]
