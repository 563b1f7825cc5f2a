"""Selections for sessions that armscope starts: drawn beforehand, and given to the runs that an import brings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from core.columns import ArmColumns
from core.errors import InvalidInput, NotApplicable, UnreadableSource
from core.flows.context import Context, fresh_identity
from core.flows.importing.files import import_files
from core.flows.select import offered
from core.installed.claude_code import MANAGED
from core.installed.files import FileReader, listed_skill
from core.installed.launch import LaunchFolder, VisibleSkills, changed, visible_skills
from core.maths.policy import select as select_arms
from core.records.arm import MICRO, Arm
from core.records.import_answer import ImportAnswer
from core.records.selection import Selection
from core.records.times import MINUTE_MS
from core.store.reads import arm_columns

_SLACK_MS: Final = 2_000
"""Some file systems round the time of a change."""
WAITING: Final = 4
"""How many selections wait for each set of skills."""


def prepare(context: Context, config: Path, folder: Path) -> int:
    """Draw the selections of the next sessions that start in a folder; return how many wait then.

    They replace those that wait for the same skills. A passive learner, or a folder without skills that a setting
    switches, has none.
    """
    context.permit("select")
    if context.launches is None:
        return 0
    skills = visible_skills(config, folder)
    arms = _candidates(skills)
    with context.store.reading(context.learner) as snapshot:
        columns, settings, revision = arm_columns(snapshot), snapshot.settings, snapshot.revision
    documents: list[dict[str, Any]] = []
    if arms and settings.phase == "active":
        candidates = _as_listed(offered(columns, arms, settings))
        for _ in range(WAITING):
            chosen = select_arms(candidates, settings, seed=context.entropy(), revision=revision)
            held = msgspec.structs.replace(chosen, held_since_ms=context.clock())
            documents.append(_document(held, settings.hold_minutes * MINUTE_MS))
    launches = LaunchFolder(context.launches, context.learner)
    launches.prepare(skills.key, documents)
    if not context.is_named:
        launches.write_unnamed(context.learner)
    return len(documents)


def begin_imports(context: Context) -> None:
    """Import changed sessions from now on, unless a time is noted already."""
    context.permit("ingest")
    if context.launches is not None:
        launches = LaunchFolder(context.launches, context.learner)
        if launches.imported_ms is None:
            launches.imported_ms = context.clock()


def import_ended(context: Context, config: Path, also: Sequence[Path] = ()) -> list[ImportAnswer]:
    """Import the sessions of Claude Code that changed since the last time, each as an act of its own.

    The first time, only ``also`` are imported: files that a hook names. A file that can't be read is left out. Any
    other failure leaves the time unchanged, so the next call imports what this one did not.
    """
    context.permit("ingest")
    if context.launches is None:
        return []
    launches = LaunchFolder(context.launches, context.learner)
    answers = []
    with launches.alone():
        began_ms, since_ms = context.clock(), launches.imported_ms
        launches.sweep(began_ms)
        known = [] if since_ms is None else sorted(changed(config, since_ms - _SLACK_MS))
        for path in dict.fromkeys([*known, *(path for path in also if path.is_file())]):
            try:
                answers.append(import_files(context, [path]))
            except (UnreadableSource, NotApplicable):
                continue
        launches.imported_ms = began_ms
    return answers


def _document(selection: Selection, hold_ms: int) -> dict[str, Any]:
    return {
        "id": fresh_identity(),
        "hold_ms": hold_ms,
        "out": [key.split(":")[1] for key in selection.excluded],
        "selection": msgspec.to_builtins(selection),
    }


def _as_listed(columns: ArmColumns) -> ArmColumns:
    """Return the candidates with a further pull for each run that listed a skill: a success if the run loaded it.

    A skill that no run loads has no pulls. Without these it would go ahead of the skills in use for good.
    """
    return replace(
        columns,
        success_micro=columns.success_micro + columns.n_loaded * MICRO,
        failure_micro=columns.failure_micro + (columns.n_named - columns.n_loaded) * MICRO,
        pulls=columns.pulls + columns.n_named,
    )


def _candidates(skills: VisibleSkills) -> list[Arm]:
    """Return the arms of skills that a private settings file can switch.

    Left alone are skills for users only, and those with a setting of the user's or an administrator's own.
    """
    files = FileReader()
    fixed = set(skills.overrides)
    for path in MANAGED:
        members = files.settings(path).get("skillOverrides")
        fixed |= set(members) if isinstance(members, dict) else set()
    arms = []
    for name, path in sorted(skills.files.items()):
        skill = None if name in fixed else files.skill(path, name)
        if skill is not None and not skill.is_for_users:
            cost = listed_skill("", skill, "on").carried
            try:
                arms.append(Arm(key=f"skill:{name}:main", token_cost=cost))
            except InvalidInput:  # no folder name that an arm can have
                continue
    return arms
