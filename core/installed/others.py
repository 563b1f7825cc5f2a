"""Skills, servers and context files of the other agents, at the paths that their documentation names."""

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
_MOST_RULES: Final = 1_000


class SkillRule(NamedTuple):
    """A rule of opencode for the skills whose names match a pattern: allow, ask or deny."""

    pattern: str
    effect: str


class Layout(NamedTuple):
    """Files of an agent below the home folder: settings, the keys of its servers, skills and context files.

    A server is off where its member ``off`` has the value beside it. ``skills_off`` are the keys of skills that a
    setting ``enabled: false`` takes out: an object by the skill's key, or a list with the path of each.
    ``shared`` are folders of skills that belong to several agents. ``agents`` are folders with a Markdown file for
    each of the agent's own agents.
    """

    agent: str
    settings: tuple[str, ...]
    servers: tuple[str, ...]
    skills: tuple[str, ...]
    context: tuple[str, ...]
    off: tuple[str, object] = ("enabled", False)
    skills_off: tuple[str, ...] = ()
    shared: tuple[str, ...] = (".agents/skills",)
    agents: tuple[str, ...] = ()


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
        shared=(".claude/skills", ".agents/skills"),
        agents=tuple(f".config/opencode/{name}" for name in ("agent", "agents", "mode", "modes")),
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
    """Yield the user-level items of agents other than Claude Code; they apply in every folder."""
    for layout in LAYOUTS:
        off: frozenset[str] = frozenset()
        every: list[Mapping[str, Any]] = []
        for pattern in layout.settings:
            for path in files.listed(home, pattern):
                settings = files.settings(path)
                every.append(settings)
                off |= {*_switched_off(settings, layout.skills_off)}
                for name, entry in files.entries(path, member(settings, *layout.servers)):
                    key, value = layout.off
                    yield server(layout.agent, name, path, is_on=member(entry).get(key) is not value)
        rules = [*_rules_for_skills(home, layout, every, files)] if layout.agents else []
        if len(rules) > _MOST_RULES:
            files.skip(home / layout.settings[-1], f"more than {_MOST_RULES:,} rules for skills")
        for skill in _skills(home, layout, files):
            is_off = off & {skill.key, str(skill.path)}
            matching = [
                one for one in rules[-_MOST_RULES:] if _matches(skill.title or skill.name, one.pattern)
            ]
            is_off_by_rule = bool(matching) and matching[-1].effect == "deny"
            item = listed_skill(layout.agent, skill, "off" if is_off or is_off_by_rule else "on")
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


def _rules_for_skills(
    home: Path, layout: Layout, every: Sequence[Mapping[str, Any]], files: FileReader
) -> Iterator[SkillRule]:
    """Yield the rules of the agent that a session starts with: first those of all agents, then its own."""
    for settings in every:
        yield from _rules(settings)
    names = [settings["default_agent"] for settings in every if "default_agent" in settings]
    name = names[-1] if names and isinstance(names[-1], str) else "build"
    for settings in every:
        for key in ("agent", "mode", "agents"):
            yield from _rules(member(settings, key, name))
    for folder in layout.agents if Path(name).name == name else ():
        path = home / folder / f"{name}.md"
        yield from _rules(files.front(path, files.text(path) or "") or {})


def _rules(settings: Mapping[str, Any]) -> Iterator[SkillRule]:
    """Yield the rules for skills in settings, in the order of opencode 2: tools, permission, permissions."""
    for key, value in member(settings, "tools").items():
        if _matches("skill", key) and isinstance(value, bool):
            yield SkillRule("*", "allow" if value else "deny")
    old = settings.get("permission")
    for key, value in {"*": old}.items() if isinstance(old, str) else member(old).items():
        if _matches("skill", key):
            for pattern, effect in {"*": value}.items() if isinstance(value, str) else member(value).items():
                if isinstance(effect, str):
                    yield SkillRule(pattern, effect)
    new = settings.get("permissions")
    for rule in new if isinstance(new, list) else ():
        match rule:
            case {"action": str(action), "resource": str(pattern), "effect": str(effect)}:
                if _matches("skill", action):
                    yield SkillRule(pattern, effect)


def _matches(name: str, pattern: str) -> bool:
    """Return whether a whole name matches a pattern of opencode, in which only ``*`` and ``?`` are special.

    A pattern that ends with a space and a star also matches a name without either.

    >>> _matches("a[b]c", "a[b]?"), _matches("b", "[b]"), _matches("git", "git *")
    (True, False, True)
    """
    pattern = pattern.replace("\\", "/").replace("[", "[[]")
    name = name.replace("\\", "/")
    return fnmatchcase(name, pattern) or (pattern.endswith(" *") and fnmatchcase(name, pattern[:-2]))


def _switched_off(settings: Mapping[str, Any], keys: Sequence[str]) -> Iterator[str]:
    """Yield the keys or paths of skills that settings take out; the last entry of a path counts."""
    box = member(settings, *keys[:-1])
    rows = box.get(keys[-1]) if keys else None
    if isinstance(rows, list):
        rows = {
            one["path"]: one for one in rows if isinstance(one, dict) and isinstance(one.get("path"), str)
        }
    yield from (name for name in member(rows) if member(rows, name).get("enabled") is False)
