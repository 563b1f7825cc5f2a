"""Inventories of made-up homes: each count and cost equals a recount from the plan that the home was made from."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.installed.answer import machine_inventory
from core.installed.other_sessions import codex_sessions, pi_sessions
from core.installed.sessions import SessionReader, claude_code_sessions, settled
from core.records.inventory import CarriedItem, MachineInventory, upper_bound
from tests.formats.test_by_name import Loads, claude, codex, ended, loads, pi

NOW_MS = 1_790_000_000_000
DAY_MS = 86_400_000
LONG_AGO_MS = NOW_MS - 400 * DAY_MS
WORDS = (
    "read a PDF: all pages",
    "naïve text — ünï",
    "say \"hi\" 'now'",
    "日本語の説明",
    "a # b",
    "tab\there",
    "x" * 400,
)

OPENCODE_TABLES = {
    "session": "id TEXT, parent_id TEXT",
    "session_v2": "id TEXT, parent_id TEXT",
    "message": "id TEXT, session_id TEXT, time_created INTEGER, data TEXT",
    "part": "id TEXT, message_id TEXT, session_id TEXT, data TEXT",
    "session_message": "id TEXT, session_id TEXT, type TEXT, data TEXT",
}

RULES: dict[str, tuple[dict[str, Any], str]] = {
    "brackets are letters": (
        {"permission": {"skill": {"[a]": "deny", "a[b]": "deny", "[!a]*": "deny"}}},
        "a[b]",
    ),
    "stars and marks": ({"permission": {"skill": {"?b": "deny", "*c": "deny"}}}, "ab bc"),
    "case counts": ({"permission": {"skill": {"AB": "deny", "A*": "deny"}}}, ""),
    "the last match": ({"permission": {"skill": {"ab": "deny", "*": "allow", "bc": "deny"}}}, "bc"),
    "a rule to ask": ({"permission": {"skill": {"*": "deny", "a*": "ask"}}}, "bc"),
    "all": ({"permission": "deny"}, "a[b] ab bc"),
    "all tools": ({"permission": {"*": "deny"}}, "a[b] ab bc"),
    "all tools but skills": ({"permission": {"*": "deny", "skill": "allow"}}, ""),
    "all tools after skills": ({"permission": {"skill": {"ab": "allow"}, "sk*": "deny"}}, "a[b] ab bc"),
    "other tools": ({"permission": {"bash": "deny", "skills": "deny"}, "tools": {"bash": False}}, ""),
    "a switch of tools": ({"tools": {"skill": False}, "permission": {"skill": {"ab": "allow"}}}, "a[b] bc"),
    "a space and a star": ({"permission": {"skill": {"ab *": "deny", "b *": "deny"}}}, "ab"),
    "new rules": (
        {
            "permission": {"skill": "allow"},
            "permissions": [
                {"action": "s*", "resource": "*b*", "effect": "deny"},
                {"action": "skill", "resource": "bc", "effect": "ask"},
                {"action": "shell", "resource": "*", "effect": "deny"},
            ],
        },
        "a[b] ab",
    ),
    "the agent": (
        {"permission": "deny", "agent": {"build": {"permission": {"skill": {"b*": "allow"}}}}},
        "a[b] ab",
    ),
    "another agent": ({"agent": {"plan": {"permission": "deny"}}}, ""),
    "the default agent": (
        {
            "default_agent": "own",
            "agents": {"own": {"permissions": [{"action": "skill", "resource": "ab", "effect": "deny"}]}},
        },
        "ab",
    ),
    "an agent in Markdown": ({"default_agent": "written"}, "bc"),
}


@dataclass
class PlannedSession:
    """A session: its folder, day, what it lists, and what it calls."""

    uid: str
    folder: Path
    at_ms: int
    skills: list[str] | None = None
    tools: list[str] | None = None
    calls: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    typed: list[str] = field(default_factory=list)
    by_sub_agent: list[str] = field(default_factory=list)
    n_replies: int = 0

    def by_agent(self, name: str) -> bool:
        return name in {*self.calls, *self.loads, *self.by_sub_agent}

    @property
    def uses(self) -> Counter[str]:
        return Counter([*self.calls, *self.loads, *self.typed, *self.by_sub_agent])


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat().replace("+00:00", "Z")


def write_session(home: Path, session: PlannedSession) -> None:
    folder = home / ".claude" / "projects" / str(session.folder).replace("/", "-")
    folder.mkdir(parents=True, exist_ok=True)
    seen = {"sessionId": session.uid, "cwd": str(session.folder), "timestamp": _iso(session.at_ms)}
    lines: list[dict[str, Any]] = [{"type": "summary", "summary": "s"}]
    if session.skills is not None:
        listing = {"type": "skill_listing", "names": session.skills, "isInitial": True}
        lines.append({"type": "attachment", "attachment": listing, **seen})
    if session.tools is not None:
        delta = {
            "type": "deferred_tools_delta",
            "addedNames": session.tools,
            "removedNames": session.tools[:1],
        }
        lines.append({"type": "attachment", "attachment": delta, **seen})
    lines.append({"type": "user", "message": {"role": "user", "content": "go"}, **seen})
    for name in session.typed:
        text = f"<command-message>x</command-message>\n<command-name>/{name}</command-name>"
        lines.append({"type": "user", "message": {"role": "user", "content": text}, **seen})
    for name in session.calls:
        lines.append(_call(name, {"path": "<command-name>/pasted</command-name>"}, seen))
    for name in session.loads:
        lines.append(_call("Skill", {"skill": name}, seen))
    for number in range(session.n_replies):
        reply = {"role": "assistant", "id": f"msg_{session.uid}_{number}", "model": "large", "content": []}
        line = {"type": "assistant", "message": {**reply, "usage": {"input_tokens": 1}}, **seen}
        lines += [line, line]  # a reply has a line for each of its blocks
    result = {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": '<command-name>/pasted</command-name> "tool_use"',
    }
    lines.append({"type": "user", "message": {"role": "user", "content": [result]}, **seen})
    written = [
        json.dumps({"uuid": f"{session.uid} {number}", **line}, ensure_ascii=False).encode()
        for number, line in enumerate(lines)
    ]
    (folder / f"{session.uid}.jsonl").write_bytes(
        b"\n".join([*written, b'{"type":"assistant","tool_use', b""])
    )
    if session.by_sub_agent:
        agents = folder / session.uid / "subagents"
        agents.mkdir(parents=True)
        calls = [_call(name, {}, {**seen, "isSidechain": True}) for name in session.by_sub_agent]
        (agents / "agent-1.jsonl").write_text("\n".join(map(json.dumps, calls)))


def _call(name: str, arguments: dict[str, Any], seen: dict[str, Any]) -> dict[str, Any]:
    block = {"type": "tool_use", "id": "t", "name": name, "input": arguments}
    return {"type": "assistant", "message": {"role": "assistant", "content": [block]}, **seen}


def write_skill(folder: Path, name: str, description: str, *, changed_ms: int, front: str = "") -> str:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    quoted = json.dumps(description, ensure_ascii=False)
    text = f"---\nname: {name}\ndescription: {quoted}\n{front}---\nBody of {name}.\n"
    path.write_text(text, encoding="utf-8")
    os.utime(path, (changed_ms / 1000, changed_ms / 1000))
    return text


def quarter(text: str) -> int:
    return ceil(len(text) / 4)


def by_name(answer: MachineInventory, kind: str = "skill") -> dict[str, CarriedItem]:
    return {one.item.name: one for one in answer.items if one.item.kind == kind}


@pytest.mark.parametrize("seed", range(12))
def test_each_count_equals_a_recount(tmp_path: Path, seed: int) -> None:
    dice = Random(seed)
    home, projects = tmp_path / "home", [tmp_path / f"project {number}" for number in range(3)]
    for folder in (home, *projects):
        folder.mkdir()
    texts: dict[str, tuple[str, str, Path | None, int]] = {}
    for number in range(dice.randint(3, 12)):
        project = dice.choice([None, *projects])
        name, description = f"skill-{number}", dice.choice(WORDS)
        changed = NOW_MS - dice.choice([5, 40, 400]) * DAY_MS
        text = write_skill((project or home) / ".claude" / "skills", name, description, changed_ms=changed)
        texts[name] = (" ".join(description.split()), text, project, changed)
    names, tools = [*texts], [f"mcp__server__{letter}" for letter in "abcd"]
    sessions = [
        PlannedSession(
            f"s{number}",
            dice.choice([*projects, tmp_path / "gone"]),
            NOW_MS - dice.randint(1, 60) * DAY_MS,
            skills=dice.choice([None, dice.sample(names, dice.randint(0, len(names)))]),
            tools=dice.choice([None, dice.sample(tools, dice.randint(1, 4))]),
            calls=dice.choices(["Bash", *tools], k=dice.randint(0, 3)),
            loads=dice.choices(names, k=dice.randint(0, 1)),
            typed=dice.choices(names, k=dice.randint(0, 1)),
            by_sub_agent=dice.choices(["Read", *tools], k=dice.choice([0, 0, 2])),
        )
        for number in range(dice.randint(0, 80))
    ]
    for session in sessions:
        write_session(home, session)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    answer = machine_inventory(home, NOW_MS)

    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before, "something was written"
    assert answer.sessions == len(sessions)
    assert "pasted" not in str(answer)
    used_folders = {session.folder for session in sessions}
    found = by_name(answer)
    assert {*found} == {
        name for name, (_, _, project, _) in texts.items() if project is None or project in used_folders
    }
    for name, one in found.items():
        description, text, project, changed = texts[name]
        assert one.item.carried == quarter(f"- {name}: {description}")
        assert one.item.used == quarter(text)
        if not sessions:
            assert one.use is None
            continue
        here = [session for session in sessions if project in {None, session.folder}]
        lacking = [one.at_ms + 1 for one in here if one.skills is not None and name not in one.skills]
        since = max([changed, *lacking])
        listed = [one.at_ms for one in here if name in (one.skills or ())]
        since = min([since, *(at_ms for at_ms in listed if at_ms >= max(lacking, default=0))])
        offered = [
            session
            for session in here
            if session.uses[name]
            or (name in session.skills if session.skills is not None else session.at_ms >= since)
        ]
        assert one.use is not None
        assert one.use.uses == sum(session.uses[name] for session in here)
        assert one.use.sessions == sum(session.uses[name] > 0 for session in here)
        assert one.use.offered == len(offered)
        assert one.use.elsewhere == sum(session.uses[name] > 0 for session in sessions if session not in here)
        times = [session.at_ms for session in here if session.uses[name]]
        assert one.use.last_ms == max(times, default=None)
        assert one.use.since_ms == since
        _check_proposal(one, since, typed_only=all(not session.by_agent(name) for session in here))
    _check_totals(answer, sessions)


def _check_proposal(one: CarriedItem, since: int, *, typed_only: bool) -> None:
    """Nothing is proposed that is young, rarely on offer, used by an agent here, or used elsewhere."""
    assert one.use is not None
    may = typed_only and not one.use.elsewhere and one.use.offered >= 30 and NOW_MS - since >= 30 * DAY_MS
    assert one.proposal == (None if not may else "user only" if one.use.uses else "by name")
    assert (one.at_most is None) is not (one.use.offered > 0 and (not one.use.uses or may))
    assert "useless" not in one.why


def _check_totals(answer: MachineInventory, sessions: list[PlannedSession]) -> None:
    if not sessions:
        return
    deferred = [
        session for session in sorted(sessions, key=lambda one: (one.at_ms, one.uid)) if session.tools
    ]
    expected = {*(deferred[-1].tools or ())} if deferred else set()
    tools = by_name(answer, "tool")
    assert {*tools} == expected
    for name, one in tools.items():
        assert one.use is not None
        assert one.item.carried == quarter(name)
        assert one.use.uses == sum(session.uses[name] for session in sessions)
        assert one.use.offered == sum(
            name in (session.tools or ()) or session.uses[name] > 0 for session in sessions
        )
    counted = [*by_name(answer).values(), *tools.values()]
    unused = [one for one in counted if one.use is not None and not one.use.uses]
    assert (answer.loaded, answer.used) == (len(counted), len(counted) - len(unused))
    tokens = sum(
        (one.item.carried or 0)
        * (sum(one.item.project in {None, str(session.folder)} for session in sessions) / len(sessions))
        for one in unused
    )
    assert answer.carried == round(tokens)
    if unused:
        assert f" {answer.carried:,} token{'' if answer.carried == 1 else 's'} a" in answer.sentence


def test_settings_decide_how_a_skill_is_listed(tmp_path: Path) -> None:
    """A project's own user goes before the project, that before the user, and an administrator before all."""
    home, project = tmp_path / "home", tmp_path / "project"
    for name in ("on", "named", "users", "off", "front"):
        front = "disable-model-invocation: true\n" if name == "front" else ""
        write_skill(project / ".claude" / "skills", name, "does it", changed_ms=0, front=front)
    put(
        home / ".claude" / "settings.json",
        {"skillOverrides": {"named": "off", "off": "on", "on": "nonsense"}},
    )
    put(project / ".claude" / "settings.json", {"skillOverrides": {"named": "name-only", "off": "off"}})
    put(project / ".claude" / "settings.local.json", {"skillOverrides": {"users": "user-invocable-only"}})
    write_session(home, PlannedSession("s", project, NOW_MS))
    found = by_name(machine_inventory(home, NOW_MS))
    assert {name: one.item.state for name, one in found.items()} == {
        "on": "by name",
        "named": "by name",
        "users": "user only",
        "off": "out",
        "front": "user only",
    }
    carried = {name: one.item.carried for name, one in found.items()}
    assert carried == {
        "on": quarter("- on: does it"),
        "named": quarter("- named"),
        "users": 0,
        "off": 0,
        "front": 0,
    }


