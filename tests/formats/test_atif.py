"""ATIF trajectories: steps, tokens, copied steps, sub-agents, and Harbor's result beside them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.errors import UnreadableSource
from core.flows.importing import import_files
from core.formats import recognise
from core.records.episode import Episode
from tests.flows.world import context_at
from tests.formats.builders import Json, names, offered, put, read, rejected, runs, tool


def agent(*calls: str, text: str = "", tokens: tuple[int, int, int] | None = None, **fields: object) -> Json:
    step: Json = {"source": "agent", "message": text, **fields}
    if calls:
        step["tool_calls"] = [
            {"tool_call_id": f"c{place}", "function_name": name, "arguments": {"q": place}}
            for place, name in enumerate(calls)
        ]
        step["observation"] = {
            "results": [{"source_call_id": f"c{n}", "content": "ok"} for n in range(len(calls))]
        }
    if tokens is not None:
        step["metrics"] = dict(
            zip(("prompt_tokens", "cached_tokens", "completion_tokens"), tokens, strict=True)
        )
    return step


STEPS: list[Json] = [
    {"source": "system", "message": "be brief"},
    {"source": "user", "message": [{"type": "text", "text": "go"}, {"type": "image", "source": {}}]},
    agent("read", "read", text="I look", tokens=(100, 60, 5)),
    agent("write", tokens=(200, 150, 10), model_name="mini"),
    {"source": "user", "message": "and now"},
    agent(text="done", tokens=(30, 0, 2)),
]


def trajectory(steps: list[Json] = STEPS, version: str = "1.7", **fields: object) -> Json:
    timed = [
        {"step_id": place + 1, "timestamp": f"2026-01-02T03:04:{place:02}Z", **step}
        for place, step in enumerate(steps)
    ]
    return {
        "schema_version": f"ATIF-v{version}",
        "session_id": "s1",
        "agent": {"name": "a", "version": "1", "model_name": "large"},
        "steps": timed,
        **fields,
    }


def trial(folder: Path, document: Json, **result: object) -> Path:
    """A trial's folder with a trajectory and its result."""
    (folder / "agent").mkdir(exist_ok=True)
    result = {"trial_name": "t__1", "task_name": "t", "source": "bench", **result}
    put(folder, json.dumps(result).encode(), "result.json")
    return put(folder / "agent", json.dumps(document, indent=1).encode(), "trajectory.json")


@pytest.mark.parametrize("version", ["1.2", "1.4", "1.6", "1.7", "1.12"])
def test_a_trajectory_is_a_run(tmp_path: Path, version: str) -> None:
    path = put(tmp_path, json.dumps(trajectory(version=version)).encode())
    (run,) = runs(read(path))
    assert recognise(path) == "atif"
    assert (names(run), run.texts, run.prompt, run.model) == (
        ["read", "read", "write"],
        ("I look", "done"),
        "go",
        "mini",
    )
    assert run.usage is not None
    assert (run.usage.input, run.usage.cache_read, run.usage.output, run.tokens) == (120, 210, 17, 347)
    assert {row.model: row.tokens for row in run.bill} == {"large": 137, "mini": 210}
    assert (run.uid, run.session, run.duration_ms) == ("atif/episode/s1", "s1", 5000)
    assert (offered(run), run.inventory.kind) == (["read", "write"], "inferred")
    first, second = runs(read(path, unit="turn"))
    assert (names(first), names(second), first.usage, second.reply) == (
        ["read", "read", "write"],
        [],
        None,
        "done",
    )


def test_declared_tools_are_the_inventory(tmp_path: Path) -> None:
    declared = {"name": "a", "tool_definitions": [tool("read"), tool("never")]}
    (run,) = runs(read(put(tmp_path, json.dumps(trajectory(agent=declared)).encode())))
    assert (offered(run), run.inventory.kind) == (["read", "never"], "declared")


def test_copied_steps_and_steps_without_a_model_are_not_the_agent_s(tmp_path: Path) -> None:
    steps: list[Json] = [
        *({**step, "is_copied_context": True} for step in STEPS),
        {"source": "user", "message": "more"},
        agent("setup", llm_call_count=0),
        agent("x", tokens=(7, 0, 1)),
    ]
    (run,) = runs(read(put(tmp_path, json.dumps(trajectory(steps)).encode())))
    assert (names(run), run.prompt, run.tokens) == (["x"], "more", 8)


