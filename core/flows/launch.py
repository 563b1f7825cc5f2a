"""Selections for sessions that armscope starts: drawn beforehand, and given to the runs that an import brings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from core.columns import ArmColumns
from core.errors import InvalidInput, NotApplicable, UnreadableSource
from core.flows.context import Context, fresh_identity
from core.flows.importing.files import import_files
from core.flows.importing.reading import SLACK_MS, assign_sessions
from core.flows.select import offered, session_side
from core.installed.claude_code import MANAGED
from core.installed.files import FileReader, listed_skill
from core.installed.launch import LaunchFolder, VisibleSkills, changed, visible_skills
from core.maths.policy import select as select_arms
from core.records.arm import MICRO, Arm, arm_type
from core.records.import_answer import ImportAnswer
from core.records.times import MINUTE_MS
from core.settings import launches_folder
from core.store.experiments import Sided, started
from core.store.reads import arm_columns
from core.store.transaction import Snapshot

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
    launches = LaunchFolder(context.launches, context.learner)
    is_current = False
    while not is_current:  # an experiment that begins or ends meanwhile has others drawn
        documents, assigning = _documents(context, arms)
        launches.prepare(skills.key, documents)
        with context.store.reading(context.learner) as snapshot:
            now = _assigning(snapshot, context.clock())
            is_changed = launches.note(_skills(sorted(snapshot.settings.left_out)), now)
            is_current = now == assigning and not is_changed
    if not context.is_named:
        launches.write_unnamed(context.learner)
    return len(documents)


def _documents(context: Context, arms: Sequence[Arm]) -> tuple[list[dict[str, Any]], Sequence[str]]:
    """Return the selections to prepare, and the experiments that assign new sessions."""
    with context.store.reading(context.learner) as snapshot:
        settings, now_ms = snapshot.settings, context.clock()
        assigning = _assigning(snapshot, now_ms)
        if not arms or settings.phase != "active":
            return [], assigning
        candidates = _as_listed(offered(arm_columns(snapshot), arms, settings))

        def document_of(seed: int, sided: Sided | None) -> dict[str, Any]:
            assigned = None if sided is None else sided.assigned
            chosen = select_arms(
                candidates, settings, seed=seed, revision=snapshot.revision, assigned=assigned
            )
            held = msgspec.structs.replace(chosen, held_since_ms=now_ms)
            out = _skills(chosen.excluded)
            return {"id": fresh_identity(), "out": out, "selection": msgspec.to_builtins(held)}

        documents = []
        for seed in (context.entropy() for _ in range(WAITING)):
            sided = session_side(snapshot, None, candidates.keys, seed=seed, now_ms=now_ms)
            document = document_of(seed, sided) | {"hold_ms": settings.hold_minutes * MINUTE_MS}
            if sided is not None:
                document |= {"plain": document_of(seed, None), "until_ms": sided.until_ms}
            documents.append(document)
        return documents, assigning


def _assigning(snapshot: Snapshot, now_ms: int) -> Sequence[str]:
    return [f"{one.fact.line_id} {one.share}" for one in started(snapshot) if one.assigns(now_ms)]


def _skills(keys: Iterable[str]) -> list[str]:
    return [key.split(":")[1] for key in keys if arm_type(key) == "skill"]


def discard_prepared(context: Context) -> None:
    """Remove the selections that wait on this machine, after an act that changes what new sessions get."""
    context.permit("settings")
    if not context.is_rehearsal:
        launches = LaunchFolder(launches_folder(context.store.location), context.learner)
        with context.store.reading(context.learner) as snapshot:
            launches.note(_skills(sorted(snapshot.settings.left_out)), _assigning(snapshot, context.clock()))
        launches.discard()


def begin_imports(context: Context) -> None:
    """Import changed sessions from now on, unless a time is noted already."""
    context.permit("ingest")
    if context.launches is not None:
        launches = LaunchFolder(context.launches, context.learner)
        if launches.imported_ms is None:
            launches.imported_ms = context.clock()


def import_ended(context: Context, config: Path, also: Sequence[Path] = ()) -> list[ImportAnswer]:
    """Import the sessions of Claude Code that changed since the last time, each as an act of its own.

    Sessions that a start assigned to an experiment are assigned first, with or without a transcript. The first time,
    only ``also`` are imported: files that a hook names. A file that can't be read is left out. Any other failure
    leaves the time unchanged, so the next call imports what this one did not.
    """
    context.permit("ingest")
    if context.launches is None:
        return []
    launches = LaunchFolder(context.launches, context.learner)
    answers = []
    with launches.alone():
        began_ms, since_ms = context.clock(), launches.imported_ms
        launches.sweep(began_ms)
        assign_sessions(context)
        known = [] if since_ms is None else sorted(changed(config, since_ms - SLACK_MS))
        for path in dict.fromkeys([*known, *(path for path in also if path.is_file())]):
            try:
                answers.append(import_files(context, [path]))
            except (UnreadableSource, NotApplicable):
                continue
        launches.imported_ms = began_ms
    return answers


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
