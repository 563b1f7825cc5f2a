"""``armscope import`` without a name, with ``--watch`` and its progress line; ``armscope export --format``."""

from __future__ import annotations

import io
import json
import time
import tomllib
from collections.abc import Callable
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
from tests.doors.conftest import Shell, document
from tests.doors.test_erase_command import Terminal
from tests.formats.builders import lines, put
from tests.formats.test_pi_session import Session, call
from tests.terminal import on_pty, warm

PI = Session().prompt().reply(call("read")).prompt().reply(call("bash"))
CLEARED = "\r\x1b[K"


def pausing(patch: pytest.MonkeyPatch, *steps: Callable[[], object]) -> list[float]:
    """Let the next step happen in each pause, and Ctrl+C in the one after the last; the pauses."""
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) > len(steps):
            raise KeyboardInterrupt
        steps[len(pauses) - 1]()

    patch.setattr(time, "sleep", pause)
    return pauses


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home in which pi keeps one session; `shell` makes it the user's."""
    folder = tmp_path / ".pi" / "agent" / "sessions"
    folder.mkdir(parents=True)
    put(folder, PI.bytes(), "s.jsonl")
    return folder


def test_without_a_terminal_it_lists_and_names_the_command(shell: Shell, home: Path) -> None:
    found = document(shell("import", "--json"), 2)
    assert list(found) == ["ok", "error", "code", "next", "found"]
    assert (found["code"], found["next"]) == ("usage", f"Import them with: armscope import {home}")
    looked = document(shell("import", "--preview", "--json"), 2)
    assert looked["next"].endswith(f"import --preview {home}")
    (one,) = found["found"]
    assert (one["agent"], one["format"], one["files"], one["folder"]) == ("pi", "pi-session", 1, str(home))
    code, out, err = shell("import")
    assert code == 2
    assert "pi-session" in out
    assert f"armscope import {home}" in err
    assert document(shell("status", "--json"))["runs"] == 0


