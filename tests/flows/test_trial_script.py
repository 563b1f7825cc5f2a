"""The script of a trial, from end to end: an agent that reads what it gets, and commands that read the variables."""

from __future__ import annotations

import json
import math
import os
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from core.errors import ArmscopeError
from core.flows.trials import program
from core.flows.trials.results import read_results
from core.flows.trials.script import script
from core.maths.statistics.trials import figures
from core.records.trial import Cell, TrialPlan, TrialTask, session_prefix
from tests.conftest import ROOT

FAKE = ROOT / "tests" / "flows" / "fake_claude.py"
GRADE = """#!{python}
import os, pathlib, sys
answer, right = pathlib.Path("answer.txt"), pathlib.Path(os.environ["ARMSCOPE_FOLDER"], "right").read_text()
sys.exit(0 if answer.exists() and answer.read_text() == right else 1)
"""
KINDS = ["skill", "plugin", "tool", "server", "agent", "file", "memory", "section"]
AGENT = """
import json, os, sys
name, out = os.environ["ARMSCOPE_TASK"], os.environ["ARMSCOPE_WITHOUT"]
open("left-over", "x").close()
calls = [] if out else ["tool:web:search"]
line = {"grade": float(not out), "usage": {"input": 7, "output": 3, "money": 0.5}, "calls": calls}
line["listed"] = [] if out else ["tool:web:search"]
line.update(json.loads(os.environ.get("AGENT_LINE", "{}")))
open(os.environ["ARMSCOPE_RESULT"], "w").write(json.dumps(line))
open(os.environ["HOME"] + "/cells", "a").write(os.environ["ARMSCOPE_CELL"] + "\\n")
"""
SEARCH = "tool:web:search"
ODD = ['it\'s "$(touch stolen)"', "-n", "two\nlines", "`touch stolen`", "''' + x", "a\\"]
"""Names that a program would run or take for options, were they not data."""


def planned(arm: str | Sequence[str], tasks: Sequence[str], **members: Any) -> TrialPlan:  # noqa: ANN401 - members of a plan
    arms = (arm,) if isinstance(arm, str) else tuple(arm)
    members_of = {"seed": "7", "repeats": 2, **members}
    return TrialPlan(
        arms=arms, digests=("",) * len(arms), tasks=tuple(TrialTask(name=one) for one in tasks), **members_of
    )


