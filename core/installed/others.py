"""Other agents: where each keeps its skills, servers and context files, as its documentation says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from core.installed.files import FileReader, Shown, context_file, listed, listed_skill, member, server
from core.records.inventory import InstalledItem


class Layout(NamedTuple):
    """FileReader of an agent below the home folder: settings, the keys of its servers, skills and context files.

    A server is off where its member ``off`` has the value beside it. ``skills_off`` are the keys of skills that a
    setting ``enabled: false`` takes out.
    """

    agent: str
    settings: tuple[str, ...]
    servers: tuple[str, ...]
    skills: tuple[str, ...]
    context: tuple[str, ...]
    off: tuple[str, object] = ("enabled", False)
    skills_off: tuple[str, ...] = ()


LAYOUTS: Final = (
    Layout("Codex CLI", (".codex/config.toml",), ("mcp_servers",), (".codex/skills",), (".codex/AGENTS.md",)),
    Layout(
        "Gemini CLI",
        (".gemini/settings.json", ".gemini/extensions/*/gemini-extension.json"),
        ("mcpServers",),
        (".gemini/skills",),
        (".gemini/GEMINI.md",),
    ),
    Layout(
        "opencode",
        (".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"),
        ("mcp",),
        (".config/opencode/skill", ".config/opencode/skills"),
        (".config/opencode/AGENTS.md",),
    ),
    Layout(
        "OpenClaw",
        (".openclaw/openclaw.json",),
        ("mcp", "servers"),
        (".openclaw/skills", ".openclaw/workspace/skills"),
        (".openclaw/workspace/AGENTS.md", ".openclaw/workspace/SOUL.md", ".openclaw/workspace/TOOLS.md"),
        skills_off=("skills", "entries"),
    ),
    Layout("pi", (), (), (".pi/agent/skills",), (".pi/agent/AGENTS.md",)),
)


def items(home: Path, files: FileReader) -> Iterator[InstalledItem]:
    """Yield what the other agents carry in every folder."""
    for layout in LAYOUTS:
        off: Mapping[str, Any] = {}
        for pattern in layout.settings:
            for path in listed(home, pattern):
                settings = files.settings(path)
                off = {**off, **member(settings, *layout.skills_off)} if layout.skills_off else off
                for name, entry in sorted(member(settings, *layout.servers).items()):
                    key, value = layout.off
                    yield server(layout.agent, name, path, is_on=member(entry).get(key) is not value)
        for folder in layout.skills:
            for skill in files.skills(home / folder):
                shown: Shown = "off" if member(off, skill.name).get("enabled") is False else "on"
                yield listed_skill(layout.agent, skill, shown)
        for name in layout.context:
            yield from context_file(files, layout.agent, home / name)
