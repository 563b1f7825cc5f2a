"""A substitute of Claude Code: it lists what its settings leave, and answers from what is there.

A question is a line ``question NAME`` of the prompt. The answer is a line ``NAME = …`` in a skill, in a sub-agent, in
a file of the folder, or in the words of a server's tool. The agent writes it to ``answer.txt``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.is_file() else {}


def merged(layers: list[dict[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {"skillOverrides": {}, "enabledPlugins": {}, "deny": [], "allow": []}
    for layer in layers:
        for name in ("skillOverrides", "enabledPlugins"):
            result[name] = {**result[name], **layer.get(name, {})}
        for name in ("deny", "allow"):
            result[name] += layer.get("permissions", {}).get(name, [])
    return result


def visible_skills(home: Path, settings: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for root in (home / ".claude" / "skills", Path(".claude/skills")):
        for path in sorted(root.glob("*/SKILL.md")):
            if settings["skillOverrides"].get(path.parent.name) != "off":
                yield path.parent.name, path.read_text()
    plugins = read(home / ".claude" / "plugins" / "installed_plugins.json").get("plugins", {})
    for name, entries in plugins.items():
        if settings["enabledPlugins"].get(name) is not False:
            for path in sorted(Path(entries[0]["installPath"]).glob("skills/*/SKILL.md")):
                yield f"{name.split('@')[0]}:{path.parent.name}", path.read_text()


def tools(home: Path, settings: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for file in (home / ".claude.json", Path(".mcp.json")):
        for server, entry in read(file).get("mcpServers", {}).items():
            for tool, words in entry["fake"].items():
                name = f"mcp__{server}__{tool}"
                rules = settings["deny"]
                if not any(fnmatchcase(name, one) or name.startswith(f"{one}__") for one in rules):
                    yield name, words


def say(event: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")


def call(name: str, values: dict[str, str]) -> dict[str, Any]:
    return {"type": "tool_use", "id": "t", "name": name, "input": values}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("-p", "--verbose", action="store_true")
    for name in ("settings", "session-id", "tools", "max-turns", "max-budget-usd", "permission-mode"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--model", default="fake-1")
    parser.add_argument("--output-format", choices=["stream-json"])
    options = parser.parse_args()
    home = Path.home()
    used = home / "sessions" / options.session_id
    if used.exists():
        return 1  # as for a session id that is already in use
    used.parent.mkdir(exist_ok=True)
    used.write_text(Path(options.settings).read_text())
    layers = [read(home / ".claude" / "settings.json"), read(Path(".claude/settings.json"))]
    layers.append(read(Path(options.settings)))
    if "FAKE_DEAF" in os.environ:  # an administrator's settings go before those of the run
        layers[-1] = {"permissions": {"allow": layers[-1]["permissions"]["allow"]}}
    settings = merged(layers)
    has = {name: (call("Skill", {"skill": name}), text) for name, text in visible_skills(home, settings)}
    own = {name: (call(name, {}), text) for name, text in tools(home, settings)}
    agents = {path.stem: path.read_text() for path in (home / ".claude" / "agents").glob("*.md")}
    for name, text in agents.items():
        if f"Agent({name})" not in settings["deny"]:
            has[f"agent {name}"] = call("Agent", {"subagent_type": name}), text
    for path in sorted(one for one in Path().glob("*.md")):
        has[str(path)] = call("Read", {"file_path": str(path.absolute())}), path.read_text()
    start = {"type": "system", "subtype": "init", "model": options.model, "claude_code_version": "2.1.240"}
    lists: dict[str, Any] = {"skills": [one for one in has if " " not in one and not one.endswith(".md")]}
    lists |= {
        "tools": [*options.tools.split(","), *own],
        "agents": [*agents],
        "mcp_servers": [],
        "plugins": [],
    }
    lists["plugins"] = [{"name": one.split(":")[0]} for one in lists["skills"] if ":" in one]
    say({**start, **lists})
    task = sys.stdin.read().split("question ", 1)[1].strip()
    fault = home / "faults" / f"{task}-{len([*used.parent.iterdir()])}"
    if fault.exists():
        result = {"type": "result", "subtype": "success", "is_error": True, "api_error_status": 429}
        say({**result, "total_cost_usd": 0.0})
        return 1
    for use, text in {**has, **own}.values():
        needs_rule = use["name"] == "Skill" or use["name"].startswith("mcp__")
        if needs_rule and not any(f"{use['name']}__".startswith(f"{one}__") for one in settings["allow"]):
            continue  # no person is there to permit it
        for line in text.splitlines():
            if line.startswith(f"{task} = "):
                say({"type": "assistant", "message": {"content": [use]}})
                Path("answer.txt").write_text(line.partition(" = ")[2])
    usage = {options.model: {"inputTokens": 90, "outputTokens": 10}}
    result = {"type": "result", "subtype": "success", "is_error": False, "modelUsage": usage}
    say({**result, "total_cost_usd": 0.25})
    return 0


if __name__ == "__main__":
    sys.exit(main())
