"""KAIROS's reward calls by MCP: answered, stored and added up as over any door, and refused in its own words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from core.doors.mcp.server import agent
from core.doors.mcp.tools import call
from core.doors.service import Service
from core.errors import ArmscopeError
from core.flows import queries
from core.flows.context import Context
from core.flows.settings import change
from core.formats.kairos import read_reward
from tests.conformance.rewarding import Json, Rewarded, hold
from tests.conformance.test_kairos_execute_reward_stored import describe, rewarded
from tests.conformance.vectors import Vector, load
from tests.engine import kept_in
from tests.flows.world import context_at

AGENT = agent("agent")


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    made = context_at(tmp_path / "a.db")
    change(made, "keep_texts", True)
    yield made
    assert queries.verify(made).clean
    made.store.close()


def asked(context: Context, given: Json) -> bytes:
    """What the tool says, to an agent that may judge."""
    service = Service(store=context.store, learner=context.learner, clock=context.clock)
    return call(service, AGENT, "reward", given, frozenset()).text


@pytest.mark.parametrize("vector", load("kairos_execute_reward", "executeReward.sequence"))
def test_reward_calls_by_mcp_are_stored_and_added_up_as_kairos_does(
    vector: Vector, context: Context, tmp_path: Path
) -> None:
    refused = [given for given in vector.input["calls"] if not _is_taken(given)]
    for given in refused:
        told = json.loads(asked(context, given))
        assert (told["error"], told["tool"]) == ("INVALID_TOOL_INPUT", "reward")
        assert told["invalid_fields"]
    if refused:
        assert queries.evaluations(context) == ()
        return

    def called(payload: Json | None, calls: Sequence[Json]) -> list[Rewarded]:
        if payload is not None:
            describe(context, tmp_path, calls[0], payload)
        return [
            rewarded(context, tmp_path / f"{place}", payload, calls[: place + 1], asked)
            for place in range(len(calls))
        ]

    hold(vector, called)


@pytest.mark.parametrize("vector", load("kairos_execute_reward", "executeReward.uri"))
def test_what_the_schema_refuses_is_told_as_invalid_input(vector: Vector, context: Context) -> None:
    """Memories and artifacts too, which its code would take or name otherwise: its schema lets neither in."""
    told = json.loads(asked(context, vector.input))
    if _is_taken(vector.input):
        assert told["total_rated"] == 1
        return
    assert (told["error"], told["invalid_fields"]) == ("INVALID_TOOL_INPUT", ["uri"])
    assert queries.evaluations(context) == ()


@pytest.mark.parametrize("vector", load("kairos_execute_reward", "executeReward.store_down"))
def test_a_store_that_is_down_is_said_by_mcp(vector: Vector, context: Context) -> None:
    asked(context, vector.input)
    context.store.close()
    place = kept_in(context.store)
    moved = place.rename(place.with_suffix(".away"))
    place.mkdir()
    assert json.loads(asked(context, vector.input))["error"] == vector.code
    context.store.close()
    place.rmdir()
    moved.rename(place)


def _is_taken(given: Json) -> bool:
    try:
        read_reward(json.dumps(given).encode())
    except ArmscopeError:
        return False
    return True
