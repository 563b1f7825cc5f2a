"""Notes: written once, taken back and given again, told to others and back; they move no number."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from core.errors import ArmscopeError, Conflict, InvalidInput, UnknownArm
from core.flows import look
from core.flows.desk import Desk
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record
from core.flows.note import note
from core.flows.reward import reward
from core.flows.undo import redo, undo
from core.records.actor import Actor
from core.records.note import Note
from tests.flows.world import desk_at, run_of
from tests.formats.builders import lines

A, B = "tool:other:a", "tool:other:b"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = desk_at(tmp_path / "a.db")
    record(desk, run_of("r"))
    return desk


def said(desk: Desk, arm: str = A) -> list[tuple[str, str, bool]]:
    assert look.verify(desk).clean
    return [(one.text, one.actor, one.undone) for one in look.notes(desk, arm)]


def test_a_note_is_kept_and_moves_no_number(desk: Desk) -> None:
    before = look.posteriors(desk)
    first = note(desk, A, "  slow on Mondays\n")
    assert (first.id, first.arm, first.text) == ("note-1", A, "slow on Mondays")
    note(desk, A, "fixed")
    note(desk, B, "another arm's")
    assert said(desk) == [("fixed", "mara", False), ("slow on Mondays", "mara", False)]
    assert said(desk, "tool:other:c") == said(desk, "tool:other:nobody") == []
    assert look.posteriors(desk) == before
    newest = look.changes(desk, 1)[0]
    assert (newest.action, newest.act, newest.detail["arm"]) == ("note", "note-3", B)


def test_undone_notes_stay_and_can_be_redone(desk: Desk) -> None:
    made = note(desk, A, "wrong")
    taken = undo(desk, made.id)
    assert (taken.kind, said(desk)) == ("note", [("wrong", "mara", True)])
    assert undo(desk, made.id) == taken, "a repeat answers as the first time"
    redo(desk, made.id)
    assert said(desk) == [("wrong", "mara", False)]
    assert [one.undone for one in look.changes(desk, 99) if one.action == "note"] == [False]


def test_a_reviewer_takes_back_their_own_only(desk: Desk) -> None:
    jo = replace(desk, actor=Actor(name="jo", role="reviewer"))
    mine, theirs = note(jo, A, "mine"), note(desk, A, "theirs")
    undo(jo, mine.id)
    with pytest.raises(ArmscopeError, match="undo needs"):
        undo(jo, theirs.id)


def test_the_same_key_writes_once(desk: Desk) -> None:
    first = note(desk, A, "once", key="k")
    assert note(desk, A, " once ", key="k") == first
    assert len(said(desk)) == 1
    with pytest.raises(Conflict):
        note(desk, A, "twice", key="k")
    with pytest.raises(Conflict, match=r"stands for note-1\."):
        reward(desk, A, 1.0, key="k")
    reward(desk, A, 1.0, key="r")
    with pytest.raises(Conflict):
        note(desk, A, "once", key="r")


@pytest.mark.parametrize("text", ["", " \n", "x" * 2001])
def test_a_note_says_something_and_not_too_much(desk: Desk, text: str) -> None:
    with pytest.raises(InvalidInput, match=r"1 to 2,000 characters"):
        note(desk, A, text)
    assert said(desk) == []


def test_a_note_about_nobody_is_refused_with_near_matches(desk: Desk) -> None:
    with pytest.raises(UnknownArm, match="Did you mean tool:other:a"):
        note(desk, "tool:othr:a", "hm")
    with pytest.raises(InvalidInput):
        note(desk, A, "hm", key="")


def told(desk: Desk) -> list[Note]:
    return sorted((msgspec.structs.replace(one, id="") for one in look.notes(desk, A)), key=repr)


def test_notes_travel_whole(desk: Desk, tmp_path: Path) -> None:
    note(desk, A, "stands\nin two lines")
    undo(desk, note(desk, A, "undone").id)
    answer = export_file(desk, tmp_path / "out.jsonl")
    assert answer.notes == 2
    other = desk_at(tmp_path / "other.db", name="kim")
    for _ in range(2):
        import_files(other, [tmp_path / "out.jsonl"])
        assert told(other) == told(desk)
        assert look.verify(other).clean
    again = import_files(desk, [tmp_path / "out.jsonl"])
    assert (again.rejected_count, len(look.notes(desk, A))) == (0, 2), "its own notes are known"
    redo(other, next(one.id for one in look.notes(other, A) if one.undone))
    assert [one.undone for one in look.notes(other, A)] == [False, False]
    export_file(other, tmp_path / "back.jsonl")
    third = desk_at(tmp_path / "third.db")
    import_files(third, [tmp_path / "back.jsonl"])
    assert told(third) == told(other)


def test_a_note_stands_while_one_of_its_imports_does(tmp_path: Path) -> None:
    desk = desk_at(tmp_path / "a.db")
    run = {"kind": "run", "uid": "q", "arms": [A], "calls": ["a"]}
    line = {"kind": "note", "id": "n1", "arm": A, "text": "seen"}
    (tmp_path / "one").write_bytes(lines([run, line]))
    head = {"armscope": 1, "kind": "learner", "name": "default"}
    (tmp_path / "two").write_bytes(lines([head, line, {**line, "id": "n2", "text": "more"}]))
    for file in ("one", "two"):
        import_files(desk, [tmp_path / file])
    assert {text for text, _, _ in said(desk)} == {"seen", "more"}
    undo(desk, "import-1")
    assert {text for text, _, _ in said(desk)} == {"seen", "more"}
    undo(desk, "import-2")
    assert said(desk) == []
    redo(desk, "import-1")
    assert {text for text, _, _ in said(desk)} == {"seen"}


@pytest.mark.parametrize(
    "bad", [{"text": " "}, {"text": "x" * 2001}, {"arm": "no id"}, {"id": ""}, {"who": "x"}]
)
def test_a_line_that_is_no_note_is_rejected_and_the_rest_is_read(tmp_path: Path, bad: dict[str, str]) -> None:
    desk = desk_at(tmp_path / "a.db")
    run = {"kind": "run", "uid": "q", "arms": [A], "calls": ["a"]}
    line = {"kind": "note", "id": "n1", "arm": A, "text": "seen"}
    (tmp_path / "file").write_bytes(lines([run, {**line, **bad}, line]))
    assert import_files(desk, [tmp_path / "file"]).rejected_count == 1
    assert said(desk) == [("seen", "mara", False)]
