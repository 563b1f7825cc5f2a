"""Traces of verifiers 1: sampled nodes, model calls, weighted rewards, errors, several agents in an episode."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.flows.context import Context
from core.flows.importing import import_files
from core.formats import recognise
from core.records.episode import Episode
from tests.formats.builders import Json, lines, names, offered, put, read, rejected, runs

USED = [
    {
        "node": 3,
        "model": "m",
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "cached_input_tokens": 20},
    },
    {"node": 5, "model": "m", "usage": {"prompt_tokens": 7, "completion_tokens": 1}},
    {"node": 6, "model": "m", "error": {"type": "Retry", "message": "x"}},
]

FAILED = {"type": "SandboxError", "message": "gone"}
STATES: list[tuple[Json, str | None, float | None]] = [
    ({"rewards": {"correct": None}}, None, None),
    ({"rewards": {}}, None, None),
    ({"rewards": {"correct": None, "style": {"score": 0.0}}}, None, 0.0),
    ({"ok": False, "errors": [FAILED]}, "SandboxError", 1.25),
    ({"ok": True, "errors": [FAILED]}, None, 1.25),
    ({"ok": False, "stop_condition": "max_turns"}, "max_turns", 1.25),
    ({"ok": None, "errors": [FAILED]}, "SandboxError", 1.25),
    ({"ok": None, "is_completed": False}, "not completed", 1.25),
]

HOSTILE: list[Json] = [
    {"nodes": [{"message": 7}]},
    {"rewards": {"x": {"score": "high"}}},
    {"rewards": {"x": {"score": 1e308, "weight": 1e308}}},
    {"tools": [{"name": "no\nname"}]},
]


def node(role: str, content: str, *calls: str, sampled: bool = False, parent: int | None = None) -> Json:
    message: Json = {"role": role, "content": content}
    if calls:
        message["tool_calls"] = [
            {"id": f"c{n}", "name": name, "arguments": "{}"} for n, name in enumerate(calls)
        ]
    return {
        "message": message,
        "sampled": sampled,
        "parent": parent,
        "token_ids": [1, 2],
        "mask": [True, False],
    }


NODES = [
    node("system", "be brief"),
    node("user", "solve it", parent=0),
    node("assistant", "an example", "shown", parent=1),
    node("assistant", "", "search", "search", sampled=True, parent=1),
    node("tool", "found", parent=3),
    node("assistant", "left", "read", sampled=True, parent=4),
    node("assistant", "right", sampled=True, parent=4),
]


def trace(number: int = 0, **fields: object) -> Json:
    return {
        "version": 1,
        "id": f"t{number}",
        "task": {"type": "T", "data": {"answer": 7}, "key": "k1", "hash": "h1"},
        "agent": {"config": {"model": "m"}, "name": "agent", "trainable": True},
        "tools": [
            {"name": name, "description": "d", "parameters": {}} for name in ("search", "read", "never")
        ],
        "nodes": NODES,
        "calls": USED,
        "rewards": {"correct": {"score": 0.5, "weight": 2.0}, "style": {"score": 1.0, "weight": 0.25}},
        "metrics": {"turns": 2.0},
        "extra_usage": [{"prompt_tokens": 90, "completion_tokens": 9}],
        "is_completed": True,
        "ok": True,
        "timing": {"agent": {"start": 1767323045.0, "end": 1767323046.5}},
        **fields,
    }


def episode(*traces: Json, **fields: object) -> Json:
    return {
        "id": "e1",
        "env": {"id": "solve+judge"},
        "task": trace()["task"],
        "ok": True,
        "traces": traces,
        **fields,
    }


def paid(path: Path) -> list[Episode]:
    return [one for one in read(path) if isinstance(one, Episode)]


@pytest.mark.parametrize("line", [trace(), episode(trace())])
def test_a_trace_is_a_run_and_its_episode(tmp_path: Path, line: Json) -> None:
    path = put(tmp_path, lines([line]))
    (run,) = runs(read(path))
    (one,) = paid(path)
    assert recognise(path) == "verifiers"
    assert (names(run), run.texts, run.prompt, run.model) == (
        ["search", "search", "read"],
        ("left", "right"),
        "solve it",
        "m",
    )
    assert (offered(run), run.inventory.kind) == (["search", "read", "never"], "declared")
    assert (run.tokens, run.usage and run.usage.cache_read, run.duration_ms, run.ended_at_ms) == (
        43,
        20,
        1500,
        1767323046500,
    )
    assert (run.reward, one.task, one.broken, run.uid) == (1.25, "k1", False, "verifiers/episode/t0")
    assert [(part.name, part.value, part.kind) for part in one.parts] == [
        ("correct", 1.0, "reward"),
        ("extra_tokens", 99.0, "measure"),
        ("style", 0.25, "reward"),
        ("turns", 2.0, "measure"),
    ]


def test_environment_and_agent_separate_the_traces_of_an_episode(tmp_path: Path) -> None:
    judge = trace(1, agent={"config": {}, "name": "judge"})
    found = paid(put(tmp_path, lines([episode(trace(), judge)])))
    assert [one.environment for one in found] == ["verifiers/solve+judge", "verifiers/solve+judge/judge"]
    assert [one.environment for one in paid(put(tmp_path, lines([trace()])))] == ["verifiers"]


@pytest.mark.parametrize(("fields", "broken", "reward"), STATES)
def test_a_missing_score_is_no_zero_and_an_error_breaks(
    tmp_path: Path, fields: Json, broken: str | None, reward: float | None
) -> None:
    (one,) = paid(put(tmp_path, lines([episode(trace() | fields)])))
    assert (one.steps[-1].name or None, one.broken, one.steps[-1].reward) == (
        broken,
        broken is not None,
        reward,
    )


def test_an_episode_that_failed_before_any_trace_is_kept_as_broken(tmp_path: Path) -> None:
    (one,) = paid(put(tmp_path, lines([episode(ok=False, errors=[FAILED])])))
    assert (one.broken, one.steps[-1].name, one.task) == (True, "SandboxError", "k1")


def test_old_lines_and_traces_may_lie_in_one_file(context: Context, tmp_path: Path) -> None:
    old = {
        "example_id": 1,
        "prompt": [],
        "completion": [{"role": "assistant", "content": "a"}],
        "reward": 1.0,
    }
    path = put(tmp_path, lines([episode(trace()), {**old, "info": {"nodes": 1}}, {"nodes": 7}, trace(1)]))
    answer = import_files(context, [path])
    assert (answer.runs, answer.episodes, [one.line for one in answer.rejected]) == (3, 3, [3])
    assert import_files(context, [path]).id is None


@pytest.mark.parametrize("fields", HOSTILE)
def test_a_trace_of_another_shape_is_rejected_with_its_line(tmp_path: Path, fields: Json) -> None:
    entries = read(put(tmp_path, lines([trace(), episode(trace(1) | fields), trace(2)])))
    assert ([one.line for one in rejected(entries)], len(runs(entries))) == ([2], 2)
