"""Rewards and queues on the command line: what is read of files and options; a bad line makes nothing."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.doors.conftest import A, Shell, document

B = "tool:other:b"


@pytest.fixture
def table(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        file = tmp_path / "rewards.csv"
        file.write_text(text, encoding="utf-8")
        return file

    return write


def test_a_table_is_one_act_with_one_way_back(filled: Shell, table: Callable[[str], Path]) -> None:
    file = table(f"arm,value,run,reason\n{A},0,r1,=1+1\n{B},partial,,\n")
    code, out, err = filled("reward", "--file", file, "--key", "k")
    assert (code, err) == (0, "")
    assert "2 rewards recorded as one act (1 corrections, 1 feedback)." in out
    assert "Take it back with: armscope undo rewards-1" in out
    again = document(filled("reward", "--file", file, "--key", "k", "--json"))
    assert (again["id"], again["count"], again["learner"]) == ("rewards-1", 2, "default")
    code, out, _ = filled("undo", "rewards-1")
    assert code == 0
    assert "rewards-1 is undone, all 2 acts of it; nothing was deleted." in out
    assert document(filled("undo", "rewards-1", "--json"))["id"] == "undos-1"


def test_every_bad_line_is_named_with_its_number(filled: Shell, table: Callable[[str], Path]) -> None:
    file = table(f"arm,value,run\n{A},1,\n{A},2,\n\ntool:other:aa,1,\n{B},0.5,r9\n")
    found = document(filled("reward", "--file", file, "--json"), code=1)
    assert found["code"] == "invalid_batch"
    assert [(one["line"], one["code"]) for one in found["lines"]] == [
        (3, "invalid_reward"),
        (5, "unknown_arm"),
        (6, "unknown_run"),
    ]
    code, out, err = filled("reward", "--file", file)
    assert (code, out) == (1, "")
    assert "3 of 4 lines can't be recorded: line 3: A reward must be a number from 0 to 1" in err
    assert document(filled("undo", "reward-1", "--json"), code=1)["code"] == "unknown_act"


def test_json_lines_come_in_from_standard_input(filled: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f'{{"arm": "{A}", "value": 0.5}}\n{{"arm": "{B}", "outcome": "rejected"}}\n'
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
    assert document(filled("reward", "--file", "-", "--json"))["count"] == 2


def test_a_file_that_is_no_table_is_refused(filled: Shell, table: Callable[[str], Path]) -> None:
    for text, said in (("", "got none"), (f"{A},1\n" * 10_001, "10,000"), ("arm,loud\nx,1", "head")):
        found = document(filled("reward", "--file", table(text), "--json"), code=1)
        assert said in found["error"]
    assert document(filled("reward", "--file", "nowhere.csv", "--json"), code=1)["code"] == "invalid_input"


@pytest.mark.parametrize(
    "line",
    [
        [],
        ["--all", "1"],
        ["--run", "r1", "--all", "2"],
        ["--run", "r1", "--all", "nan"],
        [A, "--run", "r1", "--all", "1"],
        ["--run", "r1", "--all", "1", "--rule", "some"],
        [A, "1", "--rule", "equal"],
        [A, "1", "--file", "rewards.csv"],
        ["--file", "rewards.csv", "--run", "r1"],
        ["--file", "rewards.csv", "--all", "1"],
    ],
)
def test_what_does_not_go_together_is_a_wrong_command_line(filled: Shell, line: list[str]) -> None:
    found = document(filled("reward", *line, "--json"), code=2)
    assert found["code"] == "usage"
    assert found["error"]
