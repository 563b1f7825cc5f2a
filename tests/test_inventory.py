"""Inventories of made-up homes: each count and cost equals a recount from the plan that the home was made from."""

from __future__ import annotations

import json
import os
import socket
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from core.installed.answer import machine_inventory
from core.records.inventory import CarriedItem, MachineInventory, upper_bound

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
