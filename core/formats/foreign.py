"""Files of agents that are recognised and not read yet, because no recorded public file exists to test a reader with.

They are asked for only where no format claims a file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from core.formats.reading import Head


def _has(*keys: str, kinds: tuple[str, ...] = ()) -> Callable[[Head], bool]:
    """Return whether one of the first lines has these keys, and one of these types."""
    quoted = [f'"{kind}"'.encode() for kind in kinds]

    def marks(head: Head) -> bool:
        lines = head.lines or ({},)
        is_keyed = any(line.keys() >= {*keys} for line in lines) or head.keys >= {*keys}
        return is_keyed and (
            not kinds or any(bytes(line.get("type", b"")).startswith(tuple(quoted)) for line in lines)
        )

    return marks


_AGENTS: Final[dict[str, Callable[[Head], bool]]] = {
    "a session of Copilot CLI": _has("type", "data", "id", "parentId", kinds=("session.start",)),
    "a session of Kimi Code": _has("type", "protocol_version", kinds=("metadata",)),
    "a rollout of Codex CLI before 0.30": _has("id", "timestamp", "instructions"),
    "the output of Droid as a stream": _has(
        "type", "session_id", "timestamp", kinds=("message", "tool_call", "system")
    ),
    "a session of Antigravity": _has("step_index", "source", "type", "status"),
    "a session of Grok CLI": _has("type", "content", kinds=("system",)),
    "a session of Cursor": lambda head: any(
        line.keys() >= {"role", "message"} and b'"content"' in bytes(line["message"]) for line in head.lines
    ),
    "events of OpenHands": lambda head: (
        head.keys >= {"id", "timestamp", "source"}
        and any(mark in head.start for mark in (b'"SystemPromptEvent"', b'"MessageEvent"', b'"ActionEvent"'))
    ),
    "a task of Cline or Roo": lambda head: head.shape == "array" and head.keys >= {"role", "content"},
    "a session of Goose": lambda head: (
        b'"toolRequest"' in head.start or b"CREATE TABLE messages" in head.start
    ),
    "contents of the Gemini API": lambda head: b'"parts"' in head.start and b'"role"' in head.start,
}


def agent_of(head: Head) -> str | None:
    """Return the words for a known file that is not read; None for an unknown one."""
    return next((words for words, marks in _AGENTS.items() if marks(head)), None)
