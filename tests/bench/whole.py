"""Whole processes: memory of an import and of the dashboard, and the time from start to the first page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from core.flows import queries
from tests.bench.harness import Row, Scale
from tests.bench.importing import peak_mb
from tests.bench.pages import PAGES, filled, opened
from tests.bench.worlds import context_at, write_lines
from tests.conftest import ROOT


def import_memory(scale: Scale, folder: Path) -> list[Row]:
    """Peak memory of a process that imports one large file of lines."""
    n_runs = write_lines(folder / "runs.jsonl", 100, n_bytes=scale.import_mb * 1_000_000)
    told = _child("importing", folder / "runs.jsonl", folder / "ours.db")
    if told["runs"] != n_runs:
        raise AssertionError(f"an import must read every run ({n_runs}), got {told['runs']}")
    return [
        Row(
            name=f"import of {scale.import_mb:,} MB of JSON lines, peak memory",
            base="none",
            figure=told["peak_mb"],
            unit="MB",
            goal=256,
            n=1,
            note=f"{n_runs:,} runs in {told['seconds']:.0f} s",
        )
    ]


def dashboard_memory(scale: Scale, folder: Path) -> list[Row]:
    """Peak memory of a process that has drawn every page."""
    filled(folder / "ours.db", scale.n_page_runs).store.close()
    told = _child("whole", folder / "ours.db")
    return [
        Row(
            name=f"dashboard at {scale.n_page_runs:,} runs, peak memory",
            base="none",
            figure=told["peak_mb"],
            unit="MB",
            goal=450,
            n=1,
        )
    ]


def _child(module: str, *arguments: str | Path) -> dict[str, float]:
    """What a process of its own says: its peak memory counts nothing of ours."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.bench.{module}", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"the child must end well, got {done.stderr[-2_000:]}")
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


def _as_child(path: str) -> None:
    began = time.perf_counter()
    os.environ["ARMSCOPE_DATABASE"] = path
    n_runs = queries.revision(context_at(Path(path))).n_runs
    for name in PAGES:
        opened(name)
    told = {"runs": n_runs, "seconds": time.perf_counter() - began, "peak_mb": peak_mb()}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    _as_child(*sys.argv[1:])
