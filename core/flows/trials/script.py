"""Script of a trial: a plan → the text of a program that the person reads and runs, and how it leaves an arm out.

Claude Code's documentation, read in August 2026, states each way: `skillOverrides` for a skill, `enabledPlugins`
for a plugin as a whole, `permissions.deny` for a tool, a server or a sub-agent. A file, a section or a memory is left
out of the copy of the task's folder. Nothing is built on what the documentation does not state.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path
from typing import Any, Final

from core.errors import InvalidInput, NotApplicable
from core.flows.trials import program
from core.installed import claude_code
from core.installed.files import FileReader, member, texts
from core.records.arm import arm_type, skill_name
from core.records.limits import shown
from core.records.trial import OUT_WITH, TRIAL_SIDES, TrialPlan, TrialSide, session_prefix

_Way = dict[str, Any]
_ALWAYS_LOADED: Final = frozenset(("CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md"))
_MERGED: Final = ("skillOverrides", "enabledPlugins")
"""Settings that repeat the user's own members: no document states that objects of two files merge."""


def script(
    plan: TrialPlan,
    plan_no: int,
    *,
    harness: str,
    tasks: Path | None = None,
    command: Sequence[str] = (),
    grade: Sequence[str] = (),
    price_usd: float | None = None,
    home: Path | None = None,
    managed: Iterable[Path] = claude_code.MANAGED,
) -> str:
    """Return the text of a program that runs a plan, without a key and without a permission bypass.

    ``tasks`` is the folder with a folder for each task. ``command`` and ``grade`` are words of the agent's command
    (default ``claude``) and of the grader's (default: each task's own ``grade``). ``price_usd`` is that of a recorded
    run. ``managed`` are files of settings that an administrator manages. Raises `NotApplicable` for an arm without a
    way to leave it out.
    """
    if harness not in {"claude", "command"}:
        raise InvalidInput(
            f"The harness must be claude or command, got {shown(harness)}.", next_step="Name one."
        )
    if not (command if harness == "command" else tasks):
        needed = "command" if harness == "command" else "folder of tasks"
        raise InvalidInput(f"The harness {harness} must have a {needed}, got none.", next_step="Name it.")
    if tasks is not None and tasks.is_file():
        with_folders = "Make a folder for each task, and plan the trial of them."
        raise InvalidInput(
            f"--tasks must be a folder with a folder for each task, got the file {shown(str(tasks))}.",
            next_step="Leave --tasks out: the plan has the names." if harness == "command" else with_folders,
        )
    root = "" if tasks is None else str(tasks.absolute())
    try:
        folders = {one.name: program.task_folder(root, one.name) for one in plan.tasks if root}
    except program.Refused as problem:
        raise InvalidInput(str(problem), next_step="Name the folder that the plan was made of.") from None
    machine = _Machine(home or Path.home(), [program.files_of(one) for one in folders.values()], managed)
    ways = {arm: _way(arm, harness, machine, folders) for arm in plan.arms}
    config = {
        "prefix": session_prefix(plan),
        "plan": plan_no,
        "harness": harness,
        "arms": plan.arms,
        "halves": {
            task.name: _halves(plan.arms, out)
            for task, out in zip(plan.tasks[: len(plan.halves)], plan.halves, strict=True)
        },
        "tasks": [one.name for one in plan.tasks],
        "folder": root,
        "digests": {
            one.name: one.digest or program.digest_of(folders[one.name]) for one in plan.tasks if root
        },
        "repeats": plan.repeats,
        "seed": plan.seed,
        "workers": plan.workers,
        "model": plan.model,
        "command": [*command] or ["claude"],
        "grade": [*grade],
        "ways": ways,
        "servers": machine.servers,
        "hooks": machine.hooks,
        "price_usd": price_usd,
        "own": {name: member(machine.own, name) for name in _MERGED},
    }
    text = json.dumps(config, indent=1).replace("'", "\\u0027")  # so that no name ends the text
    source = Path(program.__file__).read_text(encoding="utf-8")
    return source.replace('CONFIG: Final = "{}"\n', f"CONFIG: Final = r'''{text}'''\n", 1)


def _halves(arms: Sequence[str], out: str) -> dict[TrialSide, list[str]]:
    """Return the arms that each side of a task leaves out."""
    return {
        side: [arm for arm, digit in zip(arms, out, strict=True) if (digit == OUT_WITH) == (side == "with")]
        for side in TRIAL_SIDES
    }


