"""A request answered in a ``with`` block, sync and async; what Python can read; tools as every SDK defines them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from core import (
    Arm,
    AsyncLearner,
    Learner,
    Selection,
    Usage,
    memory_candidate,
    open_learner,
    section_candidate,
    tool_candidate,
    with_run,
)
from core.errors import (
    ArmscopeError,
    InvalidArm,
    InvalidInput,
)
from tests.engine import file_database
from tests.worlds import put_empty_database

SCHEMA: dict[str, object] = {"type": "object", "properties": {"q": {"type": "string"}}}
OPENAI = {"type": "function", "function": {"name": "search", "description": "Search", "parameters": SCHEMA}}
RESPONSES = {"type": "function", "name": "search", "description": "Search", "parameters": SCHEMA}
ANTHROPIC = {"name": "search", "description": "Search", "input_schema": SCHEMA}
MCP = {"name": "search", "description": "Search", "inputSchema": SCHEMA}
BEDROCK = {"toolSpec": {"name": "search", "description": "Search", "inputSchema": {"json": SCHEMA}}}

SINGLES: list[Any] = ["tool:web:search", b"tool:web:search", OPENAI, Arm(key="tool:web:search"), 7]


@pytest.fixture(autouse=True)
def new_database(tmp_path: Path) -> None:
    """Made in a moment; that one is made where there is none, the README's lines show."""
    put_empty_database(tmp_path / "a.db")


@dataclass
class McpTool:
    """As ``mcp.types.Tool``, before it renamed its field and since."""

    name: str = "search"
    description: str = "Search"
    inputSchema: Mapping[str, object] = field(default_factory=lambda: SCHEMA)  # noqa: N815 - MCP's own name


class ArgsModel:
    """As a pydantic model class of arguments."""

    @classmethod
    def model_json_schema(cls) -> dict[str, object]:
        return SCHEMA


@dataclass
class LangChainTool:
    """As ``langchain_core.tools.BaseTool``: what it runs on is called input_schema too, and is not the arguments."""

    name: str = "search"
    description: str = "Search"
    args_schema: Any = ArgsModel
    input_schema: Any = object


@dataclass
class InjectedTool(LangChainTool):
    """As a LangChain tool that gets a part of its arguments from the agent: the model is sent the others."""

    args_schema: Any = object
    tool_call_schema: Any = ArgsModel


@dataclass
class ToolDefinition:
    """As ``pydantic_ai.tools.ToolDefinition``."""

    name: str = "search"
    description: str = "Search"
    parameters_json_schema: Mapping[str, object] = field(default_factory=lambda: SCHEMA)


@dataclass
class PydanticTool:
    """As ``pydantic_ai.Tool``."""

    name: str = "search"
    description: None = None
    tool_def: ToolDefinition = field(default_factory=ToolDefinition)


@dataclass
class FunctionTool:
    """As ``agents.FunctionTool`` of OpenAI's agents."""

    name: str = "search"
    description: str = "Search"
    params_json_schema: Mapping[str, object] = field(default_factory=lambda: SCHEMA)


def search(q: str) -> str:
    """Search"""
    return q


