"""Find: where the usual agents keep their sessions on this machine, and what lies there. Nothing is recorded."""

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
)
"""Agents, and where below a home they keep their sessions."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Files of one format in one folder; ``newest_ms`` is when the newest of them was last written."""

    agent: str
    folder: str
    format: str
    files: int
    size_bytes: int
    newest_ms: int


def discover_sessions(home: Path) -> list[Found]:
    """What lies where the usual agents keep their sessions, folder by folder and format by format."""
    return [found for agent, folder in _folders(home) for found in _in_folder(agent, folder)]


def _folders(home: Path) -> Iterator[tuple[str, Path]]:
    for agent, place in USUAL:
        for folder in sorted(home.glob(place)):
            if folder.is_dir():
                yield agent, folder


def _in_folder(agent: str, folder: Path) -> Iterator[Found]:
    by_format: dict[str, list[Source]] = defaultdict(list)
    with open_sources([folder]) as opened:
        for source in opened.sources:
            by_format[source.format].append(source)
    for format_name, sources in sorted(by_format.items()):
        yield Found(
            agent=agent,
            folder=str(folder),
            format=format_name,
            files=len(sources),
            size_bytes=sum(source.size_bytes for source in sources),
            newest_ms=max(source.path.stat().st_mtime_ns for source in sources) // 1_000_000,
        )
