"""Edits of agents' own settings that take items out, in the forms that the agents' documentation has.

Only settings of the user are edited: those in the home folder, and a project's ``settings.local.json`` while Git does
not track it. Nothing is built on behaviour that an agent's documentation does not state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

import msgspec
from msgspec.structs import replace

from core.errors import ArmscopeError, InvalidInput, NotApplicable
from core.installed import claude_code
from core.installed.files import Shown
from core.installed.json_text import Edit, canonical
from core.installed.others import OPENCLAW
from core.installed.sessions import AGENT
from core.installed.settings_file import Plan, Record, SettingsFiles, planned
from core.records.arm import quarter_up
from core.records.inventory import (
    LEAST_AGE_MS,
    LEAST_SESSIONS,
    CarriedItem,
    InstalledItem,
    ItemKind,
    MachineInventory,
)

PrunedState = Literal["by name", "user only", "out"]

_SKILLS: Final = "https://code.claude.com/docs/en/skills#override-skill-visibility-from-settings"
_PERMISSIONS: Final = "https://code.claude.com/docs/en/permissions#tool-name-wildcards"
_GEMINI: Final = "https://geminicli.com/docs/reference/configuration"
_VALUES: Final[dict[PrunedState, Shown]] = {
    "by name": "name-only",
    "user only": "user-invocable-only",
    "out": "off",
}
_LOADED: Final = frozenset(("in full", "by name"))


class Way(NamedTuple):
    """One row of the table: what of an agent can be switched, and the documentation's sentence.

    ``states`` are those that it can be put into, none where no documented setting switches it.
    """

    agent: str
    what: str
    grain: str
    states: tuple[PrunedState, ...]
    setting: str
    sentence: str
    address: str


WAYS: Final = (
    Way(
        "Claude Code",
        "own and project skills",
        "skill",
        ("by name", "user only", "out"),
        "skillOverrides",
        "The skillOverrides setting controls skill visibility from your settings instead of the skill's own "
        "frontmatter.",
        _SKILLS,
    ),
    Way(
        "Claude Code",
        "skills, commands and servers of a plugin",
        "plugin",
        ("out",),
        "enabledPlugins",
        "Plugin skills are not affected by skillOverrides. Manage those through /plugin instead.",
        _SKILLS,
    ),
    Way(
        "Claude Code",
        "servers of a project's .mcp.json",
        "server",
        ("out",),
        "disabledMcpjsonServers",
        "List of specific MCP servers from .mcp.json files to reject",
        "https://code.claude.com/docs/en/settings",
    ),
    Way(
        "Claude Code",
        "other servers",
        "server",
        ("out",),
        "permissions.deny",
        "A tool matched by a bare-name glob deny rule is removed from Claude's context, the same as a bare tool "
        "name.",
        _PERMISSIONS,
    ),
    Way(
        "Claude Code",
        "tools of servers",
        "tool",
        ("out",),
        "permissions.deny",
        "A tool matched by a bare-name glob deny rule is removed from Claude's context, the same as a bare tool "
        "name.",
        _PERMISSIONS,
    ),
    Way("Claude Code", "CLAUDE.md", "file", (), "", "", ""),
    Way(
        "Gemini CLI",
        "servers of settings.json",
        "server",
        ("out",),
        "mcp.excluded",
        "A list of MCP servers to exclude.",
        _GEMINI,
    ),
    Way("Gemini CLI", "skills", "skill", ("out",), "skills.disabled", "List of disabled skills.", _GEMINI),
    Way(
        "opencode",
        "servers",
        "server",
        ("out",),
        "mcp.NAME.enabled",
        "You can also disable a server by setting enabled to false.",
        "https://opencode.ai/docs/mcp-servers",
    ),
    Way(
        "Codex CLI",
        "servers",
        "server",
        ("out",),
        "mcp_servers.NAME.enabled",
        "Set false to disable a server without deleting it.",
        "https://developers.openai.com/codex/mcp",
    ),
    Way(
        "Codex CLI",
        "skills",
        "skill",
        ("out",),
        "skills.config",
        "Use [[skills.config]] entries in ~/.codex/config.toml to disable a skill without deleting it",
        "https://developers.openai.com/codex/skills",
    ),
    Way(
        OPENCLAW,
        "servers",
        "server",
        ("out",),
        "mcp.servers.NAME.enabled",
        "set false to keep a saved server definition while excluding it from embedded OpenClaw MCP discovery and "
        "tool projection.",
        "https://docs.openclaw.ai/gateway/configuration-reference",
    ),
    Way(
        OPENCLAW,
        "skills",
        "skill",
        ("out",),
        "skills.entries.NAME.enabled",
        "false disables the skill even when bundled or installed.",
        "https://docs.openclaw.ai/tools/skills-config",
    ),
)
"""What can be switched. A row without a state has no setting that its documentation states."""


class Wish(NamedTuple):
    """A name that the user gave, and the state that it is to have."""

    name: str
    state: PrunedState


class PrunedItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item that an edit switches: its new state, and the tokens that a session then carries less.

    ``saves`` is None where no file gives the item's size. ``parts`` counts the parts of a plugin. ``sessions`` used
    it, of ``offered``, the last one at ``last_ms``; of several parts these are those of the one that most used.
    """

    agent: str
    kind: ItemKind | Literal["plugin"]
    name: str
    state: PrunedState
    saves: int | None
    project: str | None = None
    parts: int = 1
    sessions: int = 0
    offered: int = 0
    last_ms: int | None = None


