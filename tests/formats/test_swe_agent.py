"""SWE-agent trajectories: whose calls count, what is refused, and identity while a file grows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.errors import UnreadableSource
from core.formats import recognise
from tests.formats.builders import Json, lines, names, offered, put, read, rejected, reply, runs, tool, user


def acted(name: str, number: int, **fields: object) -> Json:
    """A reply of the agent with one function call, as its history keeps it."""
    message = reply(f"step {number}", name)
    function = {"name": name, "arguments": json.dumps({"command": f"do {number}"})}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return {**message, "tool_calls": [call], "agent": "main", "action": f"do {number}", **fields}


def typed(number: int) -> Json:
    """A reply of the agent that holds its command as text."""
    return {
        "role": "assistant",
        "content": f"Look.\n```\nls {number}\n```",
        "agent": "main",
        "action": f"ls {number}",
    }


def observed(number: int) -> Json:
    return {
        "role": "tool",
        "content": f"result {number}",
        "tool_call_ids": [f"call_{number}"],
        "agent": "main",
    }


def step(number: int, seconds: float = 0.5) -> Json:
    return {
        "action": f"do {number}",
        "observation": f"result {number}",
        "execution_time": seconds,
        "query": [],
    }


DEMO: list[Json] = [
    {"role": "system", "content": "be good", "agent": "main"},
    {"role": "user", "content": "a demonstration", "is_demo": True, "agent": "main"},
    acted("demo_tool", 99, is_demo=True),
]


def trajectory(*history: Json, steps: int = 1, seconds: float = 0.5, **info: object) -> Json:
    config = {"agent": {"model": {"name": "m-1"}}}
    return {
        "trajectory": [step(number, seconds) for number in range(steps)],
        "history": [*DEMO, {**user("fix it"), "agent": "main"}, *history],
        "info": {
            "exit_status": "submitted",
            "model_stats": {"tokens_sent": 900, "tokens_received": 30},
            **info,
        },
        "replay_config": json.dumps(config),
        "environment": "swe_main",
    }


WORK = [acted("bash", 0), observed(0), acted("str_replace_editor", 1), observed(1), acted("submit", 2)]


def content(told: Json) -> bytes:
    return json.dumps(told, indent=2).encode()


def test_a_trajectory_is_an_episode(tmp_path: Path) -> None:
    path = put(tmp_path, content(trajectory(*WORK)))
    assert recognise(path) == "swe-agent"
    (run,) = runs(read(path))
    assert names(run) == ["bash", "str_replace_editor", "submit"]
    assert run.calls[0].metadata == '{"command": "do 0"}'
    assert (offered(run), run.inventory.kind) == (["bash", "str_replace_editor", "submit"], "inferred")
    assert run.usage is not None
    assert (run.usage.input, run.usage.output) == (900, 30)
    assert (run.model, run.status, run.unit, run.reward) == ("m-1", "completed", "episode", None)
    assert run.uid == f"swe-agent/episode/{run.source}"


def test_supplied_tools_are_what_was_offered(tmp_path: Path) -> None:
    tools_file = put(tmp_path, lines([[tool("bash"), tool("find")]]), "tools")
    (run,) = runs(read(put(tmp_path, content(trajectory(*WORK))), tools_file=tools_file))
    assert offered(run) == ["bash", "find"]


@pytest.mark.parametrize(
    ("exit_status", "status"),
    [
        ("submitted", "completed"),
        ("Submitted", "completed"),
        (None, "completed"),
        ("submitted (exit_cost)", "error"),
    ],
)
def test_how_it_ended(tmp_path: Path, exit_status: str | None, status: str) -> None:
    (run,) = runs(read(put(tmp_path, content(trajectory(*WORK, exit_status=exit_status)))))
    assert run.status == status


def test_another_agent_s_replies_are_not_its_own(tmp_path: Path) -> None:
    told = trajectory(*WORK[:2], acted("find", 7, agent="helper"), *WORK[2:])
    (run,) = runs(read(put(tmp_path, content(told))))
    assert "find" not in names(run)


def test_without_calls_commands_are_refused_and_words_are_small_talk(tmp_path: Path) -> None:
    told = trajectory(typed(0), {"role": "user", "content": "result"}, typed(1))
    entries = read(put(tmp_path, content(told)))
    assert runs(entries) == []
    assert "commands as text only" in rejected(entries)[0].reason
    told = trajectory({"role": "assistant", "content": "I give up.", "agent": "main"})
    told["replay_config"] = json.dumps({"agent": {"tools": {"parse_function": {"type": "function_calling"}}}})
    (run,) = runs(read(put(tmp_path, content(told))))
    assert (run.calls, run.empty) == ((), False)
    (run,) = runs(read(put(tmp_path, content(trajectory(steps=0)) + b"\n"), format="swe-agent"))
    assert run.empty


def test_attempts_at_one_problem_are_different_runs(tmp_path: Path) -> None:
    again = [{**acted("bash", 0), "tool_calls": [{**calls_of(WORK[0])[0], "id": "call_x"}]}, *WORK[1:]]
    attempts = [trajectory(*WORK), trajectory(*WORK, seconds=0.25), trajectory(*again)]
    found = [runs(read(put(tmp_path, content(one))))[0] for one in attempts]
    assert len({run.uid for run in found}) == 3


def calls_of(message: Json) -> list[Json]:
    calls = message["tool_calls"]
    assert isinstance(calls, list)
    return calls


# --- the smaller agent ------------------------------------------------------------------------------------


def small(*messages: Json, model: str = "m-2") -> Json:
    info = {
        "exit_status": "Submitted",
        "config": {"model": {"model_name": model}},
        "model_stats": {"api_calls": 3},
    }
    told = [{"role": "system", "content": "x"}, user("fix it"), *messages]
    return {"info": info, "messages": told, "trajectory_format": "mini-swe-agent-1.1"}


def test_the_smaller_agent_s_files_are_read_alike(tmp_path: Path) -> None:
    path = put(tmp_path, content(small(acted("bash", 0), acted("bash", 1))))
    assert recognise(path) == "swe-agent"
    (run,) = runs(read(path))
    assert (names(run), run.model, run.usage) == (["bash", "bash"], "m-2", None)
    longer = put(tmp_path, content(small(acted("bash", 0), acted("bash", 1), acted("bash", 2))))
    assert runs(read(longer))[0].uid == run.uid
    entries = read(put(tmp_path, content(small(typed(0)))))
    assert "commands as text only" in rejected(entries)[0].reason


# --- hostile files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b'"tokens_sent": 900', b'"tokens_sent": NaN', "NaN"),
        (b'"result 0"', b'"\\ud800"', "surrogate"),
        (b'"result 0"', b"[" * 99 + b"]" * 99, "deeper"),
        (b'"history": [', b'"history": 7, "x": [', "another shape"),
        (b'"swe_main"', b"7", "another shape"),
        (b'"bash"', b'"' + b"n" * 600 + b'"', "another shape"),
    ],
)
def test_a_broken_trajectory_is_one_rejection(tmp_path: Path, old: bytes, new: bytes, reason: str) -> None:
    whole = content(trajectory(*WORK))
    assert old in whole
    entries = read(put(tmp_path, whole.replace(old, new)))
    assert runs(entries) == []
    assert reason in rejected(entries)[0].reason
    cut = read(put(tmp_path, whole[: len(whole) // 2]))
    assert "cut off" in rejected(cut)[0].reason


def test_what_only_looks_like_a_trajectory_is_not_recognised(tmp_path: Path) -> None:
    for alike in (
        b'{"trajectory": []}',
        b'{"history": [], "info": {}}',
        b'{"trajectory": [{"action": "x"}]}',
    ):
        path = put(tmp_path, alike)
        assert recognise(path) is None
        with pytest.raises(UnreadableSource):
            read(path)