def test_a_plugin_goes_out_only_as_a_whole(tmp_path: Path) -> None:
    home, project, root = tmp_path / "home", tmp_path / "project", tmp_path / "plugin"
    for name in ("used", "idle"):
        write_skill(root / "skills", name, "does it", changed_ms=LONG_AGO_MS)
    put(root / ".mcp.json", {"mcpServers": {"db": {"command": "x", "env": {"TOKEN": "SECRET-VALUE"}}}})
    project.mkdir()
    plugins = {"kit@market": [{"scope": "user", "installPath": str(root), "version": "1"}], "bad": "nothing"}
    put(home / ".claude" / "plugins" / "installed_plugins.json", {"version": 2, "plugins": plugins})
    for number in range(40):
        write_session(
            home,
            PlannedSession(
                f"s{number}", project, NOW_MS, loads=["kit:used"], calls=["mcp__plugin_kit_db__q"]
            ),
        )
    answer = machine_inventory(home, NOW_MS)
    skills, (server,) = by_name(answer), by_name(answer, "server").values()
    assert {*skills} == {"kit:used", "kit:idle"}
    assert skills["kit:idle"].proposal is None
    assert "other parts" in skills["kit:idle"].why
    assert server.use is not None
    assert (server.use.uses, server.item.carried) == (40, None)
    assert "1 server:" in answer.notes[0]
    assert "SECRET-VALUE" not in str(answer)


