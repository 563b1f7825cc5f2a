"""Proxied: what the proxy in front of MCP servers adds to calls and lists: ``python -m tests.bench.proxied``.

Calls go to a server directly and through the proxy in turn. Lists are asked while the learner's database or server
fails: the first one opens the breaker, later ones find it open. All tools must be in each of them.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

from core import Client
from core.doors.protocol import LearnerProtocol
from tests.doors.front import AWAY, Front
from tests.doors.test_mcp_proxy import NAMES, chooses, late, peer_of, proxied, raw

_CALLS: Final = 1_000
_LISTS: Final = 20
_BIG: Final = 5_000_000
_LOCK: Final = sqlite3.connect(":memory:", isolation_level=None)


def main() -> None:
    """Print the figures; fail if a list lost a tool."""
    with tempfile.TemporaryDirectory(prefix="armscope-proxied-") as folder:
        os.environ["ARMSCOPE_SPOOL"] = str(Path(folder) / "spool")
        asyncio.run(_calls(Path(folder)))
        for scene, open_ in _scenes(Path(folder)).items():
            asyncio.run(_lists(scene, open_))


async def _calls(folder: Path) -> None:
    options = raw("a")
    async with peer_of(options) as direct, proxied(late(folder / "calls.db"), "a", is_named=True) as proxy:
        ways = {"direct": direct, "through the proxy": proxy}
        times: dict[str, list[float]] = {way: [] for way in ways}
        for peer in ways.values():
            await peer.begin()
            await peer.tools()
        for number in range(_CALLS):
            for way, peer in ways.items():
                times[way].append(await _timed(peer.call("say", number=number)))
        for way, peer in ways.items():
            big_s = await _timed(peer.call("say", text="x" * _BIG))
            median_ms = 1000 * statistics.median(times[way])
            late_ms = 1000 * statistics.quantiles(times[way], n=100)[-1]
            _say(f"call {way}: median {median_ms:.2f} ms, 99 % {late_ms:.2f} ms, of 5 MB {big_s:.2f} s")


async def _lists(scene: str, open_: Callable[[], LearnerProtocol]) -> None:
    async with proxied(open_, "a", is_named=True) as peer:
        await peer.begin()
        waits = []
        for _ in range(_LISTS):
            waits.append(await _timed(_all(peer.tools())))
        called_s = await _timed(peer.call("say"))
    _say(
        f"list, {scene}: first {waits[0]:.2f} s, later at most {max(waits[1:]):.3f} s; a call {called_s:.3f} s"
    )


async def _all(tools: Awaitable[list[str]]) -> None:
    if await tools != NAMES:
        sys.exit("a tool is missing")


async def _timed(work: Awaitable[object]) -> float:
    began_s = time.perf_counter()
    await work
    return time.perf_counter() - began_s


def _scenes(folder: Path) -> dict[str, Callable[[], LearnerProtocol]]:
    """Learners that are away, by scene."""
    chooses(folder / "locked.db", 2)
    _LOCK.execute("ATTACH ? AS learner", (str(folder / "locked.db"),))
    _LOCK.execute("BEGIN EXCLUSIVE")
    scenes = {"file locked": late(folder / "locked.db"), "no such folder": late(Path("/proc/none/a.db"))}
    for mode in AWAY:
        front = Front("http://127.0.0.1:9")
        front.be(mode)
        scenes[f"server {mode}"] = partial(Client, front.url)
    return scenes


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
