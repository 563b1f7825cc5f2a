"""Queues on the command line: known answers come one by one or as a file; one that is wrong makes no queue."""

from __future__ import annotations

from pathlib import Path

from tests.doors.test_cli import A, Shell, document, filled, shell

__all__ = ["filled", "shell"]


def test_known_answers_come_by_option_and_from_a_file(filled: Shell, tmp_path: Path) -> None:
    file = tmp_path / "known.txt"
    file.write_text(f"\nr2, {A}, failure\n", encoding="utf-8")
    line = ["queue", "add", "Checked", "--source", "filter", "--about", "arm"]
    made = document(filled(*line, "--control", "r1, success", "--controls", str(file), "--json"))
    assert made["n_controls"] == 2
    (row,) = document(filled("queue", "list", "--json"))
    assert row["progress"]["total"] == made["n_items"], "nothing tells how many of the items are checks"
    assert "and 1 with a known answer" in "".join(filled(*line, "--control", "r1, success")[1:])


def test_a_known_answer_that_cannot_be_read_makes_no_queue(filled: Shell, tmp_path: Path) -> None:
    line = ["queue", "add", "Checked", "--source", "filter", "--json"]
    for wrong in (["--control", "r1, Success"], ["--controls", str(tmp_path / "none.txt")]):
        assert document(filled(*line, *wrong), code=1)["code"] == "invalid_input"
    assert document(filled(*line, "--control", "r9, success"), code=1)["code"] == "unknown_run"
    never = [*line, "--control", "r1, success", "--repeats", "0"]
    assert document(filled(*never), code=1)["code"] == "invalid_input"
    assert document(filled("queue", "list", "--json")) == []
