"""Other agents: where each keeps its skills, servers and context files, as its documentation says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from core.installed.files import FileReader, Shown, context_file, listed, listed_skill, member, server
from core.records.inventory import InstalledItem

OPENCLAW: Final = "OpenClaw"


class Layout(NamedTuple):
    """FileReader of an agent below the home folder: settings, the keys of its servers, skills and context files.

    A server is off where its member ``off`` has the value beside it. ``skills_off`` are the keys of skills that a
    setting ``enabled: false`` takes out: an object by the skill's key, or a list with the path of each.
    """

    agent: str
    settings: tuple[str, ...]
    servers: tuple[str, ...]
    skills: tuple[str, ...]
    context: tuple[str, ...]
    off: tuple[str, object] = ("enabled", False)
    skills_off: tuple[str, ...] = ()


LAYOUTS: Final = (
    Layout(
        "Codex CLI",
        (".codex/config.toml",),
        ("mcp_servers",),
        (".codex/skills",),
        (".codex/AGENTS.md",),
        skills_off=("skills", "config"),
    ),
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
        OPENCLAW,
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
        off: frozenset[str] = frozenset()
        for pattern in layout.settings:
            for path in listed(home, pattern):
                settings = files.settings(path)
                off |= {*_switched_off(settings, layout.skills_off)}
                for name, entry in sorted(member(settings, *layout.servers).items()):
                    key, value = layout.off
                    yield server(layout.agent, name, path, is_on=member(entry).get(key) is not value)
        for folder in layout.skills:
            for skill in files.skills(home / folder):
                shown: Shown = "off" if off & {skill.key, str(skill.path)} else "on"
                item = listed_skill(layout.agent, skill, shown)
                yield replace(item, key=skill.key) if layout.agent == OPENCLAW else item
        for name in layout.context:
            yield from context_file(files, layout.agent, home / name)


def _switched_off(settings: Mapping[str, Any], keys: Sequence[str]) -> Iterator[str]:
    """Yield the keys or paths of skills that settings take out; the last entry of a path counts."""
    box = member(settings, *keys[:-1])
    rows = box.get(keys[-1]) if keys else None
    if isinstance(rows, list):
        rows = {
            one["path"]: one for one in rows if isinstance(one, dict) and isinstance(one.get("path"), str)
        }
    yield from (name for name in member(rows) if member(rows, name).get("enabled") is False)