def test_on_a_terminal_it_asks(shell: Shell, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert shell("import")[0] == 1
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    code, out, _ = shell("import")
    assert code == 0
    assert "2 runs" in out


def test_a_preview_answers_and_writes_nothing(shell: Shell, home: Path) -> None:
    code, out, _ = shell("import", home, "--preview")
    assert (code, out.splitlines()[0][:8], out.splitlines()[-1]) == (0, "Preview:", "Nothing was written.")
    answered = document(shell("import", home, "--json"))
    assert answered["id"] == "import-1"
    assert document(shell("import", home, "--preview", "--json"))["id"] is None


def test_where_there_is_nothing_it_says_where_it_looked(shell: Shell) -> None:
    found = document(shell("import", "--json"), 2)
    assert list(found) == ["ok", "error", "code", "next"]
    assert "~/.claude/projects" in found["error"]


def test_watching_says_a_document_a_line_until_it_is_stopped(
    shell: Shell, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home / "s.jsonl"
    path.write_bytes(PI.bytes(3))
    pauses = pausing(monkeypatch, lambda: path.write_bytes(PI.bytes()))
    code, out, err = shell("import", home, "--watch", "--every", "0.5", "--json")
    assert (code, err, pauses) == (0, "", [0.5, 0.5])
    first, second = [json.loads(line) for line in out.splitlines()]
    assert (first["runs"], second["runs"], second["id"]) == (1, 2, first["id"])


def test_watching_for_people(shell: Shell, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pausing(monkeypatch)
    code, out, _ = shell("import", home, "--watch")
    assert code == 0
    (stored,) = document(shell("inventory", "--stored", "--json"))["machines"]
    assert out.splitlines() == [
        f"Watching {home} for learner default; stop with Ctrl+C.",
        "import-1: 2 new runs, 0 updated",
        stored["inventory"]["sentence"],
        "Stopped watching.",
        "Written to learner default. Take it back with: armscope undo import-1",
    ]
    code, out, _ = shell("import", home / "nope", "--watch")
    assert (code, out) == (1, "")


@pytest.mark.parametrize("as_json", [False, True])
def test_watching_goes_on_after_a_machine_that_can_not_be_read(
    shell: Shell, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    def fault(_: str) -> None:
        raise MemoryError

    def grow() -> None:
        put(home, PI.bytes(), "s.jsonl")
        monkeypatch.setattr(tomllib, "loads", loads)

    put(home, PI.bytes(3), "s.jsonl")
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text("a = 1")
    loads = tomllib.loads
    monkeypatch.setattr(tomllib, "loads", fault)
    pauses = pausing(monkeypatch, grow)
    code, out, err = shell("import", home, "--watch", *(["--json"] if as_json else []))
    problem = "The skills and tools on this machine could not be read: MemoryError."
    (stored,) = document(shell("inventory", "--stored", "--json"))["machines"]
    assert (code, len(pauses), stored["inventory"]["sessions"]) == (0, 2, 1)
    if as_json:
        said = [json.loads(line) for line in out.splitlines()]
        assert [one.get("runs") or one["error"] for one in said] == [1, problem, 2]
        assert err == ""
        return
    assert problem in err
    assert [line[:8] for line in out.splitlines() if "import-1" in line[:8]] == ["import-1"] * 2


def test_an_import_names_a_machine_that_can_not_be_read(
    shell: Shell, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(_: str) -> None:
        raise KeyError

    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text("a = 1")
    monkeypatch.setattr(tomllib, "loads", fault)
    code, out, err = shell("import", home)
    assert (code, err) == (0, "")
    assert "read: KeyError" in out.splitlines()[-1]


def test_watching_an_empty_folder_says_so(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pausing(monkeypatch)
    (tmp_path / "empty").mkdir()
    code, out, _ = shell("import", tmp_path / "empty", "--watch")
    assert code == 0
    assert out.splitlines() == [
        f"Watching {tmp_path / 'empty'} for learner default; stop with Ctrl+C.",
        "Stopped watching.",
    ]


def test_watching_says_ledger_lines_once(shell: Shell, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = b'{"kind": "note", "id": "n1", "arm": "tool:other:a", "text": "slow"}\n'
    path = put(home, b'{"armscope": 1, "kind": "learner", "name": "x"}\n' + note, "own.jsonl")
    pausing(monkeypatch, lambda: path.write_bytes(path.read_bytes() + note))
    out = shell("import", path, "--watch")[1]
    assert out.splitlines()[1:-2] == ["import-1: 0 new runs, 0 updated, 1 note"]


@pytest.mark.parametrize("name", ["json", "csv", "jsonl"])
def test_export_formats(filled: Shell, tmp_path: Path, name: str) -> None:
    found = document(filled("export", tmp_path / f"out.{name}", "--format", name, "--json"))
    assert (found["format"], found["observations_file"] is not None) == (name, name == "csv")
    assert (tmp_path / f"out.{name}").stat().st_size > 0
    assert "written to" in filled("export", tmp_path / f"again.{name}", "--format", name)[1]
    assert filled("export", tmp_path / "x", "--format", "xml")[0] == 2


def test_differences_and_notes_are_said(shell: Shell, tmp_path: Path) -> None:
    arms = [{"armId": "tool:fs:read", "included": True, "referenced": True}]
    stated = [{"armId": "tool:fs:read", "alpha": 9, "beta": 1, "pulls": 8}]
    content = {"traces": [{"traceId": "t", "arms": arms}], "posteriors": stated}
    out = shell("import", put(tmp_path, json.dumps(content).encode(), "e.json"))[1]
    assert "tool:fs:read: Beta(9, 1) after 8 pulls there, Beta(4, 1) after 1 from the runs" in out


def test_words_name_what_no_arm_stands_for_and_count_what_was_not_read(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    run = {"kind": "run", "arms": ["tool:other:a"]}
    told = [
        {**run, "uid": f"r{number}", "calls": ["a", f"tool{number % 12}", "often"]} for number in range(24)
    ]
    put(folder, lines(told) + b"{\n" * 40, "runs.jsonl")
    for number in range(300):
        put(folder, b'{"a": 1}', f"{number}.json")
    code, out, err = shell("import", folder)
    assert (code, err) == (0, "")
    said = [line.strip() for line in out.splitlines()]
    assert "24 runs (prompt) from 1 file (armscope)" in said[0]
    assert any(
        line.startswith("called without being offered, in so many runs: often (24), tool0 (2)")
        for line in said
    )
    assert "… and 30 more; --json lists the first hundred" in said
    (unread,) = [line for line in said if line.startswith("not read:")]
    assert unread.startswith(
        "not read: 300 files, .json: A file to import must be of one of the known formats"
    )
    assert sum("claude-code" in line for line in said) == 1, "the formats are listed once"
    assert len(out) < 5_000
    again = shell("import", folder)[1]
    assert again.startswith("Nothing new: 24 runs")
    assert again.rstrip().endswith("so there is no act to undo.")
    assert document(shell("import", folder, "--json"))["id"] is None


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
