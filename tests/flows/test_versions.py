"""Versions of definitions: their runs and belief equal a recount in any order of acts; parallel ones are apart."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from core.errors import UnknownArm
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import redo, reset, undo
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.inventory import keep_inventory
from core.flows.learn import record
from core.maths.posterior.beta import interval
from core.records.arm import Arm, definition_version, skill_key, tool_key
from core.records.arm_summary import ArmVersions
from core.records.candidate import tool_candidate
from core.records.inventory import CarriedItem, InstalledItem, MachineInventory
from core.records.run import Call, Inventory, Run
from tests.formats.builders import Json, lines, put
from tests.worlds import context_at

NAMES = ("search", "think", "send")
START_S = 1_767_225_600


def definition(name: str, version: int) -> Json:
    text = f"{name}, edition {version}"
    return {"type": "function", "function": {"name": name, "description": text, "parameters": {"a": version}}}


def records(n: int, seed: int) -> list[Json]:
    """Records whose tools are redefined now and then, with returns to an older text."""
    dice, made = Random(seed), []
    for number in range(n):
        tools = [definition(name, dice.choice([1, 2, 3])) for name in NAMES if dice.random() < 0.8]
        called = [tool["function"]["name"] for tool in tools if dice.random() < 0.5]  # type: ignore[index]
        calls = [
            {"id": f"c{number}-{at}", "type": "function", "function": {"name": name, "arguments": "{}"}}
            for at, name in enumerate(called)
        ]
        messages: list[Json] = [
            {"role": "user", "content": f"go {number}"},
            {"role": "assistant", "content": None if calls else "no", "tool_calls": calls},
            {"role": "assistant", "content": "done"},
        ]
        made.append({"messages": messages, "tools": tools, "created": START_S + 60 * number})
    return made


def recounted(made: Iterable[Any], name: str) -> dict[str, tuple[int, int, int]]:
    """The runs of each version of a tool, those that call it, and those that learn: by the records alone."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for one in made:
        called = [call["function"]["name"] for call in one["messages"][1]["tool_calls"]]
        for tool in one["tools"]:
            if tool["function"]["name"] == name:
                text = json.dumps(tool["function"], separators=(",", ":"))
                count = counts[hashlib.blake2b(text.encode(), digest_size=8).hexdigest()]
                count[0] += 1
                count[1] += name in called
                count[2] += bool(called)
    return {version: (n, used, learned) for version, (n, used, learned) in counts.items()}


def counted(answer: ArmVersions) -> dict[str, tuple[int, int, int]]:
    return {one.version: (one.runs, one.referenced, one.pulls) for one in answer.versions}


def all_versions(context: Context) -> list[ArmVersions]:
    return [queries.arm_versions(context, tool_key(name)) for name in NAMES]


@pytest.mark.parametrize("seed", range(3))
def test_the_counts_of_each_version_equal_a_recount_of_the_records(
    context: Context, tmp_path: Path, seed: int
) -> None:
    made = records(60, seed)
    import_files(context, [put(tmp_path, lines(made), "runs.jsonl")])
    for name in NAMES:
        answer = queries.arm_versions(context, tool_key(name))
        assert counted(answer) == recounted(made, name)
        assert (len(answer.versions), answer.without) == (3, 0)
        for one in answer.versions:
            alpha, beta = 3 + one.referenced, 1 + one.pulls - one.referenced
            lower, upper = interval(alpha, beta)
            assert one.mean == alpha / (alpha + beta)
            assert (one.interval.lower, one.interval.upper) == (float(lower), float(upper))
    assert queries.verify(context).clean


def test_an_import_again_an_undo_and_a_redo_leave_the_versions_as_they_were(
    context: Context, tmp_path: Path
) -> None:
    made = records(40, 7)
    half, whole = (put(tmp_path, lines(made[:n]), f"{n}.jsonl") for n in (20, 40))
    import_files(context, [half])
    before = all_versions(context)
    again = import_files(context, [whole])
    after = all_versions(context)
    assert import_files(context, [whole]).id is None
    undo(context, again.id)
    assert all_versions(context) == before
    redo(context, again.id)
    assert all_versions(context) == after
    assert [counted(one) for one in after] == [recounted(made, name) for name in NAMES]
    reset(context)
    assert [counted(one) for one in all_versions(context)] == [counted(one) for one in after]
    assert queries.verify(context).clean


