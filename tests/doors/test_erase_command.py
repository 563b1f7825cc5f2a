"""``armscope erase``: asks where there is a terminal, refuses where there is none, and says what it can't reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doors.test_cli import A, Shell, document, filled, shell

__all__ = ["filled", "shell"]


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
