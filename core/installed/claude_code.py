"""Skills, plugins, servers and context files of Claude Code, under the settings of user, project and machine.

Settings of a project's own user go before those of the project, and these before the user's. Settings that an
administrator manages go before all. Skills and commands have one name space. A plugin's skill is called
``plugin:skill``; only the plugin as a whole can be switched off. A server's file does not list its tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, cast, get_args

from msgspec.structs import replace

from core.installed.files import (
    FileReader,
    Shown,
    Skill,
    changed_ms,
    clean,
    context_file,
    listed_skill,
    member,
    server,
    texts,
)
from core.installed.sessions import AGENT
from core.records.inventory import InstalledItem, Switch

MANAGED: Final = (
    Path("/etc/claude-code/managed-settings.json"),
    Path("/Library/Application Support/ClaudeCode/managed-settings.json"),
)
_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_MOST_INSTALLED: Final = 100
"""Installations of one plugin: one for the user, and one for each project."""


class AgentSettings(NamedTuple):
    """Settings in force in one folder, and the file that a change of the user's goes to."""

    shown: Mapping[str, Shown]
    plugins: Mapping[str, bool]
    rejected: frozenset[str]
    managed: Mapping[str, Any]
    own: Path


def items(
    home: Path, projects: Sequence[Path], files: FileReader, managed: Iterable[Path] = MANAGED
) -> Iterator[InstalledItem]:
    """Yield what Claude Code carries in every folder, and what it carries in each of the projects.

    Args:
        home: The user's home folder.
        projects: Folders in which it was used.
        files: Reader of files.
        managed: Files of settings that an administrator manages.
    """
    fixed = [files.settings(path) for path in managed]
    folder = home / ".claude"
    of_user = files.settings(folder / "settings.json")
    user = _settings(folder / "settings.json", [of_user], fixed)
    own_items = [*_skills_and_commands(files, folder, user, None)]
    own_names = {item.name for item in own_items if item.path.endswith("SKILL.md")}
    yield from own_items
    yield from _plugins(files, folder, user)
    registry = files.settings(home / ".claude.json")
    yield from _servers(files, member(registry, "mcpServers"), home / ".claude.json", user, None)
    yield from context_file(files, AGENT, folder / "CLAUDE.md")
    for project in projects:
        if project == home:
            continue
        within = project / ".claude"
        own_file = within / "settings.local.json"
        layers = [files.settings(own_file), files.settings(within / "settings.json"), of_user]
        local = _settings(own_file, layers, fixed)
        for item in _skills_and_commands(files, within, local, str(project)):
            # The user's own skill goes before one of a project that has its name.
            yield replace(item, state="out", carried=0) if item.name in own_names else item
        own = member(registry, "projects", str(project), "mcpServers")
        yield from _servers(files, own, home / ".claude.json", local, str(project))
        shared = project / ".mcp.json"
        servers = member(files.settings(shared), "mcpServers")
        yield from _servers(files, servers, shared, local, str(project))
        for name in ("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md"):
            yield from context_file(files, AGENT, project / name, str(project))


def server_of_tool(name: str) -> str | None:
    """Return the server in a tool's name, as sessions write it.

    >>> server_of_tool("mcp__github__get_issue"), server_of_tool("Bash")
    ('github', None)
    """
    parts = name.split("__", 2)
    return parts[1] if len(parts) == 3 and parts[0] == "mcp" else None


def is_of(name: str, item: InstalledItem) -> bool:
    """Return whether a tool's name is that of a tool of a server; agents write the two together in several ways."""
    own = as_in_tools(item)
    starts = [f"mcp__{own}__"]
    if item.agent != AGENT:
        starts += [f"{own}__", f"mcp_{own}_", f"{own}_"]
    return name.startswith(tuple(starts))


def as_in_tools(item: InstalledItem) -> str:
    """Return a server's name as the names of its tools have it."""
    plain = _NAME.sub("_", item.name)
    return plain if item.plugin is None else f"plugin_{_NAME.sub('_', item.plugin.split('@')[0])}_{plain}"


def _settings(own: Path, layers: Sequence[dict[str, Any]], fixed: Sequence[dict[str, Any]]) -> AgentSettings:
    """Return the settings in force, from those of some files, the strongest first; ``own`` is the user's file."""
    shown: dict[str, Shown] = {}
    plugins: dict[str, bool] = {}
    rejected: set[str] = set()
    for layer in reversed([*fixed, *layers]):
        shown |= {
            name: cast("Shown", value)
            for name, value in member(layer, "skillOverrides").items()
            if value in get_args(Shown)
        }
        plugins |= {name: value is not False for name, value in member(layer, "enabledPlugins").items()}
        rejected |= {*texts(layer.get("disabledMcpjsonServers"))}
    merged: dict[str, Any] = {}
    for layer in fixed:
        merged |= layer
    return AgentSettings(shown, plugins, frozenset(rejected), merged, own)