def test_an_export_gives_the_versions_back(context: Context, tmp_path: Path) -> None:
    import_files(context, [put(tmp_path, lines(records(30, 9)), "runs.jsonl")])
    export_file(context, tmp_path / "ours.jsonl")
    other = context_at(tmp_path / "other.db")
    import_files(other, [tmp_path / "ours.jsonl"])
    assert all_versions(other) == all_versions(context)
    assert import_files(context, [tmp_path / "ours.jsonl"]).id is None


def test_a_change_splits_the_history_of_a_live_tool(context: Context) -> None:
    """Before: 4 of 5 runs use it. After its text changed: 1 of 5."""

    def run(uid: str, at_ms: int, arm: Arm, used: bool) -> None:
        calls = (Call(name="search" if used else "think"),)
        arms = (arm, Arm(key=tool_key("think")))
        inventory = Inventory(kind="declared", arms=arms)
        record(context, Run(uid=uid, inventory=inventory, calls=calls, ended_at_ms=at_ms))

    before, after = (
        tool_candidate({"name": "search", "description": text, "parameters": {}}) for text in ("a", "b")
    )
    for at in range(10):
        run(f"r{at}", 1_000 + at, before if at < 5 else after, used=at not in {2, 6, 7, 8, 9})
    answer = queries.arm_versions(context, tool_key("search"))
    spans = [(one.first_ms, one.last_ms, one.runs, one.referenced, one.mean) for one in answer.versions]
    assert spans == [(1_000, 1_004, 5, 4, 7 / 9), (1_005, 1_009, 5, 1, 4 / 9)]
    assert [one.version for one in answer.versions] == [before.version, after.version]
    marks = queries.arm_path(context, tool_key("search")).marks
    assert [(one.kind, one.at_ms, one.name) for one in marks] == [("definition", 1_005, after.version)]
    without = queries.arm_versions(context, tool_key("think"))
    assert (without.versions, without.without) == ((), 10)
    with pytest.raises(UnknownArm):
        queries.arm_versions(context, "tool:other:none")


def test_a_run_that_was_recorded_without_versions_stays_the_same_run(
    context: Context, tmp_path: Path
) -> None:
    """As a database of an earlier version holds it: an import again finds nothing new."""
    made = records(10, 3)
    path = put(tmp_path, lines(made), "runs.jsonl")
    import_files(context, [path])

    def forget(txn: Any) -> None:  # noqa: ANN401 - the store's own
        for run_no in range(1, 11):
            txn.connection.run("DELETE FROM defined WHERE learner_id = ? AND run_no = ?", [1, run_no])

    before = queries.posteriors(context)
    context.write("settings", forget)  # a write needs the name of a permission
    assert import_files(context, [path]).id is None
    assert queries.posteriors(context) == before
    answer = queries.arm_versions(context, tool_key("search"))
    assert (answer.versions, answer.without) == ((), sum(n for n, *_ in recounted(made, "search").values()))


def machine(*skills: tuple[str, str, int], project: str | None = None) -> MachineInventory:
    """An inventory with skills: agent, text and time of the last change."""
    items = [
        InstalledItem(
            agent=agent,
            kind="skill",
            name="review",
            path="/home/u/.claude/skills/review/SKILL.md",
            state="by name",
            carried=5,
            version=definition_version(text),
            changed_ms=changed_ms,
            project=project,
        )
        for agent, text, changed_ms in skills
    ]
    carried = tuple(CarriedItem(item=one, use=None, at_most=None, proposal=None, why="") for one in items)
    return MachineInventory(
        sentence="", notes=(), items=carried, sessions=0, oldest_ms=None, loaded=0, used=0, carried=0
    )


