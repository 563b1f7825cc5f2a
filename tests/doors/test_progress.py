"""The progress line: one, redrawn a few times a second however often it is reported to, and gone afterwards."""

from __future__ import annotations

import io
import time
from itertools import count
from pathlib import Path

import pytest

from core.demo.build import build
from core.doors.terminal import EVERY_S, Bar, counted
from core.flows import maintenance, queries
from core.flows.context import Context
from core.flows.export import export_file
from core.flows.importing import import_files
from core.formats import Opened, Source
from tests.formats.builders import lines
from tests.terminal import on_pty, warm

CLEARED = "\r\x1b[K"


def drawn(n_reports: int, seconds: float, *, columns: int = 80, at: str = "") -> list[str]:
    """Lines that so many reports within so many seconds draw."""
    ticks = count()
    shown = io.StringIO()
    bar = Bar(shown, clock=lambda: next(ticks) * seconds / n_reports, columns=lambda: columns)
    for done in range(1, n_reports + 1):
        bar.show(done, n_reports, lambda done=done: f"{done:,} of {n_reports:,} runs", at=at)  # type: ignore[misc]
    bar.clear()
    return shown.getvalue().split(CLEARED)[1:]


@pytest.mark.parametrize("n_reports", [40, 4_000, 40_000])
def test_it_is_redrawn_by_the_clock_and_not_by_what_is_reported(n_reports: int) -> None:
    said = drawn(n_reports, 10.0)
    assert len(said) <= 10 / EVERY_S + 1
    assert said[-1] == "", "nothing is left of it"
    assert all("runs" in line for line in said[:-1])


def test_what_takes_no_time_draws_nothing() -> None:
    assert drawn(10_000, EVERY_S / 2) == []


@pytest.mark.parametrize("columns", [1, 20, 60, 200])
def test_it_never_goes_on_in_the_next_line(columns: int) -> None:
    for line in drawn(100, 60.0, columns=columns, at="a" * 500):
        assert len(line) < max(columns, 2)


def test_a_name_cannot_move_the_cursor() -> None:
    assert all("\x1b" not in line and "\n" not in line for line in drawn(50, 60.0, at="\x1b[2Jx\n"))


def test_it_says_how_long_it_may_still_take() -> None:
    said = drawn(400, 100.0, at="s.jsonl")
    assert said[0].startswith("[")
    assert ", about" not in said[0]
    assert "200 of 400 runs, about 50 s: s.jsonl" in "\n".join(said)


def test_every_long_command_reports_up_to_its_end(context: Context, tmp_path: Path) -> None:
    for number in range(3):
        runs = [
            {"kind": "run", "uid": f"{number}-{one}", "arms": ["tool:other:a"], "calls": ["a"]}
            for one in range(200)
        ]
        (tmp_path / f"{number}.jsonl").write_bytes(lines(runs))
    files: list[tuple[int, int]] = []

    def follow(opened: Opened, source: Source, n_bytes: int) -> None:
        files.append((n_bytes, opened.size_bytes))
        assert source in opened.sources

    import_files(context, [tmp_path], progress=follow)
    assert sum({size for size, _ in files if size == files[-1][0]}) == files[-1][0]
    assert files[-1][1] == sum(path.stat().st_size for path in tmp_path.glob("*.jsonl"))
    told: dict[str, list[tuple[int, int]]] = {
        name: [] for name in ("jsonl", "json", "csv", "verify", "backup")
    }
    for name in ("jsonl", "json", "csv"):
        export_file(
            context, tmp_path / f"out.{name}", name, progress=lambda *at, name=name: told[name].append(at)
        )
    queries.verify(context, progress=lambda *at: told["verify"].append(at))
    maintenance.backup(context, tmp_path / "copy.db", progress=lambda *at: told["backup"].append(at))
    build(tmp_path / "demo.db", n_runs=40, progress=lambda *at: told.setdefault("demo", []).append(at))
    for name, steps in told.items():
        assert steps[-1][0] == steps[-1][1] > 0, name
        assert [done for done, _ in steps] == sorted(done for done, _ in steps), name
    assert counted(None, "runs") is None


# On a real terminal


def test_many_files_are_one_line_and_leave_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    for number in range(150):
        run = {"kind": "run", "arms": ["tool:other:a"], "calls": ["a"]}
        (folder / f"{number:03}.jsonl").write_bytes(
            lines([{**run, "uid": f"{number}-{one}"} for one in range(70)])
        )
    began = time.monotonic()
    said = on_pty(["--database", "a.db", "import", "sessions"], tmp_path, warm())
    took_s = time.monotonic() - began
    assert said.count(CLEARED) <= took_s / EVERY_S + 2
    assert len(said) <= 110 * (took_s / EVERY_S + 2)
    assert "\n" not in said
    assert said == "" or said.endswith(CLEARED)
    if said:
        assert " of 150 files, " in said
    assert on_pty(["--database", "b.db", "import", "sessions", "--quiet"], tmp_path, warm()) == ""