def _skills_and_commands(
    files: FileReader, folder: Path, settings: AgentSettings, project: str | None
) -> Iterator[InstalledItem]:
    skills = [*files.skills(folder / "skills")]
    names = {skill.name for skill in skills}
    commands = [
        skill
        for path in files.listed(folder / "commands", "**/*.md")
        if clean(path.stem) not in names and (skill := files.skill(path, clean(path.stem))) is not None
    ]
    for skill in (*skills, *commands):
        yield replace(
            listed_skill(AGENT, skill, _shown(skill, settings), project=project),
            switch=_switch(skill, settings),
        )


def _shown(skill: Skill, settings: AgentSettings) -> Shown:
    """Return how a skill is listed: its own words keep it from the model, under any setting."""
    shown = settings.shown.get(skill.name, "on")
    return "user-invocable-only" if skill.is_for_users and shown != "off" else shown


def _switch(skill: Skill, settings: AgentSettings) -> Switch | None:
    """Return the user's own setting for a skill; None where an administrator has set it."""
    if skill.name in member(settings.managed, "skillOverrides"):
        return None
    is_by_name = settings.shown.get(skill.name) == "name-only"
    value = "user-invocable-only" if is_by_name else "name-only"
    return Switch(file=clean(str(settings.own)), keys=("skillOverrides", skill.name), value=value)


def _plugins(files: FileReader, folder: Path, settings: AgentSettings) -> Iterator[InstalledItem]:
    """Yield what the installed plugins bring; those of one project belong to it."""
    path = folder / "plugins" / "installed_plugins.json"
    for name, entries in files.entries(path, member(files.settings(path), "plugins")):
        for entry in entries[:_MOST_INSTALLED] if isinstance(entries, list) else [entries]:
            root, project = member(entry).get("installPath"), member(entry).get("projectPath")
            if isinstance(root, str) and Path(root).is_absolute():
                folder_name = clean(project) if isinstance(project, str) else None
                yield from _of_plugin(files, Path(root), name, settings, folder_name)


def _of_plugin(
    files: FileReader, root: Path, name: str, settings: AgentSettings, project: str | None
) -> Iterator[InstalledItem]:
    is_on = settings.plugins.get(name, True)
    is_fixed = name in member(settings.managed, "enabledPlugins") or project is not None
    own_file, whole = clean(str(settings.own)), clean(name)
    switch = Switch(file=own_file, keys=("enabledPlugins", whole), value=False, whole=whole)
    short = whole.split("@", maxsplit=1)[0]
    manifest = files.settings(root / ".claude-plugin" / "plugin.json")
    unseen = ("hooks", "agents", "lspServers")
    is_unrecorded = any(name in manifest for name in unseen) or any(
        changed_ms(root / name) for name in unseen
    )
    paths = [*files.skill_files(root / "skills"), *files.listed(root / "commands", "**/*.md")]
    for path in paths:
        own = clean(path.parent.name if path.name == "SKILL.md" else path.stem)
        skill = files.skill(path, f"{short}:{own}")
        if skill is not None:
            shown: Shown = "off" if not is_on else "user-invocable-only" if skill.is_for_users else "on"
            item = listed_skill(AGENT, skill, shown, project=project, plugin=whole)
            also = None if item.also is None else f"{short}:{item.also}"
            yield replace(item, switch=None if is_fixed else switch, is_unrecorded=is_unrecorded, also=also)
    servers = manifest.get("mcpServers")
    if isinstance(servers, str):
        servers = member(files.settings(root / servers), "mcpServers")
    servers = member(servers) or member(files.settings(root / ".mcp.json"), "mcpServers")
    for one, _ in files.entries(root / ".mcp.json", servers):
        item = server(AGENT, one, root / ".mcp.json", is_on=is_on, project=project, plugin=whole)
        yield replace(
            item,
            switch=None if is_fixed else switch,
            changed_ms=item.changed_ms or changed_ms(root),
            is_unrecorded=is_unrecorded,
        )


def _servers(
    files: FileReader, servers: Mapping[str, Any], path: Path, settings: AgentSettings, project: str | None
) -> Iterator[InstalledItem]:
    for name, _ in files.entries(path, servers):
        is_shared = path.name == ".mcp.json"
        item = server(AGENT, name, path, is_on=not (is_shared and name in settings.rejected), project=project)
        # The agent writes the other file at each start.
        yield item if is_shared else replace(item, changed_ms=None)