def test_files_that_are_no_settings_are_named(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".claude").mkdir(parents=True)
    (home / ".claude" / "settings.json").write_bytes(b'{"skillOverrides": ["\xff"]}')
    put(home / ".claude.json", [1])
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(
        "[mcp_servers.docs]\ncommand = 'x'\n[mcp_servers.off]\nenabled = false\n"
    )
    (home / ".config" / "opencode").mkdir(parents=True)
    (home / ".config" / "opencode" / "opencode.jsonc").write_text(
        '{ // c\n "mcp": {"a": {"url": "https://x//y"},}, }'
    )
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text("{broken")
    os.mkfifo(home / ".claude" / "CLAUDE.md")
    answer = machine_inventory(home, NOW_MS)
    servers = {(one.item.agent, name): one.item.state for name, one in by_name(answer, "server").items()}
    assert servers == {
        ("Codex CLI", "docs"): "in full",
        ("Codex CLI", "off"): "out",
        ("opencode", "a"): "in full",
    }
    assert {note.split(" was not read")[0].rsplit("/", 1)[1] for note in answer.unread} == {"settings.json"}
    assert len(answer.unread) == 2


def test_nothing_is_asked_of_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    assert machine_inventory(tmp_path, NOW_MS).items == ()


def test_the_bound_is_that_of_no_case_in_n() -> None:
    assert (1 - upper_bound(120)) ** 120 == pytest.approx(0.05)


