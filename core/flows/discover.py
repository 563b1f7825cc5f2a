"""Discovery of the session folders of common agents on this machine; nothing is recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from core.formats import Source, open_sources

USUAL: Final = (
    ("Claude Code", ".claude/projects"),
    ("OpenClaw", ".openclaw/agents/*/sessions"),
    ("pi", ".pi/agent/sessions"),
    ("Gemini CLI", ".gemini/tmp"),
    ("Codex CLI", ".codex/sessions"),
)
"""Agents and their session folders below the home folder."""


class AgentSessions(msgspec.Struct, frozen=True, kw_only=True):
    """Files of one format in one folder; ``newest_ms`` is the latest modification time."""

    agent: str
    folder: str
    format: str
    files: int
    size_bytes: int
    newest_ms: int


def discover_sessions(home: Path) -> list[AgentSessions]:
    """Return the session files of common agents by folder and format."""
    return [sessions for agent, folder in _folders(home) for sessions in _in_folder(agent, folder)]


def _folders(home: Path) -> Iterator[tuple[str, Path]]:
    for agent, pattern in USUAL:
        for folder in sorted(home.glob(pattern)):
            if folder.is_dir():
                yield agent, folder


def _in_folder(agent: str, folder: Path) -> Iterator[AgentSessions]:
    by_format: dict[str, list[Source]] = defaultdict(list)
    with open_sources([folder]) as opened:
        for source in opened.sources:
            by_format[source.format].append(source)
    for format_name, sources in sorted(by_format.items()):
        yield AgentSessions(
            agent=agent,
            folder=str(folder),
            format=format_name,
            files=len(sources),
            size_bytes=sum(source.size_bytes for source in sources),
            newest_ms=max(source.path.stat().st_mtime_ns for source in sources) // 1_000_000,
        )
