"""Whole processes: memory of an import and of the dashboard, and the time from start to the first page."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from core.flows import queries
from tests.bench.harness import Row, Scale
from tests.bench.importing import peak_mb
from tests.bench.pages import PAGES, filled, opened
from tests.bench.servers import free_port, wait_for
from tests.bench.worlds import context_at, write_lines
from tests.chromium import find_chromium
from tests.conftest import ROOT

_READY: Final = "[data-testid=stApp][data-test-script-state=notRunning][data-test-connection-state=CONNECTED]"
_CHROMIUM: Final = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]


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


def start(scale: Scale, folder: Path) -> list[Row]:
    """From starting the process to the first page drawn in Chromium (full only)."""
    if scale.n_starts == 0:
        return []
    filled(folder / "ours.db", 1_000).store.close()
    page = folder / "page.py"
    page.write_text("import streamlit as st\n\nst.title('Hello')\n", encoding="utf-8")
    environment = {**os.environ, "ARMSCOPE_DATABASE": str(folder / "ours.db")}
    own = [sys.executable, "-m", "streamlit", "run", str(page), "--server.headless=true"]
    ours = [sys.executable, "-c", "from dashboard.launch import main; main()", "serve", "--no-browser"]
    base_s, ours_s = [], []
    for _ in range(scale.n_starts + 1):
        base_s.append(_first_page([*own, "--browser.gatherUsageStats=false"], "--server.port", environment))
        ours_s.append(_first_page(ours, "--port", environment))
    ratio = statistics.median(mine / bare for mine, bare in zip(ours_s[1:], base_s[1:], strict=True))
    return [
        Row(
            name="start to first page",
            base="bare Streamlit server, a title",
            figure=ratio,
            goal=5.0,
            base_ms=statistics.median(base_s[1:]) * 1_000,
            ours_ms=statistics.median(ours_s[1:]) * 1_000,
            n=scale.n_starts,
        )
    ]


def _first_page(command: Sequence[str], port_option: str, environment: dict[str, str]) -> float:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - needed by this row alone

    port = free_port()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=_CHROMIUM)
        page = browser.new_page()
        began = time.perf_counter()
        server = subprocess.Popen(
            [*command, port_option, str(port)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_for(f"http://localhost:{port}/")
            page.goto(f"http://localhost:{port}/")
            page.wait_for_selector(_READY, timeout=60_000)
            page.wait_for_selector("h1", timeout=60_000)
            return time.perf_counter() - began
        finally:
            browser.close()
            server.terminate()
            server.wait(30)


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
