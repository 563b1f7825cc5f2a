"""Starts of Claude Code with a selection, and hooks, each beside an empty Python: the two take turns."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.bench.harness import Row, Scale
from tests.doors.claude_world import PROGRAM, World

SKILLS: Final = 100


class Spent(NamedTuple):
    """Milliseconds of a process: of CPU, and until it ended."""

    cpu_ms: float
    wall_ms: float


def spent(words: Sequence[str], world: World, event: bytes = b"") -> Spent:
    """Return what a process spends until it becomes the agent, or ends; a detached one is not in it."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(
        words, cwd=world.project, env=world.environment, input=event, capture_output=True, check=True
    )
    after, took = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - began
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Spent(cpu * 1_000, took * 1_000)


def agent_starts(scale: Scale, folder: Path) -> list[Row]:
    """CPU of ``with claude`` until the agent starts, and the time until each hook returns."""
    world = World(folder)
    for number in range(SKILLS):
        world.add_skill(world.config, f"skill-{number}")
    (folder / "bin" / "claude").write_text("#!/bin/sh\n")
    python = [sys.executable, "-c"]
    ours = {"with claude": ([*python, PROGRAM, "with", "claude"], b"")}
    for name in ("SessionStart", "SessionEnd"):
        fields = {"session_id": "s", "hook_event_name": name, "cwd": str(world.project)}
        ours[name] = ([*python, PROGRAM, "hook", "run"], json.dumps(fields).encode())
    empty: list[Spent] = []
    taken: dict[str, list[Spent]] = {name: [] for name in ours}
    with pytest.MonkeyPatch.context() as patching:
        patching.setenv("HOME", str(world.home))
        patching.delenv("XDG_STATE_HOME", raising=False)
        for _ in range(scale.n_number_pairs):
            world.settle(k=20)
            for name, (words, event) in ours.items():
                empty.append(spent([*python, "pass"], world))
                taken[name].append(spent(words, world, event))
                world.prepare()  # after the import that a hook has left behind
    base = _medians(empty)
    note = f"{SKILLS} skills; an empty Python takes {base.cpu_ms:.0f} ms of CPU and {base.wall_ms:.0f} ms"
    rows = []
    for name, measured in taken.items():
        own, is_start = _medians(measured), name == "with claude"
        rows.append(
            Row(
                name="with claude: CPU until the agent starts"
                if is_start
                else f"hook {name}: until it returns",
                base="python -c pass",
                figure=own.cpu_ms if is_start else own.wall_ms,
                unit="ms",
                goal=150 if is_start else 300,
                base_ms=base.cpu_ms if is_start else base.wall_ms,
                ours_ms=own.cpu_ms if is_start else own.wall_ms,
                n=len(measured),
                note=f"{note}; {own.cpu_ms:.0f} ms of CPU, {own.wall_ms:.0f} ms",
            )
        )
    return rows


def _medians(measured: Sequence[Spent]) -> Spent:
    return Spent(*map(statistics.median, zip(*measured, strict=True)))
