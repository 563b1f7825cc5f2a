"""Starts of an agent with a selection, and hooks, beside the barest Python: ``python -m tests.bench.starts``.

CPU seconds of the process until it becomes the agent, or ends. The runs are interleaved.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.conftest import ROOT
from tests.doors.claude_world import PROGRAM, World

N: Final = 15
SKILLS: Final = 100


def cpu_ms(words: Sequence[str], world: World, told: bytes = b"") -> tuple[float, float]:
    """CPU and wall time of a process and what it waits for, in milliseconds."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(
        words,
        cwd=world.project,
        env=world.environment,
        input=told,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    after, took = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - began
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent * 1_000, took * 1_000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        os.environ["HOME"] = str(world.home)
        os.environ.pop("XDG_STATE_HOME", None)
        for number in range(SKILLS):
            world.add_skill(world.config, f"skill-{number}")
        agent = Path(folder) / "bin" / "claude"
        agent.write_text("#!/bin/sh\n")
        event = json.dumps({"session_id": "s", "hook_event_name": "SessionStart", "cwd": str(world.project)})
        python = [sys.executable, "-c"]
        lines = {
            "python -c pass": ([*python, "pass"], b""),
            "with claude": ([*python, PROGRAM, "with", "claude"], b""),
            "hook run": ([*python, PROGRAM, "hook", "run"], event.encode()),
        }
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in lines}
        for _ in range(N):
            world.settle(k=20)
            for name, (words, told) in lines.items():
                taken[name].append(cpu_ms(words, world, told))
    for name, pairs in taken.items():
        cpu, wall = (statistics.median(column) for column in zip(*pairs, strict=True))
        sys.stdout.write(f"{name:16} {cpu:6.0f} ms of CPU, {wall:6.0f} ms ({N} runs, {SKILLS + 4} skills)\n")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
