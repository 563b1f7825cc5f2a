"""The loop of the guide over every door, with one clock and the same dice: the same posteriors, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
import urllib3
from anyio.from_thread import start_blocking_portal
from mcp.client import Client as Agent
from mcp.client.streamable_http import streamable_http_client

from core import Client, Learner
from core.flows.context import Context
from tests.doors.http.test_served import served
from tests.test_readme import blocks
from tests.worlds import START_MS, context_at

LOOP: Final = next(block for block in blocks("python") if "Client(" in block).replace(
    "(TOOLS, k=2)", '(TOOLS, k=2, uid=f"request-{number}")'
)
"""The block of the guide, with names for its runs, so that every door draws the same."""
N_REQUESTS: Final = 20
LEARNER: Final = "support"
Document = dict[str, Any]
Ask = Callable[[str, Mapping[str, Any]], Document]
"""Asks one of qortex's calls, by its name, with its arguments."""


@dataclass
class Told:
    """What a client of qortex's protocol does in a run: it chose, and will tell of each arm whether it was used."""

    arms: list[str]
    uid: str
    names: set[str] = field(default_factory=set)

    def called(self, name: str) -> None:
        self.names.add(name)


@dataclass
class ByOffers:
    """The loop's learner where runs have no names: select, then an observation of each arm; rewards come later."""

    ask: Ask
    rewarded: Callable[[str, float, str], object]

    @contextmanager
    def run(self, arms: list[str], *, k: int, uid: str) -> Iterator[Told]:
        candidates = [{"id": arm} for arm in arms]
        chosen = self.ask("select", {"candidates": candidates, "k": k, "context": {"session_key": uid}})
        told = Told([one["id"] for one in chosen["selected_arms"]], uid)
        yield told
        for arm in told.arms:
            outcome = "accepted" if arm.split(":")[2] in told.names else "rejected"
            self.ask("observe", {"arm_id": arm, "outcome": outcome, "context": {"session_key": uid}})

    def reward(self, arm: str, value: float, *, reason: str, key: str) -> None:
        self.rewarded(arm, value, reason)


@contextmanager
def by_python(context: Context, place: str) -> Iterator[Learner]:
    yield Learner(context)


@contextmanager
def by_http(context: Context, place: str) -> Iterator[Client]:
    with Client(place, learner=LEARNER) as client:
        yield client


@contextmanager
def by_mcp(context: Context, place: str) -> Iterator[ByOffers]:
    """The SDK's client; what a person says later is an observation that says so."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Agent(streamable_http_client(f"{place}/mcp"))) as agent,
    ):

        def ask(name: str, given: Mapping[str, Any]) -> Document:
            found = portal.call(agent.call_tool, f"qortex_learning_{name}", {"learner": LEARNER, **given})
            assert isinstance(found.structured_content, dict), found.content
            return found.structured_content

        yield ByOffers(ask, partial(_observed_later, ask))


def _observed_later(ask: Ask, arm: str, value: float, reason: str) -> object:
    return ask("observe", {"arm_id": arm, "reward": value, "context": {"lagged": True, "reason": reason}})


@contextmanager
def by_openclaw(context: Context, place: str) -> Iterator[ByOffers]:
    """OpenClaw observes through qortex's paths, and rewards through its own."""
    with urllib3.PoolManager() as pool:

        def post(path: str, given: Mapping[str, Any]) -> Document:
            found = pool.request("POST", f"{place}{path}", body=orjson.dumps(given), headers=headers)
            assert found.status == 200, found.data
            return dict(orjson.loads(found.data))

        def ask(name: str, given: Mapping[str, Any]) -> Document:
            return post(f"/v1/learning/{name}", {"learner": LEARNER, **given})

        def rewarded(arm: str, value: float, reason: str) -> object:
            return post(
                "/__openclaw__/api/learning/reward", {"arm_id": arm, "reward": value, "reason": reason}
            )

        headers = {"Content-Type": "application/json"}
        yield ByOffers(ask, rewarded)


DOORS: Final = {"Python": by_python, "HTTP": by_http, "MCP": by_mcp, "OpenClaw": by_openclaw}


def test_the_loop_comes_to_the_same_over_every_door(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len([line for line in LOOP.splitlines() if line]) <= 15
    names: dict[str, Any] = {}
    shown = _world(tmp_path / "shown.db")
    with served(shown, learner=LEARNER) as place:
        exec(compile(LOOP.replace("http://127.0.0.1:8502", place), "README.md", "exec"), names)
    assert "tool:web:search 0." in capsys.readouterr().out
    as_shown = _believed(shown)
    assert {pulls for _, _, _, pulls, _ in as_shown} != {0}
    for door, opened in DOORS.items():
        context = _world(tmp_path / f"{door}.db")
        with served(context, learner=LEARNER) as place, opened(context, place) as learner:
            for number in range(N_REQUESTS):
                names["answer"](learner, number)
        assert _believed(context) == as_shown, door


def _world(path: Path) -> Context:
    """A learner whose clock goes a second with every act: what is offered waits for an hour."""
    context = replace(context_at(path, learner=LEARNER), clock=count(START_MS, 1_000).__next__)
    Learner(context).change("k", 0)  # it is there, so that no client makes it with settings of its own
    return context


def _believed(context: Context) -> list[tuple[str, float, float, int, int]]:
    learner = Learner(context)
    assert learner.verify().clean
    found = [(one.arm, one.alpha, one.beta, one.pulls, one.inclusions) for one in learner.posteriors()]
    learner.close()
    return found
