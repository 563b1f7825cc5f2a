"""qortex's tools by MCP answer as qortex's server does, but for what our rules decide otherwise."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from tests.conformance.mcp_client import Agent, agent_at
from tests.conformance.qortex_calls import (
    LAST,
    NOWHERE,
    Answer,
    Refused,
    Sequence,
    as_recorded,
    end_of,
    hold,
    is_malformed,
    observed_as,
    print_tally,
    renamed,
    scrubbed,
    with_last,
)
from tests.conformance.vectors import Vector, load
from tests.conftest import VECTORS

_PREFIX: Final = "qortex_learning_"
CONTRACT: Final = VECTORS.parent / "contracts" / "qortex_mcp_tools.json"

_A: Final = {"learner": "openclaw", "arm_id": "a"}
_SELECT: Final = {"learner": "openclaw", "candidates": [{"id": "a"}, {"id": "b"}]}
_ERROR: Final = {"is_error": True}
_KEYS: Final = ["excluded_arms", "is_baseline", "scores", "selected_arms", "token_budget", "used_tokens"]


def _unrecorded(name: str, *calls: tuple[str, Mapping[str, Any], Mapping[str, Any]]) -> Any:  # noqa: ANN401
    """A sequence of the same kinds that no recording shows: tool, arguments, and qortex's answer."""
    asked = [{"tool": f"{_PREFIX}{tool}", "args": args} for tool, args, _ in calls]
    vector = Vector(name, "mcp.sequence", {"calls": asked}, [answer for *_, answer in calls], None)
    return pytest.param(vector, id=name)


UNRECORDED: Final = [
    _unrecorded(
        "a poisoned posterior",
        ("observe", {**_A, "reward": -3}, observed_as(-2.0, 5.0, -0.6667, 1)),
        ("observe", {**_A, "reward": 1}, observed_as(-1.0, 5.0, -0.25, 2)),
        ("select", _SELECT, _ERROR),
    ),
    _unrecorded(
        "sessions",
        (
            "session_start",
            {"learner": "openclaw", "session_name": "n"},
            {"session_id": "<uuid>", "learner": "openclaw"},
        ),
        ("observe", {**_A, "reward": 1, "context": {"session_key": LAST}}, observed_as(2.0, 1.0, 0.6667, 1)),
        ("session_end", {"session_id": LAST}, end_of("openclaw")),
        ("session_end", {"session_id": LAST}, NOWHERE),
    ),
    _unrecorded(
        "seeds that are no candidates",
        (
            "select",
            {**_SELECT, "k": 1, "seed_arms": ["s"], "seed_boost": 3.0},
            {
                "keys": _KEYS,
                "selected_entry_keys": ["id", "metadata", "token_cost"],
                "n_selected": 1,
                "partition": True,
                "token_budget": 0,
            },
        ),
        (
            "posteriors",
            {"learner": "openclaw"},
            {
                "learner": "openclaw",
                "posteriors": {
                    "s": {
                        "alpha": 3.0,
                        "beta": 1.0,
                        "pulls": 0,
                        "total_reward": 0.0,
                        "last_updated": "<ts>",
                        "mean": 0.75,
                    }
                },
            },
        ),
        (
            "metrics",
            {"learner": "openclaw"},
            {
                "learner": "openclaw",
                "total_pulls": 0,
                "total_reward": 0.0,
                "accuracy": 0.0,
                "arm_count": 1,
                "explore_ratio": 0.1,
            },
        ),
    ),
    _unrecorded(
        "two learners",
        ("observe", {**_A, "reward": 1}, observed_as(2.0, 1.0, 0.6667, 1)),
        ("posteriors", {"learner": "other"}, {"learner": "other", "posteriors": {}}),
    ),
    _unrecorded("no learner", ("observe", {"arm_id": "a", "reward": 1}, _ERROR), ("reset", {}, _ERROR)),
]


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
@pytest.mark.parametrize("vector", [*load("qortex_mcp"), *UNRECORDED])
def test_a_sequence_is_answered_as_qortex_answers_it(
    vector: Vector, is_renamed: bool, agent: Agent, tally: Counter[str]
) -> None:
    sequence, own, last = Sequence(), f"{vector.id} {is_renamed}", LAST
    for number, both in enumerate(zip(vector.input["calls"], vector.output, strict=True)):
        asked, theirs = renamed(list(both)) if is_renamed else both
        name, args = asked["tool"].removeprefix(_PREFIX), with_last(asked["args"], last)
        ours = _asked(agent, asked["tool"], args, own)
        last = ours["session_id"] if isinstance(ours, dict) and name == "session_start" else last
        where = f"{vector.id} {number} {name}"
        recorded = Refused() if theirs.get("is_error") else scrubbed(theirs)
        if is_malformed(name, args):
            assert isinstance(ours, Refused), where
            assert isinstance(recorded, Refused), where
            continue
        must, reason = sequence.expect(name, args)
        if isinstance(ours, dict):
            reason = "baseline" if ours.get("is_baseline") else reason
            ours = as_recorded(ours) if name == "select" else scrubbed(ours)
        tally[hold(ours, must, recorded, reason, where) or ""] += 1
    del tally[""]


def _asked(agent: Agent, tool: str, args: Mapping[str, Any], own: str) -> Answer:
    """What a call is answered with, where each learner of a sequence has a name of its own on the server."""
    mine = {"learner": f"{own} {args['learner']}"} if isinstance(args.get("learner"), str) else {}
    said, is_refused = agent.call(tool, {**args, **mine})
    if is_refused:
        return Refused()
    learner = said.get("learner")
    return {**said, "learner": learner.removeprefix(f"{own} ")} if isinstance(learner, str) else said


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