def test_tokens_of_sub_agents_are_in_the_bill_alone(tmp_path: Path) -> None:
    inner = trajectory(
        [agent("grep", tokens=(1000, 0, 50))], session_id="s2", subagent_trajectories=[trajectory()]
    )
    (run,) = runs(read(put(tmp_path, json.dumps(trajectory(subagent_trajectories=[inner])).encode())))
    assert (names(run), run.tokens) == (["read", "read", "write"], 347)
    assert sum(row.tokens for row in run.bill if row.owner == "sub-agent") == 1050 + 347


def test_metrics_of_the_whole_count_where_no_step_has_any(tmp_path: Path) -> None:
    totals = {"total_prompt_tokens": 90, "total_cached_tokens": 40, "total_completion_tokens": 9}
    bare: list[Json] = [{key: value for key, value in step.items() if key != "metrics"} for step in STEPS]
    for steps, tokens in ((bare, 99), (STEPS, 347)):
        (run,) = runs(read(put(tmp_path, json.dumps(trajectory(steps, final_metrics=totals)).encode())))
        assert run.tokens == tokens


REWARDS: list[tuple[dict[str, float | None] | None, float | None, dict[str, float]]] = [
    ({"reward": 0.0}, 0.0, {}),
    ({"reward": 0.5, "style": 1.0, "lost": None}, 0.5, {"style": 1.0}),
    ({"tests": 1.0}, 1.0, {"tests": 1.0}),
    ({"a": 1.0, "b": 0.0}, None, {"a": 1.0, "b": 0.0}),
    (None, None, {}),
]


@pytest.mark.parametrize(("rewards", "reward", "parts"), REWARDS)
def test_the_result_beside_a_trajectory_makes_its_episode(
    tmp_path: Path, rewards: object, reward: float | None, parts: dict[str, float]
) -> None:
    found = read(trial(tmp_path, trajectory(), verifier_result=rewards and {"rewards": rewards}))
    (episode,) = (one for one in found if isinstance(one, Episode))
    assert (episode.task, episode.environment, episode.broken) == ("t", "atif/bench", False)
    assert {part.name: part.value for part in episode.parts} == parts
    assert (episode.steps[-1].reward, [step.answered for step in episode.steps[:-1]]) == (reward, ["ok"] * 3)
    assert runs(found)[0].reward == reward


def test_an_exception_breaks_the_episode(tmp_path: Path) -> None:
    exception = {"exception_type": "AgentTimeoutError", "exception_message": "x"}
    found = read(trial(tmp_path, trajectory(), exception_info=exception))
    (episode,) = (one for one in found if isinstance(one, Episode))
    assert (episode.broken, episode.steps[-1].name, runs(found)[0].status) == (
        True,
        "AgentTimeoutError",
        "error",
    )


def test_another_result_beside_it_is_none(tmp_path: Path) -> None:
    path = trial(tmp_path, trajectory())
    put(tmp_path, b'{"score": 1}', "result.json")
    assert [one for one in read(path) if isinstance(one, Episode)] == []
    put(tmp_path, b'{"trial_name": ', "result.json")
    with pytest.raises(UnreadableSource, match="must be its result"):
        read(path)


def test_a_folder_of_trials_is_one_import_and_again_changes_nothing(tmp_path: Path) -> None:
    for number in range(3):
        folder = tmp_path / f"trial{number}"
        folder.mkdir()
        trial(folder, trajectory(session_id=f"s{number}"), verifier_result={"rewards": {"reward": 1.0}})
    context = context_at(tmp_path / "a.db")
    answer = import_files(context, [tmp_path / f"trial{number}" for number in range(3)])
    assert (answer.runs, answer.episodes) == (3, 3)
    assert import_files(context, [tmp_path / "trial1"]).id is None


HOSTILE = {
    "another version": trajectory(version="2.0"),
    "no steps": {**trajectory(), "steps": None},
    "a call without a name": trajectory([{"source": "agent", "tool_calls": [{}]}]),
    "tokens below zero": trajectory([agent(tokens=(-1, 0, 0))]),
    "a call in a source of an unknown kind": trajectory(
        [{"source": "user", "message": "x"}, {**agent("x"), "source": "m"}]
    ),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_document_of_another_shape_is_refused(tmp_path: Path, what: str) -> None:
    entries = read(put(tmp_path, json.dumps(HOSTILE[what]).encode()))
    assert (runs(entries), len(rejected(entries))) == ([], 1)