def put(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


# Homes that an opponent would choose


def claude_home(folder: Path, sessions: int, **more: object) -> tuple[Path, Path]:
    """A home with sessions in one project, a day apart."""
    home, project = folder / "home", folder / "project"
    project.mkdir(parents=True)
    for number in range(sessions):
        planned: dict[str, Any] = {
            name: value(number) if callable(value) else value for name, value in more.items()
        }
        write_session(home, PlannedSession(f"s{number}", project, NOW_MS - (number + 1) * DAY_MS, **planned))
    return home, project


def test_a_skill_that_was_given_another_name_is_not_judged_by_sessions_before_it(tmp_path: Path) -> None:
    """The file keeps its time: a list without the new name shows that it was not there yet."""

    def listed(number: int) -> list[str] | None:
        return None if number >= 60 else ["new"] if number < 20 else ["old"]

    home, _ = claude_home(tmp_path, 80, skills=listed, loads=lambda number: ["old"] if number >= 20 else [])
    write_skill(home / ".claude" / "skills", "new", "does it", changed_ms=LONG_AGO_MS)
    answer = machine_inventory(home, NOW_MS)
    one = by_name(answer)["new"]
    assert one.use is not None
    assert (one.use.offered, one.use.uses, one.proposal) == (20, 0, None)
    assert any("old (60 sessions)" in note for note in answer.notes)


def test_a_copy_of_a_session_counts_once(tmp_path: Path) -> None:
    home, _ = claude_home(tmp_path, 3, loads=["pdf"], typed=["pdf"])
    write_skill(home / ".claude" / "skills", "pdf", "does it", changed_ms=LONG_AGO_MS)
    whole = by_name(machine_inventory(home, NOW_MS))["pdf"].use
    assert whole is not None
    assert (whole.uses, whole.typed) == (6, 3)
    folder = next((home / ".claude" / "projects").iterdir())
    (folder / "linked.jsonl").symlink_to(folder / "s0.jsonl")
    os.link(folder / "s1.jsonl", folder / "hard.jsonl")
    fork = (folder / "s2.jsonl").read_text("utf-8").replace('"sessionId": "s2"', '"sessionId": "fork"')
    (folder / "fork.jsonl").write_text(fork, "utf-8")
    answer = machine_inventory(home, NOW_MS)
    again = by_name(answer)["pdf"].use
    assert again is not None
    assert (again.uses, again.typed, answer.sessions) == (6, 3, 4)


def test_a_quoted_command_is_no_use_and_a_typed_one_keeps_the_skill_for_the_user(tmp_path: Path) -> None:
    home, project = claude_home(tmp_path, 40, skills=["typed", "quoted"], typed=["typed"])
    for name in ("typed", "quoted"):
        write_skill(home / ".claude" / "skills", name, "does it", changed_ms=LONG_AGO_MS)
    folder = home / ".claude" / "projects" / str(project).replace("/", "-")
    quoting = {"type": "user", "message": {"content": "see <command-name>/quoted</command-name>"}}
    with (folder / "s0.jsonl").open("a") as file:
        file.write("\n" + json.dumps({"uuid": "q", "sessionId": "s0", **quoting}) + "\n")
    skills = by_name(machine_inventory(home, NOW_MS))
    assert [skills[name].proposal for name in ("typed", "quoted")] == ["user only", "by name"]
    assert skills["typed"].item.switch is not None
    assert skills["typed"].item.switch.value == "user-invocable-only"
    put(home / ".claude" / "settings.json", {"skillOverrides": {"quoted": "name-only"}})
    assert by_name(machine_inventory(home, NOW_MS))["quoted"].proposal == "user only"


def test_use_by_a_sub_agent_alone_is_use(tmp_path: Path) -> None:
    home, _ = claude_home(tmp_path, 40, tools=["mcp__db__q"], by_sub_agent=["mcp__db__q"])
    put(home / ".claude.json", {"mcpServers": {"db": {}, "d": {}}})
    answer = machine_inventory(home, NOW_MS)
    servers, tools = by_name(answer, "server"), by_name(answer, "tool")
    assert [one.use and one.use.uses for one in (servers["db"], servers["d"], tools["mcp__db__q"])] == [
        40,
        0,
        40,
    ]
    assert answer.sessions == 40


def test_one_name_in_two_places(tmp_path: Path) -> None:
    """The user's own goes before the project's; a plugin's has the plugin's name before it."""
    home, project = claude_home(tmp_path, 40, loads=["pdf"])
    for folder in (home, project):
        write_skill(folder / ".claude" / "skills", "pdf", "does it", changed_ms=LONG_AGO_MS)
    root = tmp_path / "plugin"
    write_skill(root / "skills", "pdf", "does it", changed_ms=LONG_AGO_MS)
    (root / "hooks").mkdir()
    entry = {"installPath": str(root)}
    put(home / ".claude" / "plugins" / "installed_plugins.json", {"plugins": {"kit@m": entry}})
    items = [one for one in machine_inventory(home, NOW_MS).items if one.item.kind == "skill"]
    by_place = {one.item.plugin or one.item.project: one for one in items}
    own, other, of_plugin = by_place[None], by_place[str(project)], by_place["kit@m"]
    assert own.use is not None
    assert (own.use.uses, own.item.state, other.item.state, other.item.carried) == (40, "by name", "out", 0)
    assert of_plugin.use is not None
    assert (of_plugin.item.name, of_plugin.use.uses, of_plugin.proposal) == ("kit:pdf", 0, None)
    assert "hooks" in of_plugin.why
    assert of_plugin.item.switch is not None
    assert of_plugin.item.switch.whole == "kit@m"


def test_the_name_in_the_front_matter_is_a_name_too(tmp_path: Path) -> None:
    home, _ = claude_home(tmp_path, 40, loads=["pdf-tools"])
    path = home / ".claude" / "skills" / "pdf" / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text("---\nname: pdf-tools\ndescription: does it\n---\n")
    use = by_name(machine_inventory(home, NOW_MS))["pdf"].use
    assert use is not None
    assert use.uses == 40


@pytest.mark.parametrize("value", ["!!bool maybe", "!!int ''", "!!float ''", "!!timestamp soon", "*gone"])
def test_front_matter_with_a_value_that_its_tag_does_not_allow_is_read_as_plain_lines(
    tmp_path: Path, value: str
) -> None:
    """PyYAML raises a KeyError, an IndexError or an AttributeError for some of them."""
    path = tmp_path / ".claude" / "skills" / "pdf" / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"---\nname: {value}\ndescription: does it\n---\n")
    (one,) = machine_inventory(tmp_path, NOW_MS).items
    assert (one.item.name, one.item.carried) == ("pdf", 4)