def skill_runs(context: Context, times: Iterable[int], version: str | None = None) -> None:
    arms = (Arm(key=skill_key("review"), version=version), Arm(key=tool_key("think")))
    for at_ms in times:
        inventory = Inventory(kind="declared", arms=arms)
        calls = (Call(name="think"),)
        record(context, Run(uid=f"{version}{at_ms}", inventory=inventory, calls=calls, ended_at_ms=at_ms))


def spans(context: Context) -> tuple[list[tuple[str, int | None, int | None, int]], int]:
    answer = queries.arm_versions(context, skill_key("review"))
    return [(one.version, one.first_ms, one.last_ms, one.runs) for one in answer.versions], answer.without


def test_an_edit_of_a_skills_file_splits_its_history(tmp_path: Path) -> None:
    """Runs belong to the text of their time. A run from before the first text, or without a time, has none."""
    clock = [5_000]
    context = replace(context_at(tmp_path / "learner.db"), clock=lambda: clock[0])
    a, b, c, own = (definition_version(text) for text in ("a", "b", "c", "own"))
    skill_runs(context, range(1_000, 10_000, 1_000))
    assert spans(context) == ([], 9)
    keep_inventory(context, machine(("Claude Code", "a", 2_000)), machine="laptop")
    clock[0] = 6_500
    keep_inventory(context, machine(("Claude Code", "b", 6_000)), machine="laptop")
    clock[0] = 8_500  # the reading at 6,500 saw b, so c begins here and not at 6,200
    keep_inventory(context, machine(("Claude Code", "c", 6_200)), machine="laptop")
    assert spans(context) == ([(a, 2_000, 5_000, 4), (b, 6_000, 8_000, 3), (c, 9_000, 9_000, 1)], 1)
    marks = queries.arm_path(context, skill_key("review")).marks
    assert [(one.kind, one.at_ms, one.name) for one in marks] == [
        ("definition", 6_000, b),
        ("definition", 9_000, c),
    ]
    keep_inventory(context, machine(("Claude Code", "c", 6_200)), machine="laptop")
    assert len(spans(context)[0]) == 3
    skill_runs(context, [7_500], own)
    assert (own, 7_500, 7_500, 1) in spans(context)[0], "the run's own version holds"
    assert (b, 6_000, 8_000, 3) in spans(context)[0]
    assert queries.verify(context).clean


def test_texts_of_two_machines_or_agents_that_differ_give_no_version(context: Context) -> None:
    skill_runs(context, [3_000])
    one, other = machine(("Claude Code", "a", 2_000)), machine(("Claude Code", "b", 2_000))
    keep_inventory(context, one, machine="laptop")
    keep_inventory(context, one, machine="desktop")
    assert spans(context) == ([(definition_version("a"), 3_000, 3_000, 1)], 0)
    keep_inventory(context, other, machine="server")
    assert spans(context) == ([], 1)


def test_a_skill_of_a_project_or_of_two_agents_gives_no_version(context: Context) -> None:
    skill_runs(context, [3_000])
    keep_inventory(context, machine(("Claude Code", "a", 2_000), project="shop"), machine="laptop")
    assert spans(context) == ([], 1)
    both = machine(("Claude Code", "a", 2_000), ("Codex CLI", "b", 2_000))
    keep_inventory(context, both, machine="laptop")
    assert spans(context) == ([], 1)


@pytest.mark.parametrize("version", ["", "x" * 65, "a\0b", 7])
def test_a_version_is_a_short_text(version: Any) -> None:  # noqa: ANN401 - of any type
    with pytest.raises(Exception, match="version"):
        Arm(key="tool:fs:Read", version=version)


def test_a_listed_name_alone_has_no_version(context: Context, tmp_path: Path) -> None:
    tools: Sequence[object] = ["search", {"name": "think"}, {"name": "send", "token_cost": 9}]
    made = [{**one, "tools": tools} for one in records(3, 1)]
    import_files(context, [put(tmp_path, lines(made), "runs.jsonl")])
    assert [(one.versions, one.without) for one in all_versions(context)] == [((), 3)] * 3