class Machine:
    """A home folder with one arm of each kind, and tasks whose answers only the arm knows."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.folder, self.home, self.tasks, self.names = folder, folder / "home", folder / "tasks", [*names]
        self.arm_text = "".join(f"{name} = {number}\n" for number, name in enumerate(names))
        for number, name in enumerate(names):
            self.write(f"tasks/{name}/prompt.md", f"question {name}")
            self.write(f"tasks/{name}/right", str(number))
            self.write(f"tasks/{name}/files/notes.txt", "notes")
            self.write(f"tasks/{name}/grade", GRADE.format(python=sys.executable)).chmod(0o755)
        self.write("bin/claude", f'#!/bin/sh\nexec {sys.executable} {FAKE} "$@"\n').chmod(0o755)
        self.write(
            "home/.claude/settings.json", {"hooks": {"Stop": []}, "skillOverrides": {"other": "name-only"}}
        )

    def write(self, name: str, content: str | Mapping[str, Any]) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def skill(self, name: str, text: str, root: str = "home/.claude") -> None:
        self.write(f"{root}/skills/{name}/SKILL.md", f"---\nname: {name}\ndescription: d\n---\n{text}")

    def script(self, plan: TrialPlan, **options: Any) -> str:  # noqa: ANN401 - options of a script
        chosen = {"harness": "claude", "tasks": self.tasks, "home": self.home, "managed": (), **options}
        return script(plan, 3, **chosen)

    def start(self, text: str, *options: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        path = self.write("trial-3.py", text)
        outer = {
            one: value for one, value in os.environ.items() if not one.startswith(("ARMSCOPE_", "CLAUDE"))
        }
        variables = {
            **outer,
            "HOME": str(self.home),
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            **(env or {}),
        }
        return subprocess.Popen(
            [sys.executable, str(path), "--wait=0", *options],
            cwd=self.folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, text: str, *options: str, status: int = 0, env: Mapping[str, str] | None = None) -> str:
        process = self.start(text, *options, env=env)
        output = process.communicate(timeout=60)[0]
        assert process.returncode == status, output
        return output

    def cells(self) -> tuple[Cell, ...]:
        return read_results(self.folder / "armscope-trial-3" / "results.jsonl").cells


@pytest.fixture
def desk(tmp_path: Path) -> Machine:
    return Machine(tmp_path, ["t1", "t2"])


def grades(cells: Sequence[Cell]) -> dict[str, set[float | None]]:
    return {side: {one.grade for one in cells if one.side == side} for side in ("with", "without")}


def shown(cells: Sequence[Cell]) -> dict[str, set[str]]:
    return {side: {one.presence for one in cells if one.side == side} for side in ("with", "without")}


# The harness claude


def with_kind(desk: Machine, kind: str) -> tuple[str, str, list[str]]:
    """Put an arm of a kind on the desk; return its id, what the agent shows of it, and the options it needs."""
    text, options = desk.arm_text, []
    if kind == "skill":
        desk.skill("pdf", text)
        desk.skill("other", "nothing")
    elif kind == "plugin":
        desk.skill("forms", text, "plugin")
        entry = {"installPath": str(desk.folder / "plugin")}
        desk.write("home/.claude/plugins/installed_plugins.json", {"plugins": {"office@shop": [entry]}})
    elif kind in {"tool", "server"}:
        servers = {
            "github": {"command": "x", "fake": {"ask": text}},
            "mail": {"command": "x", "fake": {"send": ""}},
        }
        desk.write("home/.claude.json", {"mcpServers": servers})
        options = ["--allow", "mcp__github"]
    elif kind == "agent":
        desk.write("home/.claude/agents/expert.md", text)
    for name in desk.names:
        words = f"# Rules\nBe kind.\n## Answers\n{text}\n## Style\nShort.\n"
        if kind in {"file", "memory", "section"}:
            desk.write(f"tasks/{name}/files/{'memory.md' if kind == 'memory' else 'CLAUDE.md'}", words)
    arms = {
        "skill": "skill:pdf:main",
        "plugin": "skill:office:forms:main",
        "tool": "tool:other:mcp__github__ask",
        "server": "tool:other:mcp__github",
        "agent": "tool:other:Agent(expert)",
        "file": "file:workspace:CLAUDE.md",
        "memory": "memory:notes:memory.md",
        "section": "section:CLAUDE.md:Answers",
    }
    without = "unknown" if kind == "agent" else "absent"
    return arms[kind], without, options


@pytest.mark.parametrize("kind", KINDS)
def test_an_arm_of_each_kind_is_left_out_and_nothing_else(desk: Machine, kind: str) -> None:
    arm, without, options = with_kind(desk, kind)
    text = desk.script(planned(arm, desk.names))
    desk.run(text, "--yes", *options)
    cells = desk.cells()
    assert len(cells) == 8
    assert grades(cells) == {"with": {1.0}, "without": {0.0}}
    assert shown(cells) == {"with": {"called"}, "without": {without}}
    assert {(one.end, one.tokens, one.money_pico, one.model) for one in cells} == {
        ("ended", 100, 25 * 10**10, "fake-1")
    }


@pytest.mark.parametrize("kind", ["skill", "tool", "plugin", "agent"])
def test_a_leave_out_that_does_not_work_is_not_followed(desk: Machine, kind: str) -> None:
    """The agent reads no settings of the run, as one that an administrator overrules. The figures say so."""
    arm, _, options = with_kind(desk, kind)
    plan = planned(arm, desk.names)
    text = desk.script(plan)
    desk.run(text, "--yes", *options, env={"FAKE_DEAF": "1"}) if kind != "tool" else None
    if kind == "tool":
        desk.run(text.replace("*denied", ""), "--yes", *options)
    assert shown(desk.cells())["without"] == {"called"}
    (result,) = figures(desk.cells(), plan, alone=False)
    assert (result.not_followed.with_arm, result.not_followed.without) == (0, 4)


def test_limits_faults_and_graders_have_their_ends(desk: Machine) -> None:
    def stream(*events: Mapping[str, Any]) -> str:
        words = "\n".join(json.dumps(one) for one in events)
        desk.write("bin/claude", f"#!/bin/sh\ncat <<'END'\n{words}\nEND\n").chmod(0o755)
        folder = f"--folder=armscope-trial-3/{len(ends)}"
        is_limit = words.endswith('"error_max_turns", "is_error": true}')
        output = desk.run(text, "--yes", "--attempts=1", folder, status=0 if is_limit else 1)
        path = desk.folder / f"armscope-trial-3/{len(ends)}/results.jsonl"
        (cell, _) = read_results(path).cells
        assert cell.error in output
        return f"{cell.end} {cell.grade} {cell.error}"

    ends: list[str] = []
    desk.skill("pdf", "")
    text = desk.script(planned("skill:pdf:main", ["t1"], repeats=1))
    ends.append(stream({"type": "result", "subtype": "error_max_turns", "is_error": True}))
    ends.append(stream({"type": "result", "subtype": "error_max_budget_usd", "is_error": True}))
    ends.append(stream({"type": "result", "subtype": "success", "is_error": True, "api_error_status": 429}))
    ends.append(
        stream({"subtype": "init", "tools": ["mcp__mail__send"]}, {"type": "result", "subtype": "success"})
    )
    ends.append(stream())
    last = {"type": "result", "subtype": "success"}
    odd: list[Mapping[str, Any]] = [
        {"type": "assistant", "message": "hello"},
        {"type": "assistant", "message": {"content": ["x"]}},
        {"subtype": "init", "skills": None},
        {"subtype": "init", "model": 5},
        {**last, "modelUsage": [1]},
        {**last, "modelUsage": {"m": {"inputTokens": -1}}},
        *({**last, "total_cost_usd": cost} for cost in ("x", math.nan, math.inf, -3)),
    ]
    for event in odd:
        ends.append(
            stream(event) if "subtype" in event and event["subtype"] != "init" else stream(event, last)
        )
    expected = [
        "limit 0.0 turns",
        "fault None claude: error_max_budget_usd",
        "fault None claude: 429",
        "fault None mcp__mail__send was on",
        "fault None claude: status 0",
        *["fault None a result that is not in the documented form"] * len(odd),
    ]
    assert ends == expected
    desk.write("tasks/t1/grade", "#!/bin/sh\nexit 7\n").chmod(0o755)
    text = desk.script(planned("skill:pdf:main", ["t1"], repeats=1))
    assert stream({"type": "result", "subtype": "success"}) == "fault None grader: 7"


def test_pilot_runs_are_no_part_of_the_result(desk: Machine) -> None:
    arm, *_ = with_kind(desk, "skill")
    plan = planned(arm, desk.names)
    assert "4 cells" in desk.run(desk.script(plan), "--yes", "--pilot")
    desk.run(desk.script(plan), "--yes")
    folder = desk.folder / "armscope-trial-3"
    assert desk.cells() == read_results(folder).cells
    with pytest.raises(ArmscopeError, match="of a pilot"):
        read_results(folder / "pilot" / "results.jsonl")
    assert len(desk.cells()) == 8
    assert {one.end for one in desk.cells()} == {"ended"}


def test_a_block_with_a_fault_runs_again_as_a_whole(desk: Machine) -> None:
    arm, *_ = with_kind(desk, "skill")
    desk.write("home/faults/t2-3", "")  # the third session is one of t1 or of t2
    desk.write("home/faults/t1-3", "")
    desk.run(desk.script(planned(arm, desk.names)), "--yes")
    cells = desk.cells()
    assert Counter(one.end for one in cells) == {"ended": 11, "fault": 1}
    (again,) = {one.task for one in cells if one.attempt == 2}
    assert [one.error for one in cells if one.end == "fault"] == ["claude: 429"]
    assert {(one.task, one.attempt): one.end for one in cells if one.end == "fault"} == {(again, 1): "fault"}
    assert len({one.session for one in cells}) == 12


def test_each_arm_of_many_is_left_out_in_turn(desk: Machine) -> None:
    desk.skill("pdf", desk.arm_text)
    desk.skill("spare", "nothing")
    plan = planned(["skill:pdf:main", "skill:spare:main"], desk.names)
    desk.run(desk.script(plan), "--yes")
    by_arm = {(one.side, one.arm, one.grade) for one in desk.cells()}
    assert by_arm == {
        ("with", "", 1.0),
        ("without", "skill:pdf:main", 0.0),
        ("without", "skill:spare:main", 1.0),
    }


def test_each_side_leaves_out_a_half_of_the_arms(desk: Machine) -> None:
    for name, text in (("pdf", desk.arm_text), ("spare", "nothing")):
        desk.skill(name, text)
    for name in desk.names:
        desk.write(f"tasks/{name}/files/CLAUDE.md", "# Style\nnothing\n")
    arms = ["skill:pdf:main", "skill:spare:main", "file:workspace:CLAUDE.md", "section:CLAUDE.md:Style"]
    plan = planned(arms, desk.names, halves=("1100", "0011"))
    output = desk.run(desk.script(plan), "--yes")
    assert "a random half" in output
    assert {(one.task, one.side, one.grade, one.presence) for one in desk.cells()} == {
        ("t1", "with", 0.0, "unknown"),
        ("t1", "without", 1.0, "unknown"),
        ("t2", "with", 1.0, "unknown"),
        ("t2", "without", 0.0, "unknown"),
    }
    off = {str(json.loads(one.read_text())["skillOverrides"]) for one in (desk.home / "sessions").iterdir()}
    assert len(off) == 2
    assert [one.word for one in figures(desk.cells(), plan)] == ["open"] * 4


def test_the_dry_run_shows_everything_and_starts_nothing(desk: Machine) -> None:
    arm, *_ = with_kind(desk, "server")
    text = desk.script(planned(arm, desk.names, model="m-1", workers=2), price_usd=0.5)
    output = desk.run(text, "--allow=mcp__github", "--allow=Bash(pytest *)", "--money=3")
    assert not (desk.folder / "armscope-trial-3").exists()
    assert not (desk.home / "sessions").exists()
    for words in (
        '"tool:other:mcp__github", by "permissions.deny: mcp__github"',
        "2 tasks, 2 repeats, 2 sides",
        "8 runs, 2 at a time",
        "about $4.00",
        "at most $20.00",
        "Hooks in settings: Stop",
        "Hooks are off on both sides",
        'off on both sides (--allow): ["mail"]',
        "WaitForMcpServers, Bash. All others are off",
        "Not reset between runs",
        'Task "t1" ',
        "Nothing was run",
    ):
        assert words in output
    assert "--allow mcp__github" in desk.run(text, status=2)
    assert "8 runs" not in desk.run(text, "--allow=mcp__github", "--pilot")
    assert "dangerously" not in text
    assert "bypass" not in text.lower()


def test_every_run_gets_the_same_settings_but_for_the_arm(desk: Machine) -> None:
    arm, _, options = with_kind(desk, "tool")
    desk.run(desk.script(planned(arm, desk.names)), "--yes", "--allow=Edit", *options)
    lines = [path.read_text() for path in (desk.home / "sessions").iterdir()]
    (one, two) = sorted(set(lines), key=len)
    assert len(lines) == 8
    assert one.replace('"deny": ["mcp__mail__*"]', '"deny": ["mcp__mail__*", "mcp__github__ask"]') == two
    assert json.loads(one) == {
        "skillOverrides": {"other": "name-only"},
        "enabledPlugins": {},
        "permissions": {"allow": ["Skill", "Edit", "mcp__github"], "deny": ["mcp__mail__*"]},
        "disableAllHooks": True,
        "disableClaudeAiConnectors": True,
        "autoMemoryEnabled": False,
    }


@pytest.mark.parametrize(
    ("arm", "change", "why"),
    [
        ("skill:no:main", {}, "no skill of this name is there"),
        (
            "skill:pdf:main",
            {"home/.claude/settings.json": {"skillOverrides": {"pdf": "off"}}},
            "your settings",
        ),
        (
            "skill:pdf:main",
            {"managed/m.d/9.json": {"skillOverrides": {"pdf": "on"}}},
            "an administrator has set",
        ),
        (
            "tool:exec:Bash",
            {"managed/m.json": {"allowManagedPermissionRulesOnly": True}},
            "no other permission",
        ),
        (
            "tool:other:mcp__a__b",
            {"home/.claude/settings.json": {"permissions": {"deny": ["mcp__a"]}}},
            "deny rule",
        ),
        ("file:workspace:../right", {}, 'not in the folder of task "t1"'),
        ("section:CLAUDE.md:Twice", {"tasks/t1/files/CLAUDE.md": "# Twice\n# Twice\n"}, "or not once"),
    ],
)
def test_a_cell_without_a_way_is_refused_by_name(
    desk: Machine, arm: str, change: Mapping[str, Any], why: str
) -> None:
    desk.skill("pdf", "")
    for name, content in change.items():
        desk.write(name, content)
    with pytest.raises(ArmscopeError, match=why) as raised:
        desk.script(planned(arm, desk.names), managed=[desk.folder / "managed" / "m.json"])
    assert raised.value.problem.startswith(f"{arm} can't be left out")


def test_what_leads_out_of_a_task_is_refused(desk: Machine) -> None:
    desk.skill("pdf", "")
    for name in ("../home", "..", ".", "no"):
        with pytest.raises(ArmscopeError, match="must be a folder in"):
            desk.script(planned("skill:pdf:main", [name]))
    for harness, remedy in (("claude", "Make a folder"), ("command", "Leave --tasks out")):
        with pytest.raises(ArmscopeError, match="got the file") as raised:
            desk.script(
                planned(SEARCH, ["t1"]), harness=harness, command=["x"], tasks=desk.write("names", "t1")
            )
        assert remedy in str(raised.value.next_step)
    task = TrialTask(name="t1", digest=program.digest_of(desk.tasks / "t1"))
    plan = structs.replace(planned("skill:pdf:main", ["t1"]), tasks=(task,))
    desk.run(desk.script(plan))
    desk.write("tasks/t1/right", "another")
    assert "must be as planned" in desk.run(desk.script(plan), status=2)
    text = desk.script(planned("skill:pdf:main", desk.names))
    (desk.tasks / "t2" / "files" / "link").symlink_to(desk.home)
    assert "must be as planned" in desk.run(text, status=2)
    text = desk.script(planned("skill:pdf:main", desk.names))
    assert "leads out" in desk.run(text, status=2)


# The harness command


def by_command(desk: Machine, plan: TrialPlan, agent: str = AGENT, **options: Any) -> str:  # noqa: ANN401 - options of a script
    command = [sys.executable, str(desk.write("agent.py", agent))]
    return desk.script(plan, harness="command", command=command, **options)


def test_a_command_reads_the_side_and_writes_one_line(desk: Machine) -> None:
    plan = planned(SEARCH, desk.names)
    desk.run(by_command(desk, plan), "--yes")
    cells = desk.cells()
    assert grades(cells) == {"with": {1.0}, "without": {0.0}}
    assert shown(cells) == {"with": {"called"}, "without": {"absent"}}
    assert {(one.tokens, one.money_pico, one.used) for one in cells if one.side == "with"} == {
        (10, 5 * 10**11, 1)
    }
    sessions = (desk.home / "cells").read_text().split()
    prefix = session_prefix(plan)
    assert sorted(sessions) == sorted(one.session for one in cells)
    assert {program.session_of(prefix, program.Slot(one.task, one.repeat, one.side)) for one in cells} == set(
        sessions
    )


def test_a_grader_grades_what_a_command_leaves(desk: Machine) -> None:
    """Its own program or that of --grade, unless the line has a grade. Without any the run is a fault."""
    plan = planned(SEARCH, ["t1"], repeats=1)
    own = "import os\nif not os.environ['ARMSCOPE_WITHOUT']: open('answer.txt', 'w').write('0')\n"
    null = "open(os.environ['ARMSCOPE_RESULT'], 'w').write('{\"grade\": null}')\n"
    ends: list[list[tuple[float | None, str]]] = []
    for agent, options in (
        (own, {}),
        (own + null, {}),
        (own, {"grade": ["false"]}),
        (own + null.replace("null", "1"), {"grade": ["false"]}),
        (own, {"tasks": None}),
        (own + null.replace("null", '0, \\"error\\": \\"turns\\"'), {"tasks": None}),
        (own + "os.abort()", {}),
    ):
        folder = f"armscope-trial-3/{len(ends)}"
        text = by_command(desk, plan, agent, **options)
        desk.start(text, "--yes", "--attempts=1", f"--folder={folder}").communicate(timeout=60)
        cells = read_results(desk.folder / folder / "results.jsonl").cells
        ends.append([(one.grade, one.error) for one in sorted(cells, key=lambda one: one.side)])
    assert ends == [
        [(1.0, ""), (0.0, "")],
        [(1.0, ""), (0.0, "")],
        [(0.0, ""), (0.0, "")],
        [(1.0, ""), (1.0, "")],
        [(None, "no grade")] * 2,
        [(0.0, "turns")] * 2,
        [(None, "no result, status -6")] * 2,
    ]


@pytest.mark.parametrize(
    ("line", "end"),
    [
        ({"error": "turns"}, "limit"),
        ({"grade": None, "error": "turns"}, "limit"),
        ({"grade": None}, "fault"),
        ({"usage": {"input": math.inf}}, "fault"),
        ({"usage": {"input": -5, "total": 9}}, "fault"),
        ({"usage": {"output": 2**53 + 2}}, "fault"),
        ({"usage": {"money": math.nan}}, "fault"),
        ({"usage": {"money": -3}}, "fault"),
        ({"calls": SEARCH}, "fault"),
        ({"error": "\ud800"}, "fault"),
        ({"error": "rate limit"}, "fault"),
        ({"grade": 2}, "fault"),
        ({"grade": "NaN"}, "fault"),
        ({"usage": 3}, "fault"),
        ({"calls": [SEARCH]}, "ended"),
        ({"grade": True, "calls": None, "usage": None}, "ended"),
    ],
)
def test_lines_of_a_command_have_their_ends(desk: Machine, line: Mapping[str, Any], end: str) -> None:
    text = by_command(desk, planned(SEARCH, ["t1"], repeats=1), tasks=None)
    status = int(end == "fault")
    desk.run(text, "--yes", "--attempts=1", status=status, env={"AGENT_LINE": json.dumps(line)})
    assert {one.end for one in desk.cells()} == {end}
    if line.get("calls") and end == "ended":
        assert shown(desk.cells())["without"] == {"called"}


def test_a_deep_line_and_a_half_line_are_of_their_run_alone(desk: Machine) -> None:
    write = "import os, time\nopen(os.environ['ARMSCOPE_RESULT'], 'w').write('[' * 100_000)\n"
    text = by_command(desk, planned(SEARCH, ["t1"], repeats=1), write)
    assert "documented form" in desk.run(text, "--yes", "--attempts=1", status=1)
    text = by_command(desk, planned(SEARCH, ["t1"], seed="8"), f"{write}time.sleep(9)", tasks=None)
    assert "limit time" in desk.run(text, "--yes", "--time=0.5", "--folder=armscope-trial-3/b")


def test_a_missing_program_is_refused_before_the_start(desk: Machine) -> None:
    plan = planned(SEARCH, ["t1"])
    for options in ({"command": ["no-such-agent"]}, {"command": ["sh"], "grade": ["no-such-grader"]}):
        output = desk.run(desk.script(plan, harness="command", **options), "--yes", status=2)
        assert f'The program "{(options.get("grade") or options["command"])[0]}" must be' in output
    (desk.tasks / "t1" / "grade").unlink()
    desk.skill("pdf", "")
    text = desk.script(planned("skill:pdf:main", ["t1"]))
    assert '"t1" must have a' in desk.run(text, "--yes", status=2)
    assert not (desk.folder / "armscope-trial-3").exists()


def test_a_run_that_rewrites_its_grader_is_refused_by_name(desk: Machine) -> None:
    cheat = "import os\nopen(os.environ['ARMSCOPE_FOLDER'] + '/grade', 'w').write('#!/bin/sh\\n')\n"
    for number, agent in enumerate((cheat, cheat + AGENT)):
        desk.write("tasks/t1/grade", "#!/bin/sh\nfalse\n")
        text = by_command(desk, planned(SEARCH, ["t1"]), agent)
        folder = f"--folder=armscope-trial-3/{number}"
        assert '"t1" must be as' in desk.run(text, "--yes", folder, status=2)
        path = desk.folder / f"armscope-trial-3/{number}/results.jsonl"
        assert len(path.read_text().splitlines()) == 1


def test_names_are_data(tmp_path: Path) -> None:
    desk = Machine(tmp_path, [])
    plan = planned("skill:''' $(touch stolen) \"q\\:main", ODD, model=ODD[0], seed=ODD[3])
    output = desk.run(by_command(desk, plan, tasks=None), "--yes")
    assert {one.task for one in desk.cells()} == set(ODD)
    assert not (tmp_path / "stolen").exists()
    assert all(json.dumps(name) in output for name in ODD)
    assert "\x00" not in output
    assert read_results(tmp_path / "armscope-trial-3" / "results.jsonl").arm == plan.arms[0]


def test_results_are_private_and_of_one_plan(desk: Machine) -> None:
    plan = planned(SEARCH, desk.names)
    desk.run(by_command(desk, plan), "--yes")
    folder = desk.folder / "armscope-trial-3"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    subprocess.run(["git", "init", "-q"], cwd=desk.folder, check=True)
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=desk.folder, capture_output=True, text=True, check=True
    )
    assert "armscope-trial-3" not in status.stdout
    before = (folder / "results.jsonl").read_bytes()
    desk.run(by_command(desk, plan), "--yes")
    assert (folder / "results.jsonl").read_bytes() == before
    other = by_command(desk, planned(SEARCH, desk.names, seed="8"))
    assert "another plan" in desk.run(other, "--yes", status=2)


def test_a_stopped_trial_goes_on(desk: Machine) -> None:
    """The cell that ran is a fault of its block, and half a line is cut off."""
    slow = f"import os, time\nif os.path.exists({str(desk.home)!r} + '/slow'): time.sleep(60)\n{AGENT}"
    plan = planned(SEARCH, desk.names, workers=2)
    text = by_command(desk, plan, slow)
    desk.write("home/slow", "")
    process = desk.start(text, "--yes")
    logs = desk.folder / "armscope-trial-3" / "logs"
    while not logs.exists() or len(list(logs.iterdir())) < 2:
        time.sleep(0.05)
    assert "not be under way" in desk.run(text, "--yes", status=2)
    process.terminate()
    assert "goes on" in process.communicate(timeout=30)[0]
    assert process.returncode == 130
    (desk.home / "slow").unlink()
    with (logs.parent / "results.jsonl").open("a") as file:
        file.write('{"task": "t')
    killed = program.session_of(session_prefix(plan), program.Slot("t2", 1, "with"))
    (logs / killed).touch()  # as a kill would leave it
    desk.run(text, "--yes")
    cells = desk.cells()
    stopped = [one for one in cells if one.error == "stopped"]
    assert len(stopped) == 3
    again = {one.task for one in stopped}
    for task in desk.names:
        ends = [one.end for one in cells if one.task == task and one.attempt == (2 if task in again else 1)]
        assert ends == ["ended"] * 4


def test_limits_of_time_and_of_all_runs_hold(desk: Machine) -> None:
    text = by_command(desk, planned(SEARCH, desk.names), f"import time\ntime.sleep(9)\n{AGENT}", tasks=None)
    began = time.monotonic()
    desk.run(text, "--yes", "--time=0.2")
    assert time.monotonic() - began < 9
    assert {(one.end, one.error) for one in desk.cells()} == {("limit", "time")}
    text = by_command(desk, planned(SEARCH, desk.names, seed="9"))
    limits = ["--yes", "--folder=armscope-trial-3/b", "--money=1", "--total-money=2"]
    assert "limit of all" in desk.run(text, *limits, status=1)
    path = desk.folder / "armscope-trial-3" / "b" / "results.jsonl"
    assert sum(one.money_pico or 0 for one in read_results(path).cells) == 15 * 10**11
    desk.run(text, *limits[:-1], "--total-money=9")
    assert len(read_results(path).cells) == 8


# Order and parts


def test_each_side_comes_first_equally_often() -> None:
    tasks = [f"t{number}" for number in range(40)]
    for arms, sides in ((["a"], 2), (["a", "b", "c"], 4)):
        every = program.blocks(tasks, arms, 3, "5")
        assert [block[0].task for block in every] == tasks
        assert all(len(set(block)) == 3 * sides for block in every)
        firsts = Counter((block[0].side, block[0].arm) for block in every)
        assert set(firsts.values()) == {40 // sides}
        seconds = Counter(block[1].side for block in every)
        assert min(seconds.values()) >= 5
    assert program.blocks(tasks, ["a"], 3, "5") != program.blocks(tasks, ["a"], 3, "6")


def test_a_section_ends_at_the_next_of_its_level() -> None:
    text = "# A\n1\n## B ##\n2\n```sh\n# A\n```\n### C\n3\n## D\n4\n"
    rest = "# A\n1\n## D\n4\n"
    assert program.without_section(text, "B") == rest
    assert program.without_section(text, "A") == ""
    assert program.without_section(text, "E") is None


def test_a_digest_sees_names_contents_links_and_modes(tmp_path: Path) -> None:
    digests = {program.digest_of(tmp_path)}
    (tmp_path / "a").write_text("1")
    digests.add(program.digest_of(tmp_path))
    (tmp_path / "a").chmod(0o755)
    digests.add(program.digest_of(tmp_path))
    (tmp_path / "b").symlink_to("a")
    digests.add(program.digest_of(tmp_path))
    (tmp_path / "a").write_text("2")
    digests.add(program.digest_of(tmp_path))
    assert len(digests) == 5


def test_the_script_is_one_program_of_the_standard_library(desk: Machine) -> None:
    text = by_command(desk, planned(SEARCH, desk.names))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", text, "--help"], capture_output=True, text=True, check=True
    )
    assert "--total-money" in done.stdout