@pytest.mark.parametrize("changed_ms", [0, 499_162_500_000, NOW_MS + DAY_MS, NOW_MS - 29 * DAY_MS])
def test_a_clock_that_is_wrong_proposes_nothing(tmp_path: Path, changed_ms: int) -> None:
    """Packages set their files to 1970 or 1985; a copied file may come from the future."""
    home, _ = claude_home(tmp_path, 60)
    write_skill(home / ".claude" / "skills", "pdf", "does it", changed_ms=changed_ms)
    one = by_name(machine_inventory(home, NOW_MS))["pdf"]
    assert one.use is not None
    assert one.proposal is None
    assert one.use.offered == sum(
        NOW_MS - (number + 1) * DAY_MS >= changed_ms >= 10**12 for number in range(60)
    )


def test_sessions_without_a_time_count_where_they_list(tmp_path: Path) -> None:
    home, project = claude_home(tmp_path, 0)
    write_skill(home / ".claude" / "skills", "pdf", "does it", changed_ms=LONG_AGO_MS)
    folder = home / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)
    for number in range(40):
        listing = {"type": "skill_listing", "content": "- pdf: does it\n- kit:pdf: does it"}
        line = {
            "type": "attachment",
            "attachment": listing,
            "sessionId": f"s{number}",
            "timestamp": "yesterday",
        }
        said = {"type": "user", "message": {"content": "go"}, "sessionId": f"s{number}", "cwd": str(project)}
        (folder / f"s{number}.jsonl").write_text(json.dumps(line) + "\n" + json.dumps(said))
    one = by_name(machine_inventory(home, NOW_MS))["pdf"]
    assert one.use is not None
    assert (one.use.offered, one.proposal) == (40, "by name")


