"""qortex's tools by MCP answer as qortex's server does, but for what our rules decide otherwise."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from tests.conformance.mcp_client import Agent, agent_at
from tests.conformance.qortex_calls import (
    Answer,
    Model,
    Refused,
    as_recorded,
    hold,
    print_tally,
    renamed,
    scrubbed,
)
from tests.conformance.vectors import Vector, load
from tests.conftest import VECTORS

_PREFIX: Final = "qortex_learning_"
CONTRACT: Final = VECTORS.parent / "contracts" / "qortex_mcp_tools.json"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """One process for all of them: each sequence has a learner of its own."""
    with agent_at(tmp_path_factory.mktemp("mcp") / "runs.db", "--allow", "reset,export") as made:
        yield made


@pytest.fixture(scope="module")
def tally() -> Iterator[Counter[str]]:
    counted: Counter[str] = Counter()
    yield counted
    print_tally(counted, "MCP")


@pytest.mark.parametrize("is_renamed", [False, True], ids=["as recorded", "renamed"])
@pytest.mark.parametrize("vector", load("qortex_mcp"))
def test_a_sequence_is_answered_as_qortex_answers_it(
    vector: Vector, is_renamed: bool, agent: Agent, tally: Counter[str]
) -> None:
    model, learner = Model(), f"{vector.id} {is_renamed}"
    for number, both in enumerate(zip(vector.input["calls"], vector.output, strict=True)):
        asked, theirs = renamed(list(both)) if is_renamed else both
        name, args = asked["tool"].removeprefix(_PREFIX), asked["args"]
        ours = _asked(agent, asked["tool"], args, learner)
        where = f"{vector.id} {number} {name}"
        recorded = Refused() if theirs.get("is_error") else theirs
        if _is_malformed(name, args):
            assert isinstance(ours, Refused), where
            assert isinstance(recorded, Refused), where
            continue
        must, reason = model.expect(name, args)
        if name == "select" and isinstance(ours, dict):
            reason = "baseline" if ours["is_baseline"] else reason
            ours = as_recorded(ours)
        tally[hold(ours, must, recorded, reason, where) or ""] += 1
    del tally[""]


def _asked(agent: Agent, tool: str, args: Mapping[str, Any], learner: str) -> Answer:
    """What a call is answered with, as if its learner were the only one."""
    own = {**args, "learner": learner} if "learner" in args else dict(args)
    said, is_refused = agent.call(tool, own)
    if is_refused:
        return Refused()
    return scrubbed({**said, "learner": args["learner"]} if "learner" in said else said)


_NEEDED: Final = {
    "select": {"candidates"},
    "observe": {"arm_id"},
    "session_start": {"session_name"},
    "session_end": {"session_id"},
}


def _is_malformed(name: str, args: Mapping[str, Any]) -> bool:
    """Whether the schema itself refuses the arguments, or nobody could know what is on offer."""
    is_without = not _NEEDED.get(name, set()) <= args.keys()
    return is_without or any("id" not in one for one in args.get("candidates", ())) or _is_text(args)


def _is_text(args: Mapping[str, Any]) -> bool:
    return isinstance(args.get("reward", 0.0), str)


def test_the_tools_are_listed_to_the_letter(agent: Agent) -> None:
    listed = agent.tools()
    for theirs in json.loads(CONTRACT.read_text(encoding="utf-8"))["tools"]:
        ours = listed[theirs["name"]]
        assert ours.input_schema == theirs["inputSchema"]
        assert ours.output_schema == theirs["outputSchema"]
        assert ours.description
    kairos = json.loads(CONTRACT.with_name("kairos_tools.schema.json").read_text(encoding="utf-8"))
    assert listed["reward"].input_schema == kairos["reward_input"]
    assert listed["export"].input_schema == kairos["export_input"]


def test_what_a_tool_does_not_take_is_refused(agent: Agent) -> None:
    said, is_refused = agent.call(f"{_PREFIX}metrics", {"learner": "x", "wndow": 3})
    assert is_refused
    assert "wndow" in said["error"]


def test_an_agent_goes_round_once(agent: Agent) -> None:
    """Select, report, ask why, judge, take back: what a run of ours has, whoever selected."""
    learner = "once round"
    arms = [{"id": f"tool:other:{name}", "token_cost": 5} for name in "abc"]
    chosen, _ = agent.call(f"{_PREFIX}select", {"learner": learner, "candidates": arms, "k": 0})
    assert len(chosen["selected_arms"]) == 3
    for arm, reward in zip(chosen["selected_arms"], (1, 0, 0.5), strict=True):
        agent.call(f"{_PREFIX}observe", {"learner": learner, "arm_id": arm["id"], "reward": reward})
    (run,) = agent.call("runs", {"learner": learner})[0]["runs"]
    assert (run["class"], run["arms"]) == ("baseline" if chosen["is_baseline"] else "selected", 3)
    why, is_refused = agent.call("why_in_prompt", {"run": run["uid"], "learner": learner})
    assert not is_refused
    assert run["uid"] in json.dumps(why)
    undone, is_refused = agent.call("undo", {"id": "reward-1", "learner": learner})
    assert (undone["undone"], is_refused) == ("reward-1", False)
    assert agent.call("undo", {"id": "setting-1", "learner": learner})[1] is False, "its own, too"


def test_a_judgement_is_recorded_and_exported(agent: Agent) -> None:
    uri = "kairos://layer/aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
    # Of several learners, a call that names none means the default one.
    agent.call(f"{_PREFIX}observe", {"learner": "default", "arm_id": "tool:other:a", "reward": 1})
    said, is_refused = agent.call("reward", {"uri": uri, "outcome": "success", "score": 0})
    assert (said["results"][0]["score"], is_refused) == (0, False)
    made, is_refused = agent.call("export", {"all_adapters": True, "format": "trace_jsonl"})
    assert (made["format"], is_refused) == ("trace_jsonl", False)
    wrong, is_refused = agent.call("reward", {"uri": "kairos://mem/x", "outcome": "good", "scor": 1})
    assert is_refused
    assert (wrong["error"], wrong["tool"], wrong["invalid_fields"]) == (
        "INVALID_TOOL_INPUT",
        "reward",
        ["scor"],
    )
    assert set(wrong) == {
        *("error", "tool", "message", "next_action", "invalid_fields", "example"),
        *("must_obey", "retry_count", "max_retries"),
    }
