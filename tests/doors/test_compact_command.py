"""``armscope compact``: asks where there is a terminal, says what is lost, and lists name what it deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doors.test_cli import Shell, document, error, filled, shell
from tests.doors.test_erase_command import Terminal
from tests.formats.builders import lines

__all__ = ["filled", "shell"]

SENTENCE = "compact deleted 1 old run, which ended by 2020-01-31T08:00:00.000Z: lists and comparisons"


@pytest.fixture
def old(filled: Shell, tmp_path: Path) -> Shell:
    run = {"kind": "run", "uid": "old", "arms": ["tool:fs:Read"], "calls": ["Read"]}
    (tmp_path / "old.jsonl").write_bytes(lines([{**run, "ended_at_ms": 1_580_457_600_000}]))
    assert filled("import", tmp_path / "old.jsonl")[0] == 0
    return filled


def test_on_a_terminal_it_shows_what_is_lost_and_asks(old: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    code, out, _ = old("compact", "--keep-days", "365")
    assert (code, "imports that can't" in out, "this can't be undone" in out) == (1, True, True)
    assert len(document(old("runs", "--json"))) == 3
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    code, out, _ = old("compact", "--keep-days", "365")
    assert (code, "1 run deleted" in out, "sums stay" in out) == (0, True, True)
    assert len(document(old("runs", "--json"))) == 2


def test_what_lists_and_compares_runs_names_those_that_are_gone(old: Shell) -> None:
    listing = (("runs",), ("sessions",), ("compare", "--a", "run=r1", "--b", "run=r2"), ("status",))
    for line in listing:
        assert "compact deleted" not in old(*line)[1]
    answer = document(old("compact", "--keep-days", "365", "--shrink", "--yes", "--json"))
    assert (answer["runs"], answer["imports"], answer["learner"]) == (1, 1, "default")
    for line in listing:
        assert SENTENCE in " ".join(old(*line)[1].split()), line
    gone = error(old("run", "old", "--json"), 1, "unknown_run")
    assert "deleted by compact" in gone["error"]
    status = document(old("status", "--json"))
    assert (status["runs"], status["compacted"]["runs"]) == (3, 1)
    assert document(old("verify", "--json"))["ok"]
    code, out, _ = old("compact", "--keep-days", "365", "--yes")
    assert (code, "Nothing to delete" in out, "Written to" in out) == (0, True, False)


def test_exports_and_restores_name_compacted_runs(old: Shell, tmp_path: Path) -> None:
    document(old("compact", "--keep-days", "365", "--yes", "--json"))
    for path in ("a.jsonl", "b.json", "c.csv", "d.parquet"):
        form = path.rpartition(".")[2]
        _, out, _ = old("export", tmp_path / path, "--format", form)
        assert "lacks 1 compacted run" in " ".join(out.split()), form
    assert document(old("export", tmp_path / "e.zip", "--manifest", "--json"))["manifest"]["compacted"] == 1
    document(old("backup", tmp_path / "backup.db", "--json"))
    _, out, _ = old("restore", tmp_path / "backup.db", "--yes")
    assert "2 runs and the sums" in " ".join(out.split())
