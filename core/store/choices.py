"""Choices: preferences between two answers to one instruction, append-only; as rows, and as lines."""

from __future__ import annotations

from collections.abc import Iterator

from core.records.evaluation_lines import ChoiceLine
from core.records.ledger_lines import PlacedLine
from core.store.subjects import name_again, name_subject
from core.store.transaction import Byline, Snapshot, Transaction


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


def choice_lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Return active and undone choices as lines."""
    joined = (
        "JOIN layer l ON l.learner_id = t.learner_id AND l.layer_no = t.layer_no"
        " JOIN execution f ON f.learner_id = t.learner_id AND f.execution_no = t.first_no"
        " JOIN execution s ON s.learner_id = t.learner_id AND s.execution_no = t.second_no"
    )
    subject = {"layer": "l.uid", "first": "f.uid", "second": "s.uid"}
    for one in snapshot.acts("choice", "chosen", "rater", "rubric", "feedback", joined=joined, **subject):
        yield one["revision"], ChoiceLine(**one)


def choice_again(txn: Transaction, number: int, import_no: int) -> None:
    """Record an import's copy of a known choice, and with it the names of its subject."""
    row = txn.row(
        "SELECT layer_no, first_no, second_no FROM choice WHERE learner_id = ? AND choice_no = ?", [number]
    )
    layer_no, *executions = row or (0, 0, 0)
    name_again(txn, {"layer": [layer_no], "execution": executions}, import_no)