def test_bytes_links_cycles_and_huge_files_do_no_harm(tmp_path: Path) -> None:
    home, project = claude_home(tmp_path, 2, loads=["b\ufffdd"])
    skills = home / ".claude" / "skills"
    broken = skills / os.fsdecode(b"b\xffd")
    broken.mkdir(parents=True)
    (broken / "SKILL.md").write_bytes(b"---\ndescription: caf\xe9\n---\n")
    (skills / "loop").symlink_to(skills)
    (skills / "gone").symlink_to(tmp_path / "nowhere")
    write_skill(tmp_path / "elsewhere", "linked", "does it", changed_ms=LONG_AGO_MS)
    (skills / "linked").symlink_to(tmp_path / "elsewhere" / "linked")
    write_skill(skills, "huge", "does it", changed_ms=LONG_AGO_MS)
    with (skills / "huge" / "SKILL.md").open("ab") as file:
        file.truncate(5 << 20)
    (project / ".claude").symlink_to(project)
    (home / ".claude" / "projects" / "cycle").symlink_to(home / ".claude" / "projects")
    (home / ".claude" / "projects" / "long.jsonl").write_bytes(b'{"a":"' + b"x" * (17 << 20) + b'"tool_use"')
    answer = machine_inventory(home, NOW_MS)
    found = by_name(answer)
    assert {*found} == {"b\ufffdd", "linked"}
    assert found["b\ufffdd"].item.carried == quarter("- b\ufffdd: caf\ufffd")
    assert found["b\ufffdd"].use is not None
    assert found["b\ufffdd"].use.uses == 2
    assert answer.sessions == 2
    assert len([one for one in answer.unread if "huge" in one]) == 1
    assert msgspec.json.decode(msgspec.json.encode(answer), type=MachineInventory) == answer


# Sessions of the other agents


