"""Choices: preferences between two answers to one instruction, append-only; as rows, and as lines."""

from __future__ import annotations

from collections.abc import Iterator

from core.records.evaluation_lines import ChoiceLine
from core.records.ledger_lines import PlacedLine
from core.store.engine.words import ACTIVE
from core.store.subjects import name_again, name_subject
from core.store.transaction import Byline, FactHead, Snapshot, Transaction


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
    for layer, first, second, chosen, rater, rubric, feedback, *row in snapshot.rows(
        "SELECT l.uid, f.uid, s.uid, c.chosen, c.rater, c.rubric, c.feedback, c.choice_no, c.uid, c.actor, c.at_ms,"
        " c.revision, c.undone FROM choice c"
        " JOIN layer l ON l.learner_id = c.learner_id AND l.layer_no = c.layer_no"
        " JOIN execution f ON f.learner_id = c.learner_id AND f.execution_no = c.first_no"
        " JOIN execution s ON s.learner_id = c.learner_id AND s.execution_no = c.second_no"
        f" WHERE c.learner_id = ? AND c.{ACTIVE} ORDER BY c.revision, c.choice_no"
    ):
        head = FactHead(*row)
        line = ChoiceLine(
            layer=layer,
            first=first,
            second=second,
            chosen=chosen,
            rater=rater,
            rubric=rubric,
            feedback=feedback,
            **snapshot.line_head("choice", head),
        )
        yield head.revision, line


def read_choice(txn: Transaction, line: ChoiceLine, import_no: int) -> int:
    """Append an imported choice; return its number."""
    return add_choice(txn, line, txn.imported(line, import_no))


def choice_again(txn: Transaction, number: int, import_no: int) -> None:
    """Record an import's copy of a known choice, and with it the names of its subject."""
    row = txn.row(
        "SELECT layer_no, first_no, second_no FROM choice WHERE learner_id = ? AND choice_no = ?", [number]
    )
    layer_no, *executions = row or (0, 0, 0)
    name_again(txn, {"layer": [layer_no], "execution": executions}, import_no)