SHAPES: dict[str, object] = {
    "openai": OPENAI,
    "responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "mcp": MCP,
    "bedrock": BEDROCK,
    "mcp tool": McpTool(),
    "langchain": LangChainTool(),
    "langchain injected": InjectedTool(),
    "pydantic-ai": PydanticTool(),
    "pydantic-ai definition": ToolDefinition(),
    "openai agents": FunctionTool(),
    "function": search,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_tool_is_one_arm_in_every_shape(shape: str) -> None:
    arm = tool_candidate(SHAPES[shape])
    assert arm.key == "tool:web:search"
    whole = tool_candidate(RESPONSES).token_cost
    assert whole is not None
    assert arm.token_cost is not None
    if shape == "function":
        assert 0 < arm.token_cost < whole
    else:
        assert abs(arm.token_cost - whole) <= 7, "it costs what the model is told of it"


@pytest.mark.parametrize("wrong", [{}, {"name": 3}, {"type": "function", "function": {}}, object(), 7, None])
def test_what_has_no_name_is_no_tool(wrong: object) -> None:
    with pytest.raises(InvalidArm):
        tool_candidate(wrong)


def test_memories_and_sections_are_candidates(tmp_path: Path) -> None:
    fact = memory_candidate("sla", "Acme's contract promises an answer within four hours.")
    safety = section_candidate("safety", "Never delete anything.")
    with open_learner(tmp_path / "a.db", entropy=lambda: 1) as learner:
        with learner.run([ANTHROPIC, fact, safety]) as run:
            run.called("search")
            run.said("As Acme's contract promises an answer within four hours, I escalate.")
        found = {one.arm: one.alpha - one.prior.alpha for one in learner.posteriors()}
    assert found == {"tool:web:search": 1, "memory:fact:sla": 1, "section:system:safety": 1}


def test_the_id_of_an_arm_on_offer_means_its_call(tmp_path: Path) -> None:
    offered, named = ["tool:web:search", "skill:own:full"], ["skill:pdf:main"]
    with open_learner(tmp_path / "a.db") as learner, learner.run(offered, named=named) as run:
        for arm in (*offered, *named, "tool:web:other"):
            run.called(arm)
    assert [call.name for call in run.calls] == ["search", "tool:web:other"]
    assert (run.loads, run.ignored) == (["skill:pdf:main"], 1)


# What is kept


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_in_comes_back_as_it_was_offered(tmp_path: Path, shape: str) -> None:
    large = {"name": "edit", "parameters": {"text": "x" * 4_000}}
    offered: list[object] = [
        SHAPES[shape],
        large,
        "skill:review:main",
        Arm(key="file:workspace:a", token_cost=1),
    ]
    with open_learner(tmp_path / "a.db") as learner:
        chosen = learner.select(offered, budget_tokens=500)
        kept = chosen.keep(offered)
    assert [item is offered[place] for place, item in zip((0, 2, 3), kept, strict=True)] == [True] * 3


def test_a_tool_is_known_by_its_name_under_a_category_of_the_callers_own(tmp_path: Path) -> None:
    own = {"skill": "review"}
    with open_learner(tmp_path / "a.db") as learner:
        chosen = learner.select([Arm(key="tool:github:search"), "skill:review:main"])
        assert chosen.keep([OPENAI]) == [OPENAI]
        both = [Arm(key="tool:web:search", token_cost=1), Arm(key="tool:zoo:search", token_cost=900)]
        assert learner.select(both, budget_tokens=100).keep([OPENAI]) == [OPENAI], "its usual id goes first"
        assert chosen.keep([own], key=lambda one: f"skill:{one['skill']}:main") == [own]
        for stranger in ({"name": "edit"}, "tool:fs:Read", Arm(key="tool:fs:Read")):
            with pytest.raises(InvalidInput, match="of what the selection decided on"):
                chosen.keep([stranger])


# A request


def test_a_run_is_recorded_when_its_block_ends(tmp_path: Path) -> None:
    seconds = iter(range(0, 1_000_000, 500))
    with open_learner(tmp_path / "a.db", clock=lambda: next(seconds)) as learner:
        with learner.run([OPENAI, "skill:review:main"], session="s", model="m", channel="c") as run:
            # A hold puts the arms in the order of its draw.
            assert sorted(run.tools, key=str) == sorted([OPENAI, "skill:review:main"], key=str)
            assert set(run.arms) == {"tool:web:search", "skill:review:main"}
            run.called("search", {"q": "review of the plan"})
            run.used(Usage(input=100, output=10))
            run.used({"prompt_tokens": 50, "completion_tokens": 5, "total_tokens": 55})
            assert learner.status().runs == 0, "nothing is recorded before"
        assert run.answer is not None
        assert (run.answer.outcome, run.answer.observed) == ("observed", 2)
        story = learner.run(run.uid)
        assert (story.facts.tokens, story.facts.model, story.facts.channel) == (165, "m", "c")
        assert story.facts.duration_ms is not None
        assert story.facts.duration_ms > 0
        assert {one.arm for one in story.arms if one.referenced} == {"tool:web:search", "skill:review:main"}
        assert learner.verify().clean


def test_arms_by_name_have_counts_of_their_own(tmp_path: Path) -> None:
    """Runs 0 to 3 have both by name; run 1 calls the tool, runs 2 and 3 load the skill, run 0 does neither."""
    with open_learner(tmp_path / "a.db") as learner:
        for number in range(4):
            with learner.run(["tool:fs:Read"], named=[OPENAI, "skill:pdf:main"]) as run:
                run.called("Read")
                if number == 1:
                    run.called("search")
                if number > 1:
                    run.loaded("skill:pdf:main")
            assert run.answer is not None
            assert (run.answer.observed, run.arms) == (1, ("tool:fs:Read",))
        learner.record("r4", named=["skill:pdf:main"], texts=["the skill pdf"])
        arms = {one.arm: (one.pulls, one.n_named, one.n_loaded) for one in learner.arms()}
        assert arms == {"tool:fs:Read": (4, 0, 0), "tool:web:search": (0, 4, 1), "skill:pdf:main": (0, 5, 2)}
        assert {one.mean for one in learner.posteriors() if one.arm != "tool:fs:Read"} == {0.75}
        states = {one.arm: (one.state, one.token_cost) for one in learner.why(learner.runs()[-1].uid).arms}
        assert states["tool:web:search"] == ("by name", 2), "the cost of its name"
        assert [one.named for one in learner.versions("tool:web:search").versions] == [4]
        assert learner.verify().clean


def test_a_chosen_arm_may_be_there_by_name_and_one_left_out_may_not(tmp_path: Path) -> None:
    with open_learner(tmp_path / "a.db") as learner:
        chosen = learner.select(["tool:fs:Read", "skill:pdf:main"])
        learner.record("r1", selection=chosen, named=["skill:pdf:main"], calls=["Read"])
        states = {one.arm: one.state for one in learner.why("r1").arms}
        assert states == {"tool:fs:Read": "in full", "skill:pdf:main": "by name"}
        learner.change("seed_arms", [])
        learner.change("baseline_rate", 0)
        left = learner.select(["tool:a:a", "tool:b:b"], k=1)
        with pytest.raises(InvalidInput, match="both"):
            learner.record("r2", selection=left, named=list(left.excluded))
        with pytest.raises(InvalidInput, match="loaded"):
            learner.record("r3", arms=["tool:fs:Read"], loaded=["skill:pdf:main"])
        assert learner.verify().clean


def test_every_run_has_a_uid_and_may_offer_every_known_arm(tmp_path: Path) -> None:
    with open_learner(tmp_path / "a.db") as learner:
        for _ in range(2):
            with learner.run([OPENAI]) as run:
                run.called("search")
        assert learner.status().runs == 2
        with learner.run() as run:
            assert (run.arms, run.tools) == (("tool:web:search",), [])


def fail(learner: Learner, problem: type[BaseException]) -> None:
    with learner.run([OPENAI], uid="r") as run:
        run.called("search")
        raise problem


@pytest.mark.parametrize(("problem", "status"), [(ValueError, "error"), (KeyboardInterrupt, "aborted")])
def test_a_run_that_fails_is_recorded_as_failed_and_still_fails(
    tmp_path: Path, problem: type[BaseException], status: str
) -> None:
    with open_learner(tmp_path / "a.db") as learner:
        with pytest.raises(problem):
            fail(learner, problem)
        assert learner.why("r").facts.status == status


def test_a_run_is_used_once_and_in_a_block(tmp_path: Path) -> None:
    with open_learner(tmp_path / "a.db") as learner:
        run = learner.run([OPENAI])
        with pytest.raises(InvalidInput, match="under way"):
            _ = run.tools
        with run:
            pass
        with pytest.raises(InvalidInput, match="entered once"), run:
            pass


# Async


def test_the_loop_goes_on_while_a_writer_is_waited_for(tmp_path: Path) -> None:
    """Another process has the lock; what gives it back is a task of the same loop."""
    with open_learner(tmp_path / "a.db") as other:
        other.record("first", arms=["tool:web:search"], calls=["search"])
        lock = file_database(other.context.store).locked()

        async def agent() -> tuple[str, int]:
            async with AsyncLearner.open(tmp_path / "a.db") as learner:
                lock.__enter__()
                writing = asyncio.create_task(learner.record("r", arms=["tool:web:search"], calls=["search"]))
                ticks = 0
                for _ in range(20):
                    await asyncio.sleep(0)
                    ticks += not writing.done()
                lock.__exit__(None, None, None)
                return (await writing).told, ticks

        assert asyncio.run(agent()) == ("new", 20)


def test_a_task_that_is_cancelled_leaves_an_aborted_run(tmp_path: Path) -> None:
    async def agent() -> str:
        async with AsyncLearner.open(tmp_path / "a.db") as learner:
            begun = asyncio.Event()

            async def request() -> None:
                async with learner.run([OPENAI], uid="r") as run:
                    run.called("search")
                    begun.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(request())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return (await learner.why("r")).facts.status

    assert asyncio.run(agent()) == "aborted"


# A selection on its way


def test_a_selection_travels_as_json(tmp_path: Path) -> None:
    with open_learner(tmp_path / "a.db", entropy=lambda: (1 << 127) + 1) as learner:
        chosen = learner.select([f"skill:s{number}:main" for number in range(40)], k=11)
        document = chosen.to_json()
        assert json.loads(document)["seed"] == str((1 << 127) + 1)
        again = Selection.from_json(document.encode())
        assert again == chosen
        assert learner.record("r", selection=again, calls=["x"]).told == "new"
        assert learner.record("r", selection=chosen, calls=["x"]).told == "duplicate"
        assert learner.why("r").replays


@pytest.mark.parametrize(
    "document",
    [
        "",
        "{}",
        "[1]",
        b"\xff\xfe",
        "[" * 100_000,
        '{"run_class": "selected", "decisions": [{"arm": "Read", "included": true, "reason": "draw", "rank": 1, '
        '"token_cost": 0}], "seed": "1", "baseline_prob": 0.1, "settings_hash": "", "revision": 0}',
        '{"run_class": "selected", "decisions": [], "seed": "x", "baseline_prob": 0.1, "settings_hash": "", '
        '"revision": 0}',
    ],
)
def test_what_is_no_selection_is_refused(document: str | bytes) -> None:
    with pytest.raises(ArmscopeError) as told:
        Selection.from_json(document)
    assert told.value.code.startswith("invalid")


@pytest.mark.parametrize("single", SINGLES)
def test_a_single_value_in_place_of_a_list_is_refused(tmp_path: Path, single: object) -> None:
    """The parts of a text or definition would be arms, calls or texts of their own."""
    with open_learner(tmp_path / "a.db") as learner:
        learner.record("r", arms=["tool:web:search"], calls=["search"])
        asynchronous = AsyncLearner(learner)
        takers: list[Callable[[Any], object]] = [
            learner.run,
            asynchronous.run,
            learner.select,
            lambda one: learner.run(named=one),
            lambda one: learner.record("s", arms=one),
            lambda one: learner.record("s", arms=[], named=one),
            lambda one: learner.record("s", arms=[], loaded=one),
            lambda one: learner.record("s", arms=[], calls=one),
            lambda one: learner.record("s", arms=[], texts=one),
            lambda one: learner.reset(arms=one),
            lambda one: learner.reset(types=one),
            lambda one: learner.repair(arms=one, since="2026-01-01"),
            lambda one: with_run(learner, one),
        ]
        for take in takers:
            with pytest.raises(InvalidInput, match="into a list"):
                take(single)
        assert learner.run("r").facts.uid == learner.why("r").facts.uid
        assert (learner.status().runs, learner.posteriors()[0].pulls) == (1, 1)
