"""Fake agent: a program that does with settings, sessions and hooks what Claude Code's documentation states.

Its log has a line for each session that it worked in: the skills that it showed, and how long hooks took. The prompt
is a script: ``use NAME`` loads a skill, ``clear``, ``compact``, ``resume ID`` and ``die`` do what they say.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

CONFIG = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")
LOG = Path(os.environ.get("FAKE_LOG", os.devnull))
MERGES = os.environ.get("FAKE_MERGES") == "1"
"""Whether members of an object are merged between levels of settings; the documentation leaves it open."""
DIES = os.environ.get("FAKE_DIES", "")
"""Step at which it kills itself."""


def step(name: str) -> None:
    if name == DIES:
        os.kill(os.getpid(), signal.SIGKILL)


def stamp() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"


def settings(own: str | None) -> list[dict[str, Any]]:
    """Settings of all levels, the weakest first."""
    project = Path.cwd() / ".claude"
    files = [CONFIG / "settings.json", project / "settings.json", project / "settings.local.json"]
    levels = [json.loads(path.read_bytes()) for path in files if path.exists()]
    if own is not None:
        path = Path(own)
        assert path.is_file(), "a regular file"
        assert path.stat().st_mode & 0o777 == 0o600, "private"
        levels.append(json.loads(path.read_bytes()))
    return levels


def shown(levels: list[dict[str, Any]]) -> list[str]:
    """Names of the skills that the model sees."""
    overrides: dict[str, str] = {}
    for level in levels:
        if "skillOverrides" in level:
            overrides = overrides | level["skillOverrides"] if MERGES else dict(level["skillOverrides"])
    folders = [CONFIG / "skills", Path.cwd() / ".claude" / "skills"]
    names = {path.parent.name for folder in folders for path in folder.glob("*/SKILL.md")}
    return sorted(name for name in names if overrides.get(name, "on") in {"on", "name-only"})


class Agent:
    def __init__(self, own: str | None, session: str, source: str) -> None:
        self.levels = settings(own)
        self.skills = shown(self.levels)
        self.session = session
        self.n_hooks = 0
        self.begin(source)

    @property
    def transcript(self) -> Path:
        return CONFIG / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(Path.cwd())) / f"{self.session}.jsonl"

    def hook(self, event: str, **more: str) -> None:
        common = {"session_id": self.session, "transcript_path": str(self.transcript), "cwd": str(Path.cwd())}
        told = json.dumps(common | {"hook_event_name": event} | more).encode()
        for level in self.levels:
            for group in level.get("hooks", {}).get(event, []):
                for one in group["hooks"]:
                    began = time.monotonic()
                    done = subprocess.run(
                        ["sh", "-c", one["command"]],
                        input=told,
                        capture_output=True,
                        timeout=one["timeout"],
                        check=False,
                    )
                    took = time.monotonic() - began
                    note(
                        hook=event, took=took, code=done.returncode, out=(done.stdout + done.stderr).decode()
                    )

    def write(self, **line: object) -> None:
        self.transcript.parent.mkdir(parents=True, exist_ok=True)
        whole = {
            "uuid": str(uuid.uuid4()),
            "sessionId": self.session,
            "timestamp": stamp(),
            "cwd": str(Path.cwd()),
            "pid": os.getpid(),
            **line,
        }
        with self.transcript.open("a", encoding="utf-8") as file:
            file.write(json.dumps(whole) + "\n")

    def say(self, blocks: list[dict[str, Any]]) -> None:
        usage = {"input_tokens": 100 + 10 * len(self.skills), "output_tokens": 10}
        message = {
            "id": str(uuid.uuid4()),
            "role": "assistant",
            "model": "fake",
            "content": blocks,
            "usage": usage,
        }
        self.write(type="assistant", message=message)

    def begin(self, source: str) -> None:
        step("before start")
        self.hook("SessionStart", source=source)
        step("after start")
        note(session=self.session, source=source, skills=self.skills)
        self.write(
            type="attachment",
            attachment={"type": "skill_listing", "names": self.skills, "skillCount": len(self.skills)},
        )

    def end(self, reason: str) -> None:
        step("before end")
        self.hook("SessionEnd", reason=reason)
        step("after end")

    def turn(self, name: str) -> None:
        self.write(type="user", message={"role": "user", "content": f"please use {name}"})
        step("in turn")
        call = str(uuid.uuid4())
        skill = [{"type": "tool_use", "id": call, "name": "Skill", "input": {"skill": name}}]
        tool = (
            skill if name in self.skills else [{"type": "tool_use", "id": call, "name": "Read", "input": {}}]
        )
        self.say(tool)
        result = [{"type": "tool_result", "tool_use_id": call, "content": "ok"}]
        self.write(type="user", message={"role": "user", "content": result})
        self.say([{"type": "text", "text": "done"}])

    def play(self, script: str) -> None:
        for action in filter(None, (one.strip() for one in script.split(";"))):
            word, _, rest = action.partition(" ")
            if word == "use":
                self.turn(rest)
            elif word in {"clear", "resume"}:
                self.end(word)
                self.session = rest or str(uuid.uuid4())
                self.begin(word)
            elif word == "compact":
                self.hook("SessionStart", source="compact")
            elif word == "wait":
                time.sleep(float(rest))
            elif word == "die":
                os.kill(os.getpid(), signal.SIGKILL)
        self.end("prompt_input_exit")


def note(**values: object) -> None:
    with LOG.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"pid": os.getpid(), **values}) + "\n")


def newest() -> str:
    folder = CONFIG / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(Path.cwd()))
    return max(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns).stem


def main() -> None:
    words = sys.argv[1:]
    values: dict[str, str] = {}
    flags = []
    script = ""
    while words:
        word = words.pop(0)
        if word in {"--settings", "--session-id", "--resume"}:
            assert word not in values, "given twice"
            values[word] = words.pop(0)
        elif word.startswith("-"):
            flags.append(word)
        else:
            script = word
    note(arguments=sys.argv[1:], settings=values.get("--settings"))
    if "--echo" in flags:
        sys.stdout.write(sys.stdin.read().upper())
        sys.stderr.write("to standard error")
        sys.exit(7)
    source, session = "startup", values.get("--session-id") or str(uuid.uuid4())
    if "--resume" in values or "--continue" in flags:
        source, session = "resume", values.get("--resume") or newest()
    if "--fork-session" in flags:
        source, session = "fork", str(uuid.uuid4())
    Agent(values.get("--settings"), session, source).play(script)


if __name__ == "__main__":
    main()
