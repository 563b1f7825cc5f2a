"""Unknown formats and parts: counted and named; where a call may be lost with one, no run is made of it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from core.errors import UnreadableSource
from core.flows.importing import import_files
from core.formats import Remark, recognise
from tests.formats.agents import AGENTS, CALLS
from tests.formats.builders import Json, Session, lines, put, read, rejected, reply, runs, text, use, user
from tests.worlds import context_at

SESSION = AGENTS["claude-code"](0, CALLS[1])
START = {"type": "session.start", "data": {"sessionId": "s"}, "id": "e1", "timestamp": "t", "parentId": None}
CALL = {"type": "tool_use", "name": "ls", "input": {}}
UNKNOWN: list[Json | list[Json]] = [
    {"a": 1},
    {"role": "x"},
    {"type": "system"},
    {"id": 1, "timestamp": "t"},
    [{"role": 1}],
]


def remarks(path: Path) -> list[str]:
    return [entry.text.rsplit(" (", 1)[0] for entry in read(path) if isinstance(entry, Remark)]


def renamed(made: list[Json], old: str, new: str) -> bytes:
    return lines(made).replace(f'"{old}"'.encode(), f'"{new}"'.encode())


NO_CALL: dict[str, bytes] = {
    "claude-code": renamed(SESSION, "tool_use", "custom_tool_call"),
    "claude-code, parts": renamed(SESSION, "content", "parts").replace(
        b'"parts": "prompt', b'"content": "prompt'
    ),
    "claude-code, a field": lines(
        [
            *SESSION[:1],
            {
                **SESSION[1],
                "message": {
                    "role": "assistant",
                    "content": "I look",
                    "tool_calls": [{"function": {"name": "ls"}}],
                },
            },
        ]
    ),
    "claude-code, lines": lines(
        [SESSION[0], {**SESSION[1], "type": "function_call", "name": "ls"}, SESSION[-1]]
    ),
    "qwen-code": lines(AGENTS["qwen-code"](0, CALLS[1])).replace(b'"functionCall"', b'"customCall"'),
    "qwen-code, a field": lines(AGENTS["qwen-code"](0, CALLS[2])).replace(
        b'"parts": [{"text": "done"', b'"tool_calls": [{}], "parts": [{"text": "done"'
    ),
    "factory-droid": renamed(AGENTS["factory-droid"](0, CALLS[1]), "tool_use", "command_call"),
    "pi-session": renamed(AGENTS["pi-session"](0, CALLS[1]), "toolCall", "functionCall"),
    "gemini-cli": lines(AGENTS["gemini-cli"](0, CALLS[1])).replace(
        b'"content": "", "toolCalls": [{"id": "0-0-Bash", "name": "Bash", "args": {}}]',
        b'"content": [{"functionCall": {"name": "Bash"}}]',
    ),
    "openai-chat": lines([{"messages": [user("go"), reply([{"type": "function_call", "name": "ls"}])]}]),
    "openai-chat, a field": lines(
        [{"messages": [user("go"), {**reply("I look"), "toolCalls": [{"name": "ls"}]}]}]
    ),
    "tau-bench": lines([{"traj": [user("go"), reply([{"type": "mcp_call", "name": "ls"}])], "reward": 1}]),
}


@pytest.mark.parametrize("what", NO_CALL)
def test_a_file_whose_calls_are_all_of_an_unknown_kind_is_refused(tmp_path: Path, what: str) -> None:
    path = put(tmp_path, NO_CALL[what])
    entries = read(path)
    assert runs(entries) == []
    assert any("Which tools were called is unknown" in one.reason for one in rejected(entries))
    with pytest.raises(UnreadableSource, match="Which tools were called is unknown"):
        import_files(context_at(tmp_path / "a.db"), [path])


def test_what_is_not_understood_is_counted_by_kind_with_the_file(tmp_path: Path) -> None:
    session = (
        Session().prompt("go").reply(use("Read", "t1"), {"type": "hologram"}, {"type": "toolsmith_call"})
    )
    session.line("teleport").line("teleport").line("ai-title", aiTitle="x").reply(text("done"), id="m2")
    session.prompt([text("more"), {"type": "smell"}]).reply(text("ok"), {"type": "hologram"}, id="m3")
    path = put(tmp_path, session.bytes())
    assert remarks(path) == [
        "2 lines of an unknown kind (teleport) were not understood",
        "4 content blocks of an unknown kind (hologram, toolsmith_call, smell) were not understood",
    ]
    answer = import_files(context_at(tmp_path / "a.db"), [path])
    assert (answer.observed, len(answer.notes)) == (1, 2)
    assert all(note.endswith(f"({path}).") for note in answer.notes)


def test_a_prompt_whose_calls_are_unknown_is_left_out_among_others(tmp_path: Path) -> None:
    session = (
        Session().prompt("go").reply(use("Read", "t1")).prompt("more").reply({"type": "x_call"}, id="m2")
    )
    session.prompt("thanks").reply(text("welcome"), id="m3")
    entries = read(put(tmp_path, session.bytes()))
    assert [[call.name for call in run.calls] for run in runs(entries)] == [["Read"], []]
    (left,) = rejected(entries)
    assert left.reason == "Which tools were called is unknown: 1 calls are of an unknown kind (x_call)."


@pytest.mark.parametrize(
    "block",
    [
        {"type": "thinking"},
        {"type": "redacted_thinking"},
        {"type": "web_search_tool_result"},
        {"type": "mcp_tool_result"},
        {"type": "image"},
        {"type": "tool_result"},
    ],
)
def test_known_blocks_are_no_news(tmp_path: Path, block: Json) -> None:
    session = Session().prompt("go").reply(text("a"), block)
    path = put(tmp_path, session.bytes())
    assert (remarks(path), len(runs(read(path)))) == ([], 1)


def test_names_of_kinds_are_foreign_text(tmp_path: Path) -> None:
    session = Session().prompt("go").reply(text("a"), {"type": "\x1b[31m" + "x" * 900})
    for number in range(300):
        session.line(f"kind {number}")
    first, second = remarks(put(tmp_path, session.bytes()))
    assert len(first) < 200
    assert "\x1b" not in second
    assert "xxx" in second


def test_none_of_the_real_files_holds_anything_unknown(shared_data: Path) -> None:
    for name in (
        "claude-code",
        "pi-session",
        "openclaw-session",
        "gemini-cli",
        "tau2-sft-openai",
        "inspect-ai",
    ):
        for path in sorted((shared_data / name).glob("*.gz")):
            if ".openclaw." not in path.name:
                assert remarks(path) == [], path.name


# --- calls in other shapes --------------------------------------------------------------------------------


def test_anthropics_blocks_are_calls(tmp_path: Path) -> None:
    messages: list[dict[str, Any]] = [
        user("find it"),
        reply(
            [text("I look."), use("search", "t1", q="x"), {"type": "server_tool_use", "name": "web_search"}]
        ),
        user([{"type": "tool_result", "tool_use_id": "t1", "content": [text("found")]}, text("and go on")]),
        reply([text("Here.")]),
        user("thanks"),
        reply("welcome"),
    ]
    tools = [
        {"name": "search", "description": "d", "input_schema": {}},
        {"name": "fetch", "input_schema": {}},
    ]
    usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100}
    path = put(tmp_path, lines([{"messages": messages, "tools": tools, "usage": usage}]))
    (run,) = runs(read(path))
    assert [(call.name, call.metadata) for call in run.calls] == [
        ("search", '{"q": "x"}'),
        ("web_search", ""),
    ]
    assert (run.texts, run.tokens) == (("I look.", "Here.", "welcome"), 115)
    assert [arm.key for arm in run.inventory.arms] == ["tool:web:search", "tool:web:fetch"]
    assert run.inventory.kind == "declared"
    first, second = runs(read(path, unit="turn"))
    assert ([call.name for call in first.calls], second.texts) == (["search", "web_search"], ("welcome",))
    listed = put(tmp_path, lines([tools]), "tools")
    assert [arm.name for arm in runs(read(path, tools_file=listed))[0].inventory.arms] == ["search", "fetch"]


@pytest.mark.parametrize(
    "made",
    [
        {"type": "tool", "tool_name": "Bash", "tool_input": {"command": "ls"}},
        {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}},
        {
            "type": "assistant",
            "message": {"content": "I look"},
            "tool_use": {"name": "Bash", "input": {"command": "ls"}},
        },
        {"type": "assistant", "tool_use": [{"name": "Bash", "id": "1", "input": {"command": "ls"}}]},
    ],
)
def test_calls_that_are_lines_of_their_own_are_read(tmp_path: Path, made: Json) -> None:
    session = Session().prompt("go")
    session.line(str(made["type"]), **{name: held for name, held in made.items() if name != "type"})
    session.line("tool_result", name="Bash", output="ok").reply(text("done"), id="m2")
    (run,) = runs(read(put(tmp_path, session.bytes())))
    assert [(call.name, call.metadata) for call in run.calls] == [("Bash", '{"command": "ls"}')]
    assert run.inventory.arms[0].key == "tool:exec:Bash"


def database(script: str) -> bytes:
    with closing(sqlite3.connect(":memory:")) as base:
        base.executescript(script)
        return base.serialize()


FILES: dict[str, bytes] = {
    "Copilot CLI": lines([START, {**START, "type": "user.message", "id": "e2", "parentId": "e1"}]),
    "Kimi Code": lines(
        [{"type": "metadata", "protocol_version": "1.4"}, {"type": "turn.prompt", "input": []}]
    ),
    "Codex CLI before": lines(
        [{"id": "r", "timestamp": "t", "instructions": None}, {"type": "message", "role": "user"}]
    ),
    "Gemini CLI as a stream": lines(
        [
            {"type": "init", "session_id": "s", "timestamp": "t", "model": "g"},
            {"type": "message", "timestamp": "t", "role": "user", "content": "go"},
        ]
    ),
    "Droid": lines(
        [{"type": "tool_call", "session_id": "s", "timestamp": "t", "toolName": "x", "toolCallId": "c"}]
    ),
    "Antigravity": lines(
        [{"step_index": 0, "source": "USER_EXPLICIT", "type": "USER_INPUT", "status": "DONE"}]
    ),
    "Grok CLI": lines([{"type": "system", "content": "You are"}, {"type": "user", "content": []}]),
    "Cursor": lines([{"role": "user", "message": {"content": [{"type": "text", "text": "go"}]}}]),
    "OpenHands": json.dumps(
        [{"id": 0, "timestamp": "t", "source": "agent", "kind": "SystemPromptEvent"}]
    ).encode(),
    "Cline or Roo": json.dumps(
        [{"role": "user", "content": "go"}, {"role": "assistant", "content": [CALL]}]
    ).encode(),
    "Goose": lines([{"role": "assistant", "content": [{"type": "toolRequest", "id": "1", "toolCall": {}}]}]),
    "Crush, or of opencode before 1": database(
        "CREATE TABLE sessions (id TEXT PRIMARY KEY, parent_session_id TEXT);"
        "CREATE TABLE messages (id TEXT PRIMARY KEY, session_id TEXT, parts TEXT);"
    ),
    "Gemini API": lines(
        [{"history": [{"role": "model", "parts": [{"functionCall": {"name": "x"}}]}], "meta": {}}]
    ),
}


@pytest.mark.parametrize("agent", FILES)
def test_a_file_of_a_known_agent_is_refused_by_its_name(tmp_path: Path, agent: str) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    path = put(folder, FILES[agent])
    context = context_at(tmp_path / "a.db")
    assert recognise(path) is None
    with pytest.raises(UnreadableSource, match=f"{agent}.*, which is not read yet"):
        import_files(context, [path])
    with pytest.raises(UnreadableSource, match=agent):
        import_files(context, [folder])


@pytest.mark.parametrize("document", UNKNOWN)
def test_another_file_is_given_no_name(tmp_path: Path, document: object) -> None:
    with pytest.raises(UnreadableSource, match="of none of them"):
        import_files(context_at(tmp_path / "a.db"), [put(tmp_path, json.dumps(document).encode())])
