"""Notes: written once, taken back and given again, told to others and back; they move no number."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import note, redo, undo
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record
from core.records.corrections import Note
from tests.formats.builders import lines
from tests.worlds import a_run, context_at

A, B = "tool:other:a", "tool:other:b"


@pytest.fixture
def context(tmp_path: Path) -> Context:
    context = context_at(tmp_path / "a.db")
    record(context, a_run("r"))
    return context


def note_rows(context: Context, arm: str = A) -> list[tuple[str, str, bool]]:
    assert queries.verify(context).clean
    return [(one.text, one.actor, one.undone) for one in queries.notes(context, arm)]


def notes_without_ids(context: Context) -> list[Note]:
    return sorted((msgspec.structs.replace(one, id="") for one in queries.notes(context, A)), key=repr)


def test_notes_travel_whole(context: Context, tmp_path: Path) -> None:
    note(context, A, "stands\nin two lines")
    undo(context, note(context, A, "undone").id)
    answer = export_file(context, tmp_path / "out.jsonl")
    assert answer.notes == 2
    other = context_at(tmp_path / "other.db", name="kim")
    for _ in range(2):
        import_files(other, [tmp_path / "out.jsonl"])
        assert notes_without_ids(other) == notes_without_ids(context)
        assert queries.verify(other).clean
    again = import_files(context, [tmp_path / "out.jsonl"])
    assert (again.rejected_count, len(queries.notes(context, A))) == (0, 2), "its own notes are known"
    redo(other, next(one.id for one in queries.notes(other, A) if one.undone))
    assert [one.undone for one in queries.notes(other, A)] == [False, False]
    export_file(other, tmp_path / "back.jsonl")
    third = context_at(tmp_path / "third.db")
    import_files(third, [tmp_path / "back.jsonl"])
    assert notes_without_ids(third) == notes_without_ids(other)


def test_a_note_stands_while_one_of_its_imports_does(tmp_path: Path) -> None:
    context = context_at(tmp_path / "a.db")
    run = {"kind": "run", "uid": "q", "arms": [A], "calls": ["a"]}
    line = {"kind": "note", "id": "n1", "arm": A, "text": "seen"}
    (tmp_path / "one").write_bytes(lines([run, line]))
    head = {"armscope": 1, "kind": "learner", "name": "default"}
    (tmp_path / "two").write_bytes(lines([head, line, {**line, "id": "n2", "text": "more"}]))
    for file in ("one", "two"):
        import_files(context, [tmp_path / file])
    assert {text for text, _, _ in note_rows(context)} == {"seen", "more"}
    undo(context, "import-1")
    assert {text for text, _, _ in note_rows(context)} == {"seen", "more"}
    undo(context, "import-2")
    assert note_rows(context) == []
    redo(context, "import-1")
    assert {text for text, _, _ in note_rows(context)} == {"seen"}


@pytest.mark.parametrize(
    "bad", [{"text": " "}, {"text": "x" * 2001}, {"arm": "no id"}, {"id": ""}, {"who": "x"}]
)
def test_a_line_that_is_no_note_is_rejected_and_the_rest_is_read(tmp_path: Path, bad: dict[str, str]) -> None:
    context = context_at(tmp_path / "a.db")
    run = {"kind": "run", "uid": "q", "arms": [A], "calls": ["a"]}
    line = {"kind": "note", "id": "n1", "arm": A, "text": "seen"}
    (tmp_path / "file").write_bytes(lines([run, {**line, **bad}, line]))
    assert import_files(context, [tmp_path / "file"]).rejected_count == 1
    assert note_rows(context) == [("seen", "mara", False)]