def write_lines(path: Path, *lines: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def other_skills(home: Path, folder: str) -> None:
    for name in ("idle", "used", "typed"):
        write_skill(home / folder, name, "does it", changed_ms=LONG_AGO_MS)


def uses_of(answer: MachineInventory, agent: str) -> dict[str, tuple[int, int]]:
    return {
        one.item.name: (one.use.offered, one.use.uses)
        for one in answer.items
        if one.item.agent == agent and one.use is not None
    }


def test_rollouts_of_codex(tmp_path: Path) -> None:
    """A fork repeats the calls of its parent; a sub-agent's belong to the session that started it."""
    other_skills(tmp_path, ".codex/skills")
    (tmp_path / ".codex" / "config.toml").write_text("[mcp_servers.docs]\ncommand = 'x'\n")
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    tools = [
        {"name": "find", "description": "Find it", "inputSchema": schema},
        {"name": "late", "description": "Long words", "inputSchema": schema, "deferLoading": True},
    ]

    def line(kind: str, **payload: object) -> dict[str, object]:
        return {"timestamp": _iso(NOW_MS - DAY_MS), "type": kind, "payload": payload}

    def call(name: str, identity: str, arguments: object, **more: object) -> dict[str, object]:
        words = json.dumps(arguments)
        return line(
            "response_item", type="function_call", name=name, call_id=identity, arguments=words, **more
        )

    head = line("session_meta", id="parent", cwd="/p", dynamic_tools=tools)
    load = call("shell", "call_0000000000001", {"command": ["cat", "/h/.codex/skills/used/SKILL.md"]})
    asks = call("search", "call_0000000000002", {"q": 1}, namespace="mcp__docs")
    text = [{"type": "input_text", "text": "<skill>\n<name>typed</name>\n<path>x</path>\nBody</skill>"}]
    typed = line("response_item", type="message", role="user", content=text)
    folder = tmp_path / ".codex" / "sessions" / "2026"
    write_lines(folder / "a.jsonl", head, load, asks, typed)
    fork = line("session_meta", id="fork", forked_from_id="parent")
    write_lines(folder / "b.jsonl", fork, head, load, asks, call("find", "call_0000000000003", {}))
    source = {"subagent": {"thread_spawn": {"parent_thread_id": "parent", "depth": 1}}}
    child = line("session_meta", id="child", source=source, parent_thread_id="parent")
    write_lines(folder / "c.jsonl", child, call("find", "call_0000000000004", {}))
    answer = machine_inventory(tmp_path, NOW_MS)
    assert answer.sessions == 2
    assert uses_of(answer, "Codex CLI") == {
        "idle": (2, 0),
        "used": (2, 1),
        "typed": (2, 1),
        "docs": (2, 1),
        "find": (2, 2),
        "late": (1, 0),
    }
    costs = {
        one.item.name: (one.item.state, one.item.carried) for one in answer.items if one.item.kind == "tool"
    }
    whole = f"findFind it{json.dumps(schema, separators=(',', ':'))}"
    assert costs == {"find": ("in full", quarter(whole)), "late": ("by name", 1)}


@pytest.mark.parametrize("make", [claude, codex, pi])
@settings(max_examples=10)
@given(prompts=st.lists(loads, min_size=1, max_size=3))
def test_a_load_that_failed_is_none_as_in_the_runs(make: Callable[..., bytes], prompts: list[Loads]) -> None:
    folders = {claude: ".claude/projects/p", codex: ".codex/sessions/p", pi: ".pi/agent/sessions/p"}
    with TemporaryDirectory() as home:
        path = Path(home, folders[make], "a.jsonl")
        path.parent.mkdir(parents=True)
        path.write_bytes(ended(make, prompts))
        found = {claude: claude_code_sessions, codex: codex_sessions, pi: pi_sessions}[make](
            Path(home), SessionReader()
        )
        (session,) = settled(found)
    loaded = {name for one in prompts for name, ending in one if ending is None or not ending[0]}
    assert session.loads == loaded


def test_sessions_of_gemini(tmp_path: Path) -> None:
    other_skills(tmp_path, ".gemini/skills")
    put(tmp_path / ".gemini" / "settings.json", {"mcpServers": {"docs": {}}})
    call = {"id": "activate_skill-1768000000", "name": "activate_skill", "args": {"name": "used"}}
    message = {"id": "m", "type": "gemini", "timestamp": _iso(NOW_MS), "toolCalls": [call]}
    chats = tmp_path / ".gemini" / "tmp" / "hash" / "chats"
    start = {"projectHash": "h", "startTime": _iso(NOW_MS - DAY_MS)}
    put(chats / "session-1.json", {"sessionId": "1", **start, "messages": [message, message]})
    write_lines(chats / "session-2.jsonl", {"sessionId": "2", **start}, message, {**message, "id": "n"})
    nested = {**message, "toolCalls": [{**call, "id": "x", "args": {"name": "typed"}}]}
    sub = {"sessionId": "3", "kind": "subagent", **start, "messages": [nested]}
    put(chats / "2" / "sub.json", sub)
    failed = {**call, "id": "y", "status": "error", "args": {"name": "idle"}}
    write_lines(
        chats / "session-2.jsonl", {"sessionId": "2", **start}, message, {**message, "toolCalls": [failed]}
    )
    answer = machine_inventory(tmp_path, NOW_MS)
    assert answer.sessions == 2
    assert uses_of(answer, "Gemini CLI") == {"idle": (2, 0), "used": (2, 1), "typed": (3, 1)}


@pytest.mark.parametrize(
    ("agent", "sessions", "skills"),
    [
        ("pi", ".pi/agent/sessions/p", ".pi/agent/skills"),
        ("OpenClaw", ".openclaw/agents/main/sessions", ".openclaw/skills"),
    ],
)
def test_sessions_of_pi_and_openclaw(tmp_path: Path, agent: str, sessions: str, skills: str) -> None:
    other_skills(tmp_path, skills)

    def entry(identity: str, role: str, *blocks: object) -> dict[str, object]:
        message = {"role": role, "content": list(blocks)}
        return {"type": "message", "id": identity, "timestamp": _iso(NOW_MS), "message": message}

    load = {"type": "toolCall", "id": "1", "name": "read", "arguments": {"path": "/x/used/SKILL.md"}}
    typed = {"type": "text", "text": '<skill name="typed" location="/x">\nBody\n</skill>\n\ngo'}
    quoted = {"type": "text", "text": "I saw /x/idle/SKILL.md"}
    lines = [entry("a", "user", typed), entry("b", "assistant", quoted, load), entry("c", "user", quoted)]
    for name in ("one", "fork"):
        head = {"type": "session", "id": name, "timestamp": _iso(NOW_MS - DAY_MS), "cwd": "/p"}
        write_lines(tmp_path / sessions / f"{name}.jsonl", head, *lines)
    answer = machine_inventory(tmp_path, NOW_MS)
    assert uses_of(answer, agent) == {"idle": (2, 0), "used": (2, 1), "typed": (2, 1)}


@pytest.mark.parametrize(
    ("layout", "newer_id"),
    [
        ("session message part", "m"),
        ("session_v2 session_message", "m"),
        ("session session_message", "m"),
        ("session message part session_v2 session_message", "m"),
        ("session message part session_message", "other"),
    ],
)
def test_the_database_of_opencode(tmp_path: Path, layout: str, newer_id: str) -> None:
    """Each layout has the same uses, also where two tables have one message, under one id or at one time."""
    other_skills(tmp_path, ".config/opencode/skill")
    put(tmp_path / ".config" / "opencode" / "opencode.json", {"mcp": {"docs": {}}})
    path = tmp_path / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True)
    tables = layout.split()
    with closing(sqlite3.connect(path)) as database:

        def add(table: str, *values: object) -> None:
            if table in tables:
                database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)

        for table in tables:
            database.execute(f"CREATE TABLE {table} ({OPENCODE_TABLES[table]})")
        for uid, parent, tool, given in (
            ("ses_1", None, "skill", {"name": "used"}),
            ("ses_2", "ses_1", "docs_search", {}),
            ("ses_3", None, "read", {"filePath": "/x/typed/SKILL.md"}),
        ):
            for table in ("session", "session_v2"):
                add(table, uid, parent)
            add("message", f"m {uid}", uid, NOW_MS, "{}")
            data = {"type": "tool", "tool": tool, "callID": "1", "state": {"input": given}}
            add("part", f"p {uid}", f"m {uid}", uid, json.dumps(data))
            content = [{"type": "text"}, {"type": "tool", "name": tool, "id": "1", "state": {"input": given}}]
            newer = {"content": content, "time": {"created": NOW_MS}}
            add("session_message", f"{newer_id} {uid}", uid, "assistant", json.dumps(newer))
        named = {"skill": "idle", "name": "Idle", "text": "", "time": {"created": NOW_MS + 1}}
        add("session_message", "s", "ses_1", "skill", json.dumps(named))
        add("session_message", "t", "ses_1", "system", "no object")
        database.commit()
    answer = machine_inventory(tmp_path, NOW_MS)
    assert answer.sessions == 2
    assert not any("session file" in note for note in answer.notes)
    n_named = int("session_message" in tables)
    assert uses_of(answer, "opencode") == {
        "idle": (2, n_named),
        "used": (2, 1),
        "typed": (2, 1),
        "docs": (2, 1),
    }
    path.write_bytes(b"SQLite format 3\0 and nothing else")
    assert any("could not be read" in note for note in machine_inventory(tmp_path, NOW_MS).notes)


