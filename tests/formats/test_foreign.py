"""Files of agents that no reader exists for: refused by name, never as something else."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from core.errors import UnreadableSource
from core.flows.importing import import_files
from core.formats import recognise
from tests.formats.builders import Json, lines, put
from tests.worlds import context_at

START = {"type": "session.start", "data": {"sessionId": "s"}, "id": "e1", "timestamp": "t", "parentId": None}
CALL = {"type": "tool_use", "name": "ls", "input": {}}

UNKNOWN: list[Json | list[Json]] = [
    {"a": 1},
    {"role": "x"},
    {"type": "system"},
    {"id": 1, "timestamp": "t"},
    [{"role": 1}],
]


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