class _Machine:
    """Items of Claude Code on this machine and in the tasks' folders, and the settings in force."""

    def __init__(self, home: Path, folders: Sequence[Path], managed: Iterable[Path]) -> None:
        files = FileReader()
        fixed = [one for path in managed for one in (path, *sorted(path.with_suffix(".d").glob("*.json")))]
        self.items = [*claude_code.items(home, folders, files, fixed)]
        self.managed = [files.settings(path) for path in fixed]
        self.own = files.settings(home / ".claude" / "settings.json")
        within = [
            folder / ".claude" / f"settings{kind}.json" for folder in folders for kind in ("", ".local")
        ]
        self.layers = [*self.managed, self.own, *map(files.settings, within)]
        self.servers = sorted({claude_code.as_in_tools(one) for one in self.items if one.kind == "server"})
        self.hooks = sorted({event for layer in self.layers for event in member(layer, "hooks")})

    def denies(self, rule: str) -> bool:
        """Return whether a deny rule in force has the same effect already."""
        rules = [one for layer in self.layers for one in texts(member(layer, "permissions").get("deny"))]
        return any(fnmatchcase(rule, one) or rule.startswith(f"{one}__") for one in rules)


def _way(arm: str, harness: str, machine: _Machine, folders: Mapping[str, Path]) -> _Way:
    """Return how an arm is left out; `NotApplicable` names the reason where there is no way."""
    kind, category, name = arm_type(arm), *arm.split(":", 2)[1:]
    if kind in {"file", "memory", "section"}:
        return _file(arm, name if kind != "section" else category, folders)
    if harness == "command":
        names = [escape(one) for one in (arm, skill_name(arm) if kind == "skill" else name)]
        return {"names": names, "words": "your command, which reads ARMSCOPE_WITHOUT"}
    return _skill(arm, machine) if kind == "skill" else _tool(arm, name, machine)


def _file(arm: str, file: str, folders: Mapping[str, Path]) -> _Way:
    is_section = arm_type(arm) == "section"
    file = file if file.endswith(".md") or not is_section else "CLAUDE.md"
    section = {"section": arm.split(":", 2)[2]} if is_section else {}
    present = "loaded" if file in _ALWAYS_LOADED else "listed"
    words = f"a copy of the task's folder without {', '.join([file, *section.values()])}"
    names = [escape(arm), f"Read(*/{escape(file)})"]
    way: _Way = {"names": names, "file": file, "present": present, "words": words, **section}
    for task, folder in folders.items():
        if program.part_in(program.files_of(folder), way) is None:
            raise _refused(arm, f"it is not in the folder of task {json.dumps(task)}, or not once")
    if not folders:
        raise _refused(arm, "the tasks have no folders")
    return way


def _skill(arm: str, machine: _Machine) -> _Way:
    name = skill_name(arm)
    own = [one for one in machine.items if one.kind == "skill" and name in {one.name, one.also}]
    listed = [one for one in own if one.state not in {"out", "user only"}]
    if not listed:
        raise _refused(
            arm, "your settings or its own words hide it" if own else "no skill of this name is there"
        )
    if any(one.switch is None for one in listed):
        raise _refused(arm, "an administrator has set it, or its plugin belongs to one project")
    item = listed[0]
    change: _Way = {"skillOverrides": {**member(machine.own, "skillOverrides"), item.name: "off"}}
    names = [f"Skill({escape(item.name)})", f"Read(*/skills/{escape(item.name)}/SKILL.md)"]
    words = "skillOverrides: off"
    if item.plugin is not None:
        change = {"enabledPlugins": {**member(machine.own, "enabledPlugins"), item.plugin: False}}
        plugin = escape(item.plugin.split("@")[0])
        names = [f"Skill({plugin}:*)", f"mcp__plugin_{plugin}_*"]
        words = f"the plugin {item.plugin} as a whole, so the verdict is the plugin's"
    return {"names": names, "settings": change, "words": words}


def _tool(arm: str, name: str, machine: _Machine) -> _Way:
    if any(one.get("allowManagedPermissionRulesOnly") is True for one in machine.managed):
        raise _refused(arm, "an administrator allows no other permission rules")
    if machine.denies(name):
        raise _refused(arm, "a deny rule in force names it already")
    is_server = name.startswith("mcp__") and name.count("__") == 1
    names = [f"{escape(name)}__*" if is_server else escape(name)]
    return {"names": names, "deny": [name], "words": f"permissions.deny: {name}"}


def _refused(arm: str, why: str) -> NotApplicable:
    table = "See what can be left out: armscope help does-it-help"
    return NotApplicable(f"{arm} can't be left out: {why}.", next_step=table)
