"""``armscope import`` without a name, and with ``--watch``; ``armscope export --format``."""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doors.conftest import Shell, document
from tests.doors.test_erase_command import Terminal
from tests.formats.builders import lines, put
from tests.formats.test_pi_session import Session, call

PI = Session().prompt().reply(call("read")).prompt().reply(call("bash"))


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