class FixedItem(msgspec.Struct, frozen=True, kw_only=True):
    """An unused item that no edit switches, and why."""

    agent: str
    kind: ItemKind
    name: str
    why: str


class EditedFile(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of an edit: only the keys and values that it adds or changes. ``is_new``: there was no file."""

    path: str
    lines: tuple[str, ...]
    is_new: bool


class PruneAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Edits of settings, and the tokens that each session carries less.

    ``saves`` counts items of every folder, ``saves_in`` those of a project; None where no file gives the size of one
    of them. ``only_out`` are unused items that can
    go out, and only so; ``fixed`` are those that nothing switches. Neither is in the sums. ``refused`` are files that
    can't be edited, with the reason. ``verdicts`` are those of trials on the items. ``number`` is that of the record
    by which an undo finds the edits.
    """

    files: tuple[EditedFile, ...]
    items: tuple[PrunedItem, ...]
    saves: int | None
    saves_in: dict[str, int | None]
    only_out: tuple[PrunedItem, ...]
    fixed: tuple[FixedItem, ...]
    refused: tuple[str, ...]
    verdicts: tuple[str, ...] = ()
    number: int | None = None


class Prune(NamedTuple):
    answer: PruneAnswer
    plans: tuple[Plan, ...]


class _Switched(NamedTuple):
    item: PrunedItem
    file: Path
    edit: Edit


def pruned(
    home: Path,
    inventory: MachineInventory,
    wishes: Sequence[Wish],
    now_ms: int,
    earlier: Iterable[Record] = (),
) -> Prune:
    """Return the edits for the proposals of an inventory, or for the names that the user gave.

    Keys of a record younger than 30 days are not proposed again: the sessions before it had another setting.
    """
    recent = {
        (change.path, back.keys)
        for record in earlier
        if record.undone_ms is None and now_ms - record.at_ms < LEAST_AGE_MS
        for change in record.changes
        for back in change.back
    }
    switched = [*(_wished(home, inventory, wishes) if wishes else _proposed(home, inventory))]
    if not wishes:
        switched = [one for one in switched if (str(one.file), one.edit.keys) not in recent]
    by_file: dict[Path, list[_Switched]] = {}
    for one in {(one.file, one.edit.keys, canonical(one.edit.value)): one for one in switched}.values():
        by_file.setdefault(one.file, []).append(one)
    plans: list[Plan] = []
    items: list[PrunedItem] = []
    problems: list[ArmscopeError] = []
    for file, group in sorted(by_file.items()):
        try:
            if not file.is_relative_to(home) or file.name == "settings.local.json":
                _check_untracked(file)
            plan = planned(file, [one.edit for one in group])
        except ArmscopeError as problem:
            problems.append(problem)
            continue
        if plan is not None and plan.change is not None:
            plans.append(plan)
            news = {(one.keys, canonical(one.over[0] if one.over else one.value)) for one in plan.change.back}
            new_items = [one.item for one in group if (one.edit.keys, canonical(one.edit.value)) in news]
            items += [_sized(one, inventory) for one in new_items]
    if problems and not plans:
        raise problems[0]
    unused = [] if wishes else [*_unused(inventory, now_ms)]
    files = [EditedFile(path=str(one.path), lines=one.shown, is_new=one.before is None) for one in plans]
    projects = dict.fromkeys(one.project for one in items if one.project is not None)
    answer = PruneAnswer(
        files=tuple(files),
        items=tuple(items),
        saves=_sum(one for one in items if one.project is None),
        saves_in={name: _sum(one for one in items if one.project == name) for name in projects},
        only_out=tuple(_only_out(home, unused, inventory)),
        fixed=tuple(_fixed(home, unused)),
        refused=tuple(map(str, problems)),
    )
    return Prune(answer, tuple(plans))


def _sum(items: Iterable[PrunedItem]) -> int | None:
    """Return the tokens of the items with a known size; None if there are items and no size is known."""
    sizes = [one.saves for one in items]
    known = [size for size in sizes if size is not None]
    return sum(known) if known or not sizes else None


# Choice


def _proposed(home: Path, inventory: MachineInventory) -> Iterator[_Switched]:
    for one in inventory.items:
        if one.proposal is not None:
            switched = _switched(home, one.item, one.proposal)
            if isinstance(switched, _Switched):
                yield switched


def _wished(home: Path, inventory: MachineInventory, wishes: Iterable[Wish]) -> Iterator[_Switched]:
    for wish in wishes:
        matches = [one.item for one in inventory.items if wish.name in names_of(one.item)]
        if not matches:
            known = sorted({name for one in inventory.items for name in names_of(one.item)})
            near = get_close_matches(wish.name, known, 3)
            raise InvalidInput(
                f"No agent carries {wish.name!r}.",
                next_step=f"Near ones: {', '.join(near)}." if near else "List them: armscope inventory --all",
            )
        results = [_switched(home, item, wish.state) for item in matches]
        switches = [one for one in results if isinstance(one, _Switched)]
        if not switches:
            raise NotApplicable(
                f"{wish.name} can't be put {wish.state}: {results[0]}.",
                next_step="See what can be switched: armscope prune --ways",
            )
        yield from switches


def names_of(item: InstalledItem) -> set[str]:
    """Return the names that put an item out: its own, and that of its plugin."""
    return {item.name, *([] if item.plugin is None else [item.plugin, item.plugin.split("@", 1)[0]])}


def _unused(inventory: MachineInventory, now_ms: int) -> Iterator[CarriedItem]:
    """Yield the loaded items without a proposal that no session used, though enough of them had it on offer."""
    for one in inventory.items:
        use = one.use
        if use is None or use.uses or use.elsewhere or use.since_ms is None or one.proposal is not None:
            continue
        is_old = use.offered >= LEAST_SESSIONS and now_ms - use.since_ms >= LEAST_AGE_MS
        if one.item.state in _LOADED and is_old:
            yield one


def _only_out(home: Path, unused: Iterable[CarriedItem], inventory: MachineInventory) -> Iterator[PrunedItem]:
    listed: set[str | None] = set()
    files = SettingsFiles()
    for one in sorted(unused, key=lambda one: one.item.kind == "tool"):
        item = one.item
        if item.kind == "tool":
            if item.server in listed:
                continue
        elif item.plugin is not None:
            if item.plugin in listed or not _is_unused(item.plugin, inventory):
                continue
            listed.add(item.plugin)
        elif isinstance(_switched(home, item, "by name"), _Switched):
            continue
        elif item.kind == "server":
            listed.add(claude_code.as_in_tools(item))
        switched = _switched(home, item, "out")
        if isinstance(switched, _Switched) and not files.have(switched.file, switched.edit):
            yield _sized(switched.item, inventory)


def _is_unused(plugin: str, inventory: MachineInventory) -> bool:
    parts = [one for one in inventory.items if one.item.plugin == plugin]
    return not any(
        one.item.is_unrecorded or one.use is None or one.use.uses or one.use.elsewhere for one in parts
    )


def _sized(item: PrunedItem, inventory: MachineInventory) -> PrunedItem:
    """Return an item with its use: a plugin with the size of its parts, a server with that of its tools."""
    every = [one for one in inventory.items if one.item.agent == item.agent]
    own = [
        one
        for one in every
        if (one.item.kind, one.item.name, one.item.project) == (item.kind, item.name, item.project)
    ]
    parts = [one for one in every if one.item.plugin == item.name and item.kind == "plugin"]
    servers = {claude_code.as_in_tools(one.item) for one in (*parts, *own) if one.item.kind == "server"}
    parts += [one for one in every if one.item.kind == "tool" and one.item.server in servers]
    used = max((one.use for one in (*parts, *own) if one.use), key=lambda use: use.sessions, default=None)
    if used is not None:
        item = replace(item, sessions=used.sessions, offered=used.offered, last_ms=used.last_ms)
    if item.kind not in {"plugin", "server"}:
        return item
    known = [one.item.carried for one in (*parts, *own) if one.item.carried is not None]
    return replace(item, saves=sum(known) if known else None, parts=max(1, len(parts)))


def _fixed(home: Path, unused: Iterable[CarriedItem]) -> Iterator[FixedItem]:
    for one in unused:
        item = one.item
        switched = _switched(home, item, "out")
        if isinstance(switched, str):
            yield FixedItem(agent=item.agent, kind=item.kind, name=item.name, why=switched)


# Switches


def _switched(home: Path, item: InstalledItem, state: PrunedState) -> _Switched | str:
    """Return the file and the edit that give an item a state, or why there is none."""
    if item.kind == "file":
        return "armscope does not switch a file that is always there"
    if "\ufffd" in f"{item.name}{item.plugin}{item.key}":
        return "its name is not Unicode"
    target = _TARGETS.get(item.agent, _no_setting)(home, item, state)
    return target if isinstance(target, str) else _as_edit(item, state, *target)


def _claude_code(home: Path, item: InstalledItem, state: PrunedState) -> tuple[Path, Edit] | str:
    if item.kind != "tool" and (item.plugin is not None or item.kind == "skill"):
        return _plugin(item, state) if item.plugin is not None else _skill(item, state)
    if state != "out":
        return f"no documented setting puts a {item.kind} {state}"
    if item.project is None:
        own = home / ".claude" / "settings.json"
    else:
        own = Path(item.project) / ".claude" / "settings.local.json"
    if Path(item.path).name == ".mcp.json":
        return own, Edit(action="add", keys=("disabledMcpjsonServers",), value=item.name)
    rule = item.name if item.kind == "tool" else f"mcp__{claude_code.as_in_tools(item)}__*"
    return own, Edit(action="add", keys=("permissions", "deny"), value=rule)


def _plugin(item: InstalledItem, state: PrunedState) -> tuple[Path, Edit] | str:
    if state != "out":
        return f"{item.plugin} goes out only as a whole"
    if item.switch is None:
        return f"{item.plugin} was installed for one project, or an administrator set it"
    return Path(item.switch.file), Edit(action="set", keys=item.switch.keys, value=False, over=(True,))


def _skill(item: InstalledItem, state: PrunedState) -> tuple[Path, Edit] | str:
    if item.switch is None:
        return "an administrator set it"
    value = _VALUES[state]
    over = tuple(one for one in get_args(Shown) if one != value)
    return Path(item.switch.file), Edit(action="set", keys=item.switch.keys, value=value, over=over)


def _gemini(home: Path, item: InstalledItem, state: PrunedState) -> tuple[Path, Edit] | str:
    own = home / ".gemini" / "settings.json"
    if state != "out":
        return f"{item.agent} has no documented setting for {state}"
    if item.kind == "server" and Path(item.path) != own:
        return "it belongs to an extension"
    keys = ("skills", "disabled") if item.kind == "skill" else ("mcp", "excluded")
    return own, Edit(action="add", keys=keys, value=item.name)


def _opencode(home: Path, item: InstalledItem, state: PrunedState) -> tuple[Path, Edit] | str:
    if state != "out" or item.kind != "server":
        return _no_setting(home, item, state)
    return Path(item.path), Edit(action="set", keys=("mcp", item.name, "enabled"), value=False, over=(True,))


def _codex(home: Path, item: InstalledItem, state: PrunedState) -> tuple[Path, Edit] | str:
    own = home / ".codex" / "config.toml"
    if state != "out" or item.kind not in {"server", "skill"}:
        return _no_setting(home, item, state)
    if item.kind == "skill":
        if "\ufffd" in item.path:
            return "the path of its file is no UTF-8"
        value = {"path": item.path, "enabled": False}
        return own, Edit(action="add", keys=("skills", "config"), value=value)
    keys = ("mcp_servers", item.name, "enabled")
    return own, Edit(action="set", keys=keys, value=False, over=(True,))


def _openclaw(home: Path, item: InstalledItem, state: PrunedState) -> tuple[Path, Edit] | str:
    if state != "out" or item.kind not in {"server", "skill"}:
        return _no_setting(home, item, state)
    path = (
        ("skills", "entries", item.key or item.name)
        if item.kind == "skill"
        else ("mcp", "servers", item.name)
    )
    edit = Edit(action="set", keys=(*path, "enabled"), value=False, over=(True,))
    return home / ".openclaw" / "openclaw.json", edit


def _no_setting(_home: Path, item: InstalledItem, state: PrunedState) -> tuple[Path, Edit] | str:
    return f"no documented setting of {item.agent} puts a {item.kind} {state}"


_TARGETS: Final = {
    AGENT: _claude_code,
    "Codex CLI": _codex,
    "Gemini CLI": _gemini,
    "opencode": _opencode,
    OPENCLAW: _openclaw,
}


def _as_edit(item: InstalledItem, state: PrunedState, file: Path, edit: Edit) -> _Switched:
    is_whole = item.plugin is not None and item.kind != "tool"
    saves = item.carried
    if saves is not None and state == "by name":
        saves = max(0, saves - quarter_up(len(f"- {item.name}")))
    pruned_item = PrunedItem(
        agent=item.agent,
        kind="plugin" if is_whole else item.kind,
        name=str(item.plugin) if is_whole else item.name,
        state=state,
        saves=saves,
        project=item.project,
    )
    return _Switched(pruned_item, file, edit)


# Git


def _check_untracked(file: Path) -> None:
    """Refuse a project's file that Git tracks, by the names in the index of the repository."""
    for folder in file.parents:
        index = _index_of(folder / ".git")
        if index is None:
            continue
        name = str(file.relative_to(folder)).encode()
        # The fourth version of an index keeps the end of a name that its neighbour does not share.
        last = file.name.partition(".")[2].encode() + b"\0"
        if name + b"\0" in index or (index[4:8] == b"\0\0\0\4" and last in index):
            raise NotApplicable(
                f"{file} must not be under version control to be edited, and Git tracks it.",
                next_step="Edit the file by hand.",
            )
        return


def _index_of(git: Path) -> bytes | None:
    """Return the index of a repository, None where there is no repository."""
    try:
        if git.is_file():
            git = git.parent / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        if not git.is_dir():
            return None
        index = git / "index"
        return index.read_bytes() if index.is_file() else b""
    except (OSError, UnicodeDecodeError):
        return None
