"""Other agents: where each keeps its skills, servers and context files, as its documentation says."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from core.installed.files import FileReader, Skill, context_file, listed_skill, member, server
from core.records.inventory import InstalledItem

OPENCLAW: Final = "OpenClaw"


class Layout(NamedTuple):
    """Files of an agent below the home folder: settings, the keys of its servers, skills and context files.

    A server is off where its member ``off`` has the value beside it. ``skills_off`` are the keys of skills that a
    setting ``enabled: false`` takes out: an object by the skill's key, or a list with the path of each.
    ``skills_denied`` are the keys of rules that hide skills by patterns of names; the last match counts.
    ``shared`` are folders of skills that belong to several agents.
    """

    agent: str
    settings: tuple[str, ...]
    servers: tuple[str, ...]
    skills: tuple[str, ...]
    context: tuple[str, ...]
    off: tuple[str, object] = ("enabled", False)
    skills_off: tuple[str, ...] = ()
    skills_denied: tuple[str, ...] = ()
    shared: tuple[str, ...] = (".agents/skills",)


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
        skills_denied=("permission", "skill"),
        shared=(".claude/skills", ".agents/skills"),
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
        rules: dict[str, Any] = {}
        for pattern in layout.settings:
            for path in files.listed(home, pattern):
                settings = files.settings(path)
                off |= {*_switched_off(settings, layout.skills_off)}
                rules |= _rules(settings, layout.skills_denied)
                for name, entry in files.entries(path, member(settings, *layout.servers)):
                    key, value = layout.off
                    yield server(layout.agent, name, path, is_on=member(entry).get(key) is not value)
        for skill in _skills(home, layout, files):
            is_off = off & {skill.key, str(skill.path)} or _is_denied(rules, skill.name)
            item = listed_skill(layout.agent, skill, "off" if is_off else "on")
            yield replace(item, key=skill.key) if layout.agent == OPENCLAW else item
        for name in layout.context:
            yield from context_file(files, layout.agent, home / name)


def _skills(home: Path, layout: Layout, files: FileReader) -> Iterator[Skill]:
    """Yield each skill once, also where a link in one folder leads to another; shared ones only beside the agent."""
    own = home / layout.skills[0]
    known: set[Path] = set()
    for folder in (*layout.skills, *(layout.shared if own.parent.is_dir() else ())):
        for skill in files.skills(home / folder):
            path = Path(os.path.realpath(skill.path))
            if path not in known:
                known.add(path)
                yield skill


def _rules(settings: Mapping[str, Any], keys: Sequence[str]) -> Mapping[str, Any]:
    """Return the action by pattern; one action for all skills has the pattern ``*``."""
    rules = member(settings, *keys[:-1]).get(keys[-1]) if keys else None
    return rules if isinstance(rules, dict) else {"*": rules} if isinstance(rules, str) else {}


def _is_denied(rules: Mapping[str, Any], name: str) -> bool:
    """Return whether the last rule that matches the name denies the skill.

    >>> _is_denied({"*": "allow", "draft-*": "deny"}, "draft-letter"), _is_denied({"a": "deny", "*": "ask"}, "a")
    (True, False)
    """
    actions = [action for pattern, action in rules.items() if fnmatchcase(name, pattern)]
    return actions[-1:] == ["deny"]


def _switched_off(settings: Mapping[str, Any], keys: Sequence[str]) -> Iterator[str]:
    """Yield the keys or paths of skills that settings take out; the last entry of a path counts."""
    box = member(settings, *keys[:-1])
    rows = box.get(keys[-1]) if keys else None
    if isinstance(rows, list):
        rows = {
            one["path"]: one for one in rows if isinstance(one, dict) and isinstance(one.get("path"), str)
        }
    yield from (name for name in member(rows) if member(rows, name).get("enabled") is False)
