"""``armscope erase`` and ``compact``: ask where there is a terminal, and say what is lost or out of reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doors.conftest import A, Shell, document, error
from tests.formats.builders import lines

SENTENCE = "compact deleted 1 old run, which ended by 2020-01-31T08:00:00.000Z: lists and comparisons"


class Terminal:
    """Someone who answers one question."""

    def __init__(self, answer: str) -> None:
        self.answer = answer

    def isatty(self) -> bool:
        return True

    def readline(self, *_: object) -> str:
        return self.answer


@pytest.fixture
def written(filled: Shell) -> Shell:
    document(filled("reward", A, "0.5", "--run", "r1", "--reason", "PLANTED", "--json"))
    return filled


def test_with_yes_it_says_what_it_did_and_what_it_can_not_reach(written: Shell) -> None:
    found = document(written("erase", "--run", "r1", "--yes", "--json"))
    assert found["places"] == {"audit.detail": 1, "observation.reason": 1}
    assert (found["of"], found["is_preview"], found["learner"]) == ("run", False, "default")
    assert "backups made before" in found["not_reached"]
    assert b"PLANTED" not in bytes_of(written)
    assert document(written("verify", "--json"))["ok"]


def test_on_a_terminal_it_shows_how_much_and_asks(written: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    code, out, _ = written("erase", "--run", "r1")
    assert (code, "observation.reason" in out, "can't be undone" in out) == (1, True, True)
    assert b"PLANTED" in bytes_of(written)
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    code, out, _ = written("erase", "--run", "r1")
    assert (code, "2 texts erased" in out, "Not reached: backups made before" in out) == (0, True, True)
    assert b"PLANTED" not in bytes_of(written)


def bytes_of(here: Shell) -> bytes:
    folder = Path(document(here("status", "--json"))["database"]).parent
    return b"".join(file.read_bytes() for file in folder.glob("*.db*"))


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
