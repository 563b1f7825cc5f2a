"""Choices: preferences between two answers to one instruction, append-only; as rows, and as lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from core.records.evaluation_lines import ChoiceLine
from core.records.ledger_lines import PlacedLine
from core.store.engine.words import ACTIVE
from core.store.subjects import name_again, name_subject
from core.store.tables import insert_into
from core.store.transaction import Snapshot, Transaction

_ADD: Final = insert_into(
    "choice",
    "learner_id",
    "choice_no",
    "uid",
    "layer_no",
    "first_no",
    "second_no",
    "chosen",
    "rater",
    "rubric",
    "feedback",
    "actor",
    "at_ms",
    "import_no",
    "revision",
    "standing",
    "undone",
)


def add_choice(
    txn: Transaction, line: ChoiceLine, *, actor: str, at_ms: int, uid: str = "", import_no: int = 0
) -> int:
    """Append a choice, as a line says it; its number."""
    txn.note_news()
    number = txn.number("choice")
    subjects = [
        name_subject(txn, "layer", line.layer, import_no),
        name_subject(txn, "execution", line.first, import_no),
        name_subject(txn, "execution", line.second, import_no),
    ]
    values = [line.chosen, line.rater, line.rubric, line.feedback]
    txn.connection.run(
        _ADD,
        [txn.learner_id, number, uid, *subjects, *values, actor, at_ms, import_no, txn.revision, 1, 0],
    )
    return number


def choice_lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Return active and undone choices as lines."""
    for number, uid, layer, first, second, chosen, rater, rubric, feedback, *rest in snapshot.connection.rows(
        "SELECT c.choice_no, c.uid, l.uid, f.uid, s.uid, c.chosen, c.rater, c.rubric, c.feedback, c.actor, c.at_ms,"
        " c.revision, c.undone FROM choice c"
        " JOIN layer l ON l.learner_id = c.learner_id AND l.layer_no = c.layer_no"
        " JOIN execution f ON f.learner_id = c.learner_id AND f.execution_no = c.first_no"
        " JOIN execution s ON s.learner_id = c.learner_id AND s.execution_no = c.second_no"
        f" WHERE c.learner_id = ? AND c.{ACTIVE} ORDER BY c.revision, c.choice_no",
        [snapshot.learner_id],
    ):
        actor, at_ms, revision, undone = rest
        line = ChoiceLine(
            id=uid or f"{snapshot.origin}/choice-{number}",
            layer=layer,
            first=first,
            second=second,
            chosen=chosen,
            rater=rater,
            rubric=rubric,
            feedback=feedback,
            by=actor,
            at_ms=at_ms,
            revision=revision,
            undone=bool(undone),
        )
        yield revision, line


def read_choice(txn: Transaction, line: ChoiceLine, import_no: int) -> int:
    """Append an imported choice; return its number."""
    return add_choice(
        txn,
        line,
        actor=line.by or txn.actor.name,
        at_ms=txn.now_ms if line.at_ms is None else line.at_ms,
        uid=line.id,
        import_no=import_no,
    )


def choice_again(txn: Transaction, number: int, import_no: int) -> None:
    """Record an import's copy of a known choice, and with it the names of its subject."""
    row = txn.connection.row(
        "SELECT layer_no, first_no, second_no FROM choice WHERE learner_id = ? AND choice_no = ?",
        [txn.learner_id, number],
    )
    layer_no, *executions = row or (0, 0, 0)
    name_again(txn, {"layer": [layer_no], "execution": executions}, import_no)