def test_shared_skills_belong_to_each_agent_that_is_installed(tmp_path: Path) -> None:
    """Also a linked folder is one skill; the last rule of opencode that matches a name counts."""
    for folder, name in ((".agents", "draw"), (".agents", "draft-letter"), (".claude", "write")):
        write_skill(tmp_path / folder / "skills", name, "does it", changed_ms=LONG_AGO_MS)
    (tmp_path / ".codex" / "skills").mkdir(parents=True)
    (tmp_path / ".codex" / "skills" / "draw").symlink_to(tmp_path / ".agents" / "skills" / "draw")
    rules = {"*": "allow", "draft-*": "deny"}
    put(tmp_path / ".config" / "opencode" / "opencode.json", {"permission": {"skill": rules}})

    found = [
        (one.item.agent, one.item.name, one.item.state)
        for one in machine_inventory(tmp_path, NOW_MS).items
        if one.item.kind == "skill"
    ]
    assert sorted(found) == [
        ("Claude Code", "write", "by name"),
        ("Codex CLI", "draft-letter", "by name"),
        ("Codex CLI", "draw", "by name"),
        ("opencode", "draft-letter", "out"),
        ("opencode", "draw", "by name"),
        ("opencode", "write", "by name"),
    ]


@pytest.mark.parametrize("name", RULES)
def test_rules_of_opencode_take_skills_out(name: str, tmp_path: Path) -> None:
    """Its documentation of the versions 1 and 2 has: * and ? are special, and the last rule that matches counts."""
    rules, out = RULES[name]
    folder = tmp_path / ".config" / "opencode"
    for skill in ("a[b]", "ab", "bc"):
        write_skill(folder / "skills", skill, "does it", changed_ms=LONG_AGO_MS)
    put(folder / "opencode.json", rules)
    (folder / "agents").mkdir()
    written = "---\ndescription: own\npermission:\n  skill:\n    b*: deny\n---\nDo it.\n"
    (folder / "agents" / "written.md").write_text(written)
    found = by_name(machine_inventory(tmp_path, NOW_MS))
    assert [name for name, one in sorted(found.items()) if one.item.state == "out"] == sorted(out.split())


def test_requests_of_a_session_are_counted_once(tmp_path: Path) -> None:
    home, _ = claude_home(tmp_path, 5, n_replies=lambda number: [9, 0, 3, 4, 5][number])
    answer = machine_inventory(home, NOW_MS)
    assert (answer.requests, answer.model) == (4, "large")  # the median of 3, 4, 5 and 9, rounded to even
