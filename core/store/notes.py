"""Notes about arms, rubrics, and choices between two answers: facts on which no cached figure depends."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from core.errors import Conflict
from core.records.corrections import NoteAnswer, note_payload
from core.records.evaluation_lines import ChoiceLine, RubricLine
from core.records.ledger_lines import NoteLine, PlacedLine
from core.records.review import Rubric
from core.store.engine.dialect import ACTIVE
from core.store.replies import Reply, reply_to
from core.store.subjects import name_again, name_subject
from core.store.transaction import Byline, Facts, Snapshot, Transaction


def add_note(txn: Transaction, arm_no: int, text: str, byline: Byline) -> int:
    """Append a note, and return its number."""
    return txn.append_fact("note", byline, arm_no=arm_no, text=text)


def note_text(line: NoteLine) -> str:
    """Return a line's text; "" where it was left out."""
    return (line.text or "").strip()


def reply_to_note(number: int, arm: str, text: str) -> Reply:
    """Return the answer to the request that made a note."""
    answer = NoteAnswer(id=f"note-{number}", arm=arm, text=text)
    return reply_to("note", number, note_payload(arm, text), answer)


def add_rubric(txn: Transaction, rubric: Rubric, byline: Byline) -> int:
    """Append a version and return its number. Raises `Conflict` if that version exists with other content."""
    known = rubric_of(txn, rubric.version)
    if known is not None and known[1] != rubric:
        raise Conflict(
            f"Rubric {rubric.version!r} exists already with other content (rubric-{known[0]}).",
            next_step="A version never changes, so that what was judged by it can be read: give the new one another.",
        )
    content = msgspec.json.encode(rubric).decode()
    return txn.append_fact("rubric", byline, version=rubric.version, content=content)


def rubric_of(facts: Facts, version: str) -> tuple[int, Rubric] | None:
    """Return number and content of an active version."""
    row = facts.row(
        f"SELECT rubric_no, content FROM rubric WHERE learner_id = ? AND version = ? AND {ACTIVE}"
        " AND undone = 0 ORDER BY rubric_no LIMIT 1",
        [version],
    )
    return None if row is None else (row[0], msgspec.json.decode(row[1], type=Rubric))


def rubric_lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Return active and undone versions as lines."""
    for _, one in snapshot.acts("rubric", rubric="t.content"):
        rubric = msgspec.json.decode(one["rubric"], type=Rubric)
        yield one["revision"], RubricLine(**one | {"rubric": rubric})


def add_choice(txn: Transaction, line: ChoiceLine, byline: Byline) -> int:
    """Append the choice of a line, and return its number."""
    import_no = byline.import_no
    return txn.append_fact(
        "choice",
        byline,
        layer_no=name_subject(txn, "layer", line.layer, import_no),
        first_no=name_subject(txn, "execution", line.first, import_no),
        second_no=name_subject(txn, "execution", line.second, import_no),
        chosen=line.chosen,
        rater=line.rater,
        rubric=line.rubric,
        feedback=line.feedback,
    )


def choice_again(txn: Transaction, number: int, import_no: int) -> None:
    """Record an import's copy of a known choice, and with it the names of its subject."""
    row = txn.row(
        "SELECT layer_no, first_no, second_no FROM choice WHERE learner_id = ? AND choice_no = ?", [number]
    )
    layer_no, *executions = row or (0, 0, 0)
    name_again(txn, {"layer": [layer_no], "execution": executions}, import_no)
